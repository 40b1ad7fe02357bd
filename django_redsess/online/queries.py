"""
Which sessions are online, page by page, and ending what is listed: calls, and steps of several, as in
:mod:`django_redsess.session.operations`.
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
"""The most users whose sessions one call may count or page through: each costs a look into that user's list."""

CONSIDERED_MAX = scripts.CONSTANTS["CONSIDERED_MAX"]
"""The most entries of users' lists that a call looks at to put them in order; see ``lib/user_lists.lua``."""

SHALLOW = 2_000
"""Up to this rank, a page of several partitions is read from the top of each; beyond, it is searched for."""

NEAR_ENOUGH = 200
"""So many entries too many may be read of each partition, to find a page in fewer steps."""

logger = logging.getLogger("django.security.SuspiciousSession")


class SessionFilter(NamedTuple):
    """
    Some of the sessions: all that are signed in, unless a field says otherwise.

    ``user_ids`` leaves those of these users (primary keys as text, at most 1 000), ``guests`` adds guests' (and does
    nothing where users are named), ``active_seconds`` leaves those that were seen in so many last seconds.
    """

    user_ids: tuple[str, ...] | None = None
    guests: bool = False
    active_seconds: float | None = None

    @property
    def only_by_seen(self) -> bool:
        """Whether they can be listed by when they were last seen, and in no other order."""
        return self.active_seconds is not None or (self.guests and self.user_ids is None)

    def has_list(self, *, by_seen: bool) -> bool:
        """Tell whether a sorted set has them in this order: then a page is read by rank."""
        return self.user_ids is None or (len(self.user_ids) == 1 and not (by_seen or self.active_seconds))


class Counted(NamedTuple):
    """How many sessions a partition had at a time of the server's clock (milliseconds)."""

    sessions: int
    at: int


class Row(NamedTuple):
    """A session as a list shows it; ``login_at`` is None for a guest's, ``record`` is still packed."""

    sid: str
    login_at: datetime | None
    seen_at: datetime
    expires_at: datetime
    newest_item: str
    record: bytes


class Entry(NamedTuple):
    """A session's place in an order; ``sid`` is ``""`` where somebody else wrote what is none."""

    score: float
    sid: str


Page = tuple[list[Entry], int, list[Row]]
"""Entries, for how many of the first the rows came along, and those rows."""


def count(session_filter: SessionFilter, *, listed: bool = False) -> list[Call[Counted]]:
    """
    Count sessions of each partition, after ending up to 200 due ones of each.

    Of the filter's ``user_ids`` and ``active_seconds`` together, at most 5 000 entries of a partition are looked at;
    with ``listed``, of users' sessions as many are counted as can be paged through.
    """
    kind = "" if session_filter.user_ids is None else "listed" if listed else "users"
    args = scripts.COUNT.arguments(kind=kind, active=milliseconds(session_filter.active_seconds))
    return [
        Call(partition, scripts.COUNT, scripts.COUNT.keys(partition, lists=lists), args, _counted)
        for partition, lists in lists_of(session_filter)
    ]


def census(session_filter: SessionFilter, *, listed: bool = False) -> Steps[tuple[int, int]]:
    """
    Count these sessions. Return how many there are, and at which time (milliseconds of the server's clock).

    ``listed`` counts only those users' sessions that a page can reach.
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
    Read sessions from rank ``first`` to ``last`` (inclusive), by when they were seen, or else by login time.

    Ends up to 200 due ones of each partition before. Of several users, the latest 5 000 sign-ins of a partition can be
    reached.
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
        # This takes out what is due: later it would move the ranks that are searched for.
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
    """Look up sessions, in this order. Those that are gone are left out, and the due ones unless ``due_too``."""
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
    # From which rank of each partition a page far down is to be read, and how many entries of all come before that.
    # Each partition says how many entries have a lower score than a guess; ranks count from the lowest here.
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
        # Some have gone since they were counted.
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
    # The sorted sets that list these sessions, by partition.
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
    # Somebody else may have written any time.
    at_least, at_most = (int(max(-TIME_MAX, min(float(score), TIME_MAX))) for score in (lowest, highest))
    return lower, card, at_least, at_most
