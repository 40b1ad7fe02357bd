"""How deep data may be nested."""

from __future__ import annotations

from typing import Any

import pytest

from django_redsess.session import compression

pytestmark = pytest.mark.unit


def test_a_shared_object_takes_no_time_without_end() -> None:
    shared: Any = []
    for _ in range(100):
        shared = [shared, shared]
    compression.check_depth({"basket": shared}, b"[" * 1000)
