"""
Lists of sessions: pages by last seen or by login time, counts, and the rows that lists show.

The functions return calls or steps, as in :mod:`django_redsess.session.operations`. Those at the end of the file run
them, for pages and commands.

Several partitions are read together by plain commands. A script of each partition would take the server several times
as long. Scripts are used where sessions are due, since these have to be ended first, and where a partition has to sort
the sessions of several users.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, NamedTuple, TypedDict, Unpack, get_args

from django_redsess.conf import conf
from django_redsess.online.networks import Networks, require_networks
from django_redsess.session.binding import names_device
from django_redsess.session.client import Client
from django_redsess.session.encryption import KeyMissing
from django_redsess.session.other_store import other_store
from django_redsess.session.record import RecordError, log_left_out, stored_client, unpack
from django_redsess.transport import scripts
from django_redsess.transport.keys import Partition, is_sid, keyspace
from django_redsess.transport.packing import pack_head, pack_tail
from django_redsess.transport.partitions import EntryLists, Scored, ask_each, batches, merged, together, with_scores
from django_redsess.transport.steps import EndedSessions, ScriptCall, Steps, drive, ms_in, time_of

logger = logging.getLogger("django.security.SuspiciousSession")

ACTIVE_SECONDS = 300
"""A session that was seen in the last so many seconds is active."""

USERS_MAX = 1000
"""The most users whose sessions one call may count or list. Each user's list costs one read."""

SIDS_MAX = 1000
"""The most sessions that a request of the admin or the API can end by their sids."""

ROWS_MAX = 10_000
"""The most rows by rank in several partitions: each page reads all rows before it, too."""

CONSIDERED_MAX = scripts.CONSTANTS["CONSIDERED_MAX"]
"""The most sign-ins of users that one call sorts. See ``of_users`` in ``lua/online.lua``."""

SIZE_STEP = 1024
"""In bytes. Sizes are rounded up to whole steps."""

Guests = bool | Literal["only"]

Order = Literal["created_at", "-created_at", "last_seen_at", "-last_seen_at"]


def seconds_of_active() -> float:
    """Return the ``active_seconds`` of a filter that keeps active sessions."""
    # The time when a session was seen is rounded down to TOUCH_INTERVAL.
    return ACTIVE_SECONDS + conf.TOUCH_INTERVAL


class SearchFilters(TypedDict, total=False):
    """The filters by what only a session's record has: the client that last saved it, and the binding."""

    network: str | Sequence[str] | None
    browser: str | None
    system: str | None
    device_bound: bool | None


class SessionFilter(NamedTuple):
    """
    Which sessions to list, count or end. Without arguments: all signed-in sessions.

    ``user_ids`` keeps the sessions of these users: primary keys as text, at most 1 000. ``guests`` adds guests'
    sessions, and ``"only"`` lists no others; it has no effect with ``user_ids``. ``active_seconds`` keeps the sessions
    that were seen in the last so many seconds. ``networks``, ``browser`` and ``system`` are about the request that last
    saved the session, and ``device_bound`` keeps those that are bound to a device, or are not: see
    :func:`django_redsess.online.sessions`.
    """

    user_ids: tuple[str, ...] | None = None
    guests: Guests = False
    active_seconds: float | None = None
    networks: Networks | None = None
    browser: str | None = None
    system: str | None = None
    device_bound: bool | None = None

    @property
    def names_client(self) -> bool:
        """Whether the filter is about networks, browsers or systems."""
        return not (self.networks is None and self.browser is None and self.system is None)

    @property
    def needs_search(self) -> bool:
        """Whether the filter is about what no list has: networks, browsers, systems, bindings."""
        return self.names_client or self.device_bound is not None

    @property
    def without_search(self) -> SessionFilter:
        """The same filter without what has to be searched for."""
        return self._replace(networks=None, browser=None, system=None, device_bound=None)

    @property
    def only_by_seen(self) -> bool:
        """Whether the only possible order is by last seen."""
        return self.active_seconds is not None or (self.guests and self.user_ids is None)

    def has_all_of(self, user_id: str) -> bool:
        """Tell whether all sessions of this user match."""
        some_only = self.needs_search or self.active_seconds is not None
        return not some_only and (self.guests != "only" if self.user_ids is None else user_id in self.user_ids)

    def has_list(self, *, by_seen: bool) -> bool:
        """Tell whether sorted sets have the sessions in this order. Then a page is read by rank."""
        return self.user_ids is None or (len(self.user_ids) == 1 and not (by_seen or self.active_seconds))


def filter_of(
    user_ids: Sequence[str] | None,
    guests: Guests = False,
    active_seconds: float | None = None,
    **searched: Unpack[SearchFilters],
) -> SessionFilter:
    """Return a filter. Raises ValueError as :func:`django_redsess.online.sessions` does, except for too many users."""
    if isinstance(user_ids, str):
        raise ValueError("user_ids must be a list of ids, not a text.")
    if active_seconds is not None and not active_seconds >= 0:
        raise ValueError(f"active_seconds must be 0 or more, not {active_seconds}.")
    if guests == "only" and user_ids is not None:
        raise ValueError("user_ids can't be given with guests='only': guests are not users.")
    network = searched.get("network")
    return SessionFilter(
        None if user_ids is None else tuple(user_ids),
        guests,
        active_seconds,
        None if network is None else require_networks(network),
        searched.get("browser"),
        searched.get("system"),
        searched.get("device_bound"),
    )


class ListRow(NamedTuple):
    """A session as a list shows it. ``created_at`` is None for a guest. ``record`` is packed."""

    sid: str
    created_at: datetime | None
    last_seen_at: datetime
    expires_at: datetime
    newest_item: str
    record: bytes


class Position(NamedTuple):
    """The position of a session in a list: its time in milliseconds, and its sid among those with the same time."""

    score: int
    sid: str


class PageReply(NamedTuple):
    """Entries of a list. The first ``looked_up`` of them were looked up: ``rows`` has the sessions that were there."""

    entries: list[Scored]
    looked_up: int
    rows: list[ListRow]


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


def count_calls(session_filter: SessionFilter, *, listed: bool = False) -> list[ScriptCall[tuple[int, int]]]:
    """
    Count the sessions of each partition. Each call first ends up to 200 due sessions.

    Each returns how many there are, and the server's time in milliseconds.

    With both ``user_ids`` and ``active_seconds``, at most 5 000 sign-ins of a partition are counted. ``listed`` sets
    this limit for ``user_ids`` alone, too: it counts the sessions that :func:`read_page` can reach.
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


def count_in_lists(session_filter: SessionFilter, *, listed: bool = False) -> Steps[int]:
    """Count the sessions of all partitions. ``listed`` is as in :func:`count_calls`."""
    if session_filter.user_ids is None:
        lists = lists_of(session_filter)
        if len(lists) > 1:
            return sum(map(sum, (yield from Lists(session_filter, lists).count_entries())))
    counts = yield from together(count_calls(session_filter, listed=listed))
    return sum(sessions for sessions, _ in counts)


def page_calls(
    session_filter: SessionFilter, first: int, last: int, *, by_seen: bool, latest_first: bool, **how: bool
) -> list[ScriptCall[PageReply]]:
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
        ScriptCall(partition, scripts.PAGE, scripts.PAGE.keys(partition, lists=names), args, _page_in)
        for partition, names in lists_of(session_filter, by_seen=by_seen)
    ]


def milliseconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds * 1000:.0f}"


def _page_in(reply: list[Any], _: EndedSessions) -> PageReply:
    members, looked_up, rows = reply
    entries = [(float(score), member) for member, score in zip(members[::2], members[1::2], strict=True)]
    return PageReply(entries, looked_up, [_list_row(row) for row in rows if is_sid(row[0].decode(errors="replace"))])


def read_list_rows(sids: Sequence[str], *, due_too: bool = False) -> Steps[list[ListRow]]:
    """
    Look up sessions, in the order of ``sids``. Sessions that are gone are left out.

    Due sessions are left out, too, unless ``due_too`` is set.
    """
    script, found = scripts.FIND, dict[str, ListRow]()
    left = list(batches(sids))
    while left:
        calls = [
            ScriptCall(
                partition, script, script.keys(partition), script.arguments(live_only=not due_too, sids=batch), _rows_in
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


def _rows_in(reply: list[Any]) -> tuple[int, list[ListRow]]:
    dealt_with, *rows = reply
    return dealt_with, [_list_row(row) for row in rows]


def _list_row(row: tuple[bytes, bytes, bytes, bytes, bytes, bytes]) -> ListRow:
    sid, created_at, last_seen_at, expires_at, item, record = row
    signed_in = time_of(created_at) if created_at else None
    newest_item = item.decode(errors="replace")
    return ListRow(sid.decode(), signed_in, time_of(last_seen_at), time_of(expires_at), newest_item, record)


@dataclass(frozen=True, slots=True)
class Lists:
    """
    The lists that :func:`lists_of` returns, unless they are those of several users.

    Each partition has as many of them, and all have scores of one kind.
    """

    session_filter: SessionFilter
    by_partition: Sequence[tuple[Partition, list[str]]]

    def count_entries(self) -> Steps[list[list[int]]]:
        """Count the sessions of each list. First end up to 200 due sessions of each partition."""

        def pack_count(name: str, at: int) -> bytes:
            if self.session_filter.active_seconds is None:
                return pack_head(2, "ZCARD", name)
            return pack_head(4, "ZCOUNT", name) + pack_tail(self._since(at), "+inf")

        return (yield from self._ask_lists(pack_count, range(len(self.by_partition)), ends_due=True))

    def read_first(
        self, wanted: int, *, begin: int | None = None, latest_first: bool, ends_due: bool = True
    ) -> Steps[list[Scored]]:
        """
        Read the first ``wanted`` entries of all lists together.

        The scores are lower than ``begin``, or this or higher ones unless ``latest_first``. ``ends_due`` first ends up
        to 200 due sessions of each partition.
        """
        order = ("REV",) if latest_first else ()

        def pack_first(name: str, at: int, limit: bytes) -> bytes:
            since = self._since(at)
            if latest_first:
                ends = pack_tail("+inf" if begin is None else f"({begin}", since)
            elif begin is None:
                ends = pack_tail(since, "+inf")
            else:
                ends = pack_tail(begin if since == "-inf" else max(begin, int(since)), "+inf")
            return pack_head(9 + len(order), "ZRANGE", name) + ends + limit

        def read_entries(numbers: Sequence[int], count: int) -> Steps[EntryLists[Scored]]:
            limit = pack_tail("BYSCORE", *order, "LIMIT", 0, count, "WITHSCORES")
            # A second reading of some partitions must find the lists as the first has left them.
            is_first = len(numbers) == len(self.by_partition)
            found = yield from self._ask_lists(
                lambda name, at: pack_first(name, at, limit), numbers, ends_due=ends_due and is_first
            )
            return [[with_scores(reply) for reply in replies] for replies in found]

        return (yield from merged(read_entries, len(self.by_partition), wanted, reverse=latest_first))

    def _since(self, at: int) -> str:
        active = self.session_filter.active_seconds
        return "-inf" if active is None else f"{at - active * 1000:.0f}"

    def _ask_lists(
        self, pack_question: Callable[[str, int], bytes], numbers: Sequence[int], *, ends_due: bool = False
    ) -> Steps[list[list[Any]]]:
        """
        Ask each list of the partitions with these ``numbers`` one question. Return the replies of each partition.

        ``pack_question`` takes the name of a list, and the time of its server. ``ends_due`` first ends up to 200 due
        sessions of each partition.
        """
        lists = [self.by_partition[number] for number in numbers]

        def pack_questions(position: int, at: int) -> bytes:
            partition, names = lists[position]
            due = pack_head(4, "ZCOUNT", partition.expire, "-inf") + pack_tail(at) if ends_due else b""
            return b"".join([due, *(pack_question(name, at) for name in names)])

        of_each = len(lists[0][1])
        found = yield from ask_each("page", [partition for partition, _ in lists], pack_questions, ends_due + of_each)
        if not ends_due:
            return found
        results = {number: replies for number, (_, *replies) in zip(numbers, found, strict=True)}
        late = [number for number, (due, *_) in zip(numbers, found, strict=True) if due]
        if late:
            calls = count_calls(self.session_filter)
            yield from together([calls[number] for number in late])
            results.update(zip(late, (yield from self._ask_lists(pack_question, late)), strict=True))
        return [results[number] for number in numbers]


def read_page(
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
        [call] = page_calls(session_filter, first, last, by_seen=by_seen, latest_first=latest_first, with_rows=True)
        page = yield from call
        sids_of_page(page.entries)
        return page.rows + (yield from read_list_rows(sids_of(page.entries[page.looked_up :]), due_too=True))
    if session_filter.has_list(by_seen=by_seen):
        entries = yield from Lists(session_filter, lists).read_first(last + 1, latest_first=latest_first)
    else:
        entries = yield from _read_users_lists(session_filter, last + 1, by_seen=by_seen, latest_first=latest_first)
    return (yield from read_list_rows(sids_of_page(entries[first:]), due_too=True))


def _read_users_lists(
    session_filter: SessionFilter, wanted: int, *, by_seen: bool, latest_first: bool
) -> Steps[list[Scored]]:
    """Read the first ``wanted`` entries of users' lists, which each partition puts in order."""
    partitions = len(lists_of(session_filter, by_seen=by_seen))

    def read_entries(numbers: Sequence[int], count: int) -> Steps[EntryLists[Scored]]:
        # A second reading of some partitions must find the lists as the first has left them.
        keeps_due = len(numbers) < partitions
        calls = page_calls(
            session_filter, 0, count - 1, by_seen=by_seen, latest_first=latest_first, keeps_due=keeps_due
        )
        pages = yield from together([calls[number] for number in numbers])
        return [[page.entries] for page in pages]

    return (yield from merged(read_entries, partitions, wanted, reverse=latest_first))


SAME_TIME_USUALLY = 20
"""Usually no more sessions have the same time. If more have, a page is read again, further."""


def _read_after(
    session_filter: SessionFilter, position: Position | None, limit: int, *, by_seen: bool, latest_first: bool
) -> Steps[tuple[list[ListRow], Position | None]]:
    lists = lists_of(session_filter, by_seen=by_seen)
    if not lists:
        return [], None
    has_list = session_filter.has_list(by_seen=by_seen)
    # One more tells whether others come. Sessions that have the time of the position are read once more.
    wanted, ends_due = limit + 1 + (0 if position is None else SAME_TIME_USUALLY), True
    if position is not None and not has_list:
        wanted = CONSIDERED_MAX * len(lists)
    # Another program may have written scores beyond it.
    edge = ms_in(math.inf if latest_first else -math.inf)
    while True:
        if has_list:
            begin = None if position is None or position.score == edge else position.score + latest_first
            found = yield from Lists(session_filter, lists).read_first(
                wanted, begin=begin, latest_first=latest_first, ends_due=ends_due
            )
        else:
            found = yield from _read_users_lists(session_filter, wanted, by_seen=by_seen, latest_first=latest_first)
        entries = sorted(((float(ms_in(score)), member) for score, member in found), reverse=latest_first)
        if position is not None:
            at = float(position.score), position.sid.encode()
            entries = [entry for entry in entries if (entry < at if latest_first else entry > at)]
        if len(entries) > limit or len(found) < wanted:
            break
        wanted, ends_due = wanted * 4, False
    # Another program may have written other members.
    positions = [Position(int(score), sid) for score, member in entries for sid in sids_of([(member,)])]
    log_foreign(len(entries) - len(positions))
    rows = yield from read_list_rows([each.sid for each in positions[:limit]], due_too=True)
    return rows, positions[limit - 1] if len(positions) > limit else None


def sids_of(entries: Iterable[tuple[Any, ...]]) -> list[str]:
    """Return the sids of ``entries``, each of which ends in its member. Another program may have written others."""
    members = (member.decode(errors="replace") for *_, member in entries)
    return [member for member in members if is_sid(member)]


def sids_of_page(entries: Sequence[Scored]) -> list[str]:
    """Return the sids of ``entries``, and log how many other members there are."""
    sids = sids_of(entries)
    log_foreign(len(entries) - len(sids))
    return sids


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
    item that the session viewed last, or ``""``. ``device_bound`` tells whether the session is bound to its user's
    device; False for an unreadable record.
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
    device_bound: bool


def rounded_size(size: int) -> int:
    """
    Return ``size`` rounded up to whole KiB: both are in bytes.

    An exact size would tell ``true`` from ``false``. ``size`` must be that of the *uncompressed* data. The size of a
    record, however rounded, would tell secrets: text beside a secret takes a byte less if it repeats a part of the
    secret, and filler makes that byte reach the next KiB.
    """
    return -(-size // SIZE_STEP) * SIZE_STEP


def sessions_of(rows: Iterable[ListRow], user_ids: Collection[str] | None = None) -> list[Session]:
    """Return the sessions of ``rows``. With ``user_ids``, return only the sessions of these users."""
    found, owners = [], None if user_ids is None else frozenset(user_ids)
    for sid, created_at, last_seen_at, expires_at, newest_item, packed in rows:
        try:
            record = unpack(sid, packed)
            # Another program may have written to a user's list. A session is the user's only if its record says so.
            if owners is not None and record.user_id not in owners:
                raise RecordError("it is in the list of a user whose it is not")
            user_id, (address, user_agent) = record.user_id, stored_client(record)
            size = rounded_size(len(record.data))
            is_bound = bool(record.binding) and names_device(record.binding)
        except (RecordError, KeyMissing) as error:
            log_left_out(sid, error)
            if owners is not None:
                continue
            user_id, (address, user_agent), size, is_bound = "", Client(), None, False
        times = (created_at, last_seen_at, expires_at)
        found.append(Session(sid, user_id, *times, address, user_agent, size, newest_item, is_bound))
    return found


def read_sessions(
    session_filter: SessionFilter, offset: int, limit: int, *, by_seen: bool, latest_first: bool
) -> Steps[list[Session]]:
    """Read up to ``limit`` sessions of a list, after skipping ``offset``, as :func:`read_page` does."""
    if limit < 1:
        return []
    rows = yield from read_page(session_filter, offset, offset + limit - 1, by_seen=by_seen, latest_first=latest_first)
    return sessions_of(rows, session_filter.user_ids)


def check_page(session_filter: SessionFilter, offset: int, order: Order | None) -> None:
    """Raise ValueError for a page that :func:`django_redsess.online.sessions` refuses."""
    if offset < 0:
        raise ValueError(f"offset must be 0 or more, not {offset}.")
    if order not in (None, *get_args(Order)):
        raise ValueError(f"order must be one of {', '.join(get_args(Order))}; not {order!r}.")
    if session_filter.only_by_seen and order in ("created_at", "-created_at"):
        raise ValueError("Guests, and those seen in the last seconds, can be listed by last_seen_at only.")
    if offset >= ROWS_MAX and rows_end(session_filter):
        raise ValueError(f"offset must be below {ROWS_MAX} with several partitions, not {offset}.")


PAGE_SIZE = 1000
"""How many sessions :func:`iterate_pages` reads at once."""


def iterate_pages(
    session_filter: SessionFilter, order: Order | None, *, offset: int = 0, limit: int | None = None
) -> Iterator[list[Session]]:
    """
    Yield all sessions of a list in pages, or up to ``limit``. ``session_filter`` needs no search.

    Only the first page goes by ``offset``. The others go by the position of the last session: whatever ends meanwhile,
    no other session is left out. Raises ValueError as :func:`django_redsess.online.sessions` does.
    """
    check_page(session_filter, offset, order)
    by_seen = session_filter.only_by_seen or order in ("last_seen_at", "-last_seen_at")
    latest_first, left = order is None or order.startswith("-"), math.inf if limit is None else limit
    at_once = int(min(PAGE_SIZE, left))
    page = drive(read_sessions(session_filter, offset, at_once, by_seen=by_seen, latest_first=latest_first))
    yield page
    if not page and offset:
        return
    position = position_of(page[-1], by_seen=by_seen) if page else None
    while (left := left - len(page)) > 0:
        at_once = int(min(PAGE_SIZE, left))
        page, position = page_after(session_filter, position, at_once, by_seen=by_seen, latest_first=latest_first)
        # All sessions of a page may be over by now.
        yield page
        if position is None:
            return


def page_after(
    session_filter: SessionFilter, position: Position | None, limit: int, *, by_seen: bool, latest_first: bool
) -> tuple[list[Session], Position | None]:
    """
    Read up to ``limit`` sessions that come after ``position``, or the first ones. Return also the last one's position.

    It is None if no others come. The sessions after a position are the same, though sessions come and go elsewhere in
    the list. First ends up to 200 due sessions of each partition. If users' lists have to be sorted, at most the latest
    5 000 sign-ins of each partition can be reached. ``session_filter`` needs no search.
    """
    rows, last = drive(_read_after(session_filter, position, limit, by_seen=by_seen, latest_first=latest_first))
    return sessions_of(rows, session_filter.user_ids), last


def position_of(session: Session, *, by_seen: bool) -> Position:
    """Return the position of ``session`` in a list: by last seen, or by sign-in."""
    at = session.created_at if session.created_at and not by_seen else session.last_seen_at
    return Position((at - datetime.fromtimestamp(0, UTC)) // timedelta(milliseconds=1), session.sid)


def count_with_time(session_filter: SessionFilter) -> tuple[int, int]:
    """Count the sessions of all partitions. Return also the server's time in milliseconds, as of the count."""
    counts = drive(together(count_calls(session_filter)))
    return sum(sessions for sessions, _ in counts), max((at for _, at in counts), default=0)


def moving_from() -> str:
    """
    Return the name of the store from which sessions move here, ``""`` if none do.

    Sessions that have not moved are not listed or counted, but end with all others of their user, and when all end.
    """
    other = other_store()
    return "" if other is None else other.display_name
