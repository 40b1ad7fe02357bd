"""Searching by network, browser and operating system."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django_redsess.online import browsers, pages, queries
from django_redsess.online.queries import Row, SessionFilter
from django_redsess.session.networks import named_network
from django_redsess.session.record import RecordError, client_of, unpack
from django_redsess.transport.steps import Steps

LOOKED_MAX = 10_000
"""The most sessions that a search looks through: the newest, by sign-in or by last seen."""


@dataclass(frozen=True, slots=True)
class LookedThrough:
    """How many sessions a search has looked through. ``is_all`` tells whether there were no others."""

    count: int
    is_all: bool


class Wanted:
    """
    The network, the browser and the system that a search asks for.

    Raises ValueError if the filter's network is none.
    """

    def __init__(self, session_filter: SessionFilter) -> None:
        network = session_filter.network
        self.network = None if network is None else named_network(network)
        self.browser, self.system = session_filter.browser, session_filter.system

    def has(self, address: str, user_agent: str) -> bool:
        """Tell whether a session of this sender is asked for."""
        return (
            (self.network is None or self.network.has(address))
            and (self.browser is None or browsers.is_browser(user_agent, self.browser))
            and (self.system is None or browsers.is_system(user_agent, self.system))
        )


class Matching:
    """The sessions that a search has found, the latest first."""

    def __init__(self, wanted: Wanted, sids: Sequence[str], looked_through: LookedThrough | None) -> None:
        self.wanted, self.sids, self.looked_through = wanted, sids, looked_through

    @property
    def count(self) -> int:
        return len(self.sids)

    def page(self, offset: int, limit: int, *, latest_first: bool = True) -> Steps[list[Row]]:
        """Read up to ``limit`` sessions, after skipping ``offset``."""
        sids = self.sids if latest_first else self.sids[::-1]
        return (yield from queries.find(sids[offset : offset + limit], due_too=True))


def matching(session_filter: SessionFilter, *, by_seen: bool = False) -> Steps[Matching]:
    """
    Find the sessions that match, among the newest 10 000 by sign-in, or by last seen.

    First ends up to 200 due sessions of each partition.
    """
    wanted = Wanted(session_filter)
    by_seen = by_seen or session_filter.only_by_seen
    rows = yield from pages.page(session_filter.of_any_client, 0, LOOKED_MAX, by_seen=by_seen, latest_first=True)
    looked, sids = rows[:LOOKED_MAX], []
    for row in looked:
        try:
            record = unpack(row.sid, row.record)
        except RecordError:
            continue
        if wanted.has(*client_of(record)):
            sids.append(row.sid)
    return Matching(wanted, sids, LookedThrough(len(looked), is_all=len(rows) <= LOOKED_MAX))
