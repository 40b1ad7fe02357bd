"""What a process remembers of the sessions that it has touched."""

import pytest

from django_redsess.transport import pools
from django_redsess.transport.pools import TouchedSessions

pytestmark = pytest.mark.unit


def test_of_another_interval_nothing_is_known() -> None:
    known = TouchedSessions()
    known.note_touch("one", 1000, True)
    known.note_touch("two", 1000, False)
    assert (known.recall("one", 1000), known.recall("two", 1000)) == (True, False)
    assert (known.recall("three", 1000), known.recall("one", 2000)) == (None, None)
    known.note_touch("three", 2000, True)
    assert (known.recall("one", 2000), known.recall("three", 2000)) == (None, True)
    # Another thread may still be in the interval before.
    assert known.recall("three", 1000) is None


def test_it_forgets_all_when_told_and_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pools, "SESSIONS_TOUCHED_MAX", 3)
    known = TouchedSessions()
    for name in "abc":
        known.note_touch(name, 1000, True)
    assert [known.recall(name, 1000) for name in "abc"] == [True, True, True]
    known.note_touch("d", 1000, True)
    assert [known.recall(name, 1000) for name in "abcd"] == [None, None, None, True]
    known.clear()
    assert known.recall("d", 1000) is None
