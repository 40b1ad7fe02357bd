"""Buckets: a session's first two characters say where it is, a user's sessions are together."""

from typing import Any

import pytest
from django.contrib.auth import login
from django.contrib.auth.signals import user_logged_in

from django_redsess import online, viewed
from django_redsess.backend import SessionStore
from django_redsess.transport.keys import bucket_of, bucket_of_user, keyspace, sid_of
from tests.helpers.oracle import disagreements
from tests.helpers.sign_ins import request_of, sids_of, sign_in
from tests.helpers.site.people import person
from tests.helpers.store import faults, have_partitions, stored, traces

pytestmark = pytest.mark.both_servers

USERS = ["1", "7", "12", "ä:ö", "0f8fad5b-d9cb-469f-a165-70867728950e"]


@pytest.fixture(params=[1, 4, 64], ids=["1 partition", "4 partitions", "64 partitions"])
def partitions(request, monkeypatch) -> int:
    count: int = request.param
    have_partitions(monkeypatch, count)
    return count


def test_key_and_sid_say_the_same_bucket_by_which_the_session_is_found(redis, partitions: int, new_session) -> None:
    for user in [*USERS, "", ""]:
        session = new_session(user, colour="blue")
        key, sid = str(session.session_key), str(session.sid)
        assert key[:2] == sid[:2]
        at = int(key[:2], 36) % 1024 * partitions // 1024
        assert redis.hexists(keyspace().partitions[at].login, sid)
        assert SessionStore(key)["colour"] == "blue"


@pytest.mark.parametrize("policy", [None, "end_oldest", "end_least_recent", "refuse"])
def test_who_signs_in_gets_a_session_in_the_own_bucket_under_the_key_that_receivers_saw(
    redis, partitions: int, users_in_no_table, set_limit, new_session, policy: str | None
) -> None:
    if policy:
        set_limit(3, policy)
    seen: list[str | None] = []

    def receiver(request: Any, **_: Any) -> None:
        seen.append(request.session.session_key)

    # After ours, which has been there since the start.
    user_logged_in.connect(receiver)
    try:
        for user in ("1", "7", "12", "130"):
            guest = new_session(colour="blue")
            viewed.record(guest, "lamp")
            old = str(guest.session_key)
            session = SessionStore(old)
            login(request_of(session), person(user))
            session.save()
            assert seen.pop() == session.session_key != old
            assert bucket_of(str(session.session_key)) == bucket_of_user(user)
            assert SessionStore(session.session_key)["colour"] == "blue"
            assert [item.item for item in viewed.recent(session)] == ["lamp"]
            assert traces(redis, old) == []
            assert SessionStore(old).load() == {}
            # And who signs in again.
            again = sign_in(user, session)
            assert seen.pop() == again.session_key != session.session_key
            # And a visitor who had no session.
            new = sign_in(user)
            assert seen.pop() == new.session_key
            assert sids_of(user) == {again.sid, new.sid}
    finally:
        user_logged_in.disconnect(receiver)


# Keys that were not made here.
ELSEWHERE = ["zz345678", "a1" * 16, "k" * 40, "9z" * 64]


def brought(session_key: str, user: str = "", **data: Any) -> SessionStore:
    """Store a session under a key from elsewhere, as who moves sessions here does."""
    session = SessionStore(session_key)
    session._session_cache = {**data, **({"_auth_user_id": user} if user else {})}
    session.save(must_create=True)
    return session


def at_home(session_key: str, user: str) -> bool:
    space = keyspace()
    return not user or space.of_sid(sid_of(session_key)) == space.of_user(user)


@pytest.mark.parametrize("how", ["cycle", "flush", "end", "end_user"])
@pytest.mark.parametrize("user", ["", "7"])
@pytest.mark.parametrize("key", ELSEWHERE, ids=[str(len(key)) for key in ELSEWHERE])
def test_a_key_from_elsewhere_works_like_any_and_can_be_changed_for_one_of_ours_or_ended(
    redis, partitions: int, sent, key: str, user: str, how: str
) -> None:
    session = brought(key, user, colour="blue")
    # Where another partition has all of the user's sessions, it must be one of those.
    assert (session.session_key == key) == at_home(key, user)
    key = str(session.session_key)
    assert dict(SessionStore(key).items())["colour"] == "blue"
    again = SessionStore(key)
    again["colour"] = "red"
    sent.clear()
    again.save()
    assert sent == ["save_fast"]
    assert again.session_key == key
    assert SessionStore(key)["colour"] == "red"
    viewed.record(again, "lamp")
    assert [item.item for item in viewed.recent(again)] == ["lamp"]
    assert online.count(guests=True) == 1
    if user:
        assert [found.sid for found in online.sessions()] == [again.sid]
        assert [found.sid for found in online.sessions(user_ids=[user])] == [again.sid]
    assert disagreements(redis) == faults() == []
    if how == "cycle":
        again.cycle_key()
        again.save()
        assert len(str(again.session_key)) == 32
        assert bucket_of(str(again.sid)) == (bucket_of_user(user) if user else bucket_of(key))
        assert SessionStore(again.session_key)["colour"] == "red"
        assert stored(redis) == 1
    elif how == "flush":
        SessionStore(key).flush()
    elif how == "end" or not user:
        assert len(online.end(sid_of(key))) == 1
    else:
        assert online.end_user(person(user)) == 1
    assert traces(redis, key) == []
    assert SessionStore(key).load() == {}


def test_a_guest_with_a_key_from_elsewhere_signs_in(redis, partitions: int, users_in_no_table) -> None:
    for key in ELSEWHERE:
        session = sign_in("7", brought(key, colour="blue"))
        assert bucket_of(str(session.sid)) == bucket_of_user("7")
        assert session["colour"] == "blue"
        assert traces(redis, key) == []
    assert online.count(user_ids=["7"]) == len(ELSEWHERE)
