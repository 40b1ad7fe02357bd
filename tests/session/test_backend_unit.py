"""New session keys."""

from __future__ import annotations

from collections import Counter

import pytest
from django.contrib.sessions.backends.base import VALID_KEY_CHARS

from django_redsess.transport.keys import new_key

pytestmark = pytest.mark.unit


def test_new_keys_have_every_character_as_often() -> None:
    keys = [new_key() for _ in range(2000)]
    assert {len(key) for key in keys} == {32}
    counted = Counter("".join(keys))
    assert set(counted) == set(VALID_KEY_CHARS)
    # 1 778 times, and half of that more or less is twenty standard deviations.
    assert 889 < min(counted.values()) <= max(counted.values()) < 2667
