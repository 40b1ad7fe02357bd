"""What receivers are told of an end, and every way to end."""

import json
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import User
from django.core.management import call_command

from django_redsess import cleaning, online
from django_redsess.backend import SessionStore
from django_redsess.signals import EndedSession, Reason, session_ended
from django_redsess.transport.keys import keyspace
from tests.helpers.behind import make_due, make_seen, text_of
from tests.helpers.ends import WAYS_TO_DELETE, add_session, ends


def test_a_receiver_gets_who_why_and_when_and_nothing_else(connect, redis, new_session) -> None:
    heard: list[dict[str, Any]] = []

    def receive(**named) -> None:
        heard.append(named)

    connect(receive)
    session = new_session("7", colour="a secret colour")
    online.end(session.sid)
    (named,) = heard
    assert set(named) == {"signal", "sender", "sid", "user_id", "reason", "at"}
    assert (named["signal"], named["sender"]) == (session_ended, EndedSession)
    assert (named["sid"], named["user_id"], named["reason"]) == (session.sid, "7", Reason.KICKED)
    shown = repr(named)
    # Compared before the assert: pytest would print the key.
    shows_key, shows_data = session.session_key in shown, "a secret colour" in shown
    assert not shows_key
    assert not shows_data


def test_the_time_is_the_servers_and_aware(redis, told, new_session) -> None:
    session = new_session("7")
    before = redis.time()
    session.delete()
    after = redis.time()
    assert told[0].at.tzinfo is UTC
    # What is told is in whole milliseconds.
    at = told[0].at.timestamp()
    assert before[0] + before[1] / 1e6 - 0.001 <= at <= after[0] + after[1] / 1e6


def test_the_reason_is_text_too(told, new_session) -> None:
    new_session("7").delete()
    assert told[0].reason == "invalidated"
    assert json.dumps(told[0].reason) == '"invalidated"'


def test_a_guests_end_names_no_user(told, new_session) -> None:
    session = new_session(colour="blue")
    session.delete()
    assert ends(told) == [(session.sid, "", "invalidated")]


@pytest.mark.parametrize(
    "user_id",
    ["a:b:", ":", "jürgen", "日本語", "x" * 255, "ü" * 127 + "x", "a b\nc", "a\x00b", "\x1b[31m"],
    ids=["colons", "a colon", "umlaut", "japanese", "255 bytes", "255 bytes of umlauts", "newline", "NUL", "escape"],
)
@pytest.mark.usefixtures("partitions")
def test_any_user_id_arrives_intact(told, redis, new_session, user_id: str) -> None:
    sids = [new_session(user_id).sid for _ in range(2)]
    make_due(redis, sids[0])
    assert sum(cleaning.expired()) == 1
    online.end(sids[1])
    assert ends(told) == [(sids[0], user_id, "expired"), (sids[1], user_id, "kicked")]


WAYS_TO_EXPIRE: dict[str, Callable[[], object]] = {
    "cleaner": lambda: list(cleaning.expired()),
    "clear_expired": SessionStore.clear_expired,
    "aclear_expired": lambda: async_to_sync(SessionStore.aclear_expired)(),
    "clearsessions": lambda: call_command("clearsessions"),
    "cleansessions": lambda: call_command("cleansessions", verbosity=0),
    "create": lambda: add_session("7"),
    "count": online.count,
    "count of a user": lambda: online.count(user_ids=["7"]),
    "sessions": online.sessions,
    "sessions of a user": lambda: online.sessions(user_ids=["7"]),
}


WAYS_TO_EVICT: dict[str, Callable[[], object]] = {
    "cleaner": lambda: list(cleaning.evicted()),
    "cleansessions": lambda: call_command("cleansessions", verbosity=0),
    "create": lambda: add_session("7"),
}


@pytest.mark.parametrize("way", WAYS_TO_DELETE)
@pytest.mark.usefixtures("partitions")
def test_what_code_deletes_is_invalidated(told, new_session, way: str) -> None:
    session = new_session("7")
    sid = session.sid
    new_session("7")
    WAYS_TO_DELETE[way](session.session_key)
    assert ends(told) == [(sid, "7", "invalidated")]


@pytest.mark.parametrize("way", WAYS_TO_EXPIRE)
@pytest.mark.usefixtures("partitions")
def test_what_is_due_expires_whoever_finds_it(told, redis, new_session, way: str) -> None:
    sid = new_session("7").sid
    new_session("7")
    make_due(redis, sid)
    WAYS_TO_EXPIRE[way]()
    assert ends(told) == [(sid, "7", "expired")]
    WAYS_TO_EXPIRE[way]()
    assert len(told) == 1


@pytest.mark.parametrize("way", WAYS_TO_EVICT)
def test_what_is_too_much_is_evicted(told, redis, new_session, settings, partitions, way: str) -> None:
    sids = [new_session("7").sid for _ in range(3)]
    make_seen(redis, sids[0], 1000)
    # All sessions of a user are in one partition, which has its share of the maximum.
    settings.REDSESS = {"MAX_SESSIONS": partitions * (3 if way == "create" else 2)}
    WAYS_TO_EVICT[way]()
    assert ends(told) == [(sids[0], "7", "evicted")]


@pytest.mark.usefixtures("partitions")
def test_what_an_administrator_ends_is_kicked(told, new_session) -> None:
    sids = [new_session(user).sid for user in ("7", "7", "8", "")]
    assert sorted(online.end(*sids)) == sorted(told)
    assert sorted(ends(told)) == sorted(
        (sid, user, "kicked") for sid, user in zip(sids, ("7", "7", "8", ""), strict=True)
    )


@pytest.mark.django_db
def test_the_admins_action_kicks(admin_client, told, new_session) -> None:
    user = User.objects.create_user("alice")
    sids = [new_session(str(user.pk)).sid for _ in range(3)]
    admin_client.post("/admin/django_redsess/onlinesession/end/", {"sids": " ".join(sids[:2])})
    assert sorted(ends(told)) == sorted((sid, str(user.pk), "kicked") for sid in sids[:2])


@pytest.mark.django_db
def test_the_admin_who_ends_the_own_session_is_told_of_once(admin_client, admin_user, told) -> None:
    sid = SessionStore(admin_client.cookies["sessionid"].value).sid
    admin_client.post("/admin/django_redsess/onlinesession/end/", {"sids": sid, "own": "on"})
    assert ends(told) == [(sid, str(admin_user.pk), "kicked")]


@pytest.mark.usefixtures("partitions")
def test_every_end_of_a_thousand_at_once_is_told(told, new_session) -> None:
    sids = [new_session(f"user {number % 50}").sid for number in range(1000)]
    assert len(online.end(*sids)) == 1000
    assert sorted(each.sid for each in told) == sorted(sids)


@pytest.mark.usefixtures("partitions")
def test_ends_of_large_sessions_are_told_though_they_take_several_calls(told, new_session) -> None:
    sids = [new_session("7", text=text_of(400_000)).sid for _ in range(7)]
    online.end(*sids)
    assert sorted(each.sid for each in told) == sorted(sids)


@pytest.mark.usefixtures("partitions")
def test_of_two_cleaners_at_once_one_tells_each_end(told, redis, new_session) -> None:
    # Due only when all are there: each create would clean up others.
    sids = [new_session(f"user {number % 9}").sid for number in range(500)]
    make_due(redis, *sids)
    both = threading.Barrier(2)

    def clean() -> None:
        both.wait(10)
        list(cleaning.expired(batch_size=7))

    threads = [threading.Thread(target=clean) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(each.sid for each in told) == sorted(sids)


@pytest.mark.usefixtures("partitions")
def test_a_session_named_twice_is_told_once(told, new_session) -> None:
    sid = new_session("7").sid
    assert len(online.end(sid, sid)) == 1
    assert ends(told) == [(sid, "7", "kicked")]


def test_a_record_whose_user_is_no_text_is_told_all_the_same(told, redis, new_session) -> None:
    session = new_session("7")
    partition = keyspace().of_sid(session.sid)
    record = redis.hget(partition.login, session.sid)
    redis.hset(partition.login, session.sid, record[:29] + b"\xff" + record[30:])
    redis.rename(partition.online_user_of("7"), partition.online_user_of("").encode() + b"\xff")
    make_due(redis, session.sid)
    assert sum(cleaning.expired()) == 1
    assert ends(told) == [(session.sid, "\ufffd", "expired")]


def test_what_is_told_can_be_put_in_order(told, new_session) -> None:
    began = datetime.now(UTC)
    for _ in range(5):
        new_session("7").delete()
    times = [each.at for each in told]
    assert times == sorted(times)
    assert abs((times[0] - began).total_seconds()) < 60


def test_a_record_that_somebody_cut_short_is_ended_like_any_other(redis, told, new_session) -> None:
    sid, other = new_session("7").sid, new_session("8").sid
    [partition] = keyspace().partitions
    record = redis.hget(partition.login, sid)
    # Its user id would go on for longer than it does itself.
    redis.hset(partition.login, sid, record[:28] + b"\xff" + record[29:37])
    make_due(redis, sid, other)
    assert sum(cleaning.expired()) == 2
    assert sorted(ends(told)) == sorted([(sid, "", "expired"), (other, "8", "expired")])
    # Whose it was nobody knew: the user's list still has it.
    redis.flushall()
