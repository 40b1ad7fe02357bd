"""
Searching by network, browser and operating system.

No list has browsers and systems, and only ``INDEX_ADDRESSES`` makes one of networks. So the newest sessions are looked
through. Of each, the server sends the first bytes of its record, which tell who sent the last request. Only of those
that match is the seal checked.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from time import monotonic

from django_redsess.conf import conf
from django_redsess.online import queries
from django_redsess.online.addresses import AddressLists, scored
from django_redsess.online.clients import Wanted
from django_redsess.online.queries import Row, SessionFilter
from django_redsess.session import reading
from django_redsess.session.networks import Network, named_network
from django_redsess.session.partitions import batches
from django_redsess.session.record import RecordError, client_in, sealed_part, unpack
from django_redsess.transport import scripts
from django_redsess.transport.announcing import EndedSessions
from django_redsess.transport.keys import Partition, is_sid
from django_redsess.transport.merging import Parts, merged
from django_redsess.transport.steps import Call, Steps
from django_redsess.transport.together import Scored, together

LOOKED_MAX, LOOKED_AT_ONCE = 10_000, 5_000
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
        """How many there are."""
        return len(self.sids)

    def page(self, offset: int, limit: int, *, latest_first: bool) -> Steps[list[Row]]:
        """Read up to ``limit`` of the sessions, after leaving out ``offset``. Those that are gone are left out."""
        sids = self.sids if latest_first else self.sids[::-1]
        return (yield from queries.find(sids[offset : offset + limit], due_too=True))


class InAddressOrder(Matching):
    """The sessions of a network that has more than 10 000, in the order of their addresses. An index has them all."""

    def __init__(self, wanted: Wanted, lists: AddressLists) -> None:
        super().__init__(wanted, (), None)
        self._lists = lists

    @property
    def count(self) -> int:
        """How many there are."""
        return self._lists.total

    def page(self, offset: int, limit: int, *, latest_first: bool) -> Steps[list[Row]]:
        """Read up to ``limit`` of the sessions, after leaving out ``offset``. ``latest_first`` changes nothing."""
        sids = yield from self._lists.page(offset, limit)
        return (yield from queries.find(sids, due_too=True))


def matching(session_filter: SessionFilter, *, by_seen: bool = False) -> Steps[Matching]:
    """
    Find the sessions that match, among the newest 10 000 by sign-in or by last seen; or by the index of addresses.

    First ends up to 200 due sessions of each partition. Raises ValueError if the filter's network is none.
    """
    wanted, base = Wanted(session_filter), session_filter.of_any_client
    by_seen = by_seen or base.only_by_seen
    if wanted.network is not None and has_index(base):
        lists = yield from AddressLists.read(base, wanted.network)
        if range_of(session_filter) and lists.total > LOOKED_MAX:
            return InAddressOrder(wanted, lists)
        if lists.total <= LOOKED_MAX:
            return (yield from _in_network(session_filter, wanted, lists, by_seen=by_seen))
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
        since = (yield from reading.time()) - base.active_seconds * 1000
    sids = yield from lists.newest(by_seen=by_seen, since=since)
    if range_of(session_filter):
        return Matching(wanted, sids, None)
    matches, looked = yield from _look_through(sids, wanted, base)
    return Matching(wanted, matches, None if looked == len(sids) else LookedThrough(looked, is_all=False))


def _newest(base: SessionFilter, *, by_seen: bool) -> Steps[tuple[list[str], bool]]:
    """Read the newest sids of a list. Return also whether these were all."""
    if base.user_ids is not None:
        return (yield from _newest_of_users(base, by_seen=by_seen))
    lists = queries.lists_of(base, by_seen=by_seen)
    if len(lists) == 1 and len(lists[0][1]) == 1:
        [[text]] = yield from _newest_texts(base, lists, LOOKED_MAX + 1, with_scores=False)
        joined = text.decode(errors="replace")
        sids = [joined[at : at + 20] for at in range(0, len(joined), 20)]
        return [sid for sid in sids[:LOOKED_MAX] if is_sid(sid)], len(sids) <= LOOKED_MAX
    unread = True

    def read(numbers: Sequence[int], count: int) -> Steps[Parts[Scored]]:
        nonlocal unread
        keeps_due, unread = not unread, False
        asked = [lists[number] for number in numbers]
        found = yield from _newest_texts(base, asked, count, with_scores=True, keeps_due=keeps_due)
        return [[scored(text) for text in texts] for texts in found]

    found = yield from merged(read, len(lists), LOOKED_MAX + 1, reverse=True)
    return [member.decode() for _, member in found[:LOOKED_MAX]], len(found) <= LOOKED_MAX


def _newest_texts(
    base: SessionFilter,
    lists: Sequence[tuple[Partition, list[str]]],
    count: int,
    *,
    with_scores: bool,
    keeps_due: bool = False,
) -> Steps[list[list[bytes]]]:
    """Read up to ``count`` of the newest entries of each list, as one text. See ``newest`` in ``lua/online.lua``."""
    calls = [
        Call(
            partition,
            scripts.NEWEST,
            scripts.NEWEST.keys(partition, lists=names),
            scripts.NEWEST.arguments(
                active=queries.milliseconds(base.active_seconds),
                offset=offset,
                count=min(LISTED_AT_ONCE, count - offset),
                with_scores=with_scores,
                # If a later call ended due sessions, it would find other ranks.
                keeps_due=keeps_due or offset > 0,
            ),
            _texts,
        )
        for offset in range(0, count, LISTED_AT_ONCE)
        for partition, names in lists
    ]
    found = yield from together(calls)
    return [
        [
            b" ".join(parts) if with_scores else b"".join(parts)
            for parts in zip(*found[number :: len(lists)], strict=True)
        ]
        for number in range(len(lists))
    ]


def _newest_of_users(base: SessionFilter, *, by_seen: bool) -> Steps[tuple[list[str], bool]]:
    total, _ = yield from queries.census(base)
    calls = queries.entries(base, 0, LOOKED_MAX - 1, by_seen=by_seen, latest_first=True, keeps_due=True)
    parts = yield from together(calls)
    entries = sorted((entry for found, _, _ in parts for entry in found), reverse=True)
    members = [member.decode(errors="replace") for _, member in entries[:LOOKED_MAX]]
    return [sid for sid in members if is_sid(sid)], total <= len(members)


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
    found: dict[str, bytes] = {}
    left = list(batches(sids, READ_AT_ONCE))
    while left and (not found or monotonic() < until):
        calls = [
            Call(
                partition,
                scripts.READ_RECORDS,
                scripts.READ_RECORDS.keys(partition),
                scripts.READ_RECORDS.arguments(cut_to=cut_to, sids="".join(batch)),
                _records,
            )
            for partition, batch in left
        ]
        answers = yield from together(calls)
        rest = []
        for (partition, batch), records in zip(left, answers, strict=True):
            found.update(zip(batch, records, strict=False))
            if len(records) < len(batch):
                rest.append((partition, batch[len(records) :]))
        left = rest
    return {sid: found[sid] for sid in sids if sid in found}


def _records(reply: list[bytes]) -> list[bytes]:
    lengths, text = reply
    records, end = [], 0
    for length in map(int, lengths.split()):
        start, end = end, end + length
        records.append(text[start:end])
    return records


def _texts(reply: list[bytes], _: EndedSessions) -> list[bytes]:
    return reply
