"""What each release has written is used by this one: loaded, saved, listed, ended, checked, repaired and moved on."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from django.contrib.auth import SESSION_KEY
from django.core.exceptions import ImproperlyConfigured
from django.core.management import call_command
from django.test import override_settings

from django_redsess import cleaning, online, viewed
from django_redsess.backend import SessionStore
from django_redsess.contrib.moving import growing, marks
from django_redsess.contrib.moving.growing import transfer
from django_redsess.contrib.moving.other_store import find_beginning
from django_redsess.exceptions import SignInRefused
from django_redsess.session.lock import SessionLock
from django_redsess.session.messages import MESSAGE_KEY
from django_redsess.signals import Reason
from tests.golden.contents import (
    BLOCKS,
    ENDED,
    FOR_EVER,
    GONE,
    MESSAGE,
    MOVED,
    NO_BINDING,
    ON_THE_WAY,
    POPULARITY,
    READY,
    ROTATED,
    SESSIONS,
    SIGNED_IN,
    VIEWS,
    Session,
)
from tests.golden.dumps import Golden
from tests.helpers.store import blocks, bucket_of, drive, keyspace, pool, sid_of, stored

pytestmark = [pytest.mark.both_servers]


def session_of(golden: Golden, name: str) -> SessionStore:
    return SessionStore(golden.session_keys[name])


def has_data(session: SessionStore, given: Session, **more: Any) -> bool:
    """Tell whether somebody with this session's cookie finds what was saved, in a session that is bound if it was."""
    opened = SessionStore(session.session_key)
    found, record = dict(opened.items()), opened.snapshot.record
    found.pop("_session_expiry", None)
    is_bound = record is not None and record.binding == (given.binding.pack() if given.binding else b"")
    return is_bound and found == {**given.data, **more}


def rotated(session: SessionStore) -> SessionStore:
    session.load()
    session.cycle_key()
    session.save()
    return SessionStore(session.session_key)


def names_of(golden: Golden, sids: list[str]) -> set[str]:
    names = {sid_of(key): name for name, key in golden.session_keys.items()}
    return {names[sid] for sid in sids}


@pytest.mark.parametrize("encrypts", [False, True], ids=["sealed", "encrypted"])
def test_each_session_is_loaded_saved_and_gets_a_new_key(golden, settings, redis, encrypts: bool) -> None:
    settings.REDSESS = {**settings.REDSESS, "ENCRYPT": encrypts}
    for name, given in SESSIONS.items():
        session = session_of(golden, name)
        assert has_data(session, given), name
        session["later"] = 1
        session.save()
        assert has_data(session, given, later=1), name
        assert has_data(rotated(session), given, later=1), name
        left = SessionStore(golden.session_keys[name])
        assert left.load() == {}, name
    assert stored(redis) == len(SESSIONS)
    call_command("cleansessions", check=True, verbosity=0)


def test_a_user_signs_in_and_out_in_each_session(golden, redis) -> None:
    for name in SESSIONS:
        session = session_of(golden, name)
        session.load()
        session.cycle_key()
        session[SESSION_KEY] = "30"
        session.signed_in()
        session.save()
    assert online.count(user_ids=["30"]) == len(SESSIONS)
    for each in online.sessions(user_ids=["30"])[1:]:
        online.end(each.sid)
    assert stored(redis) == 1


@pytest.mark.parametrize("ends_all", [False, True], ids=["one by one", "all"])
def test_each_session_is_ended(golden, redis, ends_all: bool) -> None:
    if ends_all:
        users = sum(1 for each in SESSIONS.values() if each.user)
        assert online.end_all() == users
    for name, given in SESSIONS.items():
        session = session_of(golden, name)
        if not ends_all or not given.user:
            assert len(online.end(sid_of(session.session_key))) == 1, name
        assert session.load() == {}, name
        if given.user:
            assert session.ended is not None, name
            assert session.ended.reason == Reason.KICKED, name
    assert stored(redis) == 0


def test_all_are_listed_counted_and_found(golden) -> None:
    everybody = online.sessions(guests=True)
    assert names_of(golden, [each.sid for each in everybody]) == set(SESSIONS)
    for user in {each.user for each in SESSIONS.values()} - {""}:
        theirs = {name for name, each in SESSIONS.items() if each.user == user}
        assert names_of(golden, [each.sid for each in online.sessions(user_ids=[user])]) == theirs
        assert online.count(user_ids=[user]) == len(theirs)
    for each in everybody:
        [name] = names_of(golden, [each.sid])
        given = SESSIONS[name]
        assert (each.user_id or "", each.user_agent) == (given.user, given.user_agent if given.user else "")
        assert each.address == (given.address if given.user else ""), name
    assert names_of(golden, [each.sid for each in online.sessions(network="198.51.100.0/24")]) == {
        "user",
        "user, encrypted",
        "user, own key",
    }
    assert names_of(golden, [each.sid for each in online.sessions(browser="safari")]) == {"user, second"}
    bound = {name for name, each in SESSIONS.items() if each.binding not in (None, NO_BINDING)}
    assert names_of(golden, [each.sid for each in online.sessions(device_bound=True)]) == bound
    assert names_of(golden, [each.sid for each in everybody if each.device_bound]) == bound


def test_who_was_ended_is_told(golden) -> None:
    told = {name: session_of(golden, name).ended for name in ENDED}
    assert {name: (each.reason, each.stored_message) for name, each in told.items() if each} == ENDED
    assert told["kicked with both"].message_code == "password_changed"
    assert told["kicked with both"].message.endswith(MESSAGE)
    for name in GONE:
        session = session_of(golden, name)
        assert (session.load(), session.ended) == ({}, None)
    # A request with the old key is late, and its session has not ended.
    for old, name, was_guest in (("old key", ROTATED, False), ("guest's key", SIGNED_IN, True)):
        late = session_of(golden, old)
        assert (late.load(), late.ended, late.cookie.late, late.cookie.was_guest) == ({}, None, True, was_guest)
        [found] = online.find([sid_of(golden.session_keys[old])], follow=True)
        assert found.sid == sid_of(golden.session_keys[name])


@pytest.mark.parametrize(("user", "message"), [("15", MESSAGE), ("28", READY)])
def test_the_next_sign_in_gets_the_message(golden, user: str, message: str) -> None:
    session = SessionStore()
    session[SESSION_KEY] = user
    session.signed_in()
    session.save()
    assert SessionStore(session.session_key)[MESSAGE_KEY] == message


def test_blocks_hold_and_can_be_lifted(golden) -> None:
    there = {each.user_id: (*each[2:], each.until) for each in online.blocked()}
    assert there == {user: (*content, FOR_EVER) for user, content in BLOCKS.items()}
    for user, (message, *_) in BLOCKS.items():
        session = SessionStore()
        session[SESSION_KEY] = user
        with pytest.raises(SignInRefused) as refused:
            session.save()
        assert refused.value.message_code == message.rpartition("\t")[0]
    assert all(blocks.lift_block(user).run() for user in BLOCKS)
    assert online.blocked() == []


def test_a_lock_holds_and_is_given_back(golden, redis) -> None:
    key = golden.session_keys["user"]
    holds, comes = (SessionLock(SessionStore(key), sid_of(key), 300) for _ in range(2))
    holds.token = redis.get(holds.partition.lock_of(holds.sid)).decode()
    assert drive(comes.taking(0)) == "late"
    drive(holds.giving_back())
    # The request that waited is of a process that is gone.
    assert drive(comes.taking(0)) == "locked"
    drive(comes.giving_back())


def test_a_move_that_was_stopped_goes_on(golden, settings) -> None:
    coming, leaving = (golden.session_keys[name] for name in (ON_THE_WAY, "departed"))
    other = {"PREFIX": "elsewhere", "PARTITIONS": 1}
    departed = drive(transfer._depart({sid_of(leaving): b""}, {sid_of(leaving): transfer.Original(golden.made_at)}))
    [(outcome, copy)] = departed.values()
    assert (outcome, len(copy)) == (b"departed", 12)
    # There is no session in the store from which it comes: the copy has ended.
    settings.SESSION_ENGINE = "django_redsess.contrib.moving.growing"
    settings.REDSESS = {**settings.REDSESS, "MOVE_FROM": other}
    session = growing.SessionStore(coming)
    assert session.load() == {}
    assert drive(marks.traces_of(sid_of(coming))).mark == marks.HERE


def test_views_counts_and_samples_are_read(golden) -> None:
    assert {each.item: each.views for each in viewed.popular()} == POPULARITY
    for name, items in VIEWS.items():
        assert [each.item for each in viewed.recent(session_of(golden, name))] == items[::-1]
    totals = online.totals()
    assert totals.signed_in + totals.guests == len(SESSIONS)
    # One was moved here, and counts as moved. One is on the way, and one has left.
    assert totals.created == len(SESSIONS) - 2 + len(ENDED) + len(GONE) + 1
    ended = Counter([*(reason for reason, _ in ENDED.values()), Reason.LOGOUT, Reason.KICKED])
    assert {reason: count for reason, count in totals.ended.items() if count} == ended
    [sample] = online.samples(hours=10**6)
    assert sample.at.timestamp() * 1000 <= golden.made_at < sample.at.timestamp() * 1000 + 60_000
    assert (sample.signed_in, sample.guests) == (totals.signed_in, totals.guests)
    assert (sample.active, sample.active_guests) == (totals.signed_in, totals.guests)


def test_what_has_left_another_engine_is_known(golden) -> None:
    gone = sid_of(golden.session_keys["moved elsewhere"])
    moved = drive(marks.traces_of(gone))
    assert moved.mark == str(bucket_of(golden.session_keys[MOVED]))
    assert drive(marks.traces_of(sid_of(golden.session_keys[MOVED]))).mark == marks.HERE
    # What ended there before the store was written is over, and what began there since is not.
    for user, before in (("20", golden.made_at - 1000), ("8", golden.made_at - 1000), ("", golden.made_at - 1000)):
        assert drive(find_beginning("aa" + "b" * 18, user, before)) is None
        assert drive(find_beginning("aa" + "b" * 18, user, golden.made_at + 1000)) is not None


def test_it_is_refused_to_whom_it_does_not_suit(golden, settings) -> None:
    count = settings.REDSESS["PARTITIONS"]
    for wrong, words in (
        ({"SECRET_KEY": "another"}, "another SECRET_KEY"),
        ({"REDSESS": {**settings.REDSESS, "PARTITIONS": 64}}, f"over {count} partitions"),
    ):
        with override_settings(**wrong):
            pool().invalidate()
            with pytest.raises(ImproperlyConfigured, match=words):
                online.count()
        pool().invalidate()


def test_it_is_cleaned_checked_and_repaired(golden, redis, capsys) -> None:
    assert sum(cleaning.expire_sessions()) == 0
    call_command("cleansessions", check=True)
    assert "and 6 encrypted" in capsys.readouterr().out
    lost = sid_of(golden.session_keys["user"])
    partition = keyspace().of_sid(lost)
    for name in (partition.recent, partition.online_user, partition.online_user_of("7")):
        redis.zrem(name, lost)
    call_command("cleansessions", repair=True, verbosity=0)
    call_command("cleansessions", check=True, verbosity=0)
    assert len(online.sessions(user_ids=["7"])) == sum(each.user == "7" for each in SESSIONS.values())


@pytest.mark.django_db
@pytest.mark.parametrize("partitions", [1, 2])
def test_its_sessions_move_on_to_another_prefix(golden, settings, redis, partitions: int) -> None:
    before = {"PREFIX": settings.REDSESS["PREFIX"], "PARTITIONS": settings.REDSESS["PARTITIONS"]}
    settings.SESSION_ENGINE = "django_redsess.contrib.moving.growing"
    settings.REDSESS = {**settings.REDSESS, "PREFIX": "later", "PARTITIONS": partitions, "MOVE_FROM": before}
    call_command("movesessions", verbosity=0)
    settings.SESSION_ENGINE = "django_redsess.backend"
    settings.REDSESS = {**settings.REDSESS, "MOVE_FROM": None}
    for name, given in SESSIONS.items():
        assert has_data(session_of(golden, name), given), name
    assert {each.user_id for each in online.blocked()} == set(BLOCKS)
    call_command("cleansessions", check=True, verbosity=0)
    redis.flushall()
