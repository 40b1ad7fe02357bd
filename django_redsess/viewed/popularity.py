"""The most viewed items. The functions return calls or steps, as in :mod:`django_redsess.session.operations`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, NamedTuple, TypeVar

from django_redsess.session.operations import AT_ONCE_MAX
from django_redsess.transport import scripts
from django_redsess.transport.keys import Partition, keyspace
from django_redsess.transport.packing import pack_head, pack_tail
from django_redsess.transport.partitions import EntryLists, RankedScore, ask_each, bisect, merged, with_scores
from django_redsess.transport.scripts import Script, Values
from django_redsess.transport.steps import ScriptCall, Steps, time_of

T = TypeVar("T")

SHALLOW = 2_000
"""Up to this rank, items of several partitions are read from the top of each. Beyond it, the place is searched for."""

VIEWS_MAX = 2**53
"""The highest count that a score holds exactly."""


class ViewTotal(NamedTuple):
    """
    How many ``items`` were viewed, and how many ``views`` they have together.

    ``since`` is the time of the first view that counts (aware, UTC), None if there is none.
    """

    items: int
    views: int
    since: datetime | None = None


def read_most_viewed(first: int, limit: int) -> Steps[list[tuple[str, int]]]:
    """
    Read ``limit`` items and their views, from rank ``first`` on. The most viewed item has rank 0.

    Items with equal views are in the order of their partitions, and within a partition in the order of their bytes.
    """
    partitions = keyspace().partitions
    if len(partitions) == 1:
        script = scripts.ITEMS_BY_RANK
        keys = script.keys(partitions[0], items=partitions[0].viewed)
        args = script.arguments(first=first, last=first + limit - 1)
        entries: list[Any] = yield from ScriptCall(partitions[0], script, keys, args, list)
        return [(item.decode(errors="replace"), _views(score)) for score, item in with_scores(entries)]
    starts, passed = [0] * len(partitions), 0
    if first + limit > SHALLOW:
        starts = yield from split_rank(first)
        passed = first

    def read_parts(numbers: Sequence[int], count: int) -> Steps[EntryLists[tuple[int, int, bytes]]]:
        def pack_range(number: int, _: int) -> bytes:
            start = starts[numbers[number]]
            return pack_head(5, "ZRANGE", partitions[numbers[number]].viewed) + pack_tail(
                start, start + count - 1, "WITHSCORES"
            )

        found = yield from ask_each("popular", [partitions[number] for number in numbers], pack_range, 1)
        return [
            [[(-_views(score), number, item) for score, item in with_scores(reply)]]
            for number, (reply,) in zip(numbers, found, strict=True)
        ]

    found = yield from merged(read_parts, len(partitions), first - passed + limit)
    return [(item.decode(errors="replace"), -views) for views, _, item in found[first - passed :]]


def split_rank(rank: int) -> Steps[list[int]]:
    """
    Return how many of the ``rank`` most viewed items each partition has.

    A partition knows its own ranks only. So this searches for the number of views that an item needs to be among them.
    Of items with equal views at the edge, those of the first partitions are taken first.
    """
    partitions = keyspace().partitions
    if len(partitions) == 1 or rank == 0:
        return [rank] * len(partitions)
    # The score of an item is minus its views. All items are below 0. Items with at least 2 views are below -1.
    all_items = yield from _bound_at(0)
    if all_items.total <= rank:
        return all_items.counts
    low, high = (yield from _bound_at(-1)), all_items
    while low.total > rank:
        low, high = (yield from _bound_at(2 * low.score - 1)), low
    low, high = yield from bisect(_bound_at, rank, low, high)
    sure, candidates = low.counts, high.counts
    for number, count in enumerate(candidates):
        sure[number] += max(0, min(count - sure[number], rank - sum(sure)))
    return sure


def count_items(at_least: int) -> list[ScriptCall[ViewTotal]]:
    """Count each partition's items that have at least ``at_least`` views, and the views of all its items."""
    args = scripts.COUNT_ITEMS.arguments(at_least=at_least)
    return [_popularity_call(partition, scripts.COUNT_ITEMS, args, _total_in) for partition in keyspace().partitions]


def views_of(item: str) -> ScriptCall[int]:
    """Read how often ``item`` was viewed."""
    partition = keyspace().of_item(item)
    args = scripts.VIEW_COUNTS.arguments(items=[item])
    return _popularity_call(partition, scripts.VIEW_COUNTS, args, lambda reply: _views(reply[0] or 0))


def reset_items(items: Sequence[str]) -> list[ScriptCall[int]]:
    """Remove the view counts of these items, up to 250 a call. Each call returns how many views it removed."""
    script = scripts.RESET_COUNTS
    by_partition: dict[Partition, list[str]] = {}
    for item in dict.fromkeys(items):
        by_partition.setdefault(keyspace().of_item(item), []).append(item)
    return [
        _popularity_call(partition, script, script.arguments(items=some[at : at + AT_ONCE_MAX]), int)
        for partition, some in by_partition.items()
        for at in range(0, len(some), AT_ONCE_MAX)
    ]


def reset_all_items() -> list[ScriptCall[int]]:
    """Remove the view counts of each partition's items. Each call returns how many views it removed."""
    args = scripts.RESET_COUNTS.arguments(items=())
    return [_popularity_call(partition, scripts.RESET_COUNTS, args, int) for partition in keyspace().partitions]


def trim_items(keep: Sequence[int], *, limit: int) -> list[ScriptCall[tuple[int, int]]]:
    """
    Remove up to ``limit`` (250 at most) of each partition's least viewed items. ``keep`` says how many each one keeps.

    Each call returns how many items it removed, and how many are still too many.
    """
    script = scripts.TRIM_ITEMS
    return [
        _popularity_call(partition, script, script.arguments(keep=kept, limit=limit), tuple)
        for partition, kept in zip(keyspace().partitions, keep, strict=True)
    ]


def _bound_at(score: int) -> Steps[RankedScore]:
    partitions = keyspace().partitions
    end = pack_tail(f"({score}")

    def pack_count(number: int, _: int) -> bytes:
        return pack_head(4, "ZCOUNT", partitions[number].viewed, "-inf") + end

    found = yield from ask_each("popular", partitions, pack_count, 1)
    return RankedScore(score, [count for (count,) in found])


def _total_in(reply: Sequence[bytes | int]) -> ViewTotal:
    items, views, since = map(int, reply)
    return ViewTotal(items, views, time_of(since * 1000) if since else None)


def _popularity_call(partition: Partition, script: Script, args: Values, read: Callable[..., T]) -> ScriptCall[T]:
    return ScriptCall(partition, script, script.keys(partition, popularity=partition.viewed), args, read)


def _views(score: bytes | float) -> int:
    # Another program may have written anything.
    return -int(max(-VIEWS_MAX, min(float(score), VIEWS_MAX)))
