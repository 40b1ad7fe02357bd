"""
Scripts that read lists of sessions, count them, and look sessions up.

The functions return calls or steps, as in :mod:`django_redsess.session.operations`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal, NamedTuple, TypedDict, Unpack

from django_redsess.session.networks import named_network
from django_redsess.session.operations import time_of
from django_redsess.session.partitions import batches
from django_redsess.transport import scripts
from django_redsess.transport.announcing import EndedSessions
from django_redsess.transport.keys import Partition, is_sid, keyspace
from django_redsess.transport.steps import Call, Steps
from django_redsess.transport.together import together

USERS_MAX = 1000
"""The most users whose sessions one call may count or list. Each user's list costs one read."""

CONSIDERED_MAX = scripts.CONSTANTS["CONSIDERED_MAX"]
"""The most sign-ins of users that one call sorts. See ``of_users`` in ``lua/online.lua``."""


Guests = bool | Literal["only"]


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
        """Whether it is about networks, browsers or systems. Of these, only networks may have a sorted set."""
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
        client["network"] = named_network(network).text
    return SessionFilter(None if user_ids is None else tuple(user_ids), guests, active_seconds, **client)


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


Page = tuple[list[tuple[float, bytes]], int, list[Row]]
"""The entries, score and member; how many of them were looked up; and the rows that were found."""


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
    counted = yield from together(count(session_filter, listed=listed))
    return sum(part.sessions for part in counted), max((part.at for part in counted), default=0)


def entries(
    session_filter: SessionFilter, first: int, last: int, *, by_seen: bool, latest_first: bool, **how: bool
) -> list[Call[Page]]:
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
        Call(partition, scripts.PAGE, scripts.PAGE.keys(partition, lists=names), args, _page)
        for partition, names in lists_of(session_filter, by_seen=by_seen)
    ]


def find(sids: Sequence[str], *, due_too: bool = False) -> Steps[list[Row]]:
    """
    Look up sessions, in the order of ``sids``. Those that are gone are left out.

    Due ones are left out, too, unless ``due_too`` is set.
    """
    found: dict[str, Row] = {}
    left = list(batches(sids))
    while left:
        calls = [
            Call(
                partition,
                scripts.FIND,
                scripts.FIND.keys(partition),
                scripts.FIND.arguments(live_only=not due_too, sids=batch),
                _found,
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
    # Returns the sorted sets that list these sessions, by partition.
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


def address_lists_of(session_filter: SessionFilter) -> list[tuple[Partition, list[str]]]:
    # Returns the sorted sets that have the addresses of the sessions in those of lists_of(), in the same order.
    partitions = keyspace().partitions
    if session_filter.guests == "only":
        return [(partition, [partition.guests_addresses]) for partition in partitions]
    if session_filter.guests:
        return [(partition, [partition.addresses, partition.guests_addresses]) for partition in partitions]
    return [(partition, [partition.addresses]) for partition in partitions]


def milliseconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds * 1000:.0f}"


def _counted(reply: list[Any], _: EndedSessions) -> Counted:
    return Counted(*map(int, reply))


def _page(reply: list[Any], _: EndedSessions) -> Page:
    members, count, rows = reply
    found = [(float(score), member) for member, score in zip(members[::2], members[1::2], strict=True)]
    return found, count, [_row(row) for row in rows if is_sid(row[0].decode(errors="replace"))]


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
