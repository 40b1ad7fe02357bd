"""
Lists of sessions: pages by last seen or by login time, counts, and the rows that lists show.

The functions return calls or steps, as in :mod:`django_redsess.session.operations`.

Several partitions are read together by plain commands. A script of each partition would take the server several times
as long. Scripts are used where sessions are due, since these have to be ended first; and far down a list, since a
client takes long to read thousands of entries.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NamedTuple, TypedDict, Unpack

from django_redsess.conf import conf
from django_redsess.session.client import Client, require_network
from django_redsess.session.encryption import KeyMissing
from django_redsess.session.other_store import sibling_stores
from django_redsess.session.record import RecordError, log_left_out, stored_client, unpack
from django_redsess.transport import packing, scripts
from django_redsess.transport.keys import Partition, is_sid, keyspace
from django_redsess.transport.packing import pack_head, pack_tail
from django_redsess.transport.partitions import EntryLists, Scored, ask_each, batches, merged, together, with_scores
from django_redsess.transport.steps import EndedSessions, ScriptCall, Steps, in_store, time_of

ACTIVE_SECONDS = 300
"""Who was seen in the last so many seconds is active."""

USERS_MAX = 1000
"""The most users whose sessions one call may count or list. Each user's list costs one read."""

SIDS_MAX = 1000
"""The most sessions that a request of the admin or the API can end by their sids."""

SAME_SIGN_IN_MAX = 10
"""So many sessions of a user that began in the same millisecond are found by that time."""

ROWS_MAX = 10_000
"""A list of several partitions has so many rows by rank: all of them are read up to the last one that is wanted."""

LISTED_AT_ONCE = 2_500
"""How many entries of a list one call reads, in a millisecond or two."""

PLAIN_MAX = 1_000
"""Up to this row, a page of several partitions is read by plain commands: the server has less to do."""

CONSIDERED_MAX = scripts.CONSTANTS["CONSIDERED_MAX"]
"""The most sign-ins of users that one call sorts. See ``of_users`` in ``lua/online.lua``."""


SIZE_STEP = 1024
"""In bytes. Sizes are told in whole steps."""

_SCORED = re.compile(rb"([0-9a-z]{2}[0-9A-Za-z._]{18}) (\S+)")

Guests = bool | Literal["only"]


def seconds_of_active() -> float:
    """Return the ``active_seconds`` of a filter that keeps active sessions."""
    # When a session was seen is rounded down to TOUCH_INTERVAL.
    return ACTIVE_SECONDS + conf.TOUCH_INTERVAL


class ClientFilters(TypedDict, total=False):
    """What a search says about the sender of the request that last saved a session."""

    network: str | None
    browser: str | None
    system: str | None


class SessionFilter(NamedTuple):
    """
    Which sessions to list, count or end. Without arguments: all signed-in sessions.

    ``user_ids`` keeps the sessions of these users: primary keys as text, at most 1 000. ``guests`` adds guests'
    sessions, and ``"only"`` lists no others; it has no effect with ``user_ids``. ``active_seconds`` keeps the sessions
    that were seen in the last so many seconds. ``network``, ``browser`` and ``system`` are about the request that last
    saved the session: see :func:`django_redsess.online.sessions`.
    """

    user_ids: tuple[str, ...] | None = None
    guests: Guests = False
    active_seconds: float | None = None
    network: str | None = None
    browser: str | None = None
    system: str | None = None

    @property
    def names_client(self) -> bool:
        """Whether it is about networks, browsers or systems. No list has these."""
        return not (self.network is None and self.browser is None and self.system is None)

    @property
    def of_any_client(self) -> SessionFilter:
        """The same filter without network, browser and system."""
        return self._replace(network=None, browser=None, system=None)

    @property
    def only_by_seen(self) -> bool:
        """Whether the only possible order is by last seen."""
        return self.active_seconds is not None or (self.guests and self.user_ids is None)

    def has_all_of(self, user_id: str) -> bool:
        """Tell whether all sessions of this user match."""
        some_only = self.names_client or self.active_seconds is not None
        return not some_only and (self.guests != "only" if self.user_ids is None else user_id in self.user_ids)

    def has_list(self, *, by_seen: bool) -> bool:
        """Tell whether sorted sets have the sessions in this order. Then a page is read by rank."""
        return self.user_ids is None or (len(self.user_ids) == 1 and not (by_seen or self.active_seconds))


def filter_of(
    user_ids: Sequence[str] | None,
    guests: Guests = False,
    active_seconds: float | None = None,
    **client: Unpack[ClientFilters],
) -> SessionFilter:
    """Return a filter. Raises ValueError as :func:`django_redsess.online.sessions` does, except for too many users."""
    if isinstance(user_ids, str):
        raise ValueError("user_ids must be a list of ids, not a text.")
    if active_seconds is not None and not active_seconds >= 0:
        raise ValueError(f"active_seconds must be 0 or more, not {active_seconds}.")
    if guests == "only" and user_ids is not None:
        raise ValueError("user_ids can't be given with guests='only': guests are not users.")
    if (network := client.get("network")) is not None:
        client["network"] = require_network(network).text
    return SessionFilter(None if user_ids is None else tuple(user_ids), guests, active_seconds, **client)


class ListRow(NamedTuple):
    """A session as a list shows it. ``created_at`` is None for a guest. ``record`` is packed."""

    sid: str
    created_at: datetime | None
    last_seen_at: datetime
    expires_at: datetime
    newest_item: str
    record: bytes


Page = tuple[list[tuple[float, bytes]], int, list[ListRow]]
"""The entries, score and member; how many of them were looked up; and the rows that were found."""


def count_each(session_filter: SessionFilter, *, listed: bool = False) -> list[ScriptCall[tuple[int, int]]]:
    """
    Count the sessions of each partition. Each call first ends up to 200 due sessions.

    Each returns how many there are, and the server's time in milliseconds.

    With both ``user_ids`` and ``active_seconds``, at most 5 000 sign-ins of a partition are counted. ``listed`` sets
    this limit for ``user_ids`` alone, too: it counts the sessions that :func:`page` can reach.
    """
    script, kind = scripts.COUNT, "" if session_filter.user_ids is None else "listed" if listed else "users"
    args = script.arguments(kind=kind, active=milliseconds(session_filter.active_seconds))
    return [
        ScriptCall(
            partition,
            script,
            script.keys(partition, lists=lists),
            args,
            lambda reply, _: (int(reply[0]), int(reply[1])),
        )
        for partition, lists in lists_of(session_filter)
    ]


def count_at(session_filter: SessionFilter, *, listed: bool = False) -> Steps[tuple[int, int]]:
    """
    Count the sessions of all partitions. Return the number, and the server's time in milliseconds.

    ``listed`` is as in :func:`count_each`.
    """
    counted = yield from together(count_each(session_filter, listed=listed))
    return sum(sessions for sessions, _ in counted), max((at for _, at in counted), default=0)


def read_entries(
    session_filter: SessionFilter, first: int, last: int, *, by_seen: bool, latest_first: bool, **how: bool
) -> list[ScriptCall[Page]]:
    """
    Read the entries from rank ``first`` to rank ``last`` (inclusive) of each partition, by last seen or by login time.

    Each call first ends up to 200 due sessions, unless ``keeps_due`` is set. ``with_rows`` also looks up sessions, as
    many as have a megabyte of records.
    """
    args = scripts.PAGE.arguments(
        order="" if session_filter.has_list(by_seen=by_seen) else "seen" if by_seen else "login",
        active=milliseconds(session_filter.active_seconds),
        first=first,
        last=last,
        latest_first=latest_first,
        **{"with_rows": False, "keeps_due": False, **how},
    )
    return [
        ScriptCall(partition, scripts.PAGE, scripts.PAGE.keys(partition, lists=names), args, page_in)
        for partition, names in lists_of(session_filter, by_seen=by_seen)
    ]


def find(sids: Sequence[str], *, due_too: bool = False) -> Steps[list[ListRow]]:
    """
    Look up sessions, in the order of ``sids``. Those that are gone are left out.

    Due ones are left out, too, unless ``due_too`` is set.
    """
    script, found = scripts.FIND, dict[str, ListRow]()
    left = list(batches(sids))
    while left:
        calls = [
            ScriptCall(
                partition, script, script.keys(partition), script.arguments(live_only=not due_too, sids=batch), _found
            )
            for partition, batch in left
        ]
        answers = yield from together(calls)
        found.update((row.sid, row) for _, rows in answers for row in rows)
        left = [
            (partition, batch[dealt_with:])
            for (partition, batch), (dealt_with, _) in zip(left, answers, strict=True)
            if dealt_with < len(batch)
        ]
    return [found[sid] for sid in sids if sid in found]


def lists_of(session_filter: SessionFilter, *, by_seen: bool | None = None) -> list[tuple[Partition, list[str]]]:
    """Return the sorted sets that list these sessions, by partition."""
    space = keyspace()
    if session_filter.user_ids is None:
        if session_filter.guests == "only":
            return [(partition, [partition.guests]) for partition in space.partitions]
        if session_filter.guests:
            return [(partition, [partition.recent, partition.guests]) for partition in space.partitions]
        if session_filter.only_by_seen or by_seen:
            return [(partition, [partition.recent]) for partition in space.partitions]
        return [(partition, [partition.online_user]) for partition in space.partitions]
    if len(session_filter.user_ids) > USERS_MAX:
        raise ValueError(f"At most {USERS_MAX} users can be asked for at once, not {len(session_filter.user_ids)}.")
    homes: dict[Partition, list[str]] = {}
    for user_id in dict.fromkeys(session_filter.user_ids):
        home = space.of_user(user_id)
        homes.setdefault(home, []).append(home.online_user_of(user_id))
    return list(homes.items())


def rows_end(session_filter: SessionFilter) -> bool:
    """Tell whether a list of these sessions by rank ends at ``ROWS_MAX``. It does so in several partitions."""
    return len(lists_of(session_filter)) > 1


def milliseconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds * 1000:.0f}"


def page_in(reply: list[Any], _: EndedSessions) -> Page:
    members, count, rows = reply
    found = [(float(score), member) for member, score in zip(members[::2], members[1::2], strict=True)]
    return found, count, [_row(row) for row in rows if is_sid(row[0].decode(errors="replace"))]


def _found(reply: list[Any]) -> tuple[int, list[ListRow]]:
    dealt_with, *rows = reply
    return dealt_with, [_row(row) for row in rows]


def _row(row: tuple[bytes, bytes, bytes, bytes, bytes, bytes]) -> ListRow:
    sid, created_at, last_seen_at, expires_at, item, record = row
    signed_in = time_of(created_at) if created_at else None
    newest_item = item.decode(errors="replace")
    return ListRow(sid.decode(), signed_in, time_of(last_seen_at), time_of(expires_at), newest_item, record)


def count(session_filter: SessionFilter, *, listed: bool = False) -> Steps[int]:
    """Count the sessions of all partitions. ``listed`` is as in :func:`django_redsess.online.listing.count_each`."""
    if session_filter.user_ids is None:
        lists = lists_of(session_filter)
        if len(lists) > 1:
            return sum(map(sum, (yield from Lists(session_filter, lists).counts())))
    return (yield from count_at(session_filter, listed=listed))[0]


def sids_of_sign_ins(sign_ins: Sequence[tuple[str, int]]) -> Steps[list[list[str]]]:
    """
    Return for each user id and login time in milliseconds the sids of that user's sessions with it. Due ones count.

    While sessions move from another store of this engine, they may be there.
    """
    found = yield from _sids_of_sign_ins(sign_ins)
    for store in sibling_stores():
        there = yield from in_store(store, _sids_of_sign_ins, sign_ins)
        found = [here or others for here, others in zip(found, there, strict=True)]
    return found


def _sids_of_sign_ins(sign_ins: Sequence[tuple[str, int]]) -> Steps[list[list[str]]]:
    partitions = [keyspace().of_user(user_id) for user_id, _ in sign_ins]

    def asked(number: int, at: int) -> bytes:
        user_id, login_ms = sign_ins[number]
        name = partitions[number].online_user_of(user_id)
        return packing.pack_command("ZRANGE", name, login_ms, login_ms, "BYSCORE", "LIMIT", 0, SAME_SIGN_IN_MAX)

    replies = yield from ask_each("sign_ins", partitions, asked, 1)
    return [sids_of((member,) for member in members) for [members] in replies]


@dataclass(frozen=True, slots=True)
class Lists:
    """
    The lists that :func:`lists_of` returns, unless they are those of several users.

    Each partition has as many of them, and all have scores of one kind.
    """

    session_filter: SessionFilter
    by_partition: Sequence[tuple[Partition, list[str]]]

    def counts(self) -> Steps[list[list[int]]]:
        """Count the sessions of each list. First end up to 200 due sessions of each partition."""

        def count(name: str, at: int) -> bytes:
            if self.session_filter.active_seconds is None:
                return pack_head(2, "ZCARD", name)
            return pack_head(4, "ZCOUNT", name) + pack_tail(self._since(at), "+inf")

        return (yield from self.ask(count, ends_due=True))

    def first(
        self, wanted: int, *, begin: int | None = None, latest_first: bool, ends_due: bool = True
    ) -> Steps[list[Scored]]:
        """
        Read the first ``wanted`` entries of all lists together.

        The scores are lower than ``begin``, or this or higher ones unless ``latest_first``. ``ends_due`` first ends up
        to 200 due sessions of each partition.
        """
        order, unread = ("REV",) if latest_first else (), ends_due

        def read(numbers: Sequence[int], count: int) -> Steps[EntryLists[Scored]]:
            nonlocal unread
            limit = pack_tail("BYSCORE", *order, "LIMIT", 0, count, "WITHSCORES")

            def entries(name: str, at: int) -> bytes:
                since = self._since(at)
                if latest_first:
                    ends = pack_tail("+inf" if begin is None else f"({begin}", since)
                elif begin is None:
                    ends = pack_tail(since, "+inf")
                else:
                    ends = pack_tail(begin if since == "-inf" else max(begin, int(since)), "+inf")
                return pack_head(9 + len(order), "ZRANGE", name) + ends + limit

            ends_due, unread = unread, False
            found = yield from self.ask(entries, numbers, ends_due=ends_due)
            return [[with_scores(reply) for reply in replies] for replies in found]

        return (yield from merged(read, len(self.by_partition), wanted, reverse=latest_first))

    def _since(self, at: int) -> str:
        active = self.session_filter.active_seconds
        return "-inf" if active is None else f"{at - active * 1000:.0f}"

    def ask(
        self, command: Callable[[str, int], bytes], numbers: Sequence[int] | None = None, *, ends_due: bool = False
    ) -> Steps[list[list[Any]]]:
        """
        Send for each list what ``command`` makes of its name and the server's time.

        ``numbers`` are those of the partitions, by default all. ``ends_due`` first ends up to 200 due sessions of each.
        """
        asked = range(len(self.by_partition)) if numbers is None else numbers
        lists = [self.by_partition[number] for number in asked]

        def commands(position: int, at: int) -> bytes:
            partition, names = lists[position]
            due = pack_head(4, "ZCOUNT", partition.expire, "-inf") + pack_tail(at) if ends_due else b""
            return b"".join([due, *(command(name, at) for name in names)])

        of_each = len(lists[0][1])
        found = yield from ask_each("page", [partition for partition, _ in lists], commands, ends_due + of_each)
        if not ends_due:
            return found
        late = [number for number, (due, *_) in zip(asked, found, strict=True) if due]
        results = {number: replies for number, (_, *replies) in zip(asked, found, strict=True)}
        if late:
            calls = count_each(self.session_filter)
            yield from together([calls[number] for number in late])
            results.update(zip(late, (yield from self.ask(command, late)), strict=True))
        return [results[number] for number in asked]


logger = logging.getLogger("django.security.SuspiciousSession")


def page(
    session_filter: SessionFilter, first: int, last: int, *, by_seen: bool, latest_first: bool
) -> Steps[list[ListRow]]:
    """
    Read the sessions from rank ``first`` to rank ``last`` (inclusive), by last seen or by login time.

    First ends up to 200 due sessions of each partition. If users' lists have to be sorted, at most the latest 5 000
    sign-ins of each partition can be reached. Of several partitions, all entries up to ``last`` are read.
    """
    lists = lists_of(session_filter, by_seen=by_seen)
    if not lists:
        return []
    if len(lists) == 1:
        [read] = read_entries(session_filter, first, last, by_seen=by_seen, latest_first=latest_first, with_rows=True)
        found, with_rows, rows = yield from read
        log_foreign(len(found) - len(sids_of(found)))
        return rows + (yield from find(sids_of(found[with_rows:]), due_too=True))
    if session_filter.has_list(by_seen=by_seen):
        if PLAIN_MAX <= last < ROWS_MAX:
            found = yield from read_as_text(session_filter, lists, last + 1, latest_first=latest_first)
        else:
            # Scripts would be sent for as many as are wanted, though there may be fewer.
            found = yield from Lists(session_filter, lists).first(last + 1, latest_first=latest_first)
    else:
        found = yield from of_users(session_filter, last, by_seen=by_seen, latest_first=latest_first)
    entries = found[first:]
    sids = sids_of(entries)
    log_foreign(len(entries) - len(sids))
    return (yield from find(sids, due_too=True))


def of_users(session_filter: SessionFilter, last: int, *, by_seen: bool, latest_first: bool) -> Steps[list[Scored]]:
    """Read the entries up to rank ``last`` of users' lists, which each partition puts in order."""
    partitions = len(lists_of(session_filter, by_seen=by_seen))

    def read(numbers: Sequence[int], count: int) -> Steps[EntryLists[Scored]]:
        # The first reading ends due sessions. If a second did, it would find other ranks.
        keeps_due = len(numbers) < partitions
        calls = read_entries(
            session_filter, 0, count - 1, by_seen=by_seen, latest_first=latest_first, keeps_due=keeps_due
        )
        found = yield from together([calls[number] for number in numbers])
        return [[entries] for entries, _, _ in found]

    return (yield from merged(read, partitions, last + 1, reverse=latest_first))


def read_as_text(
    session_filter: SessionFilter,
    lists: Sequence[tuple[Partition, list[str]]],
    wanted: int,
    *,
    latest_first: bool = True,
) -> Steps[list[Scored]]:
    """Read the first ``wanted`` entries of all lists together, by scripts: a client takes long to read thousands."""
    unread = True

    def read(numbers: Sequence[int], count: int) -> Steps[EntryLists[Scored]]:
        nonlocal unread
        keeps_due, unread = not unread, False
        asked = [lists[number] for number in numbers]
        how = {"with_scores": True, "latest_first": latest_first, "keeps_due": keeps_due}
        found = yield from texts(session_filter, asked, count, **how)
        return [[scored(text) for text in of_each] for of_each in found]

    return (yield from merged(read, len(lists), wanted, reverse=latest_first))


def texts(
    session_filter: SessionFilter,
    lists: Sequence[tuple[Partition, list[str]]],
    count: int,
    *,
    with_scores: bool,
    latest_first: bool = True,
    keeps_due: bool = False,
) -> Steps[list[list[bytes]]]:
    """Read the first ``count`` entries of each list, as one text. See ``newest`` in ``lua/online.lua``."""
    script, calls = scripts.NEWEST, list[ScriptCall[list[bytes]]]()
    for offset in range(0, count, LISTED_AT_ONCE):
        args = script.arguments(
            active=milliseconds(session_filter.active_seconds),
            offset=offset,
            count=min(LISTED_AT_ONCE, count - offset),
            latest_first=latest_first,
            with_scores=with_scores,
            # If a later call ended due sessions, it would find other ranks.
            keeps_due=keeps_due or offset > 0,
        )
        for partition, names in lists:
            calls.append(
                ScriptCall(partition, script, script.keys(partition, lists=names), args, lambda reply, _: reply)
            )
    found = yield from together(calls)
    separator = b" " if with_scores else b""
    return [
        [separator.join(parts) for parts in zip(*found[number :: len(lists)], strict=True)]
        for number in range(len(lists))
    ]


def scored(text: bytes) -> list[Scored]:
    """Return the entries in a text of sids and scores, with blanks between."""
    return [(float(score), sid) for sid, score in _SCORED.findall(text)]


def sids_of(entries: Iterable[tuple[Any, ...]]) -> list[str]:
    """Return the sids of ``entries``, each of which ends in its member. Another program may have written others."""
    members = (member.decode(errors="replace") for *_, member in entries)
    return [member for member in members if is_sid(member)]


def log_foreign(count: int) -> None:
    if count:
        logger.warning("A list of sessions has entries that are no session ids: %d.", count)


@dataclass(frozen=True, slots=True)
class Session:
    """
    A live session, without its data.

    ``user_id`` is the user's primary key as text, ``""`` for a guest or an unreadable record. ``created_at`` is the
    time of the sign-in, None for a guest. ``last_seen_at`` is the time of the last request, rounded down by up to
    ``TOUCH_INTERVAL``. ``expires_at`` is the deadline. All times are aware, in UTC. ``address`` and ``user_agent`` are
    those of the request that last saved the session, ``""`` if unknown. ``size`` is the size of the data before
    compression, in bytes, rounded up to whole KiB (1024 bytes); None for an unreadable record. ``newest_item`` is the
    item that the session viewed last, or ``""``.
    """

    sid: str
    user_id: str
    created_at: datetime | None
    last_seen_at: datetime
    expires_at: datetime
    address: str
    user_agent: str
    size: int | None
    newest_item: str


def rounded_size(size: int) -> int:
    """
    Return ``size`` rounded up to whole KiB: both are in bytes.

    Exact, it would tell ``true`` from ``false``. It must be the size of what is *not* compressed. That of a record,
    however rounded, would tell secrets: text that somebody puts beside one takes a byte less if it repeats a part of
    the secret, and filler makes that byte reach the next KiB.
    """
    return -(-size // SIZE_STEP) * SIZE_STEP


def sessions_of(rows: Iterable[ListRow], owners: Collection[str] | None = None) -> list[Session]:
    """Return the sessions of ``rows``; of the lists of certain users, ``owners``, only those that are theirs."""
    found = []
    for sid, created_at, last_seen_at, expires_at, newest_item, packed in rows:
        try:
            record = unpack(sid, packed)
            # Another program may have written to a user's list. A session is the user's only if its record says so.
            if owners is not None and record.user_id not in owners:
                raise RecordError("it is in the list of a user whose it is not")
            user_id, (address, user_agent) = record.user_id, stored_client(record)
            size = rounded_size(len(record.data))
        except (RecordError, KeyMissing) as error:
            log_left_out(sid, error)
            if owners is not None:
                continue
            user_id, (address, user_agent), size = "", Client(), None
        times = (created_at, last_seen_at, expires_at)
        found.append(Session(sid, user_id, *times, address, user_agent, size, newest_item))
    return found
