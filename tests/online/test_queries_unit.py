"""What a list has to be told."""

from __future__ import annotations

import pytest

from django_redsess.online.ending import BulkEnding
from django_redsess.online.listing import SessionFilter

pytestmark = pytest.mark.unit


def test_those_seen_lately_are_ended_as_of_a_time_only() -> None:
    with pytest.raises(ValueError, match="give latest"):
        BulkEnding(SessionFilter(active_seconds=60))
