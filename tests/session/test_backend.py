import logging
import threading
from datetime import UTC, datetime, timedelta, timezone

import pytest
from django.contrib.sessions.backends.base import CreateError, UpdateError
from django.core.management import call_command

from django_redsess import online, viewed
from django_redsess.backend import SessionStore
from django_redsess.exceptions import SessionStoreUnavailable
from django_redsess.session import script_calls
from django_redsess.session.record import Client, unpack
from django_redsess.session.saving import Visit
from django_redsess.transport.keys import keyspace, sid_of
from tests.helpers.behind import make_due, make_seen, names_of_sessions, stored, written

pytestmark = [pytest.mark.usefixtures("partitions"), pytest.mark.both_servers]


def test_saved_data_is_loaded(new_session) -> None:
    session = new_session(basket={"lamp": 2})
    assert SessionStore(session.session_key)["basket"] == {"lamp": 2}


def test_what_was_ended_is_not_created_again_under_a_key_that_was_new_once(new_session) -> None:
    session = new_session("7")
    online.end(session.sid)
    with pytest.raises(CreateError):
        session.save(must_create=True)


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


def test_a_sid_opens_nothing(new_session) -> None:
    session = new_session("7")
    assert SessionStore(session.sid).load() == {}
    assert SessionStore(session.sid.lower()).load() == {}


def test_an_unknown_key_loads_nothing_and_is_dropped() -> None:
    session = SessionStore("unknownkey" * 3)
    assert session.load() == {}
    assert session.session_key is None


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


def test_save_without_a_key_creates_one(new_session) -> None:
    session = new_session(colour="blue")
    assert len(session.session_key) == 32
    assert session.exists(session.session_key)


def test_create_under_a_key_that_is_taken_changes_nothing(new_session) -> None:
    session = new_session(colour="blue")
    other = SessionStore(session.session_key)
    other._session_cache = {"colour": "red"}
    with pytest.raises(CreateError):
        other.save(must_create=True)
    assert SessionStore(session.session_key)["colour"] == "blue"


def test_a_save_does_not_bring_an_ended_session_back(redis, new_session) -> None:
    session = new_session("7", colour="blue")
    late = SessionStore(session.session_key)
    late["colour"] = "red"
    session.flush()
    with pytest.raises(UpdateError):
        late.save()
    assert online.get(late.sid) is None


def test_a_save_does_not_bring_an_expired_session_back(redis, new_session) -> None:
    session = new_session("7", colour="blue")
    session.set_expiry(1)
    session.save()
    at = script_calls.time().run()
    while script_calls.time().run() <= at + 1000:
        threading.Event().wait(0.05)
    session["colour"] = "red"
    with pytest.raises(UpdateError):
        session.save()
    assert SessionStore(session.session_key).load() == {}


def test_an_expired_session_is_not_loaded_though_no_cleaner_ran(redis, new_session) -> None:
    session = new_session(colour="blue")
    make_due(redis, session.sid)
    assert not session.exists(session.session_key)
    assert SessionStore(session.session_key).load() == {}


def test_delete_of_what_is_gone_is_no_error(new_session) -> None:
    session = new_session("7")
    session.delete()
    session.delete()
    assert not session.exists(session.session_key)


def test_flush_leaves_no_trace(redis, new_session) -> None:
    session = new_session("7")
    viewed.record(session, "lamp")
    session.flush()
    assert session.session_key is None
    assert names_of_sessions(redis) == []


def test_sign_in_lists_the_user_and_sign_out_does_not(new_session) -> None:
    session = new_session(colour="blue")
    assert online.count() == 0
    session["_auth_user_id"] = "7"
    session.save()
    assert [found.user_id for found in online.sessions()] == ["7"]
    del session["_auth_user_id"]
    session.save()
    assert online.count() == 0


def test_another_user_in_the_same_session_has_a_login_time_of_his_own(redis, new_session) -> None:
    session = new_session("7")
    first = online.get(session.sid).login_at
    threading.Event().wait(0.01)
    session["_auth_user_id"] = "8"
    session.save()
    assert [found.user_id for found in online.sessions()] == ["8"]
    assert online.get(session.sid).login_at > first


@pytest.mark.parametrize("user_id", ["7:8", "ä ö", "0f8fad5b-d9cb-469f-a165-70867728950e", "-1", "*"])
def test_any_text_is_a_user_id(new_session, user_id: str) -> None:
    session = new_session(user_id)
    assert [found.sid for found in online.sessions(user_ids=[user_id])] == [session.sid]


def test_later_saves_keep_the_login_time(new_session, settings) -> None:
    settings.REDSESS = {**settings.REDSESS, "TOUCH_INTERVAL": 0}
    session = new_session("7")
    login_at = online.get(session.sid).login_at
    threading.Event().wait(0.01)
    session["colour"] = "blue"
    session.save()
    assert online.get(session.sid).login_at == login_at


def test_a_session_that_a_request_opened_is_seen_when_loaded(redis, new_session) -> None:
    session = new_session("7")
    make_seen(redis, session.sid, 1000)
    opened = SessionStore(session.session_key)
    opened.visit = Visit(lambda: Client())
    opened.load()
    assert datetime.now(UTC) - online.get(session.sid).seen_at < timedelta(seconds=10)


def test_a_session_read_in_a_shell_leaves_no_trace(redis, new_session) -> None:
    session = new_session("7")
    make_seen(redis, session.sid, 1000)
    SessionStore(session.session_key).load()
    assert online.get(session.sid).seen_at == datetime.fromtimestamp(1, UTC)


def test_last_seen_never_goes_back_when_the_clock_does(redis, new_session) -> None:
    session = new_session("7")
    future = 10_000_000_000_000
    redis.zadd(keyspace().of_sid(session.sid).recent, {session.sid: future})
    session.save()
    assert redis.zscore(keyspace().of_sid(session.sid).recent, session.sid) == future


def test_a_session_is_noted_as_seen_once_an_interval(redis, new_session, settings) -> None:
    settings.REDSESS = {"TOUCH_INTERVAL": 3600}
    session = new_session("7")
    seen = online.get(session.sid).seen_at
    threading.Event().wait(0.01)
    opened = SessionStore(session.session_key)
    opened.visit = Visit(lambda: Client())
    opened.load()
    assert online.get(session.sid).seen_at == seen


def test_deadline_is_djangos(new_session, settings) -> None:
    settings.SESSION_COOKIE_AGE = 100
    found = online.get(new_session("7").sid)
    assert timedelta(seconds=99) < found.expires_at - found.seen_at < timedelta(seconds=101)


def test_deadline_of_set_expiry_in_seconds(new_session) -> None:
    found = online.get(new_session("7", _session_expiry=300).sid)
    assert found.expires_at - found.seen_at == timedelta(seconds=300)


def test_deadline_of_set_expiry_at_a_date(new_session) -> None:
    session = new_session("7")
    date = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=5)
    session.set_expiry(date)
    session.save()
    assert online.get(session.sid).expires_at == date


def test_clearsessions_ends_what_is_due_and_nothing_else(redis, new_session) -> None:
    for _ in range(3):
        make_due(redis, new_session("7").sid)
    kept = new_session("7")
    call_command("clearsessions")
    assert [found.sid for found in online.sessions()] == [kept.sid]
    assert stored(redis) == 1


def test_a_changed_record_is_an_empty_session_and_a_log_line_without_secrets(redis, new_session, caplog) -> None:
    session = new_session(colour="blue")
    login = keyspace().of_sid(session.sid).login
    redis.hset(login, session.sid, redis.hget(login, session.sid)[:-3] + b"x}}")
    with caplog.at_level(logging.WARNING, logger="django.security.SuspiciousSession"):
        assert SessionStore(session.session_key).load() == {}
    [line] = caplog.records
    assert session.sid in line.getMessage()
    assert session.session_key not in line.getMessage()
    assert "blue" not in line.getMessage()


def test_loading_takes_one_round_trip_and_loading_and_saving_two(round_trips, new_session) -> None:
    session = new_session("7", colour="blue")
    round_trips()
    opened = SessionStore(session.session_key)
    opened.visit = Visit(lambda: Client())
    opened["colour"] = "red"
    assert round_trips() == 1
    opened.save()
    assert round_trips() == 1


def test_scripts_are_sent_again_when_the_server_forgot_them(redis, new_session) -> None:
    session = new_session(colour="blue")
    redis.script_flush()
    assert SessionStore(session.session_key)["colour"] == "blue"


def test_creating_sessions_keeps_the_store_bounded_though_no_cleaner_runs(redis, new_session, settings) -> None:
    settings.REDSESS = {"MAX_SESSIONS": 8}
    for number in range(100):
        new_session(f"user {number}")
    assert stored(redis) <= 8


def test_creating_a_session_takes_a_hundred_out_that_are_due(redis, new_session) -> None:
    due = [new_session("7").sid for _ in range(149)]
    make_due(redis, *due)
    # Another user of the same partition.
    user = next(user for user in map(str, range(100, 99_999)) if script_calls.at_home(due[0], user))
    new_session(user)
    assert stored(redis) == 50
    new_session(user)
    # Those that are left are not enough to do.
    assert stored(redis) == 51


def test_a_create_whose_reply_was_lost_succeeds_when_repeated(redis) -> None:
    sid = sid_of("k" * 32)
    call = script_calls.create(sid, written(sid, "7"))
    assert call.run()
    assert call.run()
    assert online.count() == 1


def test_client_details_are_kept_with_somebody_signed_in_only(redis, new_session) -> None:
    session = new_session(colour="blue")
    session.visit = Visit(lambda: Client("192.0.2.1", "Mozilla"))
    session.save()
    assert online.get(session.sid).address == ""
    session["_auth_user_id"] = "7"
    session.save()
    assert online.get(session.sid).address == "192.0.2.1"


def test_client_details_survive_a_save_in_a_shell(new_session) -> None:
    session = new_session("7")
    session.visit = Visit(lambda: Client("192.0.2.1", "Mozilla"))
    session.save()
    in_shell = SessionStore(session.session_key)
    in_shell["colour"] = "blue"
    in_shell.save()
    assert online.get(session.sid).user_agent == "Mozilla"


def test_a_full_server_refuses_saves_and_still_reads_and_ends(redis, new_session) -> None:
    session = new_session("7", colour="blue")
    make_seen(redis, session.sid, 1000)
    redis.config_set("maxmemory", 1)
    try:
        session["colour"] = "red"
        with pytest.raises(SessionStoreUnavailable):
            session.save()
        opened = SessionStore(session.session_key)
        opened.visit = Visit(lambda: Client())
        assert opened["colour"] == "blue"
        assert [ended.sid for ended in online.end(session.sid)] == [session.sid]
    finally:
        redis.config_set("maxmemory", 0)
    assert online.count() == 0


def test_a_deadline_beyond_pythons_dates_is_no_error(new_session) -> None:
    session = new_session("7", _session_expiry=10**12)
    assert online.get(session.sid).expires_at.year > 6000
    assert SessionStore(session.session_key)["_auth_user_id"] == "7"
    west = timezone(timedelta(hours=-12))
    session.set_expiry(datetime(9999, 12, 31, 23, tzinfo=west))
    session.save()
    assert online.get(session.sid).expires_at.year == 9892


def test_sites_with_different_prefixes_do_not_see_each_other(settings, monkeypatch, new_session) -> None:
    monkeypatch.undo()
    session = new_session("7")
    settings.REDSESS = {"PREFIX": "other"}
    assert SessionStore(session.session_key).load() == {}
    assert online.count() == 0
    settings.REDSESS = {}
    assert online.count() == 1


def test_a_user_id_of_none_is_a_guest(new_session) -> None:
    session = new_session(_auth_user_id=None)
    assert online.count() == 0
    assert session.exists(session.session_key)
