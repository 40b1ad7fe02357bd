"""What a process remembers of the sessions that it has touched."""

import pytest

from django_redsess.transport import touched
from django_redsess.transport.touched import Touched

pytestmark = pytest.mark.unit


def test_of_another_interval_nothing_is_known() -> None:
    known = Touched()
    known.add("one", 1000, True)
    known.add("two", 1000, False)
    assert (known.get("one", 1000), known.get("two", 1000)) == (True, False)
    assert (known.get("three", 1000), known.get("one", 2000)) == (None, None)
    known.add("three", 2000, True)
    assert (known.get("one", 2000), known.get("three", 2000)) == (None, True)
    # Another thread may still be in the interval before.
    assert known.get("three", 1000) is None


def test_it_forgets_all_when_told_and_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(touched, "SESSIONS_MAX", 3)
    known = Touched()
    for name in "abc":
        known.add(name, 1000, True)
    assert [known.get(name, 1000) for name in "abc"] == [True, True, True]
    known.add("d", 1000, True)
    assert [known.get(name, 1000) for name in "abcd"] == [None, None, None, True]
    known.clear()
    assert known.get("d", 1000) is None
