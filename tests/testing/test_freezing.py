"""Tests that freeze time, by freezegun or time-machine, change nothing in the store."""

import sys
import time
from collections.abc import Callable
from typing import Any

import pytest
import time_machine
from freezegun import freeze_time

from django_redsess import online
from django_redsess.backend import SessionStore
from tests.helpers import every_operation

HOUR = 3600


def is_now(session: SessionStore) -> bool:
    """Whether a session was seen just now, by the clock of this machine. A test takes no hour."""
    found = online.get(session.sid)
    return found is not None and abs(found.last_seen_at.timestamp() - time.time()) < HOUR


@pytest.mark.parametrize("freeze", [freeze_time, lambda at: time_machine.travel(at, tick=False)])
def test_frozen_time_moves_nothing_in_the_store(new_session, freeze: Callable[[str], Any]) -> None:
    before = new_session("1", colour="blue")
    with freeze("2001-02-03"):
        during = new_session("2", colour="blue")
        for session in (before, during):
            # By a time of the server that this process carries on, it notes that they were seen.
            every_operation.request(session.session_key, {"colour": "red"})
        assert online.count() == 2
    after = new_session("3")
    assert all(is_now(session) for session in (before, during, after))
    assert SessionStore(during.session_key)["colour"] == "red"


def test_nothing_in_the_package_measures_by_a_clock_that_can_be_frozen() -> None:
    with freeze_time("2001-02-03"):
        frozen = time.monotonic
        holding = [name for name, module in sys.modules.items() if getattr(module, "monotonic", None) is frozen]
    assert [name for name in holding if name.startswith("django_redsess")] == []
