"""
Reading sessions page by page, counting them, and looking them up.

The functions return calls or steps, as in :mod:`django_redsess.session.operations`.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from django_redsess.session.operations import time_of
from django_redsess.session.partitions import batches
from django_redsess.session.reading import TIME_MAX
from django_redsess.transport import scripts
from django_redsess.transport.announcing import EndedSessions
from django_redsess.transport.bisection import Bound, bisect, guess_by_share
from django_redsess.transport.keys import Partition, is_sid, keyspace
from django_redsess.transport.steps import Call, Steps

USERS_MAX = 1000
"""The most users whose sessions one call may count or list. Each user's list costs one read."""

CONSIDERED_MAX = scripts.CONSTANTS["CONSIDERED_MAX"]
"""The most sign-ins of users that one call sorts. See ``lib/user_lists.lua``."""

SHALLOW = 2_000
"""Up to this rank, a page of several partitions is read from the top of each. Beyond it, the page is searched for."""

NEAR_ENOUGH = 200
"""A search may stop this many ranks before its page. The surplus is read, which takes fewer steps."""

logger = logging.getLogger("django.security.SuspiciousSession")


class SessionFilter(NamedTuple):
    """
    Which sessions to list, count or end. Without arguments: all signed-in sessions.

    ``user_ids`` keeps the sessions of these users: primary keys as text, at most 1 000. ``guests`` adds guests'
    sessions; it has no effect with ``user_ids``. ``active_seconds`` keeps the sessions that were seen in the last so
    many seconds.
    """

    user_ids: tuple[str, ...] | None = None
    guests: bool = False
    active_seconds: float | None = None

    @property
    def only_by_seen(self) -> bool:
        """Whether the only possible order is by last seen."""
        return self.active_seconds is not None or (self.guests and self.user_ids is None)

    def has_list(self, *, by_seen: bool) -> bool:
        """Tell whether sorted sets have the sessions in this order. Then a page is read by rank."""
        return self.user_ids is None or (len(self.user_ids) == 1 and not (by_seen or self.active_seconds))


class Counted(NamedTuple):
    """How many sessions a partition has. ``at`` is the server's time in milliseconds."""

    sessions: int
    at: int


class Row(NamedTuple):
    """A session as a list shows it. ``login_at`` is None for a guest. ``record`` is packed."""

    sid: str
    login_at: datetime | None
    seen_at: datetime
    expires_at: datetime
    newest_item: str
    record: bytes


class Entry(NamedTuple):
    """A session's place in an order. ``sid`` is ``""`` if the entry is no sid: another program wrote it."""

    score: float
    sid: str


Page = tuple[list[Entry], int, list[Row]]
"""The entries; how many of them were looked up; and the rows that were found."""


def count(session_filter: SessionFilter, *, listed: bool = False) -> list[Call[Counted]]:
    """
    Count the sessions of each partition. Each call first ends up to 200 due sessions.

    With both ``user_ids`` and ``active_seconds``, at most 5 000 sign-ins of a partition are counted. ``listed`` sets
    this limit for ``user_ids`` alone, too: it counts the sessions that :func:`page` can reach.
    """
    kind = "" if session_filter.user_ids is None else "listed" if listed else "users"
    args = scripts.COUNT.arguments(kind=kind, active=milliseconds(session_filter.active_seconds))
    return [
        Call(partition, scripts.COUNT, scripts.COUNT.keys(partition, lists=lists), args, _counted)
        for partition, lists in lists_of(session_filter)
    ]


def census(session_filter: SessionFilter, *, listed: bool = False) -> Steps[tuple[int, int]]:
    """
    Count the sessions of all partitions. Return the number, and the server's time in milliseconds.

    ``listed`` is as in :func:`count`.
    """
    total, at = 0, 0
    for part in count(session_filter, listed=listed):
        counted = yield from part
        total, at = total + counted.sessions, max(at, counted.at)
    return total, at


def page(
    session_filter: SessionFilter, first: int, last: int, *, by_seen: bool, latest_first: bool
) -> Steps[list[Row]]:
    """
    Read the sessions from rank ``first`` to rank ``last`` (inclusive), by last seen or by login time.

    First ends up to 200 due sessions of each partition. If users' lists have to be sorted, at most the latest 5 000
    sign-ins of each partition can be reached.
    """
    lists = lists_of(session_filter, by_seen=by_seen)
    own_order = session_filter.has_list(by_seen=by_seen)
    order = "" if own_order else "seen" if by_seen else "login"

    def read(
        partition: Partition, names: Sequence[str], first: int, last: int, **how: bool
    ) -> Call[tuple[list[Entry], int, list[Row]]]:
        args = scripts.PAGE.arguments(
            order=order,
            active=milliseconds(session_filter.active_seconds),
            first=first,
            last=last,
            latest_first=latest_first,
            **{"with_rows": False, "keeps_due": False, **how},
        )
        return Call(partition, scripts.PAGE, scripts.PAGE.keys(partition, lists=names), args, _page)

    if len(lists) == 1:
        entries, with_rows, rows = yield from read(*lists[0], first, last, with_rows=True)
        rest = yield from find([entry.sid for entry in entries[with_rows:] if entry.sid], due_too=True)
        return [*rows, *rest]
    starts, passed, keeps_due = [0] * len(lists), 0, False
    if own_order and last >= SHALLOW:
        # The census ends due sessions. If they ended later, the ranks would move during the search.
        there, _ = yield from census(session_filter)
        if there <= first:
            return []
        keeps_due = True
        starts, passed = yield from _search(session_filter, lists, first, latest_first=latest_first)
    merged: list[Entry] = []
    for (partition, names), start in zip(lists, starts, strict=True):
        entries, _, _ = yield from read(partition, names, start, start + last - passed, keeps_due=keeps_due)
        merged += entries
    merged.sort(reverse=latest_first)
    sids = [entry.sid for entry in merged[first - passed : last - passed + 1] if entry.sid]
    return (yield from find(sids, due_too=True))


def find(sids: Sequence[str], *, due_too: bool = False) -> Steps[list[Row]]:
    """
    Look up sessions, in the order of ``sids``. Those that are gone are left out.

    Due ones are left out, too, unless ``due_too`` is set.
    """
    found: dict[str, Row] = {}
    for partition, batch in batches(sids):
        while batch:
            args = scripts.FIND.arguments(live_only=not due_too, sids=batch)
            dealt_with, rows = yield from Call(partition, scripts.FIND, scripts.FIND.keys(partition), args, _found)
            found.update((row.sid, row) for row in rows)
            batch = batch[dealt_with:]
    return [found[sid] for sid in sids if sid in found]


def _search(
    session_filter: SessionFilter, lists: Sequence[tuple[Partition, Sequence[str]]], first: int, *, latest_first: bool
) -> Steps[tuple[list[int], int]]:
    # Returns the rank of each partition from which a page is read, and how many entries come before these ranks.
    # Each partition reports how many entries have a lower score than a guess. Here ranks count from the lowest score.
    def ranks_at(score: int) -> Steps[list[tuple[int, int, int, int]]]:
        found = []
        for partition, names in lists:
            args = scripts.SCORE_RANK.arguments(score=f"{score}", active=milliseconds(session_filter.active_seconds))
            keys = scripts.SCORE_RANK.keys(partition, lists=names)
            found.append((yield from Call(partition, scripts.SCORE_RANK, keys, args, _ranks)))
        return found

    def bound_at(score: int) -> Steps[Bound]:
        return Bound(score, [lower for lower, _, _, _ in (yield from ranks_at(score))])

    ranks = yield from ranks_at(0)
    cards = [card for _, card, _, _ in ranks]
    if sum(cards) <= first:
        # Some sessions have ended since they were counted.
        return cards, sum(cards)
    rank = sum(cards) - 1 - first if latest_first else first
    low, high = yield from bisect(
        bound_at,
        rank,
        Bound(min(lowest for _, _, lowest, highest in ranks if highest), [0] * len(lists)),
        Bound(max(highest for _, _, _, highest in ranks) + 1, cards),
        guess=guess_by_share(rank),
        near_enough=lambda low, high: (high.total - rank if latest_first else rank - low.total) <= NEAR_ENOUGH,
    )
    if not latest_first:
        return low.counts, low.total
    starts = [card - count for card, count in zip(cards, high.counts, strict=True)]
    return starts, sum(starts)


def lists_of(session_filter: SessionFilter, *, by_seen: bool | None = None) -> list[tuple[Partition, list[str]]]:
    # Returns the sorted sets that list these sessions, by partition.
    space = keyspace()
    if session_filter.user_ids is None:
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


def milliseconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds * 1000:.0f}"


def _counted(reply: list[Any], _: EndedSessions) -> Counted:
    return Counted(*map(int, reply))


def _page(reply: list[Any], _: EndedSessions) -> Page:
    members, count, rows = reply
    entries = [Entry(float(score), _sid(member)) for member, score in zip(members[::2], members[1::2], strict=True)]
    if strange := sum(not entry.sid for entry in entries):
        logger.warning("A list of sessions has entries that are no session ids: %d.", strange)
    return entries, count, [_row(row) for row in rows if _sid(row[0])]


def _found(reply: list[Any]) -> tuple[int, list[Row]]:
    dealt_with, *rows = reply
    return dealt_with, [_row(row) for row in rows]


def _row(row: tuple[bytes, bytes, bytes, bytes, bytes, bytes]) -> Row:
    sid, login_at, seen_at, expires_at, item, record = row
    return Row(
        sid.decode(),
        time_of(login_at) if login_at else None,
        time_of(seen_at),
        time_of(expires_at),
        item.decode(errors="replace"),
        record,
    )


def _sid(member: bytes) -> str:
    sid = member.decode(errors="replace")
    return sid if is_sid(sid) else ""


def _ranks(reply: list[Any]) -> tuple[int, int, int, int]:
    lower, card, lowest, highest = reply
    # Another program may have written any number.
    at_least, at_most = (int(max(-TIME_MAX, min(float(score), TIME_MAX))) for score in (lowest, highest))
    return lower, card, at_least, at_most
