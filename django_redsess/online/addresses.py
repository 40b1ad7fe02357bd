"""The sessions of a network, by the index of addresses. See ``INDEX_ADDRESSES``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django_redsess.online import queries
from django_redsess.online.lists import Lists
from django_redsess.online.pages import NEAR_ENOUGH
from django_redsess.online.queries import SessionFilter
from django_redsess.session.networks import Network
from django_redsess.transport import scripts
from django_redsess.transport.bisection import Bound, bisect, guess_by_share, narrowed
from django_redsess.transport.keys import is_sid
from django_redsess.transport.merging import Parts, merged
from django_redsess.transport.packing import head, tail
from django_redsess.transport.steps import Call, Steps
from django_redsess.transport.together import Scored, ask_each, together, with_scores

READ_AT_ONCE = 2_500
"""How many entries of a list one call reads."""

_SCORED = re.compile(rb"([0-9a-z]{2}[0-9A-Za-z._]{18}) (\S+)")

Placed = tuple[float, int, bytes]
"""Place of the address, number of the list, sid."""


@dataclass(frozen=True, slots=True)
class AddressLists:
    """The lists of addresses, of which ``network`` is a range. ``counts`` are the sessions of each in that range."""

    lists: Lists
    network: Network
    counts: list[list[int]]

    @classmethod
    def read(cls, base: SessionFilter, network: Network) -> Steps[AddressLists]:
        """Count the sessions of ``network``. First end up to 200 due sessions of each partition."""
        partitions, names = zip(*queries.address_lists_of(base), strict=True)
        lists = Lists(base, list(partitions), list(names))
        ends = tail(network.first, network.last)
        counts = yield from lists.without_due(lambda name, _: head(4, "ZCOUNT", name) + ends, range(len(partitions)))
        return cls(lists, network, counts)

    @property
    def total(self) -> int:
        """How many sessions the network has."""
        return sum(map(sum, self.counts))

    def newest(self, *, by_seen: bool, since: float | None) -> Steps[list[str]]:
        """Read the sids, the latest first by sign-in or by last seen. ``since`` keeps those with no lower score."""
        others = [names for _, names in queries.lists_of(self.lists.session_filter, by_seen=by_seen)]
        found: list[Scored] = []
        for offset in range(0, max(map(max, self.counts)), READ_AT_ONCE):
            args = scripts.IN_NETWORK.arguments(
                first=self.network.first, last=self.network.last, offset=offset, count=READ_AT_ONCE
            )
            calls = []
            for partition, names, other_names, counts in zip(
                self.lists.partitions, self.lists.names, others, self.counts, strict=True
            ):
                if max(counts) > offset:
                    pairs = [name for pair in zip(names, other_names, strict=True) for name in pair]
                    keys = scripts.IN_NETWORK.keys(partition, lists=pairs)
                    calls.append(Call(partition, scripts.IN_NETWORK, keys, args, _entries))
            for entries in (yield from together(calls)):
                found += entries
        kept = {member: score for score, member in found if since is None or score >= since}
        return [sid.decode() for sid in sorted(kept, key=lambda sid: (kept[sid], sid), reverse=True)]

    def page(self, offset: int, limit: int) -> Steps[list[str]]:
        """Read the sids from rank ``offset`` on, in the order of their addresses."""
        before = tail("-inf", f"({self.network.first}")
        below = yield from self._ask(lambda name: head(4, "ZCOUNT", name) + before)
        skipped, surplus = [[0] * len(counts) for counts in self.counts], 0
        if offset:
            skipped, surplus = yield from self._search(offset, below)

        def read(numbers: Sequence[int], count: int) -> Steps[Parts[Placed]]:
            def commands(place: int, _: int) -> bytes:
                number = numbers[place]
                starts = map(sum, zip(below[number], skipped[number], strict=True))
                return b"".join(
                    head(5, "ZRANGE", name) + tail(start, start + count - 1, "WITHSCORES")
                    for name, start in zip(self.lists.names[number], starts, strict=True)
                )

            partitions = [self.lists.partitions[number] for number in numbers]
            found = yield from ask_each("page", partitions, commands, self.lists.of_each)
            return [
                [
                    [
                        (score, number * self.lists.of_each + each, member)
                        for score, member in with_scores(reply)
                        if score <= self.network.last
                    ]
                    for each, reply in enumerate(replies)
                ]
                for number, replies in zip(numbers, found, strict=True)
            ]

        entries = yield from merged(read, len(self.counts), limit + surplus)
        members = [member.decode(errors="replace") for _, _, member in entries[surplus:]]
        return [sid for sid in members if is_sid(sid)]

    def _search(self, rank: int, below: list[list[int]]) -> Steps[tuple[list[list[int]], int]]:
        """
        Search for the page that begins at this rank.

        Return how many entries of each list come before a place, and how many of the others come before the page.
        """
        of_each = self.lists.of_each
        flat = [count for counts in self.counts for count in counts]
        if len(flat) == 1:
            return [[rank]], 0

        def bound_at(score: int) -> Steps[Bound]:
            ends = tail(self.network.first, f"({score}")
            found = yield from self._ask(lambda name: head(4, "ZCOUNT", name) + ends)
            return Bound(score, [count for counts in found for count in counts])

        low, high = Bound(self.network.first, [0] * len(flat)), Bound(self.network.last + 1, flat)
        places = yield from self._near(rank, below)
        near = []
        for place in (min(places), max(places) + 1) if places else ():
            near.append((yield from bound_at(place)))
        low, high = narrowed(rank, low, high, near)
        low, high = yield from bisect(
            bound_at,
            rank,
            low,
            high,
            guess=guess_by_share(rank),
            near_enough=lambda low, _: rank - low.total <= NEAR_ENOUGH,
        )
        skipped, surplus = list(low.counts), rank - low.total
        if surplus > NEAR_ENOUGH:
            # So many sessions have one address. In each list they are in the order of their sids.
            for each, (first, end) in enumerate(zip(low.counts, high.counts, strict=True)):
                taken = min(surplus, end - first)
                skipped[each] += taken
                surplus -= taken
        return [skipped[at : at + of_each] for at in range(0, len(skipped), of_each)], surplus

    def _near(self, rank: int, below: list[list[int]]) -> Steps[list[int]]:
        """Return places near the page: that of the entry in each list before which is the list's share of ``rank``."""
        total = self.total

        def commands(number: int, _: int) -> bytes:
            ranks = [
                start + min(count - 1, rank * count // total) if count else -1
                for start, count in zip(below[number], self.counts[number], strict=True)
            ]
            # Nothing is at the rank after the last.
            return b"".join(
                head(5, "ZRANGE", name) + (tail(at, at, "WITHSCORES") if at >= 0 else tail(1, 0, "WITHSCORES"))
                for name, at in zip(self.lists.names[number], ranks, strict=True)
            )

        found = yield from ask_each("page", self.lists.partitions, commands, self.lists.of_each)
        scores = [with_scores(reply)[0][0] for replies in found for reply in replies if reply]
        return [int(score) for score in scores if self.network.first <= score <= self.network.last]

    def _ask(self, command: Any) -> Steps[list[list[Any]]]:
        def commands(number: int, _: int) -> bytes:
            return b"".join(command(name) for name in self.lists.names[number])

        return (yield from ask_each("page", self.lists.partitions, commands, self.lists.of_each))


def _entries(reply: list[bytes]) -> list[Scored]:
    return [entry for text in reply for entry in scored(text)]


def scored(text: bytes) -> list[Scored]:
    """Return the entries in a text of sids and scores, with blanks between."""
    return [(float(score), sid) for sid, score in _SCORED.findall(text)]
