"""The server's own clock is stepped back, and put right again: nobody is signed out, or evicted who has just come."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from django_redsess import call, cleaner, online, viewed
from django_redsess.backend import SessionStore
from django_redsess.listing import Ending, Which
from testproject import servers
from tests.support import operations
from tests.support.behind import faults
from tests.support.clocks import Clock, clock
from tests.support.outages import caches

HOUR, DAY = 3600, 24 * 3600
LIMITS = {
    "idle": {"IDLE_TIMEOUT": 1800},
    "sliding": {"SLIDING": True},
    "absolute": {"ABSOLUTE_TIMEOUT": 1800},
    "all of them": {"IDLE_TIMEOUT": 1800, "SLIDING": True, "ABSOLUTE_TIMEOUT": 1800},
    "none": {},
}


@pytest.fixture
def stepped(server: servers.Server, tmp_path: Any, settings: Any) -> Iterator[Clock]:
    with clock(server.binary, tmp_path) as made:
        settings.CACHES = caches(made.server.url, timeout=5)
        settings.SESSION_COOKIE_AGE = HOUR
        yield made
        made.set(0)
        assert faults() == []


def assert_there(session_key: str, **data: Any) -> None:
    """See that a request finds its session, and may change it."""
    answer = operations.request(session_key, data)
    assert answer["data"].get("colour") == "blue"


@pytest.mark.parametrize("back", [HOUR, DAY])
@pytest.mark.parametrize("limits", LIMITS)
def test_nobody_is_signed_out(
    stepped: Clock, settings: Any, new_session: Callable[..., SessionStore], back: int, limits: str
) -> None:
    settings.REDSESS = {"TOUCH_INTERVAL": 0, **LIMITS[limits]}
    keys = [new_session(user, colour="blue").session_key or "" for user in ("7", "8", "")]
    stepped.set(-back)
    # Who comes meanwhile is not over either when the clock is right again.
    keys += [new_session(user, colour="blue").session_key or "" for user in ("9", "")]
    for number in range(2):
        for key in keys:
            assert_there(key)
            assert_there(key, number=number)
        viewed.record(SessionStore(keys[0]), "lamp")
    list(cleaner.expired())
    stepped.set(0)
    list(cleaner.expired())
    for key in keys:
        assert_there(key)
        assert_there(key, again=True)
    list(cleaner.expired())
    assert online.count() == 3


@pytest.mark.parametrize("back", [HOUR, DAY])
def test_at_the_cap_nobody_goes_who_has_just_come(
    stepped: Clock, settings: Any, new_session: Callable[..., SessionStore], back: int
) -> None:
    settings.REDSESS = {"MAX_SESSIONS": 20}
    old = [new_session("7", colour="blue") for _ in range(20)]
    time.sleep(0.01)
    new_session("8", colour="blue")
    stepped.set(-back)
    new = [new_session("9", colour="blue") for _ in range(10)]
    assert all(SessionStore(session.session_key)["colour"] == "blue" for session in new)
    assert sum(SessionStore(session.session_key).exists(session.session_key) for session in old) == 9


@pytest.mark.parametrize("back", [HOUR, DAY])
def test_lists_stay_in_the_order_in_which_they_came(
    stepped: Clock, new_session: Callable[..., SessionStore], back: int
) -> None:
    users = ["1", "2", "3"]
    for user in users:
        new_session(user)
        time.sleep(0.01)
    stepped.set(-back)
    new_session("4")
    listed = [session.user_id for session in online.sessions()]
    assert set(listed[:2]) == {"3", "4"}
    assert listed[2:] == ["2", "1"]


def test_all_can_be_ended(stepped: Clock, new_session: Callable[..., SessionStore]) -> None:
    for user in ("7", "8"):
        new_session(user)
    stepped.set(-DAY)
    new_session("9")
    number, at = online.census(Which())
    # As of when they were counted, as the admin does it.
    work = Ending(Which(), latest=at)
    while not work.done:
        call.run(work.step())
    assert (number, online.count()) == (3, 0)


def test_what_a_fast_clock_has_left_is_mended(
    stepped: Clock, settings: Any, new_session: Callable[..., SessionStore]
) -> None:
    settings.REDSESS = {"TOUCH_INTERVAL": 0, "IDLE_TIMEOUT": 1800}
    stepped.set(30 * DAY)
    key = new_session("7", colour="blue").session_key or ""
    stepped.set(0)
    assert len(faults()) == 2
    assert len(faults(mend=True)) > 0
    assert faults() == []
    assert_there(key)
    [session] = online.sessions()
    assert session.expires_at.timestamp() < time.time() + 1801
