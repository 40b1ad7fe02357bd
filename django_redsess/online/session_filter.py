"""Which sessions to list, count or end: what lists and searches are asked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, TypedDict, Unpack

from django_redsess.conf import conf
from django_redsess.session.client import require_network

ACTIVE_SECONDS = 300
"""A session that was seen in the last so many seconds is active."""

Guests = bool | Literal["only"]


def seconds_of_active() -> float:
    """Return the ``active_seconds`` of a filter that keeps active sessions."""
    # The time when a session was seen is rounded down to TOUCH_INTERVAL.
    return ACTIVE_SECONDS + conf.TOUCH_INTERVAL


class SearchFilters(TypedDict, total=False):
    """The filters by what only a session's record has: the client that last saved it, and the binding."""

    network: str | None
    browser: str | None
    system: str | None
    device_bound: bool | None


class SessionFilter(NamedTuple):
    """
    Which sessions to list, count or end. Without arguments: all signed-in sessions.

    ``user_ids`` keeps the sessions of these users: primary keys as text, at most 1 000. ``guests`` adds guests'
    sessions, and ``"only"`` lists no others; it has no effect with ``user_ids``. ``active_seconds`` keeps the sessions
    that were seen in the last so many seconds. ``network``, ``browser`` and ``system`` are about the request that last
    saved the session, and ``device_bound`` keeps those that are bound to a device, or are not: see
    :func:`django_redsess.online.sessions`.
    """

    user_ids: tuple[str, ...] | None = None
    guests: Guests = False
    active_seconds: float | None = None
    network: str | None = None
    browser: str | None = None
    system: str | None = None
    device_bound: bool | None = None

    @property
    def names_client(self) -> bool:
        """Whether the filter is about networks, browsers or systems."""
        return not (self.network is None and self.browser is None and self.system is None)

    @property
    def needs_search(self) -> bool:
        """Whether the filter is about what no list has: networks, browsers, systems, bindings."""
        return self.names_client or self.device_bound is not None

    @property
    def without_search(self) -> SessionFilter:
        """The same filter without what has to be searched for."""
        return self._replace(network=None, browser=None, system=None, device_bound=None)

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
    if (network := searched.get("network")) is not None:
        searched["network"] = require_network(network).text
    return SessionFilter(None if user_ids is None else tuple(user_ids), guests, active_seconds, **searched)
