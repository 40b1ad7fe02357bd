"""Steps, which both drivers take alike; pages and ranks of what several partitions have."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import ResponseError

from django_redsess.signals import EndedSession, Reason, sessions_ended
from django_redsess.transport.connections import Pause, Send, pool
from django_redsess.transport.keys import keyspace
from django_redsess.transport.packing import pack_command
from django_redsess.transport.partitions import EntryLists, RankedScore, bisect, merged, rows_per_partition
from django_redsess.transport.steps import Pipeline, SendSignals, Steps, adrive, drive
from testproject.servers import free_port
from tests.helpers.outages import caches

PING = pack_command("PING")

Driver = Callable[[Steps[Any]], Any]


@pytest.fixture(params=["threads", "tasks"])
def driven(request) -> Driver:
    return drive if request.param == "threads" else lambda steps: asyncio.run(adrive(steps))


def test_steps_are_sent_the_replies_errors_among_them(driven) -> None:
    def asking() -> Steps[Any]:
        (error,) = yield Send(pool(), pack_command("HGET", "no"), 1)
        return error, (yield Send(pool(), PING * 2, 2))

    error, replies = driven(asking())
    assert (type(error), replies) == (ResponseError, [b"PONG"] * 2)


def test_steps_are_thrown_what_the_connection_met(driven, settings) -> None:
    there, settings.CACHES = settings.CACHES, caches(f"redis://127.0.0.1:{free_port()}/0")

    def asking() -> Steps[Any]:
        try:
            yield Send(pool(), PING, 1)
        except RedisConnectionError:
            settings.CACHES = there
        return (yield Send(pool(), PING, 1))

    assert driven(asking()) == [b"PONG"]


def test_steps_go_on_after_a_pause(driven) -> None:
    def pausing() -> Steps[Any]:
        return (yield from Pause(0.001)), (yield from Pipeline(keyspace().partitions[0], "ping", PING, 1, list))

    assert driven(pausing()) == (None, [b"PONG"])


def test_receivers_are_told_before_the_next_step(driven) -> None:
    told = []
    ended = EndedSession("0" * 20, "7", Reason.KICKED, datetime.now(UTC))

    def receive(sessions: list[EndedSession], **named: Any) -> None:
        told.extend(sessions)

    def ending() -> Steps[Any]:
        yield SendSignals([ended])
        return list(told)

    sessions_ended.connect(receive)
    try:
        assert driven(ending()) == [ended]
    finally:
        sessions_ended.disconnect(receive)


# A page of several partitions is that of one list, and little is read for it.

Entry = tuple[int, int]

# Few scores, so that many are equal; one partition may have nearly all.
partitions = st.sampled_from([1, 4, 64]).flatmap(
    lambda count: st.lists(
        st.tuples(st.one_of(st.just(0), st.integers(0, count - 1)), st.integers(0, 1), st.integers(0, 5)), max_size=150
    ).map(lambda entries: (count, entries))
)


@pytest.mark.unit
@given(partitions, st.integers(1, 160), st.booleans())
def test_a_page_is_that_of_one_sorted_list(there, wanted: int, reverse: bool) -> None:
    count, given_entries = there
    lists: list[list[list[Entry]]] = [[[], []] for _ in range(count)]
    for number, (partition, which, score) in enumerate(given_entries):
        lists[partition][which].append((score, number))
    asked: list[int] = []

    def read(numbers: Sequence[int], limit: int) -> Steps[EntryLists[Entry]]:
        asked.append(limit)
        return [[sorted(entries, reverse=reverse)[:limit] for entries in lists[number]] for number in numbers]
        yield

    every = sorted((entry for of_one in lists for entries in of_one for entry in entries), reverse=reverse)
    assert drive(merged(read, count, wanted, reverse=reverse)) == every[:wanted]
    # Read again once at most, and no further than the page.
    assert asked in ([rows_per_partition(wanted, count)], [rows_per_partition(wanted, count), wanted])


@pytest.mark.unit
def test_little_more_than_a_share_is_read() -> None:
    assert rows_per_partition(100, 1) == 100
    assert rows_per_partition(100, 64) == 8
    assert rows_per_partition(2_000, 64) == 51


SCORES = st.integers(-50, 50)


def bound(partitions: list[list[int]], score: int) -> RankedScore:
    return RankedScore(score, [sum(each < score for each in scores) for scores in partitions])


@pytest.mark.unit
@given(st.lists(st.lists(SCORES, max_size=20), min_size=1, max_size=4).filter(any), st.data())
def test_the_entry_with_the_rank_is_between_the_bounds(partitions: list[list[int]], data: st.DataObject) -> None:
    scores = sorted(score for partition in partitions for score in partition)
    rank = data.draw(st.integers(0, len(scores) - 1))
    asked: list[int] = []

    def bound_at(score: int) -> Steps[RankedScore]:
        asked.append(score)
        return bound(partitions, score)
        yield

    low, high = bound(partitions, -50), bound(partitions, 51)
    low, high = drive(bisect(bound_at, rank, low, high))
    assert (low, high) == (bound(partitions, scores[rank]), bound(partitions, scores[rank] + 1))
    assert len(asked) <= 7
