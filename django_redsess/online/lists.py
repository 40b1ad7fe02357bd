"""
The lists of sessions of several partitions, read together by plain commands.

A script of each partition would take the server several times as long. The scripts are used only where sessions are
due, since these have to be ended first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from django_redsess.online import queries
from django_redsess.online.queries import SessionFilter
from django_redsess.session.reading import TIME_MAX
from django_redsess.transport.keys import Partition
from django_redsess.transport.packing import head, tail
from django_redsess.transport.steps import Steps
from django_redsess.transport.together import Scored, ask_each, together, with_scores

BEYOND = int(TIME_MAX) + 1
"""Higher than any time. As the end of a range, it stands for the end of a list, whatever another program wrote."""


def total(session_filter: SessionFilter, *, listed: bool = False) -> Steps[int]:
    """Count the sessions of all partitions. ``listed`` is as in :func:`django_redsess.online.queries.count`."""
    if session_filter.user_ids is None:
        lists = Lists.of(session_filter)
        if len(lists.partitions) > 1:
            counts = yield from lists.counts()
            return sum(map(sum, counts))
    counted, _ = yield from queries.census(session_filter, listed=listed)
    return counted


def text_of(score: int) -> str:
    """Return ``score`` as the end of a range."""
    return "+inf" if score >= BEYOND else "-inf" if score <= -BEYOND else f"{score}"


@dataclass(frozen=True, slots=True)
class Lists:
    """The lists of each partition. Each partition has as many of them, and all have scores of one kind."""

    session_filter: SessionFilter
    partitions: list[Partition]
    names: list[list[str]]

    @classmethod
    def of(cls, session_filter: SessionFilter, *, by_seen: bool | None = None) -> Lists:
        """Return the lists of these sessions, which are not those of certain users."""
        partitions, names = zip(*queries.lists_of(session_filter, by_seen=by_seen), strict=True)
        return cls(session_filter, list(partitions), list(names))

    @property
    def of_each(self) -> int:
        """How many lists a partition has."""
        return len(self.names[0])

    def counts(self) -> Steps[list[list[int]]]:
        """Count the sessions of each list. First end up to 200 due sessions of each partition."""
        if self.session_filter.active_seconds is None:
            return (yield from self.without_due(lambda name, _: head(2, "ZCARD", name), range(len(self.partitions))))

        def count(name: str, at: int) -> bytes:
            return head(4, "ZCOUNT", name) + tail(self._since(at), "+inf")

        return (yield from self.without_due(count, range(len(self.partitions))))

    def lower(self, scores: Sequence[int]) -> Steps[list[list[int]]]:
        """Return for each of ``scores`` how many sessions each partition has with a lower one."""
        ends = [tail(f"({text_of(score)}" if score < BEYOND else "+inf") for score in scores]

        def commands(number: int, at: int) -> bytes:
            since = tail(self._since(at))
            return b"".join([head(4, "ZCOUNT", name) + since + end for end in ends for name in self.names[number]])

        found = yield from ask_each("page", self.partitions, commands, len(scores) * self.of_each)
        width = self.of_each
        return [
            [sum(replies[place : place + width]) for replies in found] for place in range(0, len(scores) * width, width)
        ]

    def scores_at(self, ranks: Sequence[Sequence[int]]) -> Steps[list[list[float | None]]]:
        """Return the score of the entry with this rank of each list, from the highest score. None if there is none."""

        def commands(number: int, _: int) -> bytes:
            of_partition = zip(self.names[number], ranks[number], strict=True)
            return b"".join(
                [head(6, "ZRANGE", name) + tail(rank, rank, "REV", "WITHSCORES") for name, rank in of_partition]
            )

        found = yield from ask_each("page", self.partitions, commands, self.of_each)
        return [[with_scores(reply)[0][0] if reply else None for reply in replies] for replies in found]

    def read(
        self, numbers: Sequence[int], count: int, *, begin: int, latest_first: bool, ends_due: bool
    ) -> Steps[list[list[list[Scored]]]]:
        """
        Read up to ``count`` entries of each list of the partitions with these ``numbers``.

        The first has a lower score than ``begin``, or this or a higher one unless ``latest_first``. ``ends_due`` first
        ends up to 200 due sessions of each partition.
        """
        limit = tail("BYSCORE", *(("REV",) if latest_first else ()), "LIMIT", 0, count, "WITHSCORES")
        parts = 9 + latest_first

        def entries(name: str, at: int) -> bytes:
            since = self._since(at)
            if latest_first:
                return head(parts, "ZRANGE", name) + tail(f"({begin}" if begin < BEYOND else "+inf", since) + limit
            low = text_of(begin) if since == "-inf" else str(max(begin, int(since)))
            return head(parts, "ZRANGE", name) + tail(low, "+inf") + limit

        if ends_due:
            found = yield from self.without_due(entries, numbers)
        else:
            found = yield from self._ask(entries, numbers)
        return [[with_scores(reply) for reply in replies] for replies in found]

    def _since(self, at: int) -> str:
        active = self.session_filter.active_seconds
        return "-inf" if active is None else f"{at - active * 1000:.0f}"

    def _ask(self, command: Callable[[str, int], bytes], numbers: Sequence[int]) -> Steps[list[list[Any]]]:
        def commands(number: int, at: int) -> bytes:
            return b"".join([command(name, at) for name in self.names[numbers[number]]])

        partitions = [self.partitions[number] for number in numbers]
        return (yield from ask_each("page", partitions, commands, self.of_each))

    def without_due(self, command: Callable[[str, int], bytes], numbers: Sequence[int]) -> Steps[list[list[Any]]]:
        """Send ``command`` for each list, after ending up to 200 due sessions of each partition."""

        def commands(number: int, at: int) -> bytes:
            partition, names = self.partitions[numbers[number]], self.names[numbers[number]]
            due = head(4, "ZCOUNT", partition.expire, "-inf") + tail(at)
            return b"".join([due, *(command(name, at) for name in names)])

        partitions = [self.partitions[number] for number in numbers]
        found = yield from ask_each("page", partitions, commands, 1 + self.of_each)
        late = [number for number, (due, *_) in zip(numbers, found, strict=True) if due]
        results = {number: replies for number, (_, *replies) in zip(numbers, found, strict=True)}
        if late:
            calls = dict(zip(self.partitions, queries.count(self.session_filter), strict=True))
            yield from together([calls[self.partitions[number]] for number in late])
            results.update(zip(late, (yield from self._ask(command, late)), strict=True))
        return [results[number] for number in numbers]
