"""
Several partitions, as steps.

:func:`together` asks several partitions in one round trip to each server. :func:`merged` reads a page of entries that
are spread over partitions, and :func:`bisect` finds a rank over all of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

from redis.exceptions import ResponseError

from django_redsess.transport import agreement, attempts, packing
from django_redsess.transport.connections import by_server, server_of
from django_redsess.transport.keys import Partition, keyspace
from django_redsess.transport.scripts import CONSTANTS, Script, Values
from django_redsess.transport.steps import ScriptCall, Steps, T, current_time


def on_each(script: Script, args: Values, read: Callable[..., T]) -> list[ScriptCall[T]]:
    """Return a call of ``script`` for each partition. ``read`` makes the result of a reply."""
    return [ScriptCall(partition, script, script.keys(partition), args, read) for partition in keyspace().partitions]


def batches(sids: Iterable[str], at_once: int = CONSTANTS["AT_ONCE_MAX"]) -> Iterator[tuple[Partition, list[str]]]:
    """Group ``sids`` by partition, in batches of up to ``at_once``."""
    space, groups = keyspace(), dict[int, list[str]]()
    if space.count == 1:
        groups[0] = list(dict.fromkeys(sids))
    else:
        for sid in dict.fromkeys(sids):
            groups.setdefault(space.number_of(sid), []).append(sid)
    for number, group in groups.items():
        for start in range(0, len(group), at_once):
            yield space.partitions[number], group[start : start + at_once]


class RankedScore(NamedTuple):
    """A score, and how many entries of each partition have a lower one."""

    score: int
    counts: list[int]

    @property
    def total(self) -> int:
        return sum(self.counts)


def bisect(
    bound_at: Callable[[int], Steps[RankedScore]], rank: int, low: RankedScore, high: RankedScore
) -> Steps[tuple[RankedScore, RankedScore]]:
    """
    Move ``low`` and ``high`` together until there is no score between them, and return them.

    The entry with ``rank`` (0 for the lowest score) always has the score ``low.score`` or a higher one, and a lower one
    than ``high.score``. ``bound_at`` asks the partitions about a score.
    """
    while high.score - low.score > 1:
        bound = yield from bound_at((low.score + high.score) // 2)
        if bound.total <= rank:
            low = bound
        else:
            high = bound
    return low, high


E = TypeVar("E", bound=tuple[Any, ...])
EntryLists = list[list[list[E]]]
"""The entries of some partitions, each of which may have several lists."""


def rows_per_partition(wanted: int, partitions: int) -> int:
    """Return how many entries to read from each partition for a page of ``wanted`` entries: a share and a margin."""
    mean = wanted / partitions
    # Rarely has one partition of 64 more than this of a page, if users are spread evenly.
    return min(wanted, math.ceil(mean + 3 * math.sqrt(mean) + 2))


def merged(
    read: Callable[[Sequence[int], int], Steps[EntryLists[E]]], partitions: int, wanted: int, *, reverse: bool = False
) -> Steps[list[E]]:
    """
    Return the first ``wanted`` entries of all lists. With ``reverse``, the last ones come first, in each list too.

    ``read`` takes numbers of partitions, and how many entries of each list to read at most. A list of which all entries
    belong to the page may have more of them. Its partition is read again, so far that the page is certain.
    """
    count = rows_per_partition(wanted, partitions)
    parts = yield from read(range(partitions), count)
    page = _merge_lists(parts, wanted, reverse)
    if count < wanted:

        def has_more(entries: list[E]) -> bool:
            if len(entries) < count or not page:
                return False
            return len(page) < wanted or (entries[-1] >= page[-1] if reverse else entries[-1] <= page[-1])

        short = [number for number, lists in enumerate(parts) if any(map(has_more, lists))]
        if short:
            # From the beginning: entries may have come and gone since.
            for number, lists in zip(short, (yield from read(short, wanted)), strict=True):
                parts[number] = lists
            page = _merge_lists(parts, wanted, reverse)
    return page


def _merge_lists(parts: EntryLists[E], wanted: int, reverse: bool) -> list[E]:
    return sorted((entry for lists in parts for entries in lists for entry in entries), reverse=reverse)[:wanted]


CLOCK_SLACK = 1000
"""Milliseconds by which the time in commands may differ from the time of their server."""

Scored = tuple[float, bytes]
"""An entry of a sorted set: score and member."""


def together(calls: Sequence[ScriptCall[T]]) -> Steps[list[T]]:
    """
    Send ``calls``, those to the same server in one pipeline. Return their results in the same order.

    The calls must be repeatable, without commands before their scripts. Raises what :class:`ScriptCall` raises.
    """
    if len(calls) == 1:
        return [(yield from calls[0])]
    results = dict[int, T]()
    yield from agreement.agree([call.partition for call in calls])
    waiting = list(range(len(calls)))
    while waiting:
        refused: list[int] = []
        for server, numbers in by_server([call.partition for call in calls], waiting).items():
            of_server = [calls[number] for number in numbers]
            packed = b"".join(packing.pack_script_call(call.script, call.keys, call.args) for call in of_server)
            tag, task = of_server[0].partition.tag, of_server[0].script.task
            answers = yield from attempts.fetch(server, tag, task, packed, len(of_server), 0)
            for number, answer in zip(numbers, answers, strict=True):
                if isinstance(answer, ResponseError):
                    refused.append(number)
                else:
                    results[number] = yield from calls[number].finished(answer)
        if not refused:
            break
        # One call learns why: the server does not know the script, or another server has the partition by now.
        first, *waiting = refused
        results[first] = yield from calls[first]
    return [results[number] for number in range(len(calls))]


def ask_each(
    name: str,
    partitions: Sequence[Partition],
    commands: Callable[[int, int], bytes],
    replies: int,
    needed: int | None = None,
    script: Script | None = None,
) -> Steps[list[list[Any]]]:
    """
    Ask each partition by plain commands, those to the same server in one pipeline. Return the replies of each.

    ``commands`` takes the number of a partition in ``partitions``, and the time of its server. It returns the packed
    commands. Each partition has so many ``replies``. The commands must be repeatable. An error among the first
    ``needed`` of a partition, by default among all, is raised; a later one is returned. ``name`` stands for what is
    asked, where it meets an outage. One of the commands may run ``script``. Raises what
    :class:`~django_redsess.transport.steps.Pipeline` raises.
    """
    found, needed = dict[int, list[Any]](), replies if needed is None else needed
    yield from agreement.agree(partitions)
    waiting = list(range(len(partitions)))
    while waiting:
        again: list[int] = []
        refused: list[int] = []
        for server, numbers in by_server(partitions, waiting).items():
            tag = partitions[numbers[0]].tag
            at = yield from current_time(partitions[numbers[0]])
            packed = b"".join([_TIME, *(commands(number, at) for number in numbers)])
            time, *answers = yield from attempts.fetch(server, tag, name, packed, 1 + replies * len(numbers), 0)
            if isinstance(time, ResponseError):
                refused += numbers
                continue
            if abs(server.clock.learn(time) - at) > CLOCK_SLACK:
                # The server's clock was set, or nobody has asked for long.
                again += numbers
                continue
            for position, number in enumerate(numbers):
                found[number] = answers[position * replies : (position + 1) * replies]
            if any(isinstance(answer, ResponseError) for answer in answers):
                refused += [number for number in numbers if _has_error(found[number][:needed])]
        waiting = again
        if refused:
            first, *others = refused
            waiting += others
            partition = partitions[first]
            packed, to = commands(first, (yield from current_time(partition))), server_of(partition)
            found[first] = yield from attempts.fetch(to, partition.tag, name, packed, replies, needed, script)
    return [found[number] for number in range(len(partitions))]


def with_scores(reply: list[Any]) -> list[Scored]:
    """Return the entries in a reply to a plain ``ZRANGE … WITHSCORES``, which has pairs in RESP3 only."""
    if reply and isinstance(reply[0], list):
        return [(score, member) for member, score in reply]
    return list(zip(map(float, reply[1::2]), reply[::2], strict=True))


_TIME = packing.pack_command("TIME")


def _has_error(replies: list[Any]) -> bool:
    return any(isinstance(reply, ResponseError) for reply in replies)
