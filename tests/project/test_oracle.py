"""The oracle finds each kind of disagreement, in any partition, and raises at the end of the test that left it."""

from collections.abc import Callable
from typing import Any

import pytest
import redis as redis_py

from django_redsess import online, viewed
from tests.helpers import oracle
from tests.helpers.store import Partition, keyspace

USER = "7"


@pytest.fixture
def sids(partitions, left_alone, new_session) -> dict[str, str]:
    """Some sessions: two of a user, one of a guest, and one that was ended and has a note."""
    first, second, ended = (new_session(USER) for _ in range(3))
    guest = new_session(colour="blue")
    for session in (first, guest):
        viewed.record(session, "lamp")
    online.end(ended.sid)
    return {"first": first.sid, "second": second.sid, "guest": guest.sid, "ended": ended.sid}


def record_and_entries_taken_out(redis: redis_py.Redis, partition: Partition, sid: str) -> None:
    redis.hdel(partition.login, sid)
    redis.zrem(partition.guests, sid)
    redis.zrem(partition.expire, sid)


def other_time_in_both_lists(redis: redis_py.Redis, partition: Partition, sid: str) -> None:
    for name in (partition.online_user, partition.online_user_of(USER)):
        redis.zincrby(name, 1, sid)


TAKEN_OUT = [("first", "expire"), ("first", "recent"), ("first", "online_user"), ("guest", "guests")]

PUT_IN = [
    *(("ended", key) for key in ("expire", "recent", "guests", "online_user")),
    *(("guest", key) for key in ("recent", "online_user")),
    ("first", "guests"),
]

DAMAGES: list[tuple[str, Callable[[Any, Partition, str], Any], str]] = [
    ("guest", lambda redis, at, sid: redis.hdel(at.login, sid), "{at.guests} has "),
    ("guest", record_and_entries_taken_out, "viewed:{sid}' belongs to no session"),
    ("first", lambda redis, at, sid: redis.zrem(at.online_user_of(USER), sid), "the list of user '7' differs"),
    ("ended", lambda redis, at, sid: redis.zadd(at.online_user_of(USER), {sid: 1}), "the list of user '7' differs"),
    ("first", lambda redis, at, sid: redis.zincrby(at.online_user_of(USER), 1, sid), "the list of user '7' differs"),
    ("first", other_time_in_both_lists, "{at.online_user} has other login times than the records"),
    ("first", lambda redis, at, sid: redis.zadd(at.online_user_of("8"), {sid: 1}), ":8' belongs to no session"),
    ("ended", lambda redis, at, sid: redis.zadd(at.viewed_by(sid), {"lamp": 1}), "{sid}' belongs to no session"),
    ("first", lambda redis, at, sid: redis.set(at.ended_of(sid), "kicked", ex=60), "{sid}' belongs to no session"),
    ("ended", lambda redis, at, sid: redis.persist(at.ended_of(sid)), "{sid}' belongs to no session"),
    ("ended", lambda redis, at, sid: redis.expire(at.ended_of(sid), 86_460), "{sid}' belongs to no session"),
    ("lamp", lambda redis, at, item: redis.zincrby(at.viewed, -1, item), "{at.totals} does not have the 3 views"),
    ("lamp", lambda redis, at, item: redis.hincrby(at.totals, "views", 1), "{at.totals} does not have the 2 views"),
    ("first", lambda redis, at, sid: redis.set("something", "else"), "b'something' belongs to no session"),
]


def test_keys_that_agree_are_no_disagreement(redis, sids) -> None:
    assert oracle.disagreements(redis) == []


@pytest.mark.parametrize(("whose", "key"), [*TAKEN_OUT, *PUT_IN])
def test_a_session_that_a_key_lacks_or_has_too_many_is_found(redis, sids, whose: str, key: str) -> None:
    name = getattr(keyspace().of_sid(sids[whose]), key)
    change = redis.zrem(name, sids[whose]) if (whose, key) in TAKEN_OUT else redis.zadd(name, {sids[whose]: 1}, nx=True)
    assert change == 1
    assert [each for each in oracle.disagreements(redis) if f"{name} has " in each]


@pytest.mark.parametrize("number", range(len(DAMAGES)))
def test_each_other_kind_of_disagreement_is_found(redis, sids, number: int) -> None:
    whose, damage, words = DAMAGES[number]
    sid = sids.get(whose, whose)
    at = keyspace().of_sid(sid) if whose in sids else keyspace().of_item(whose)
    damage(redis, at, sid)
    told = words.format(at=at, sid=sid)
    assert [each for each in oracle.disagreements(redis) if told in each]


def test_a_session_in_another_partition_is_found(redis, settings, new_session, left_alone) -> None:
    settings.REDSESS = {"PARTITIONS": 4}
    sid = new_session(colour="blue").sid
    here = keyspace().of_sid(sid)
    there = next(each for each in keyspace().partitions if each != here)
    for name in ("login", "expire", "guests"):
        redis.rename(getattr(here, name), getattr(there, name))
    assert oracle.disagreements(redis) == [f"{there.login} has {sid.encode()!r} of another partition"]


def test_who_leaves_a_disagreement_is_told_which_and_the_server_is_empty_afterwards(redis) -> None:
    with pytest.raises(AssertionError, match="b'something' belongs to no session"), oracle.emptied(redis):
        redis.set("something", "else")
    assert redis.keys() == []
