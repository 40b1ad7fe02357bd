"""One account that signs in without end, on one partition and on several: nobody else's session goes."""

from itertools import count, islice
from typing import Any

import pytest

from django_redsess import online
from django_redsess.backend import SessionStore
from tests.helpers.sign_ins import named, sids_of, sign_in
from tests.helpers.store import faults, have_partitions, keyspace, make_older, make_seen, now_of
from tests.session.visits import opened

pytestmark = pytest.mark.usefixtures("users_in_no_table")

SHARE = 100
"""How many sessions each partition may have."""

HOARDER = "0"


@pytest.fixture(params=[1, 16], ids="{} partitions".format)
def store(request, monkeypatch, settings) -> Any:
    """A store whose partitions have room for a hundred sessions each."""
    have_partitions(monkeypatch, request.param)
    settings.REDSESS = {"MAX_SESSIONS": SHARE * request.param}
    return settings


def neighbours(number: int, first: int = 1) -> list[str]:
    """Users whose sessions are in the same partition as the hoarder's."""
    space = keyspace()
    home = space.of_user(HOARDER)
    return list(islice((str(user) for user in count(first) if space.of_user(str(user)) == home), number))


def signed_in(users: list[str]) -> list[str]:
    return [user for user in users if online.count(user_ids=[user]) == 1]


def hoard(times: int, *, in_guests: bool = False) -> list[SessionStore]:
    """Sign in so often, from browsers without a session, or with a guest's."""
    sessions = []
    for _ in range(times):
        guest = None
        if in_guests:
            guest = SessionStore()
            guest.save()
        sessions.append(sign_in(HOARDER, guest))
    return sessions


@pytest.mark.parametrize("in_guests", [False, True], ids=["visitors", "guests"])
def test_below_the_maximum_nobody_goes_and_later_ones_find_room(store, redis, in_guests) -> None:
    users = neighbours(90)
    others, newcomers = users[:59], users[59:]
    for user in others:
        sign_in(user)
    latest = hoard(2 * SHARE, in_guests=in_guests)[-1]
    assert signed_in(others) == others
    # Nor is the room that is left taken away from those who come later.
    for user in newcomers:
        sign_in(user)
    assert signed_in(users) == users
    assert str(latest.sid) in sids_of(HOARDER)
    assert faults() == []


@pytest.mark.parametrize("ceiling", [1000, None])
@pytest.mark.parametrize("in_guests", [False, True], ids=["visitors", "guests"])
def test_at_the_maximum_own_sessions_go_and_the_new_one_stays(store, redis, in_guests: bool, ceiling) -> None:
    store.REDSESS = {**store.REDSESS, "USER_SESSIONS_CEILING": ceiling}
    users = neighbours(SHARE - 1)
    for user in users:
        sign_in(user)
    first = hoard(1)[0]
    latest = hoard(2 * SHARE, in_guests=in_guests)[-1]
    assert signed_in(users) == users
    assert sids_of(HOARDER) == named(latest)
    assert SessionStore(first.session_key).ended.reason == "evicted"
    assert faults() == []


@pytest.mark.parametrize("full", [False, True], ids=["at the ceiling", "in a full partition"])
def test_a_client_that_signs_in_at_each_request_leaves_the_users_browser_signed_in(store, redis, full: bool) -> None:
    store.REDSESS = {**store.REDSESS, "TOUCH_INTERVAL": 0}
    for user in neighbours(SHARE - 5 if full else 0):
        sign_in(user)
    [browser] = hoard(1)
    make_older(redis, browser.sid, 600)
    # The next request of the browser, a while ago.
    opened(browser)
    make_older(redis, browser.sid, 300)
    latest = hoard(30)[-1]
    assert named(browser, latest) <= sids_of(HOARDER)
    assert faults() == []


def test_a_browser_that_has_just_signed_in_stays_though_all_others_were_used(store, redis) -> None:
    sessions = hoard(10)
    for number, session in enumerate(sessions):
        make_older(redis, session.sid, 600 - number)
        make_seen(redis, session.sid, int(now_of(redis).timestamp() * 1000) - 300_000 + number)
    sessions += hoard(2)
    # One that has just signed in has sent no second request yet.
    assert sids_of(HOARDER) == named(*sessions[2:])


def test_a_limit_of_the_site_goes_by_its_own_policy(store, redis) -> None:
    store.REDSESS = {**store.REDSESS, "MAX_SESSIONS_PER_USER": 3, "SESSION_LIMIT_POLICY": "end_least_recent"}
    used, *unused = hoard(3)
    make_older(redis, used.sid, 600)
    make_seen(redis, used.sid, int(now_of(redis).timestamp() * 1000) - 300_000)
    [latest] = hoard(1)
    assert sids_of(HOARDER) == named(*unused, latest)
