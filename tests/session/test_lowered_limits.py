"""A user has far more sessions than a limit that was lowered: the next sign-in leaves as many as it allows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from django_redsess import online
from django_redsess.backend import SessionStore
from django_redsess.exceptions import SessionLimitReached
from django_redsess.session import script_calls
from django_redsess.session.user_limit import Limit
from tests.helpers.behind import make_due, make_older, stored, text_of
from tests.helpers.sign_ins import ENDING, SetLimit, named, sids_of, sign_in, sign_in_before

pytestmark = [
    pytest.mark.usefixtures("partitions", "users_in_no_table"),
    pytest.mark.both_servers,
    pytest.mark.on_cluster,
]


@pytest.fixture
def guest(new_session: Callable[..., SessionStore]) -> SessionStore:
    """A guest with a basket."""
    return new_session(basket="lamp")


@pytest.mark.parametrize("policy", ENDING)
@pytest.mark.parametrize(
    ("count", "size", "ahead"),
    [(700, 1, False), (700, 1, True), (20, 300_000, False)],
    ids=["signed in before", "signed in in the future", "large records"],
)
def test_after_a_limit_was_lowered_one_sign_in_leaves_as_many_as_it_allows(
    redis, set_limit: SetLimit, new_session: Any, guest: SessionStore, policy: str, count: int, size: int, ahead: bool
) -> None:
    sessions = [new_session("7", basket=text_of(size)) for _ in range(count)]
    other = new_session("8")
    if ahead:
        for session in sessions:
            make_older(redis, session.sid, -3600)
    set_limit(3, policy)
    latest = sign_in("7", guest)
    left = sids_of("7")
    assert len(left) == 3
    assert latest.sid in left
    assert stored(redis) == 4
    assert sids_of("8") == named(other)


def test_a_refusal_after_a_limit_was_lowered_ends_none_of_the_others(
    redis, set_limit: SetLimit, new_session: Any
) -> None:
    sessions = [new_session("7") for _ in range(300)]
    set_limit(3, "refuse")
    with pytest.raises(SessionLimitReached):
        sign_in("7")
    assert stored(redis) == len(sessions)


@pytest.mark.parametrize("policy", ENDING)
def test_the_rest_above_a_limit_is_dealt_with_though_a_thousand_sessions_are_due(
    redis, set_limit: SetLimit, new_session: Any, settings: Any, policy: str
) -> None:
    settings.REDSESS = {**settings.REDSESS, "USER_SESSIONS_CEILING": None}
    due = [new_session("7") for _ in range(1010)]
    make_due(redis, *[session.sid for session in due])
    for session in due:
        make_older(redis, session.sid, 3600)
    live = sign_in_before(redis, "7", 300, 200, 100)
    # A sign-in goes on with this until it is told that this was all: it must come to an end.
    limit = Limit(2, policy)
    for _ in range(20):
        if not script_calls.end_above(limit, "7", keep=live[-1].sid).run():
            break
    else:
        pytest.fail("it says again and again that it goes on, and ends nothing")
    # One by one: a list shows what is due and has not been taken out.
    assert [bool(SessionStore(session.session_key).load()) for session in live] == [False, True, True]


def test_the_rest_above_a_limit_is_counted_without_a_sign_in_that_has_gone_meanwhile(
    redis, set_limit: SetLimit
) -> None:
    gone, live = sign_in_before(redis, "7", 200, 100)
    online.end(gone.sid)
    script_calls.end_above(Limit(1, "end_oldest"), "7", keep=gone.sid).run()
    assert sids_of("7") == named(live)
