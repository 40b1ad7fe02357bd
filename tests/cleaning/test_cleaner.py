import threading
from typing import Any

import pytest

from django_redsess import cleaning, online, viewed
from django_redsess.signals import EndedSession, sessions_ended
from tests.helpers.store import keyspace, make_due, make_seen, stored

pytestmark = [pytest.mark.usefixtures("partitions"), pytest.mark.both_servers]


def test_due_sessions_go_with_all_that_belongs_to_them(redis, new_session) -> None:
    sessions = [new_session(f"user {number % 7}", colour="blue") for number in range(250)]
    for session in sessions:
        viewed.record(session, "lamp")
    kept = new_session("8")
    make_due(redis, *(session.sid for session in sessions))
    assert sum(cleaning.expire_sessions()) == 250
    assert [session.sid for session in online.sessions()] == [kept.sid]
    assert not [name for name in redis.keys() if b":viewed:" in name]


def test_the_longest_unseen_are_evicted(redis, new_session, partitions) -> None:
    sessions = [new_session("7") for _ in range(40)]
    for number, session in enumerate(sessions):
        make_seen(redis, session.sid, 1000 + number)
    removed = sum(cleaning.evict_sessions(maximum=8))
    assert removed == 40 - stored(redis)
    assert stored(redis) <= 8
    assert online.get(sessions[-1].sid) is not None
    if partitions == 1:
        assert {session.sid for session in online.sessions()} == {session.sid for session in sessions[-8:]}


def test_a_session_seen_after_the_scan_survives(redis, new_session) -> None:
    sessions = [new_session("7") for _ in range(10)]
    make_due(redis, *(session.sid for session in sessions))
    batches = cleaning.expire_sessions(batch_size=2)
    next(batches)
    late = next(session for session in sessions if redis.hexists(keyspace().of_sid(session.sid).login, session.sid))
    redis.zadd(keyspace().of_sid(late.sid).expire, {late.sid: 10_000_000_000_000})
    list(batches)
    assert [session.sid for session in online.sessions()] == [late.sid]


def test_receivers_are_called_in_this_thread_until_the_cleaner_is_told_to_stop(redis, new_session) -> None:
    threads = []

    def receive(sessions: list[EndedSession], **_: Any) -> None:
        threads.extend(threading.get_ident() for _ in sessions)

    make_due(redis, *(new_session("7").sid for _ in range(7)))
    sessions_ended.connect(receive)
    try:
        ended = sum(cleaning.expire_sessions(batch_size=1, go_on=lambda: len(threads) < 3))
        assert 3 <= ended <= 4
        # Who stops in between is told of what has ended by then, too.
        next(filter(None, cleaning.expire_sessions(batch_size=1)))
    finally:
        sessions_ended.disconnect(receive)
    assert threads == [threading.get_ident()] * (ended + 1)
    assert stored(redis) == 7 - len(threads)


@pytest.mark.unit
@pytest.mark.parametrize("batch_size", [0, -1, 1001])
def test_a_batch_that_is_none_is_a_clear_error(batch_size: int) -> None:
    with pytest.raises(ValueError, match="A batch has 1 to 1000 sessions"):
        list(cleaning.expire_sessions(batch_size=batch_size))
