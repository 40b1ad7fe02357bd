"""
Searching by network, browser and operating system.

With ``INDEX_ADDRESSES``, the sessions of a network are found by the index of addresses. No list has browsers and
systems, so the newest sessions are looked through. Of each, the server sends the first bytes of its record, which tell
who sent the last request. Only of those that match is the seal checked. An encrypted record tells it only when it is
read whole and decrypted.
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import merge
from ipaddress import ip_network
from itertools import islice
from typing import Any

from django_redsess.clock import monotonic
from django_redsess.conf import conf
from django_redsess.online import listing
from django_redsess.online.browsers import is_browser, is_system
from django_redsess.online.listing import Lists, Session, SessionFilter
from django_redsess.session import reading
from django_redsess.session.address_index import Network, named_network
from django_redsess.session.compression import unpacked_client
from django_redsess.session.encryption import KeyMissing
from django_redsess.session.record import RecordError, checked, client_in, is_encrypted, unpack
from django_redsess.transport import packing, scripts
from django_redsess.transport.keys import Partition, is_sid
from django_redsess.transport.packing import pack_head, pack_tail
from django_redsess.transport.partitions import Scored, ask_each, batches, together, with_scores
from django_redsess.transport.steps import ScriptCall, Steps, drive


@dataclass(frozen=True, slots=True)
class AddressLists:
    """The lists of addresses, of which ``network`` is a range. ``counts`` are the sessions of each in that range."""

    lists: Lists
    network: Network
    counts: list[list[int]]

    @classmethod
    def read(cls, base: SessionFilter, network: Network) -> Steps[AddressLists]:
        """Count the sessions of ``network``. First end up to 200 due sessions of each partition."""
        lists = Lists(base, listing.address_lists_of(base))
        ends = pack_tail(network.first, network.last)
        counts = yield from lists.ask(lambda name, _: pack_head(4, "ZCOUNT", name) + ends, ends_due=True)
        return cls(lists, network, counts)

    @property
    def total(self) -> int:
        return sum(map(sum, self.counts))

    def newest(self, *, by_seen: bool, since: float | None) -> Steps[list[str]]:
        """Read the sids, the latest first by sign-in or by last seen. ``since`` keeps those with no lower score."""
        others = [names for _, names in listing.lists_of(self.lists.session_filter, by_seen=by_seen)]
        script, found = scripts.IN_NETWORK, list[Scored]()
        first, last = self.network.first, self.network.last
        for offset in range(0, max(map(max, self.counts)), listing.LISTED_AT_ONCE):
            args = script.arguments(first=first, last=last, offset=offset, count=listing.LISTED_AT_ONCE)
            calls = []
            for (partition, names), other_names, counts in zip(
                self.lists.by_partition, others, self.counts, strict=True
            ):
                if max(counts) > offset:
                    pairs = [name for pair in zip(names, other_names, strict=True) for name in pair]
                    keys = script.keys(partition, lists=pairs)
                    calls.append(
                        ScriptCall(partition, script, keys, args, lambda reply: listing.scored(b" ".join(reply)))
                    )
            for entries in (yield from together(calls)):
                found += entries
        kept = {member: score for score, member in found if since is None or score >= since}
        return [sid.decode() for sid in sorted(kept, key=lambda sid: (kept[sid], sid), reverse=True)]

    def page(self, offset: int, limit: int) -> Steps[list[str]]:
        """
        Read the sids from rank ``offset`` on, in the order of their addresses.

        Of several partitions, all before them are read, too.
        """
        first, last = self.network.first, self.network.last
        if len(self.lists.by_partition) == 1:
            [(partition, names)], script = self.lists.by_partition, scripts.PAGE
            ranks: dict[str, Any] = {"low": str(first), "first": offset, "last": offset + limit - 1}
            how = {"order": "", "active": "", "latest_first": False, "with_rows": False, "keeps_due": True}
            args, keys = script.arguments(**ranks, **how), script.keys(partition, lists=names)
            found, _, _ = yield from ScriptCall(partition, script, keys, args, listing.page_in)
        else:
            found = yield from self.lists.first(offset + limit, begin=first, latest_first=False, ends_due=False)
            found = found[offset:]
        return listing.sids_of(entry for entry in found if entry[0] <= last)

    def walk(self) -> Iterator[str]:
        """Yield all sids in the order of their addresses. None is left out because others end meanwhile."""
        lists = [(partition, name) for partition, names in self.lists.by_partition for name in names]
        for entry in merge(*(self._entries(partition, name) for partition, name in lists)):
            yield from listing.sids_of([entry])

    def _entries(self, partition: Partition, name: str) -> Iterator[Scored]:
        """Yield the entries of a list. Very many may have one address."""
        latest, passed = (float(self.network.first), b""), 0
        while True:
            skipped = max(0, passed - READ_AGAIN)
            limits = "BYSCORE", "LIMIT", skipped, listing.LISTED_AT_ONCE, "WITHSCORES"
            command = packing.pack_command("ZRANGE", name, str(latest[0]), self.network.last, *limits)
            [[reply]] = drive(ask_each("page", [partition], lambda *_, packed=command: packed, 1))
            found = with_scores(reply)
            if skipped and (not found or found[0] > latest):
                # More of this address have ended than are read again.
                passed = 0
                continue
            yield from (entry for entry in found if entry > latest)
            if len(found) < listing.LISTED_AT_ONCE:
                return
            score = found[-1][0]
            passed = sum(entry[0] == score for entry in found) + (skipped if score == latest[0] else 0)
            latest = max(latest, found[-1])


PACKED_CLIENT_MAX = 400
"""No client part is longer: a user agent has 256 bytes at most."""

IPV4_BYTES, IPV6_BYTES = 4, 16


class ClientMatcher:
    """
    The network, the browser and the system that a search asks for.

    Raises ValueError if the filter's network is none.
    """

    def __init__(self, session_filter: SessionFilter) -> None:
        self.network = None if session_filter.network is None else named_network(session_filter.network)
        self.browser, self.system = session_filter.browser, session_filter.system
        if self.network is not None:
            network = ip_network(self.network.text)
            self._address_bytes = network.max_prefixlen // 8
            self._shift = network.max_prefixlen - network.prefixlen
            self._begin = int(network.network_address) >> self._shift
        # Of each user agent, as packed: whether it is asked for. No packed one is the beginning of another.
        self._agents: dict[bytes, bool] = {}

    def matches(self, address: str, user_agent: str) -> bool:
        """Tell whether a session of this sender is asked for."""
        return (self.network is None or self.network.has(address)) and self._has_agent(user_agent)

    def matches_packed(self, client: bytes) -> bool:
        """
        Tell whether a session with this client part is asked for. See :attr:`Record.client_packed`.

        It may be that of a forged record: False if it can't be unpacked.
        """
        if not client or len(client) > PACKED_CLIENT_MAX:
            return False
        # Most are told apart by this. But a user agent may end in these bytes by chance.
        if self.network and int.from_bytes(client[-self._address_bytes :], "big") >> self._shift != self._begin:
            return False
        for length in (IPV4_BYTES, IPV6_BYTES, 0):
            has_agent = self._agents.get(client[: len(client) - length])
            if has_agent is not None:
                return has_agent and (self.network is None or length == self._address_bytes)
        try:
            address, user_agent = unpacked_client(client)
        except (ValueError, OSError, zlib.error):
            return False
        length = (IPV6_BYTES if ":" in address else IPV4_BYTES) if address else 0
        has_agent = self._agents[client[: len(client) - length]] = self._has_agent(user_agent)
        return has_agent and (self.network is None or length == self._address_bytes)

    def _has_agent(self, user_agent: str) -> bool:
        return (self.browser is None or is_browser(user_agent, self.browser)) and (
            self.system is None or is_system(user_agent, self.system)
        )


SCAN_LIMIT, LOOKED_AT_ONCE = 10_000, 5_000
"""A search looks through so many sessions, and so many at once: the newest, by sign-in or by last seen."""

READ_AGAIN = 250
"""Of sessions with one address, so many that were read are read again. If more have ended, all of them are."""

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
    The sessions that a search has found: ``sids``, the latest first.

    If they are those of a network with more than 10 000, ``lists`` has them, in the order of their addresses, and
    ``sids`` is empty. ``looked_through`` is None if an index had all.
    """

    def __init__(
        self,
        wanted: ClientMatcher,
        sids: Sequence[str],
        looked_through: LookedThrough | None = None,
        lists: AddressLists | None = None,
    ) -> None:
        self.wanted, self.sids, self.looked_through, self.lists = wanted, sids, looked_through, lists
        self.count = len(sids) if lists is None else lists.total

    def page(self, offset: int, limit: int, *, latest_first: bool) -> Steps[list[Session]]:
        """
        Read up to ``limit`` of the sessions, after leaving out ``offset``. Those that are gone are left out.

        ``latest_first`` changes nothing in the order of addresses.
        """
        if self.lists is None:
            return (yield from self._read(self._in_order(latest_first=latest_first)[offset : offset + limit]))
        return (yield from self._read((yield from self.lists.page(offset, limit))))

    def pages(
        self, offset: int, limit: int, *, latest_first: bool, at_once: int = READ_AT_ONCE
    ) -> Iterator[list[Session]]:
        """Yield what :meth:`page` reads, up to ``at_once`` sessions a time. Any number can be read like this."""
        sids = iter(self._in_order(latest_first=latest_first)) if self.lists is None else self.lists.walk()
        sids = islice(sids, offset, offset + limit)
        while batch := list(islice(sids, at_once)):
            yield drive(self._read(batch))

    def _in_order(self, *, latest_first: bool) -> Sequence[str]:
        return self.sids if latest_first else self.sids[::-1]

    def _read(self, sids: Sequence[str]) -> Steps[list[Session]]:
        found = listing.sessions_of((yield from listing.find(sids, due_too=True)))
        # A session may have got another address or browser since the search.
        return [session for session in found if self.wanted.matches(session.address, session.user_agent)]


def matching(session_filter: SessionFilter, *, by_seen: bool = False) -> Steps[Matching]:
    """
    Find the sessions that match, among the newest 10 000 by sign-in or by last seen; or by the index of addresses.

    First ends up to 200 due sessions of each partition. Raises ValueError if the filter's network is none.
    """
    wanted, base = ClientMatcher(session_filter), session_filter.of_any_client
    by_seen = by_seen or base.only_by_seen
    if wanted.network is not None and has_index(base):
        lists = yield from AddressLists.read(base, wanted.network)
        if lists.total <= SCAN_LIMIT:
            return (yield from _in_network(session_filter, wanted, lists, by_seen=by_seen))
        if range_of(session_filter):
            return Matching(wanted, (), lists=lists)
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
    session_filter: SessionFilter, wanted: ClientMatcher, lists: AddressLists, *, by_seen: bool
) -> Steps[Matching]:
    """Find the sessions that match among those of a network, which are not too many."""
    base, since = session_filter.of_any_client, None
    if base.active_seconds is not None:
        since = (yield from reading.read_time()) - base.active_seconds * 1000
    sids = yield from lists.newest(by_seen=by_seen, since=since)
    if range_of(session_filter):
        return Matching(wanted, sids)
    matches, looked = yield from _look_through(sids, wanted, base)
    return Matching(wanted, matches, None if looked == len(sids) else LookedThrough(looked, is_all=False))


def _newest(base: SessionFilter, *, by_seen: bool) -> Steps[tuple[list[str], bool]]:
    """Read the newest sids of a list. Return also whether these were all."""
    if base.user_ids is not None:
        return (yield from _newest_of_users(base, by_seen=by_seen))
    lists = listing.lists_of(base, by_seen=by_seen)
    if len(lists) == 1 and len(lists[0][1]) == 1:
        [[text]] = yield from listing.texts(base, lists, SCAN_LIMIT + 1, with_scores=False)
        joined = text.decode(errors="replace")
        sids = [joined[at : at + 20] for at in range(0, len(joined), 20)]
        return [sid for sid in sids[:SCAN_LIMIT] if is_sid(sid)], len(sids) <= SCAN_LIMIT
    found = yield from listing.read_as_text(base, lists, SCAN_LIMIT + 1)
    return [member.decode() for _, member in found[:SCAN_LIMIT]], len(found) <= SCAN_LIMIT


def _newest_of_users(base: SessionFilter, *, by_seen: bool) -> Steps[tuple[list[str], bool]]:
    total, _ = yield from listing.count_at(base)
    calls = listing.read_entries(base, 0, SCAN_LIMIT - 1, by_seen=by_seen, latest_first=True, keeps_due=True)
    parts = yield from together(calls)
    entries = sorted((entry for found, _, _ in parts for entry in found), reverse=True)[:SCAN_LIMIT]
    return listing.sids_of(entries), total <= len(entries)


def _look_through(sids: Sequence[str], wanted: ClientMatcher, base: SessionFilter) -> Steps[tuple[list[str], int]]:
    """Return those of ``sids`` that match, and how many were looked through: fewer if it takes too long."""
    matches, looked, unusable, until = list[str](), 0, 0, monotonic() + LOOKED_SECONDS
    for start in range(0, len(sids), LOOKED_AT_ONCE):
        asked = sids[start : start + LOOKED_AT_ONCE]
        heads = yield from _read(asked, until, cut_to=HEAD_BYTES)
        likely, seen = _likely(heads, wanted, until, cut_to=HEAD_BYTES)
        cut = [sid for sid, head in likely.items() if len(head) == HEAD_BYTES]
        if cut:
            # Some may have changed by now, and some are not read if there is no time.
            whole, seen_whole = _likely((yield from _read(cut, until, cut_to=None)), wanted, until, cut_to=None)
            likely = {
                sid: whole.get(sid, head) for sid, head in likely.items() if sid in whole or len(head) < HEAD_BYTES
            }
            looked -= len(cut) - seen_whole
        looked += seen
        for sid, record in likely.items():
            try:
                if _is_genuine(sid, record, base.user_ids):
                    matches.append(sid)
            except (RecordError, KeyMissing):
                unusable += 1
        if monotonic() > until:
            break
    if unusable:
        logger.warning("A search has found records that are not usable: %d.", unusable)
    return matches, looked


def _likely(
    records: Mapping[str, bytes], wanted: ClientMatcher, until: float, *, cut_to: int | None
) -> tuple[dict[str, bytes], int]:
    """
    Return those of ``records`` that match by what they say, and how many were looked at: at least the first few.

    One that was cut, and tells nothing before it is decrypted, may match.
    """
    found: dict[str, bytes] = {}
    for number, (sid, record) in enumerate(records.items()):
        if number and number % TIMED_AT_ONCE == 0 and monotonic() > until:
            return found, number
        if len(record) == cut_to and is_encrypted(record):
            found[sid] = record
            continue
        try:
            client = client_in(sid, record)
        except (RecordError, KeyMissing):
            # It is counted when it is checked.
            found[sid] = record
            continue
        if wanted.matches_packed(client):
            found[sid] = record
    return found, len(records)


def _is_genuine(sid: str, record: bytes, user_ids: Collection[str] | None) -> bool:
    # Raises RecordError if the seal does not fit.
    if user_ids is None:
        return bool(checked(sid, record))
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
            calls.append(ScriptCall(partition, script, script.keys(partition), args, _records))
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
