"""What is no end, and tells nobody."""

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth import SESSION_KEY
from django.contrib.sessions.backends.base import UpdateError

from django_redsess import cleaning, online
from django_redsess.backend import SessionStore
from django_redsess.transport.keys import keyspace
from tests.helpers.ends import WAYS_TO_DELETE, ends, user_elsewhere


def counted(redis) -> dict[bytes, bytes]:
    """What the store has counted of ends, by reason."""
    totals = [redis.hgetall(partition.totals) for partition in keyspace().partitions]
    return {reason: count for each in totals for reason, count in each.items() if reason != b"created"}


@pytest.mark.usefixtures("partitions")
@pytest.mark.parametrize("user", ["7", ""])
def test_neither_a_rotation_nor_use_is_an_end(redis, told, new_session, user: str) -> None:
    session = new_session(user, colour="blue")
    session["colour"] = "red"
    session.save()
    session.cycle_key()
    session.save()
    assert SessionStore(session.session_key)["colour"] == "red"
    session.pop(SESSION_KEY, None)
    session.save()
    assert told == []
    assert counted(redis) == {}


@pytest.mark.usefixtures("partitions")
@pytest.mark.parametrize("again", [False, True], ids=["", "that must try again"])
@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_a_sign_in_is_no_end(redis, told, new_session, again: bool, is_async: bool) -> None:
    # Where the home of the user is elsewhere, the first try has made a session there, and takes it back.
    session = SessionStore(new_session(colour="blue").session_key)
    session.cycle_key()
    session[SESSION_KEY] = user_elsewhere(session.stored_sid)
    session.signed_in()
    if again:
        other = SessionStore(session.pending.rotates_from)
        other["size"] = 1
        other.save()
    async_to_sync(session.asave)() if is_async else session.save()
    assert (session["colour"], session.get("size"), online.count()) == ("blue", 1 if again else None, 1)
    assert told == []
    assert counted(redis) == {}


@pytest.mark.usefixtures("partitions")
def test_a_sign_in_that_comes_too_late_is_no_second_end(told, new_session) -> None:
    session = SessionStore(new_session(colour="blue").session_key)
    session.cycle_key()
    session[SESSION_KEY] = user_elsewhere(session.stored_sid)
    sid = session.stored_sid
    online.end(sid)
    with pytest.raises(UpdateError):
        session.save()
    assert ends(told) == [(sid, "", "kicked")]


@pytest.mark.usefixtures("partitions")
def test_ending_what_is_gone_tells_nothing(told, new_session) -> None:
    session = new_session("7")
    sid, key = session.sid, session.session_key
    session.delete()
    told.clear()
    online.end(sid)
    for delete in WAYS_TO_DELETE.values():
        delete(key)
    list(cleaning.expired())
    SessionStore().flush()
    SessionStore("no such session " + "x" * 20).delete()
    assert told == []
