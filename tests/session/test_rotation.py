"""Sign-in and every other change of the session key."""

from collections.abc import Iterator
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth import SESSION_KEY
from django.contrib.auth.signals import user_logged_in
from django.contrib.sessions.backends.base import UpdateError
from django.http import HttpRequest

from django_redsess import online, viewed
from django_redsess.backend import SessionStore
from django_redsess.exceptions import SessionLimitReached, SessionStoreUnavailable
from django_redsess.transport.keys import sid_of
from tests.helpers.online import user_elsewhere
from tests.helpers.outages import full
from tests.helpers.sign_ins import POLICIES, sign_in

pytestmark = [pytest.mark.usefixtures("partitions"), pytest.mark.both_servers]


def test_cycle_key_sends_nothing_and_the_save_after_it_moves_everything_at_once(round_trips, new_session) -> None:
    session = new_session("7", colour="blue")
    viewed.record(session, "lamp")
    old_key, created_at = session.session_key, online.get(session.sid).created_at
    round_trips()
    session.cycle_key()
    # For the session itself, its old key is gone.
    assert not session.exists(old_key)
    assert round_trips() == 0
    assert SessionStore(old_key)["colour"] == "blue"
    session.save()
    assert session.session_key != old_key
    assert SessionStore(old_key).load() == {}
    assert SessionStore(session.session_key)["colour"] == "blue"
    assert [item.item for item in viewed.recent(session)] == ["lamp"]
    assert online.get(session.sid).created_at == created_at
    assert online.count() == 1


def test_between_cycle_key_and_its_save_the_session_is_ended_under_its_old_key(new_session) -> None:
    late, deleted = new_session("7"), new_session("7")
    for session in (late, deleted):
        session.cycle_key()
    online.end(sid_of(late.pending.rotates_from))
    deleted.delete()
    assert online.count() == 0
    with pytest.raises(UpdateError):
        late.save()
    assert online.count() == 0


def test_the_first_of_two_concurrent_rotations_wins(new_session) -> None:
    key = new_session("7").session_key
    first, second = SessionStore(key), SessionStore(key)
    for session in (first, second):
        session.cycle_key()
    first.save()
    with pytest.raises(UpdateError):
        second.save()
    assert [found.sid for found in online.sessions()] == [first.sid]


def test_sign_in_takes_two_round_trips_with_one_partition(round_trips, new_session, partitions) -> None:
    # A process asks for the agreement of a partition when it meets it.
    new_session("7")
    session = new_session(colour="blue")
    round_trips()
    opened = SessionStore(session.session_key)
    assert "_auth_user_id" not in opened
    opened.cycle_key()
    opened["_auth_user_id"] = "7"
    opened.save()
    # Between two partitions: load; what was viewed, create there, end here. Or the home is the same by chance.
    assert round_trips() in ({2} if partitions == 1 else {2, 4})


@pytest.mark.parametrize("user", ["", "7"])
def test_a_full_server_refuses_to_rotate_and_leaves_the_old_session(redis, new_session, user: str) -> None:
    session = new_session(user, colour="blue")
    viewed.record(session, "lamp")
    old_key = session.session_key
    session.cycle_key()
    with full(redis), pytest.raises(SessionStoreUnavailable):
        session.save()
    assert SessionStore(old_key)["colour"] == "blue"
    assert [found.item for found in viewed.recent(sid_of(old_key))] == ["lamp"]


@pytest.fixture
def stored_by_another(users_in_no_table: None) -> Iterator[list[str]]:
    """The sids under which another receiver of Django's signal stores sessions of users who sign in."""
    sids = []

    def receive(request: HttpRequest, **kwargs: Any) -> None:
        sids.append(request.session.sid)
        request.session.save()

    user_logged_in.connect(receive)
    yield sids
    user_logged_in.disconnect(receive)


def test_a_session_that_another_receiver_stores_keeps_its_key(stored_by_another) -> None:
    session = sign_in("7")
    assert stored_by_another == [session.sid] == [found.sid for found in online.sessions()]


def new_and_signed_in(user: str) -> SessionStore:
    session = SessionStore()
    session[SESSION_KEY] = user
    session.signed_in()
    assert session.session_key is not None
    return session


def test_a_new_session_with_a_key_is_not_stored(round_trips) -> None:
    round_trips()
    session = new_and_signed_in("7")
    assert (session.saved_key, session.stored_sid, session.stored_key) == (None, None, None)
    first = session.session_key
    session.cycle_key()
    assert session.session_key not in (None, first)
    assert round_trips() == 0
    session.save()
    assert [found.sid for found in online.sessions()] == [session.sid]
    assert session.stored_key == session.session_key
    assert SessionStore(first).load() == {}


def test_a_new_session_that_is_given_up_is_never_stored(round_trips) -> None:
    abandoned, flushed, deleted = (new_and_signed_in("7") for _ in range(3))
    round_trips()
    abandoned.abandon()
    flushed.flush()
    deleted.delete()
    assert round_trips() == 0
    assert (abandoned.session_key, flushed.session_key) == (None, None)
    with pytest.raises(UpdateError):
        deleted.save()
    assert online.count() == 0


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_a_session_that_ended_before_a_sign_in_stays_ended_however_often_it_is_saved(new_session, is_async) -> None:
    session = SessionStore(new_session(colour="blue").session_key)
    session[SESSION_KEY] = user_elsewhere(session.stored_sid)
    session.signed_in()
    online.end(session.stored_sid)
    for _ in range(3):
        with pytest.raises(UpdateError):
            async_to_sync(session.asave)() if is_async else session.save()
    assert online.count() == 0


def one(user: object) -> int:
    return 1


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("maximum", [1, f"{__name__}.one"], ids=["number", "function"])
def test_a_limit_counts_a_session_that_another_receiver_stores(stored_by_another, set_limit, maximum, policy) -> None:
    set_limit(maximum, policy)
    first = sign_in("7")
    if policy == "refuse":
        with pytest.raises(SessionLimitReached):
            sign_in("7")
    else:
        assert sign_in("7").sid != first.sid
    assert len(list(online.sessions())) == 1
