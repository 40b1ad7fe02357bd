"""Sessions of Django's database engine, used and moved by processes of both steps."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from django.contrib.auth.models import User
from django.contrib.sessions.backends.base import UpdateError
from django.contrib.sessions.backends.db import SessionStore as DatabaseSession
from django.contrib.sessions.models import Session
from django.db import OperationalError, connection
from django.utils import timezone

from django_redsess import online
from django_redsess.contrib.moving import SessionStore
from django_redsess.exceptions import SessionStoreUnavailable
from tests.helpers.store import bucket_of, bucket_of_user, keyspace, sid_of
from tests.helpers.strange_values import Agrees, PickleSerializer, Refuses, WithoutEq, state_of, written_by

pytestmark = pytest.mark.usefixtures("partitions", "moving")


def test_the_first_step_uses_sessions_where_they_are(old_session, step) -> None:
    key = old_session("7", basket=1).session_key
    with step(1):
        session = SessionStore(key)
        assert session["basket"] == 1
        session["basket"] = 2
        session.save()
        new = SessionStore()
        new["basket"] = 3
        new.save()
    assert DatabaseSession(key)["basket"] == 2
    assert DatabaseSession(new.session_key)["basket"] == 3
    assert online.count(guests=True) == 0


def test_the_second_step_moves_a_session_at_its_first_request(old_session, moving, step, partitions: int) -> None:
    key = old_session("7", basket=1).session_key
    row = Session.objects.get(pk=key)
    # It was saved 11 days ago.
    row.expire_date -= timedelta(days=11)
    row.save()
    with step(2):
        session = SessionStore(key)
        assert session["basket"] == 1
        [here] = online.sessions()
        assert here.user_id == "7"
        assert here.sid == session.sid
        # The deadline is the row's. Nothing is known of sign-in and last request, but that the row was saved then.
        assert abs((here.expires_at - row.expire_date).total_seconds()) <= 1
        age = timedelta(seconds=moving.SESSION_COOKIE_AGE)
        assert abs((here.created_at - (row.expire_date - age)).total_seconds()) <= 1
        is_home = bucket_of(key) * partitions >> 10 == bucket_of_user("7") * partitions >> 10
        assert session.session_key == key or not is_home or partitions > 1
        assert bucket_of(session.session_key) == bucket_of_user("7") or partitions == 1
        # The cookie must be sent where the key is another one.
        assert session.modified == (session.session_key != key)
        new = SessionStore()
        new["basket"] = 3
        new.save()
    assert not Session.objects.filter(pk=new.session_key).exists()
    # Its row stays until all have moved.
    assert Session.objects.filter(pk=key).exists()


@pytest.mark.parametrize("value", [None, 0, 300, timedelta(hours=1), datetime(2038, 1, 1, tzinfo=UTC)], ids=str)
def test_what_set_expiry_was_told_holds(old_session, step, value) -> None:
    before = old_session("7")
    before.set_expiry(value)
    before.save()
    deadline = Session.objects.get(pk=before.session_key).expire_date
    for _ in ("moved", "here"):
        with step(2):
            session = SessionStore(before.session_key)
            assert session.get("_session_expiry") == before.get("_session_expiry")
            assert abs(session.get_expiry_age() - before.get_expiry_age()) <= 2
            assert session.get_expire_at_browser_close() == before.get_expire_at_browser_close()
            [here] = online.sessions()
            assert abs((here.expires_at - deadline).total_seconds()) <= 2


def test_a_guest_keeps_the_key(old_session, step) -> None:
    key = old_session(basket=1).session_key
    with step(2):
        session = SessionStore(key)
        assert session["basket"] == 1
        assert session.session_key == key


def test_what_was_moved_is_used_here_by_processes_of_both_steps(old_session, step) -> None:
    key = old_session("7", basket=1).session_key
    with step(2):
        moved = SessionStore(key)
        moved["basket"] = 2
        moved.save()
    for number in (1, 2):
        with step(number):
            session = SessionStore(key)
            assert session["basket"] == number + 1
            assert session.session_key == moved.session_key
            session["basket"] = number + 2
            session.save()
    assert DatabaseSession(key)["basket"] == 1


@pytest.mark.parametrize("lost", [False, True], ids=["", "died before it noted the new key"])
def test_parallel_requests_get_the_same_key_under_each_secret_key(old_session, step, settings, redis, lost) -> None:
    key = old_session("7", basket=1).session_key
    with step(2):
        first = SessionStore(key)
        first.load()
        if lost and first.session_key != key:
            redis.delete(keyspace().of_sid(sid_of(key)).moved_of(sid_of(key)))
        settings.SECRET_KEY_FALLBACKS, settings.SECRET_KEY = [settings.SECRET_KEY], "new"
        second = SessionStore(key)
        assert second["basket"] == 1
        assert second.session_key == first.session_key
        assert online.count() == 1


def test_a_late_write_of_the_first_step_is_merged(old_session, step) -> None:
    key = old_session("7", basket=1).session_key
    with step(1):
        late = SessionStore(key)
        late["colour"] = "red"
    with step(2):
        moved = SessionStore(key)
        moved["basket"] = 2
        moved.save()
    with step(1):
        late.save()
        assert late.session_key == moved.session_key
    with step(2):
        assert SessionStore(key).load() == {"_auth_user_id": "7", "basket": 2, "colour": "red"}


@pytest.mark.parametrize("kind", [WithoutEq, Agrees, Refuses])
def test_late_writes_are_merged_whatever_values_say_of_equality(old_session, step, caplog, kind) -> None:
    with written_by(PickleSerializer):
        key = old_session("7", first=kind(1), other=kind(1)).session_key
        with step(1):
            late = SessionStore(key)
            late["first"] = kind(2)
        with step(2):
            moved = SessionStore(key)
            moved["other"] = kind(2)
            moved.save()
        with step(1):
            late.save()
        with step(2):
            found = SessionStore(key).load()
    assert state_of(found) == state_of({"first": kind(2), "other": kind(2), "_auth_user_id": "7"})
    # Nothing is said to be changed by the serializer.
    assert caplog.messages == []


def test_a_write_between_reading_and_copying_is_merged(old_session, step, monkeypatch) -> None:
    key = old_session("7", basket=1).session_key
    from django_redsess.contrib.moving import session_store

    copy_session = session_store.copy_session

    def late(*args):
        old = DatabaseSession(key)
        old["colour"] = "red"
        old.save()
        return copy_session(*args)

    monkeypatch.setattr(session_store, "copy_session", late)
    with step(2):
        assert SessionStore(key)["colour"] == "red"
        assert SessionStore(key).load() == {"_auth_user_id": "7", "basket": 1, "colour": "red"}


def test_who_comes_while_another_copies_finds_what_was_written_before(old_session, step, monkeypatch) -> None:
    key = old_session("7", basket=1).session_key
    from django_redsess.contrib.moving import session_store

    copy_session, found = session_store.copy_session, []

    def late(*args):
        monkeypatch.setattr(session_store, "copy_session", copy_session)
        with step(1):
            session = SessionStore(key)
            session["basket"] = 2
            session.save()
        outcome = yield from copy_session(*args)
        for number in (2, 1):
            with step(number):
                session = SessionStore(key)
                found.append(session["basket"])
                session["basket"] += 1
                session.save()
        return outcome

    monkeypatch.setattr(session_store, "copy_session", late)
    with step(2):
        assert SessionStore(key)["basket"] == 4
    assert found == [2, 3]


def test_two_that_compare_a_copy_at_once_lose_no_change(old_session, step, monkeypatch) -> None:
    key = old_session("7", basket=1).session_key
    from django_redsess.contrib.moving import session_store

    build_copy = session_store.build_copy

    def newer(*args):
        monkeypatch.setattr(session_store, "build_copy", build_copy)
        with step(2):
            session = SessionStore(key)
            session["basket"] += 1
            session.save()
        return build_copy(*args)

    copy_session = session_store.copy_session

    def late(*args):
        old = DatabaseSession(key)
        old["basket"] = 2
        old.save()
        outcome = yield from copy_session(*args)
        monkeypatch.setattr(session_store, "build_copy", newer)
        return outcome

    monkeypatch.setattr(session_store, "copy_session", late)
    with step(2):
        assert SessionStore(key)["basket"] == 3
        assert SessionStore(key)["basket"] == 3


def test_a_moved_session_is_compared_with_its_row_once(old_session, step, django_assert_num_queries) -> None:
    key = old_session("7", basket=1).session_key
    with step(2):
        SessionStore(key).load()
        [before] = online.sessions()
        with django_assert_num_queries(0):
            SessionStore(key).load()
        assert online.sessions() == [before]


@pytest.mark.parametrize("how", ["flush", "delete", "kick"])
@pytest.mark.parametrize("ends_at", [1, 2])
@pytest.mark.parametrize("was_moved", [True, False])
def test_what_ended_stays_ended_though_a_row_returns(
    old_session, step, how: str, ends_at: int, was_moved: bool
) -> None:
    key = old_session("7", basket=1).session_key
    row = Session.objects.get(pk=key)
    if was_moved or how == "kick":
        with step(2):
            SessionStore(key).load()
    with step(ends_at):
        session = SessionStore(key)
        if how == "kick":
            online.end(*(each.sid for each in online.sessions()))
        elif how == "flush":
            session.load()
            session.flush()
        else:
            session.delete(key)
    # A process that knows nothing of it writes the row once more.
    row.save(force_insert=not Session.objects.filter(pk=key).exists())
    for number in (1, 2):
        with step(number):
            session = SessionStore(key)
            assert session.load() == {}
            assert session.session_key is None


def test_the_old_key_is_worth_nothing_after_a_new_one(old_session, step) -> None:
    for number in (1, 2):
        key = old_session(basket=1).session_key
        row = Session.objects.get(pk=key)
        with step(number):
            session = SessionStore(key)
            session.load()
            session.cycle_key()
            session.save()
            assert session.session_key != key
            assert SessionStore(session.session_key)["basket"] == 1
        row.save(force_insert=not Session.objects.filter(pk=key).exists())
        for later in (1, 2):
            with step(later):
                assert SessionStore(key).load() == {}


def test_a_new_key_in_the_first_step_follows_a_move(old_session, step) -> None:
    key = old_session(basket=1).session_key
    with step(1):
        late = SessionStore(key)
        late["colour"] = "red"
    with step(2):
        moved = SessionStore(key)
        moved["basket"] = 2
        moved.save()
    with step(1):
        late.cycle_key()
        late.save()
        assert late.session_key != key
        assert SessionStore(late.session_key).load() == {"basket": 2, "colour": "red"}
        assert SessionStore(key).load() == {}


def test_a_save_of_what_has_ended_is_refused(old_session, step) -> None:
    for number in (1, 2):
        key = old_session("7", basket=1).session_key
        with step(number):
            late = SessionStore(key)
            late["basket"] = 2
            SessionStore(key).delete(key)
            with pytest.raises(UpdateError):
                late.save()
            assert SessionStore(key).load() == {}


def test_an_expired_row_is_no_session_and_is_cleared(old_session, step) -> None:
    key = old_session("7").session_key
    Session.objects.filter(pk=key).update(expire_date="2020-01-01T00:00Z")
    for number in (1, 2):
        with step(number):
            assert SessionStore(key).load() == {}
            assert not SessionStore().exists(key)
    with step(2):
        SessionStore.clear_expired()
    assert not Session.objects.exists()


def test_an_outage_of_the_database_signs_nobody_out(old_session, step) -> None:
    key = old_session("7").session_key

    def fail(*args):
        raise OperationalError("gone")

    for number in (1, 2):
        with step(number), connection.execute_wrapper(fail):
            session = SessionStore(key)
            with pytest.raises(SessionStoreUnavailable):
                session.load()
            assert session.session_key == key


def test_what_is_here_costs_no_more_and_an_unknown_cookie_one_round_trip_and_one_look(
    old_session, step, round_trips, django_assert_num_queries
) -> None:
    key = old_session(basket=1).session_key
    with step(2):
        for known in (key, "0" * 32):
            # From now on this process has asked the partition.
            SessionStore(known).load()
        with django_assert_num_queries(0):
            round_trips()
            SessionStore(key).load()
            assert round_trips() == 1
        with django_assert_num_queries(1):
            SessionStore("0" * 32).load()
            # The session, then its mark and its note before and after the look.
            assert round_trips() == 3


@pytest.mark.parametrize("key", ["short", "with\nbreak", "0" * 31 + "\x00", "x" * 5000])
def test_a_cookie_that_can_not_be_a_key_is_not_asked_for(step, key: str, django_assert_num_queries) -> None:
    for number in (1, 2):
        with step(number), django_assert_num_queries(0):
            session = SessionStore(key)
            assert session.load() == {}
            assert not session.exists(key)
            session.delete(key)
            session.flush()


def test_both_steps_in_an_event_loop(transactional_db, old_session, step) -> None:
    key = old_session("7", basket=1).session_key

    async def change() -> SessionStore:
        session = SessionStore(key)
        await session.aset("basket", await session.aget("basket") + 1)
        await session.asave()
        return session

    with step(1):
        asyncio.run(change())
    assert DatabaseSession(key)["basket"] == 2
    with step(2):
        session = asyncio.run(change())
        assert SessionStore(session.session_key)["basket"] == 3
        asyncio.run(session.aflush())
        assert asyncio.run(SessionStore(key).aload()) == {}


def test_a_session_of_a_blocked_user_ends_where_it_would_move(old_session, step) -> None:
    key, other = old_session("7", basket=1).session_key, old_session("8", basket=1).session_key
    user = User(pk=7)
    with step(2):
        online.block(user, until=timezone.now() + timedelta(hours=1))
        assert SessionStore(key).load() == {}
        assert SessionStore(other)["basket"] == 1
        # Nor does it come when the block is over.
        assert online.unblock(user)
        assert SessionStore(key).load() == {}
    assert [each.user_id for each in online.sessions()] == ["8"]
