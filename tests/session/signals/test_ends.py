"""What receivers are told of an end, and every way to end."""

import json
import threading
from collections.abc import Callable
from datetime import UTC
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
    before = redis.time()
    # It is told once, though named twice.
    assert len(online.end(session.sid, session.sid)) == 1
    after = redis.time()
    (named,) = heard
    assert set(named) == {"signal", "sender", "sid", "user_id", "reason", "at"}
    assert (named["signal"], named["sender"]) == (session_ended, EndedSession)
    assert (named["sid"], named["user_id"], named["reason"]) == (session.sid, "7", Reason.KICKED)
    assert json.dumps(named["reason"]) == '"kicked"'
    # The time is the server's, and aware. What is told is in whole milliseconds.
    assert named["at"].tzinfo is UTC
    assert before[0] + before[1] / 1e6 - 0.001 <= named["at"].timestamp() <= after[0] + after[1] / 1e6
    shown = repr(named)
    # Compared before the assert: pytest would print the key.
    shows_key, shows_data = session.session_key in shown, "a secret colour" in shown
    assert not shows_key
    assert not shows_data


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
@pytest.mark.parametrize("user_id", ["7", ""], ids=["user", "guest"])
@pytest.mark.usefixtures("partitions")
def test_what_code_deletes_is_invalidated(told, new_session, way: str, user_id: str) -> None:
    session = new_session(user_id, colour="blue")
    sid = session.sid
    new_session("7")
    WAYS_TO_DELETE[way](session.session_key)
    assert ends(told) == [(sid, user_id, "invalidated")]


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
def test_the_admins_action_kicks_the_own_session_too(admin_client, admin_user, told, new_session) -> None:
    user = User.objects.create_user("alice")
    sids = [new_session(str(user.pk)).sid for _ in range(3)]
    own = SessionStore(admin_client.cookies["sessionid"].value).sid
    admin_client.post("/admin/django_redsess/onlinesession/end/", {"sids": " ".join([*sids[:2], own]), "own": "on"})
    kicked = [*((sid, str(user.pk), "kicked") for sid in sids[:2]), (own, str(admin_user.pk), "kicked")]
    assert sorted(ends(told)) == sorted(kicked)


@pytest.mark.parametrize(("count", "size"), [(1000, 1), (7, 400_000)], ids=["many", "large"])
@pytest.mark.usefixtures("partitions")
def test_every_end_of_those_that_take_several_calls_is_told(told, new_session, count: int, size: int) -> None:
    sids = [new_session(f"user {number % 50}", text=text_of(size)).sid for number in range(count)]
    assert len(online.end(*sids)) == count
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


@pytest.mark.parametrize(
    ("at", "kept", "user_id"), [(29, None, "\ufffd"), (28, 37, "")], ids=["the user is no text", "cut short"]
)
def test_the_end_of_a_damaged_record_is_told_as_any_other(
    told, redis, new_session, at: int, kept: int | None, user_id: str
) -> None:
    # The second one's user id would go on for longer than it does itself.
    session, other = new_session("7"), new_session("8")
    partition = keyspace().of_sid(session.sid)
    record = redis.hget(partition.login, session.sid)
    redis.hset(partition.login, session.sid, record[:at] + b"\xff" + record[at + 1 : kept])
    make_due(redis, session.sid, other.sid)
    assert sum(cleaning.expired()) == 2
    assert sorted(ends(told)) == sorted([(session.sid, user_id, "expired"), (other.sid, "8", "expired")])
    # Whose it was nobody knew: the user's list still has it.
    redis.flushall()
