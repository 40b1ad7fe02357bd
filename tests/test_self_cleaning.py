"""No cleaner runs here: each new session takes up to two along that are due, and two above the maximum."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import pytest
import redis as redis_py

from django_redsess import scripts, store
from django_redsess.keys import sid_of
from django_redsess.record import Client, Record, pack
from tests.support.behind import names_of_sessions, stored

AT_ONCE = 500


def create(client: redis_py.Redis, count: int, *, age_seconds: float) -> Iterator[int]:
    """Create so many sessions, as requests do but without waiting for each reply; yield how many are stored, often."""
    client.script_load(scripts.CREATE.text)
    for start in range(0, count, AT_ONCE):
        pipeline = client.pipeline(transaction=False)
        for number in range(start, start + AT_ONCE):
            user = str(number % 997) if number % 2 else ""
            sid = sid_of(secrets.token_hex())
            while not store.at_home(sid, user):
                sid = sid_of(secrets.token_hex())
            record = Record(user, Client(), b"{}")
            call = store.create(sid, store.Written(pack(sid, record, age_seconds=age_seconds), user))
            pipeline.evalsha(call.script.digest, len(call.keys), *call.keys, *call.args)
        pipeline.execute()
        yield stored(client)


@pytest.mark.parametrize("count", [3000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_after_many_sessions_there_are_as_many_as_the_maximum(
    redis: redis_py.Redis, settings, partitions: int, count: int
) -> None:
    settings.REDSESS = {"MAX_SESSIONS": 1000}
    most = max(create(redis, count, age_seconds=3600))
    # Each partition has its share of the maximum.
    assert 900 < most <= 1000
    space = store.keyspace()
    for of_partition in ("expire", "recent", "online_user", "online_seen"):
        assert sum(redis.zcard(getattr(partition, of_partition)) for partition in space.partitions) <= 1000
    # A key for each of the users that are left, and those of the store. The notes of the others go with time.
    assert len(names_of_sessions(redis)) < 1000 + 10 * partitions


@pytest.mark.parametrize("count", [3000, pytest.param(30_000, marks=pytest.mark.slow)])
def test_after_many_short_sessions_there_are_the_latest(redis: redis_py.Redis, partitions: int, count: int) -> None:
    # In a millisecond, and while others are sent, not many come.
    assert max(create(redis, count, age_seconds=0.001)) < 1000
