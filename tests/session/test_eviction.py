"""No cleaner runs here: new sessions take along what is due or too many, where that is enough to do."""

from collections.abc import Iterator
from math import sqrt

import pytest
import redis as redis_py

from django_redsess.session import eviction, operations
from django_redsess.transport import scripts
from django_redsess.transport.keys import bucket_of_user, keyspace, new_key, sid_of
from tests.helpers.store import names_of_sessions, now_of, stored, written

AT_ONCE = 50


def create(client: redis_py.Redis, count: int, *, age_seconds: float) -> Iterator[int]:
    """Create so many sessions, as requests do but without waiting for each reply; yield how many are stored, often."""
    client.script_load(scripts.CREATE.text)
    for start in range(0, count, AT_ONCE):
        pipeline = client.pipeline(transaction=False)
        for number in range(start, start + AT_ONCE):
            user = str(number % 997) if number % 2 else ""
            sid = sid_of(new_key(bucket_of_user(user) if user else None))
            call = operations.create(sid, written(sid, user, age_seconds=age_seconds))
            pipeline.evalsha(call.script.digest, len(call.keys), *call.keys, *call.args)
        pipeline.execute()
        for partition in keyspace().partitions:
            due = client.zcount(partition.expire, "-inf", now_of(client).timestamp() * 1000)
            recent, guests = client.zcard(partition.recent), client.zcard(partition.guests)
            if (cleaning := eviction.clean_on_create(partition, due=due, recent=recent, guests=guests)) is not None:
                cleaning.run()
        yield stored(client)


@pytest.mark.parametrize("count", [2300, pytest.param(30_000, marks=pytest.mark.slow)])
def test_after_many_sessions_there_are_as_many_as_the_maximum(redis, settings, partitions: int, count: int) -> None:
    settings.REDSESS = {"MAX_SESSIONS": 1000}
    most = max(create(redis, count, age_seconds=3600))
    # A tenth is kept for guests; and a partition waits until it has a twentieth of its share too many.
    assert 1000 < most <= 1100 + AT_ONCE + 50
    space = keyspace()
    for of_partition, maximum in (("recent", 1050), ("online_user", 1050), ("guests", 150), ("expire", 1150)):
        there = sum(redis.zcard(getattr(partition, of_partition)) for partition in space.partitions)
        assert 0 < there <= maximum
    # A key for each of the users that are left, and those of the store. The notes of the others go with time.
    assert len(names_of_sessions(redis)) < 1050 + 10 * partitions


@pytest.mark.slow
def test_nobody_goes_much_before_there_are_as_many_as_the_maximum(redis, settings, partitions: int) -> None:
    maximum = 4000
    settings.REDSESS = {"MAX_SESSIONS": maximum}
    numbers = enumerate(create(redis, 2 * maximum, age_seconds=3600), 1)
    created = next(number * AT_ONCE for number, there in numbers if there < number * AT_ONCE)
    # The documented bound of a partition's share. Half of these sessions are guests', and a user has two or three.
    share, per_user = maximum / partitions, 1.7
    assert created >= maximum * (1 if partitions == 1 else 1 - 4 * sqrt(per_user / share))


def test_after_many_short_sessions_there_are_the_latest(redis, partitions: int) -> None:
    # Each partition waits until it has fifty of them.
    assert max(create(redis, 1000, age_seconds=0.001)) < 50 * partitions + AT_ONCE


@pytest.mark.unit
@pytest.mark.parametrize(
    ("maximum", "reserve"), [(50, 50), (1_000, 100), (10_000, 100), (50_000, 500), (10_000_000, 100_000)]
)
def test_beside_as_many_users_as_there_may_be_guests_have_a_hundredth_and_at_least_a_hundred(
    settings, maximum: int, reserve: int
) -> None:
    settings.REDSESS = {"MAX_SESSIONS": maximum}
    allowed = eviction.allowance()
    assert [allowed.too_many(maximum, guests) for guests in (reserve, reserve + 1)] == [0, 1]
