"""
Searching by network, browser and operating system, and by whether a session is bound to a device.

No list has these, so the newest sessions are looked through. Of each, the server sends the first bytes of its record,
which tell who sent the last request, and whether the session is bound. Only of those that match is the seal checked. An
encrypted record tells the sender only when it is read whole and decrypted.
"""

from __future__ import annotations

import logging
import re
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from django_redsess.clock import monotonic
from django_redsess.online.browsers import is_browser, is_system
from django_redsess.online.listing import (
    Session,
    SessionFilter,
    count_in_lists,
    lists_of,
    milliseconds,
    page_calls,
    read_list_rows,
    sessions_of,
    sids_of,
)
from django_redsess.online.networks import network_set
from django_redsess.session.binding import names_device
from django_redsess.session.client import unpack_client
from django_redsess.session.encryption import KeyMissing
from django_redsess.session.record import RecordError, binding_id_in, checked, client_in, is_encrypted, unpack
from django_redsess.transport import scripts
from django_redsess.transport.keys import Partition, is_sid
from django_redsess.transport.partitions import EntryLists, Scored, batches, merged, together
from django_redsess.transport.steps import ScriptCall, Steps, drive

PACKED_CLIENT_MAX = 400
"""No client part is longer: a user agent has 256 bytes at most."""

IPV4_BYTES, IPV6_BYTES = 4, 16


class SearchMatcher:
    """The networks, the browser, the system and the binding that a search asks for."""

    def __init__(self, session_filter: SessionFilter) -> None:
        self.names_client, self.device_bound = session_filter.names_client, session_filter.device_bound
        self.networks = None if session_filter.networks is None else network_set(session_filter.networks)
        self.browser, self.system = session_filter.browser, session_filter.system
        # By packed user agent: whether it matches. No packed user agent is the beginning of another.
        self._agents: dict[bytes, bool] = {}

    def matches(self, session: Session) -> bool:
        """Tell whether the search asks for this session."""
        return self.device_bound in (None, session.device_bound) and self.matches_client(
            session.address, session.user_agent
        )

    def matches_client(self, address: str, user_agent: str) -> bool:
        """Tell whether the search asks for sessions of this client."""
        return (self.networks is None or self.networks.has(address)) and self._has_agent(user_agent)

    def matches_header(self, record: bytes) -> bool:
        """Tell whether the search asks for a session with this packed record, of which the header is enough."""
        return bool(record) and self.device_bound in (None, names_device(binding_id_in(record)))

    def matches_packed(self, client: bytes) -> bool:
        """
        Tell whether a session with this client part is asked for. See :attr:`Record.client_packed`.

        The record may be forged: False for a client part that can't be unpacked.
        """
        if not client or len(client) > PACKED_CLIENT_MAX:
            return False
        # Most are told apart by this. But a user agent may end in these bytes by chance.
        if self.networks and not any(self._has_address(client, length) for length in self.networks.lengths):
            return False
        for length in (IPV4_BYTES, IPV6_BYTES, 0):
            has_agent = self._agents.get(client[: len(client) - length])
            if has_agent is not None:
                return has_agent and self._has_address(client, length)
        try:
            address, user_agent = unpack_client(client)
        except (ValueError, OSError, zlib.error):
            return False
        length = (IPV6_BYTES if ":" in address else IPV4_BYTES) if address else 0
        has_agent = self._agents[client[: len(client) - length]] = self._has_agent(user_agent)
        return has_agent and self._has_address(client, length)

    def _has_address(self, client: bytes, length: int) -> bool:
        return self.networks is None or (length > 0 and self.networks.has_packed(client[-length:]))

    def _has_agent(self, user_agent: str) -> bool:
        return (self.browser is None or is_browser(user_agent, self.browser)) and (
            self.system is None or is_system(user_agent, self.system)
        )


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

_ENTRY = re.compile(rb"([0-9a-z]{2}[0-9A-Za-z._]{18}) (\S+)")
"""A sid and its score, in a text of many."""

logger = logging.getLogger("django.security.SuspiciousSession")


@dataclass(frozen=True, slots=True)
class LookedThrough:
    """How many sessions a search has looked through. ``is_all`` tells whether there were no others."""

    count: int
    is_all: bool


class SearchResult:
    """The sessions that a search has found: ``sids``, the latest first."""

    def __init__(self, matcher: SearchMatcher, sids: Sequence[str], looked_through: LookedThrough) -> None:
        self.matcher, self.sids, self.looked_through = matcher, sids, looked_through
        self.count = len(sids)

    def read_found(self, offset: int, limit: int, *, latest_first: bool) -> Steps[list[Session]]:
        """Read up to ``limit`` of the sessions, after leaving out ``offset``. Sessions that are gone are left out."""
        return (yield from self._read_matching(self._ordered(latest_first=latest_first)[offset : offset + limit]))

    def iterate_found(
        self, offset: int, limit: int, *, latest_first: bool, at_once: int = READ_AT_ONCE
    ) -> Iterator[list[Session]]:
        """Yield what :meth:`read_found` reads, up to ``at_once`` sessions a time."""
        sids = self._ordered(latest_first=latest_first)[offset : offset + limit]
        for start in range(0, len(sids), at_once):
            yield drive(self._read_matching(sids[start : start + at_once]))

    def _ordered(self, *, latest_first: bool) -> Sequence[str]:
        return self.sids if latest_first else self.sids[::-1]

    def _read_matching(self, sids: Sequence[str]) -> Steps[list[Session]]:
        found = sessions_of((yield from read_list_rows(sids, due_too=True)))
        # A session may have got another address or browser since the search.
        return [session for session in found if self.matcher.matches(session)]


def search(session_filter: SessionFilter, *, by_seen: bool = False) -> SearchResult:
    """Find the sessions that match: see :func:`find_matching`."""
    return drive(find_matching(session_filter, by_seen=by_seen))


def find_matching(session_filter: SessionFilter, *, by_seen: bool = False) -> Steps[SearchResult]:
    """
    Find the sessions that match, among the newest 10 000 by sign-in or by last seen.

    First ends up to 200 due sessions of each partition.
    """
    matcher, base = SearchMatcher(session_filter), session_filter.without_search
    newest = _newest_sids if base.user_ids is None else _newest_sids_of_users
    sids, is_all = yield from newest(base, by_seen=by_seen or base.only_by_seen)
    matches, looked = yield from _look_through(sids, matcher, base.user_ids)
    return SearchResult(matcher, matches, LookedThrough(looked, is_all=is_all and looked == len(sids)))


def _newest_sids(base: SessionFilter, *, by_seen: bool) -> Steps[tuple[list[str], bool]]:
    """Read the newest sids of a list. Return also whether these were all."""
    lists = lists_of(base, by_seen=by_seen)
    if len(lists) == 1 and len(lists[0][1]) == 1:
        [[text]] = yield from _newest_texts(base, lists, SCAN_LIMIT + 1, with_scores=False, ends_due=True)
        joined = text.decode(errors="replace")
        sids = [joined[at : at + 20] for at in range(0, len(joined), 20)]
        return [sid for sid in sids[:SCAN_LIMIT] if is_sid(sid)], len(sids) <= SCAN_LIMIT

    def read_newest(numbers: Sequence[int], count: int) -> Steps[EntryLists[Scored]]:
        asked = [lists[number] for number in numbers]
        # A second reading of some partitions must find the lists as the first has left them.
        is_first = len(asked) == len(lists)
        found = yield from _newest_texts(base, asked, count, with_scores=True, ends_due=is_first)
        return [[_entries_in(text) for text in texts] for texts in found]

    entries = yield from merged(read_newest, len(lists), SCAN_LIMIT + 1, reverse=True)
    return [sid.decode() for _, sid in entries[:SCAN_LIMIT]], len(entries) <= SCAN_LIMIT


def _newest_texts(
    base: SessionFilter,
    lists: Sequence[tuple[Partition, list[str]]],
    count: int,
    *,
    with_scores: bool,
    ends_due: bool,
) -> Steps[list[list[bytes]]]:
    """
    Read the newest ``count`` entries of each partition's ``lists``. Return one text a list.

    A text has the sids, or sids and scores. A client takes long to read thousands of entries: see ``newest`` in
    ``lua/online.lua``.
    """
    script, offsets = scripts.NEWEST, range(0, count, LISTED_AT_ONCE)

    def call(partition: Partition, names: list[str], offset: int) -> ScriptCall[list[bytes]]:
        args = script.arguments(
            active=milliseconds(base.active_seconds),
            offset=offset,
            count=min(LISTED_AT_ONCE, count - offset),
            with_scores=with_scores,
            # If a later call ended due sessions, it would find other ranks.
            keeps_due=not ends_due or offset > 0,
        )
        return ScriptCall(partition, script, script.keys(partition, lists=names), args, lambda texts, _: texts)

    replies = yield from together([call(*of_partition, offset) for of_partition in lists for offset in offsets])
    separator, of_each = b" " if with_scores else b"", len(offsets)
    # A partition has a reply for each offset, which has a part of the text of each list.
    by_partition = [replies[start : start + of_each] for start in range(0, len(replies), of_each)]
    return [[separator.join(parts) for parts in zip(*texts, strict=True)] for texts in by_partition]


def _entries_in(text: bytes) -> list[Scored]:
    return [(float(score), sid) for sid, score in _ENTRY.findall(text)]


def _newest_sids_of_users(base: SessionFilter, *, by_seen: bool) -> Steps[tuple[list[str], bool]]:
    total = yield from count_in_lists(base)
    pages = yield from together(page_calls(base, 0, SCAN_LIMIT - 1, by_seen=by_seen, latest_first=True, keeps_due=True))
    entries = sorted((entry for page in pages for entry in page.entries), reverse=True)[:SCAN_LIMIT]
    return sids_of(entries), total <= len(entries)


def _look_through(
    sids: Sequence[str], matcher: SearchMatcher, user_ids: Collection[str] | None
) -> Steps[tuple[list[str], int]]:
    """Return the sids that match, and how many were looked through: fewer than all if it takes too long."""
    matches, looked, unusable, until = list[str](), 0, 0, monotonic() + LOOKED_SECONDS
    for start in range(0, len(sids), LOOKED_AT_ONCE):
        records, looked_at = yield from _read_likely(sids[start : start + LOOKED_AT_ONCE], matcher, until)
        looked += looked_at
        for sid, record in records.items():
            try:
                if _is_genuine(sid, record, user_ids):
                    matches.append(sid)
            except (RecordError, KeyMissing):
                unusable += 1
        if monotonic() > until:
            break
    if unusable:
        logger.warning("A search has found records that are not usable: %d.", unusable)
    return matches, looked


def _read_likely(sids: Sequence[str], matcher: SearchMatcher, until: float) -> Steps[tuple[dict[str, bytes], int]]:
    """
    Return the records that match, whole and unchecked, and how many were looked at.

    The first bytes of each record are read. The whole is read only if these may match, and the record is longer.
    """
    heads = yield from _read_records(sids, until, cut_to=HEAD_BYTES)
    likely, looked = _likely(heads, matcher, until, cut_to=HEAD_BYTES)
    cut = [sid for sid, head in likely.items() if len(head) == HEAD_BYTES]
    if not cut:
        return likely, looked
    # Some have changed by now, and some are not read if there is no time.
    whole, looked_at = _likely((yield from _read_records(cut, until, cut_to=None)), matcher, until, cut_to=None)
    records = {sid: whole.get(sid) if len(head) == HEAD_BYTES else head for sid, head in likely.items()}
    return {sid: record for sid, record in records.items() if record is not None}, looked - len(cut) + looked_at


def _likely(
    records: Mapping[str, bytes], matcher: SearchMatcher, until: float, *, cut_to: int | None
) -> tuple[dict[str, bytes], int]:
    """
    Return the ``records`` that match, unchecked, and how many were looked at: at least the first few.

    A record that was cut and is encrypted counts as one of the client: it can't be decrypted before it is whole.
    """
    found: dict[str, bytes] = {}
    for number, (sid, record) in enumerate(records.items()):
        if number and number % TIMED_AT_ONCE == 0 and monotonic() > until:
            return found, number
        if not matcher.matches_header(record):
            continue
        if not matcher.names_client or (len(record) == cut_to and is_encrypted(record)):
            found[sid] = record
            continue
        try:
            client = client_in(sid, record)
        except (RecordError, KeyMissing):
            # The record is counted as unusable when it is checked.
            found[sid] = record
            continue
        if matcher.matches_packed(client):
            found[sid] = record
    return found, len(records)


def _is_genuine(sid: str, record: bytes, user_ids: Collection[str] | None) -> bool:
    # Raises RecordError if the seal does not fit.
    if user_ids is None:
        return bool(checked(sid, record))
    # Another program may have written to a user's list.
    return unpack(sid, record).user_id in user_ids


def _read_records(sids: Sequence[str], until: float, *, cut_to: int | None) -> Steps[dict[str, bytes]]:
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
            calls.append(ScriptCall(partition, script, script.keys(partition), args, _records_in))
        answers = yield from together(calls)
        asked, left = left, []
        for (partition, batch), records in zip(asked, answers, strict=True):
            found.update(zip(batch, records, strict=False))
            if len(records) < len(batch):
                left.append((partition, batch[len(records) :]))
    return {sid: found[sid] for sid in sids if sid in found}


def _records_in(reply: list[bytes]) -> list[bytes]:
    lengths, text = reply
    records, end = [], 0
    for length in map(int, lengths.split()):
        start, end = end, end + length
        records.append(text[start:end])
    return records
