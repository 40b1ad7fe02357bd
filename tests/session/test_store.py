from datetime import datetime, timedelta, timezone

import pytest
import redis as redis_py
import redis.asyncio as aredis_py
from asgiref.sync import async_to_sync
from django.contrib.sessions.backends.base import CreateError, UpdateError

from django_redsess import online, viewed
from django_redsess.backend import SessionStore
from django_redsess.session import operations
from django_redsess.session.client import Client
from django_redsess.session.record import unpack
from django_redsess.session.state import Visit
from django_redsess.transport.keys import keyspace
from tests.helpers.store import make_due, names_of_sessions, stored

pytestmark = [pytest.mark.usefixtures("partitions"), pytest.mark.both_servers]


def test_data_are_saved_under_a_new_key_until_the_session_is_ended(redis, new_session) -> None:
    session = new_session("7", basket={"lamp": 2})
    viewed.record(session, "lamp")
    key = session.session_key
    assert len(key) == 32
    assert session.exists(key)
    assert SessionStore(key)["basket"] == {"lamp": 2}
    session.flush()
    assert session.session_key is None
    assert names_of_sessions(redis) == []
    for _ in range(2):
        # Deleting what is gone is no error.
        SessionStore(key).delete()
    late = SessionStore(key)
    assert late.load() == {}
    assert late.session_key is None


@pytest.mark.parametrize("ended", [False, True], ids=["a key that is taken", "a key that was new once"])
def test_create_under_a_key_that_was_used_changes_nothing(new_session, ended: bool) -> None:
    session = new_session("7", colour="blue")
    if ended:
        online.end(session.sid)
    else:
        session = SessionStore(session.session_key)
    session._session_cache = {"colour": "red"}
    with pytest.raises(CreateError):
        session.save(must_create=True)
    assert SessionStore(session.session_key).get("colour") == (None if ended else "blue")


@pytest.mark.parametrize("loads", [True, False])
def test_a_save_does_not_bring_an_ended_session_back(new_session, loads: bool) -> None:
    session = new_session("7", colour="blue")
    late = SessionStore(session.session_key)
    if not loads:
        late.clear()
    late["colour"] = "red"
    session.flush()
    with pytest.raises(UpdateError):
        late.save()
    assert online.get(late.sid) is None


def test_the_session_key_is_nowhere_in_redis(redis, new_session) -> None:
    session = new_session("7", colour="blue")
    viewed.record(session, "lamp")
    login = keyspace().of_sid(session.sid).login
    everything = b"".join(name + redis.dump(name) for name in redis.keys()) + redis.hget(login, session.sid)
    # Were it there, it would be found: this is.
    assert session.sid.encode() in everything
    record = unpack(session.sid, redis.hget(login, session.sid))
    assert session.session_key.encode() not in record.data
    assert session.session_key.encode() not in everything
    # And what is there opens nothing.
    assert SessionStore(session.sid).load() == SessionStore(session.sid.lower()).load() == {}


@pytest.mark.parametrize(
    "key", ["short", "Capitals" * 4, "with space" * 3, "x" * 129, "nul\0" * 8, "ä" * 32, "a:b" * 9]
)
def test_what_cannot_be_a_key_sends_no_command(round_trips, key: str) -> None:
    session = SessionStore(key)
    assert session.session_key is None
    assert dict(session.items()) == {}
    assert not session.exists(key)
    session.delete(key)
    assert round_trips() == 0


def test_an_expired_session_is_not_loaded_though_no_cleaner_ran(redis, new_session) -> None:
    session = new_session(colour="blue")
    make_due(redis, session.sid)
    assert not session.exists(session.session_key)
    assert SessionStore(session.session_key).load() == {}


def test_loading_takes_one_round_trip_and_loading_and_saving_two(round_trips, new_session) -> None:
    session = new_session("7", colour="blue")
    round_trips()
    opened = SessionStore(session.session_key)
    opened.visit = Visit(lambda: Client())
    opened["colour"] = "red"
    assert round_trips() == 1
    opened.save()
    assert round_trips() == 1


def test_redis_pys_clients_send_none_of_our_commands(monkeypatch, new_session) -> None:
    called: list[str] = []

    def execute_command(*args: object, **kwargs: object) -> None:
        called.append(str(args))

    with monkeypatch.context() as traced:
        for client in (redis_py.Redis, aredis_py.Redis):
            traced.setattr(client, "execute_command", execute_command)
        session = new_session("7", colour="blue")
        assert SessionStore(session.session_key)["colour"] == "blue"
        assert async_to_sync(SessionStore(session.session_key).aget)("colour") == "blue"
        assert online.end(session.sid)
    assert called == []


def test_creating_sessions_keeps_the_store_bounded_though_no_cleaner_runs(redis, new_session, settings) -> None:
    settings.REDSESS = {"MAX_SESSIONS": 8}
    for number in range(100):
        new_session(f"user {number}")
    assert stored(redis) <= 8


def test_creating_a_session_takes_a_hundred_out_that_are_due(redis, new_session) -> None:
    due = [new_session("7").sid for _ in range(149)]
    make_due(redis, *due)
    # Another user of the same partition.
    user = next(user for user in map(str, range(100, 99_999)) if operations.at_home(due[0], user))
    new_session(user)
    assert stored(redis) == 50
    new_session(user)
    # Those that are left are not enough to do.
    assert stored(redis) == 51


def test_of_the_sender_of_a_guest_s_requests_nothing_is_stored(new_session) -> None:
    session = new_session(colour="blue")
    session.visit = Visit(lambda: Client("192.0.2.1", "Mozilla"))
    session.save()
    found = online.get(session.sid)
    assert (found.address, found.user_agent) == ("", "")
    session["_auth_user_id"] = "7"
    session.save()
    found = online.get(session.sid)
    assert (found.address, found.user_agent) == ("192.0.2.1", "Mozilla")


def test_a_deadline_beyond_pythons_dates_is_no_error(new_session) -> None:
    session = new_session("7", _session_expiry=10**12)
    assert online.get(session.sid).expires_at.year > 6000
    assert SessionStore(session.session_key)["_auth_user_id"] == "7"
    west = timezone(timedelta(hours=-12))
    session.set_expiry(datetime(9999, 12, 31, 23, tzinfo=west))
    session.save()
    assert online.get(session.sid).expires_at.year == 9892
