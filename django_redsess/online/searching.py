"""
Searching by network, browser and operating system.

With ``INDEX_ADDRESSES``, the sessions of a network are found by the index of addresses. No list has browsers and
systems, so the newest sessions are looked through. Of each, the server sends the first bytes of its record, which tell
who sent the last request. Only of those that match is the seal checked.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from django_redsess.clock import monotonic
from django_redsess.conf import conf
from django_redsess.online import listing
from django_redsess.online.listing import Lists, Session, SessionFilter
from django_redsess.online.user_agents import Wanted
from django_redsess.session import operations
from django_redsess.session.address_index import Network, named_network
from django_redsess.session.record import RecordError, client_in, sealed_part, unpack
from django_redsess.transport import scripts
from django_redsess.transport.keys import Partition, is_sid
from django_redsess.transport.packing import head, tail
from django_redsess.transport.partitions import (
    Bound,
    Parts,
    Scored,
    batches,
    bisect,
    guess_by_share,
    merged,
    narrowed,
    together,
)
from django_redsess.transport.steps import Call, Steps

_SCORED = re.compile(rb"([0-9a-z]{2}[0-9A-Za-z._]{18}) (\S+)")


NEAR_ENOUGH = 200
"""A search may stop this many ranks before its page. The surplus is read, which takes fewer steps."""


@dataclass(frozen=True, slots=True)
class AddressLists:
    """The lists of addresses, of which ``network`` is a range. ``counts`` are the sessions of each in that range."""

    lists: Lists
    network: Network
    counts: list[list[int]]

    @classmethod
    def read(cls, base: SessionFilter, network: Network) -> Steps[AddressLists]:
        """Count the sessions of ``network``. First end up to 200 due sessions of each partition."""
        lists = Lists.of(base, listing.address_lists_of(base))
        ends = tail(network.first, network.last)
        counts = yield from lists.ask(lambda name, _: head(4, "ZCOUNT", name) + ends, ends_due=True)
        return cls(lists, network, counts)

    @property
    def total(self) -> int:
        return sum(map(sum, self.counts))

    def newest(self, *, by_seen: bool, since: float | None) -> Steps[list[str]]:
        """Read the sids, the latest first by sign-in or by last seen. ``since`` keeps those with no lower score."""
        others = [names for _, names in listing.lists_of(self.lists.session_filter, by_seen=by_seen)]
        script, found = scripts.IN_NETWORK, list[Scored]()
        for offset in range(0, max(map(max, self.counts)), LISTED_AT_ONCE):
            args = script.arguments(
                first=self.network.first, last=self.network.last, offset=offset, count=LISTED_AT_ONCE
            )
            calls = []
            for partition, names, other_names, counts in zip(
                self.lists.partitions, self.lists.names, others, self.counts, strict=True
            ):
                if max(counts) > offset:
                    pairs = [name for pair in zip(names, other_names, strict=True) for name in pair]
                    keys = script.keys(partition, lists=pairs)
                    calls.append(Call(partition, script, keys, args, lambda reply: scored(b" ".join(reply))))
            for entries in (yield from together(calls)):
                found += entries
        kept = {member: score for score, member in found if since is None or score >= since}
        return [sid.decode() for sid in sorted(kept, key=lambda sid: (kept[sid], sid), reverse=True)]

    def page(self, offset: int, limit: int) -> Steps[list[str]]:
        """Read the sids from rank ``offset`` on, in the order of their addresses."""
        before = tail("-inf", f"({self.network.first}")
        below = yield from self.lists.ask(lambda name, _: head(4, "ZCOUNT", name) + before)
        skipped, surplus = [[0] * len(counts) for counts in self.counts], 0
        if offset:
            skipped, surplus = yield from self._search(offset, below)

        starts = [list(map(sum, zip(*both, strict=True))) for both in zip(below, skipped, strict=True)]
        last, of_each = self.network.last, self.lists.of_each

        def read(numbers: Sequence[int], count: int) -> Steps[Parts[tuple[float, int, bytes]]]:
            found = yield from self.lists.from_ranks(numbers, starts, count)
            # Equal addresses are in the order of their lists, as _search() leaves them out.
            return [
                [
                    [(score, number * of_each + each, member) for score, member in entries if score <= last]
                    for each, entries in enumerate(of_partition)
                ]
                for number, of_partition in zip(numbers, found, strict=True)
            ]

        entries = yield from merged(read, len(self.counts), limit + surplus)
        return listing.sids_of(entries[surplus:])

    def _search(self, rank: int, below: list[list[int]]) -> Steps[tuple[list[list[int]], int]]:
        """
        Search for the page that begins at this rank.

        Return how many entries of each list come before a score, and how many of the others come before the page.
        """
        of_each = self.lists.of_each
        flat = [count for counts in self.counts for count in counts]
        if len(flat) == 1:
            return [[rank]], 0

        def bound_at(score: int) -> Steps[Bound]:
            ends = tail(self.network.first, f"({score}")
            found = yield from self.lists.ask(lambda name, _: head(4, "ZCOUNT", name) + ends)
            return Bound(score, [count for counts in found for count in counts])

        low, high = Bound(self.network.first, [0] * len(flat)), Bound(self.network.last + 1, flat)
        scores = yield from self._near(rank, below)
        near = []
        for score in (min(scores), max(scores) + 1) if scores else ():
            near.append((yield from bound_at(score)))
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
        """Return scores near the page: that of the entry in each list before which is the list's share of ``rank``."""
        total, first, last = self.total, self.network.first, self.network.last
        ranks = [
            [start + max(0, min(count - 1, rank * count // total)) for start, count in zip(*both, strict=True)]
            for both in zip(below, self.counts, strict=True)
        ]
        found = yield from self.lists.from_ranks(range(len(ranks)), ranks)
        # A list without such a session has one of another network there.
        scores = [score for lists in found for entries in lists for score, _ in entries]
        return [int(score) for score in scores if first <= score <= last]


def scored(text: bytes) -> list[Scored]:
    """Return the entries in a text of sids and scores, with blanks between."""
    return [(float(score), sid) for sid, score in _SCORED.findall(text)]


SCAN_LIMIT, LOOKED_AT_ONCE = 10_000, 5_000
"""A search looks through so many sessions, and so many at once: the newest, by sign-in or by last seen."""

LISTED_AT_ONCE = 2_500
"""How many entries of a list one call reads, in a millisecond or two."""

READ_AT_ONCE = 1_000
"""How many records one call reads. Less than a millisecond, or two if they are not in the processor's cache."""

HEAD_BYTES = 704
"""These first bytes of a record have its header and who sent the last request. Most records are not longer."""

LOOKED_SECONDS, TIMED_AT_ONCE = 1, 100
"""A search stops after this time, however many it has looked through. It looks at the time after so many records."""

logger = logging.getLogger("django.security.SuspiciousSession")


@dataclass(frozen=True, slots=True)
class LookedThrough:
    """How many sessions a search has looked through. ``is_all`` tells whether there were no others."""

    count: int
    is_all: bool


class Matching:
    """
    The sessions that a search has found, the latest first.

    ``looked_through`` is None if an index had them all.
    """

    def __init__(self, wanted: Wanted, sids: Sequence[str], looked_through: LookedThrough | None) -> None:
        self.wanted, self.sids, self.looked_through = wanted, sids, looked_through

    @property
    def count(self) -> int:
        return len(self.sids)

    def page(self, offset: int, limit: int, *, latest_first: bool) -> Steps[list[Session]]:
        """Read up to ``limit`` of the sessions, after leaving out ``offset``. Those that are gone are left out."""
        sids = self.sids if latest_first else self.sids[::-1]
        return (yield from self._read(sids[offset : offset + limit]))

    def _read(self, sids: Sequence[str]) -> Steps[list[Session]]:
        found = listing.sessions_of((yield from listing.find(sids, due_too=True)))
        # A session may have got another address or browser since the search.
        return [session for session in found if self.wanted.has(session.address, session.user_agent)]


class InAddressOrder(Matching):
    """The sessions of a network that has more than 10 000, in the order of their addresses. An index has them all."""

    def __init__(self, wanted: Wanted, lists: AddressLists) -> None:
        super().__init__(wanted, (), None)
        self._lists = lists

    @property
    def count(self) -> int:
        return self._lists.total

    def page(self, offset: int, limit: int, *, latest_first: bool) -> Steps[list[Session]]:
        """Read up to ``limit`` of the sessions, after leaving out ``offset``. ``latest_first`` changes nothing."""
        return (yield from self._read((yield from self._lists.page(offset, limit))))


def matching(session_filter: SessionFilter, *, by_seen: bool = False) -> Steps[Matching]:
    """
    Find the sessions that match, among the newest 10 000 by sign-in or by last seen; or by the index of addresses.

    First ends up to 200 due sessions of each partition. Raises ValueError if the filter's network is none.
    """
    wanted, base = Wanted(session_filter), session_filter.of_any_client
    by_seen = by_seen or base.only_by_seen
    if wanted.network is not None and has_index(base):
        lists = yield from AddressLists.read(base, wanted.network)
        if lists.total <= SCAN_LIMIT:
            return (yield from _in_network(session_filter, wanted, lists, by_seen=by_seen))
        if range_of(session_filter):
            return InAddressOrder(wanted, lists)
    sids, is_all = yield from _newest(base, by_seen=by_seen)
    matches, looked = yield from _look_through(sids, wanted, base)
    return Matching(wanted, matches, LookedThrough(looked, is_all=is_all and looked == len(sids)))


def has_index(base: SessionFilter) -> bool:
    """Tell whether an index has the addresses of these sessions."""
    return conf.INDEX_ADDRESSES and base.user_ids is None


def range_of(session_filter: SessionFilter) -> Network | None:
    """Return the network whose range of the index is what matches. None if there is no such range."""
    if session_filter.network is None or not has_index(session_filter):
        return None
    asks_more = session_filter.of_any_client._replace(network=session_filter.network) != session_filter
    network = named_network(session_filter.network)
    return network if network.is_exact and session_filter.active_seconds is None and not asks_more else None


def _in_network(
    session_filter: SessionFilter, wanted: Wanted, lists: AddressLists, *, by_seen: bool
) -> Steps[Matching]:
    """Find the sessions that match among those of a network, which are not too many."""
    base, since = session_filter.of_any_client, None
    if base.active_seconds is not None:
        since = (yield from operations.time()) - base.active_seconds * 1000
    sids = yield from lists.newest(by_seen=by_seen, since=since)
    if range_of(session_filter):
        return Matching(wanted, sids, None)
    matches, looked = yield from _look_through(sids, wanted, base)
    return Matching(wanted, matches, None if looked == len(sids) else LookedThrough(looked, is_all=False))


def _newest(base: SessionFilter, *, by_seen: bool) -> Steps[tuple[list[str], bool]]:
    """Read the newest sids of a list. Return also whether these were all."""
    if base.user_ids is not None:
        return (yield from _newest_of_users(base, by_seen=by_seen))
    lists = listing.lists_of(base, by_seen=by_seen)
    if len(lists) == 1 and len(lists[0][1]) == 1:
        [[text]] = yield from _newest_texts(base, lists, SCAN_LIMIT + 1, with_scores=False)
        joined = text.decode(errors="replace")
        sids = [joined[at : at + 20] for at in range(0, len(joined), 20)]
        return [sid for sid in sids[:SCAN_LIMIT] if is_sid(sid)], len(sids) <= SCAN_LIMIT
    unread = True

    def read(numbers: Sequence[int], count: int) -> Steps[Parts[Scored]]:
        nonlocal unread
        keeps_due, unread = not unread, False
        asked = [lists[number] for number in numbers]
        found = yield from _newest_texts(base, asked, count, with_scores=True, keeps_due=keeps_due)
        return [[scored(text) for text in texts] for texts in found]

    found = yield from merged(read, len(lists), SCAN_LIMIT + 1, reverse=True)
    return [member.decode() for _, member in found[:SCAN_LIMIT]], len(found) <= SCAN_LIMIT


def _newest_texts(
    base: SessionFilter,
    lists: Sequence[tuple[Partition, list[str]]],
    count: int,
    *,
    with_scores: bool,
    keeps_due: bool = False,
) -> Steps[list[list[bytes]]]:
    """Read up to ``count`` of the newest entries of each list, as one text. See ``newest`` in ``lua/online.lua``."""
    script, calls = scripts.NEWEST, list[Call[list[bytes]]]()
    for offset in range(0, count, LISTED_AT_ONCE):
        args = script.arguments(
            active=listing.milliseconds(base.active_seconds),
            offset=offset,
            count=min(LISTED_AT_ONCE, count - offset),
            with_scores=with_scores,
            # If a later call ended due sessions, it would find other ranks.
            keeps_due=keeps_due or offset > 0,
        )
        for partition, names in lists:
            calls.append(Call(partition, script, script.keys(partition, lists=names), args, lambda reply, _: reply))
    found = yield from together(calls)
    separator = b" " if with_scores else b""
    return [
        [separator.join(parts) for parts in zip(*found[number :: len(lists)], strict=True)]
        for number in range(len(lists))
    ]


def _newest_of_users(base: SessionFilter, *, by_seen: bool) -> Steps[tuple[list[str], bool]]:
    total, _ = yield from listing.census(base)
    calls = listing.read_entries(base, 0, SCAN_LIMIT - 1, by_seen=by_seen, latest_first=True, keeps_due=True)
    parts = yield from together(calls)
    entries = sorted((entry for found, _, _ in parts for entry in found), reverse=True)[:SCAN_LIMIT]
    return listing.sids_of(entries), total <= len(entries)


def _look_through(sids: Sequence[str], wanted: Wanted, base: SessionFilter) -> Steps[tuple[list[str], int]]:
    """Return those of ``sids`` that match, and how many were looked through: fewer if it takes too long."""
    matches, looked, unusable, until = list[str](), 0, 0, monotonic() + LOOKED_SECONDS
    for start in range(0, len(sids), LOOKED_AT_ONCE):
        asked = sids[start : start + LOOKED_AT_ONCE]
        heads = yield from _read(asked, until, cut_to=HEAD_BYTES)
        likely, seen = _likely(heads, wanted, until)
        cut = [sid for sid, head in likely.items() if len(head) == HEAD_BYTES]
        if cut:
            # Some may have changed by now, and some are not read if there is no time.
            whole, seen_whole = _likely((yield from _read(cut, until, cut_to=None)), wanted, until)
            likely |= whole
            looked -= len(cut) - seen_whole
        looked += seen
        for sid, record in likely.items():
            try:
                if _is_genuine(sid, record, base.user_ids):
                    matches.append(sid)
            except RecordError:
                # The seal does not fit a record that was read in part, which is no fault.
                unusable += len(record) != HEAD_BYTES
        if monotonic() > until:
            break
    if unusable:
        logger.warning("A search has found records that are not usable: %d.", unusable)
    return matches, looked


def _likely(records: Mapping[str, bytes], wanted: Wanted, until: float) -> tuple[dict[str, bytes], int]:
    """Return those of ``records`` that match by what they say, and how many were looked at: at least the first few."""
    found: dict[str, bytes] = {}
    for number, (sid, record) in enumerate(records.items()):
        if number and number % TIMED_AT_ONCE == 0 and monotonic() > until:
            return found, number
        if wanted.has_packed(client_in(record)):
            found[sid] = record
    return found, len(records)


def _is_genuine(sid: str, record: bytes, user_ids: Collection[str] | None) -> bool:
    # Raises RecordError if the seal does not fit.
    if user_ids is None:
        return bool(sealed_part(sid, record))
    # Another program may have written to a user's list.
    return unpack(sid, record).user_id in user_ids


def _read(sids: Sequence[str], until: float, *, cut_to: int | None) -> Steps[dict[str, bytes]]:
    """
    Read the records of ``sids``, or their first bytes: at least some of them, then as many as there is time for.

    They come in the order of ``sids``. ``b""`` stands for one that is gone.
    """
    script, found = scripts.READ_RECORDS, dict[str, bytes]()
    left = list(batches(sids, READ_AT_ONCE))
    while left and (not found or monotonic() < until):
        calls = []
        for partition, batch in left:
            args = script.arguments(cut_to=cut_to, sids="".join(batch))
            calls.append(Call(partition, script, script.keys(partition), args, _records))
        answers = yield from together(calls)
        asked, left = left, []
        for (partition, batch), records in zip(asked, answers, strict=True):
            found.update(zip(batch, records, strict=False))
            if len(records) < len(batch):
                left.append((partition, batch[len(records) :]))
    return {sid: found[sid] for sid in sids if sid in found}


def _records(reply: list[bytes]) -> list[bytes]:
    lengths, text = reply
    records, end = [], 0
    for length in map(int, lengths.split()):
        start, end = end, end + length
        records.append(text[start:end])
    return records
