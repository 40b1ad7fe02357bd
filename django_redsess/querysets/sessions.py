"""A QuerySet of the sessions that are online."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_network
from typing import TYPE_CHECKING, Any, Self, get_args

from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.db import NotSupportedError
from django.utils import timezone

from django_redsess import online
from django_redsess.online.clients import Wanted
from django_redsess.online.looking import LookedThrough, Matching
from django_redsess.online.queries import USERS_MAX, Guests, SessionFilter
from django_redsess.querysets.rows import READ_AT_ONCE, RedisQuerySet
from django_redsess.session.networks import named_network, network_of

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser
    from django.db.models import QuerySet

    from django_redsess.models import OnlineSession

REVERSED: dict[online.Order, online.Order] = {
    "login_at": "-login_at",
    "-login_at": "login_at",
    "seen_at": "-seen_at",
    "-seen_at": "seen_at",
}


class SessionQuerySet(RedisQuerySet["OnlineSession"]):
    """
    The signed-in sessions, the latest sign-in first.

    Filters are ``sid``, ``sid__in``, ``pk``, ``pk__in`` and ``user_id``. Orders are by ``login_at`` or ``seen_at``.
    Rows can be sliced, counted and iterated. Everything else raises NotSupportedError.
    """

    _title = "Online sessions"
    _sids: tuple[str, ...] | None = None
    _order: online.Order = "-login_at"

    _looked_through: LookedThrough | None = None
    _own_sid: str | None = None
    _links_users = False

    session_filter = SessionFilter()
    """The filter, apart from ``sids``."""

    @property
    def sids(self) -> tuple[str, ...] | None:
        """The sids that a filter names. None for all sessions that match ``session_filter``."""
        return () if self.query.is_empty() else self._sids

    def of_users(self, user_ids: Collection[str]) -> Self:
        """Keep the sessions of these users. ``user_ids`` are primary keys as text, at most 1 000."""
        if self.session_filter.guests == "only":
            return self._of_sids(())
        before = self.session_filter.user_ids
        return self._with(user_ids=tuple(uid for uid in user_ids if before is None or uid in before))

    def with_guests(self) -> Self:
        """Add guests' sessions, unless only these are kept. The order is then by last seen."""
        return self._with(guests=self.session_filter.guests or True)

    def only_guests(self) -> Self:
        """Keep guests' sessions only. The order is then by last seen."""
        return self._with(guests="only") if self.session_filter.user_ids is None else self._of_sids(())

    def of_network(self, network: str) -> Self:
        """Keep the sessions of this address or network. Raises ValueError for a text that names none."""
        return self._of_client(network=named_network(network).text)

    def of_browser(self, browser: str) -> Self:
        """Keep the sessions of a browser: its name, or the beginning of name and version, such as ``Chrome 120``."""
        return self._of_client(browser=browser)

    def of_system(self, system: str) -> Self:
        """Keep the sessions of an operating system, such as ``Windows``."""
        return self._of_client(system=system)

    @property
    def looked_through(self) -> LookedThrough | None:
        """
        How many sessions were looked through for the rows, or for their number.

        None if an index or a list had them all, and before the rows are read or counted.
        """
        found: Matching | None = (self._answers or {}).get((self.session_filter, self._by_seen))
        return self._looked_through if found is None else found.looked_through

    @property
    def found_sids(self) -> Collection[str] | None:
        """The sids of all rows, if a search by clients has found them. None if a list has the rows in its order."""
        if self.sids is not None or not self.session_filter.names_client:
            return None
        found = self._matching()
        # A network with very many sessions is read from the index, page by page.
        return found.sids if len(found.sids) == found.count else None

    @property
    def is_cut(self) -> bool:
        """
        Whether there may be more rows than are counted. Known once they are read or counted, as ``looked_through``.

        Searches, users' sessions that have to be sorted, and the number of users have limits.
        """
        looked, user_ids = self.looked_through, self.session_filter.user_ids
        if looked is not None and not looked.is_all:
            return True
        if self.sids is not None or user_ids is None or not self._is_limited:
            return False
        total, of_users = online.total, SessionFilter(user_ids)
        return len(user_ids) == USERS_MAX or self._once(
            ("is_cut", user_ids), lambda: total(of_users, listed=True) < total(of_users)
        )

    def newest(self) -> Self:
        """Drop the filter by last seen. The order stays by sign-in or by last seen, the latest first."""
        clone = self._with(active_seconds=None)
        clone._order = "-seen_at" if self._by_seen else "-login_at"
        return clone

    def active(self, seconds: float) -> Self:
        """Keep the sessions that were seen in the last ``seconds``. The order is then by last seen."""
        before = self.session_filter.active_seconds
        return self._with(active_seconds=seconds if before is None else min(before, seconds))

    def marking(self, sid: str | None, *, links_users: bool = False) -> Self:
        """
        Set ``is_own`` and ``links_user`` of each row.

        ``sid`` is the administrator's own session. ``links_users`` tells whether the administrator may see users.
        """
        clone = self.all()
        clone._own_sid, clone._links_users = sid, links_users
        return clone

    def order_by(self, *field_names: Any) -> Self:
        clone = self._unsliced()
        # Sessions with the same time are always ordered by sid.
        for name in [name for name in field_names if str(name).lstrip("-") not in {"pk", "sid"}][:1]:
            if name not in get_args(online.Order):
                raise NotSupportedError(f"Online sessions can't be ordered by {name!r}.")
            clone._order = name
        return clone

    def reverse(self) -> Self:
        clone = self._unsliced()
        clone._order = REVERSED[self._order]
        return clone

    def _clone(self) -> Self:
        clone = super()._clone()
        clone._sids, clone.session_filter, clone._order = self._sids, self.session_filter, self._order
        clone._own_sid, clone._links_users = self._own_sid, self._links_users
        return clone

    def _where(self, lookup: str, value: Any) -> Self:
        match lookup:
            case "pk" | "sid" | "pk__exact" | "sid__exact":
                return self._of_sids([value])
            case "pk__in" | "sid__in":
                return self._of_sids(value)
            case "user_id" | "user_id__exact":
                return self.of_users([str(value)])
            case _:
                return super()._where(lookup, value)

    def _with(self, **changes: Any) -> Self:
        clone = self._unsliced()
        clone.session_filter = self.session_filter._replace(**changes)
        return clone

    def _of_client(self, **changes: str) -> Self:
        # A site's list may have a filter of its own. A filter of the page can only narrow it.
        [(name, value)] = changes.items()
        before = getattr(self.session_filter, name)
        wanted = value if before is None else _narrower(before, value)
        return self._of_sids(()) if wanted is None else self._with(**{name: wanted})

    def _of_sids(self, sids: Sequence[Any]) -> Self:
        clone = self._unsliced()
        wanted = dict.fromkeys(map(str, sids))
        clone._sids = tuple(wanted if self._sids is None else (sid for sid in self._sids if sid in wanted))
        return clone

    @property
    def _by_seen(self) -> bool:
        return self.session_filter.only_by_seen or self._order.endswith("seen_at")

    @property
    def _is_limited(self) -> bool:
        # If the server has to sort users' sessions, it sorts a limited number. See online.sessions().
        user_ids = self.session_filter.user_ids
        return user_ids is not None and (len(user_ids) > 1 or self._by_seen)

    def _count(self) -> int:
        if self._sids is not None:
            return len(self._found())
        if self.session_filter.names_client:
            return self._matching().count
        return self._once(self.session_filter, lambda: online.total(self.session_filter, listed=self._is_limited))

    def _matching(self) -> Matching:
        question = self.session_filter, self._by_seen
        found = self._once(question, lambda: online.matching_of(self.session_filter, by_seen=self._by_seen))
        self._looked_through = found.looked_through
        return found

    def _rows(self) -> list[OnlineSession]:
        sessions = self._read()
        users = users_by_id({session.user_id for session in sessions} - {""})
        rows = [self.model.of(session, users.get(session.user_id)) for session in sessions]
        for row in rows:
            row.is_own, row.links_user = row.sid == self._own_sid, self._links_users
        return rows

    def _read(self) -> list[online.Session]:
        first, last = self.query.low_mark, self.query.high_mark
        if self._sids is not None:
            return self._found()[first:last]
        order: online.Order = self._order
        if self._by_seen:
            order = "-seen_at" if order.startswith("-") else "seen_at"
        sessions: list[online.Session] = []
        if self.session_filter.names_client:
            matching = self._matching()
            last = matching.count if last is None else last
            for offset in range(first, last, READ_AT_ONCE):
                limit, latest_first = min(READ_AT_ONCE, last - offset), order.startswith("-")
                sessions += online.page_of(matching, offset, limit, latest_first=latest_first)
            return sessions
        last = self._count() if last is None else last
        for offset in range(first, last, READ_AT_ONCE):
            limit = min(READ_AT_ONCE, last - offset)
            sessions += online.sessions(offset=offset, limit=limit, order=order, **self.session_filter._asdict())
        return sessions

    def _found(self) -> list[online.Session]:
        user_ids, guests, active_seconds, *_ = self.session_filter
        wanted = Wanted(self.session_filter)
        since = datetime.min.replace(tzinfo=UTC)
        if active_seconds is not None:
            since = timezone.now() - timedelta(seconds=active_seconds)
        found = [
            session
            for session in online.find(self._sids or ())
            if session.seen_at >= since
            and wanted.has(session.address, session.user_agent)
            and (session.user_id in user_ids if user_ids is not None else _is_listed(session, guests))
        ]
        by_seen = self._by_seen

        def place(session: online.Session) -> tuple[datetime, str]:
            return session.login_at if session.login_at and not by_seen else session.seen_at, session.sid

        return sorted(found, key=place, reverse=self._order.startswith("-"))


def _narrower(first: str, second: str) -> str | None:
    """Return the narrower of two networks, or of two names such as ``Chrome`` and ``Chrome 120``; None if none is."""
    if (one := network_of(first)) and (other := network_of(second)):
        outer, inner = sorted((one, other), key=lambda network: ip_network(network.text).prefixlen)
        return inner.text if outer.has(str(ip_network(inner.text)[0])) else None
    short, long = sorted((" ".join(text.split()) for text in (first, second)), key=len)
    # "Chrome 12" is no beginning of "Chrome 120", as in is_browser().
    cuts_number = short[-1:].isdigit() and long[len(short) :][:1].isdigit()
    return long if long.lower().startswith(short.lower()) and not cuts_number else None


def _is_listed(session: online.Session, guests: Guests) -> bool:
    return guests != "only" if session.login_at else bool(guests)


def users_by_id(user_ids: set[str], among: QuerySet[Any] | None = None) -> dict[str, AbstractBaseUser]:
    """
    Fetch the users with these primary keys (text) in one query. Unknown and invalid keys are left out.

    So are users who are not in ``among``, if it is given.
    """
    user_model = get_user_model()
    keys = []
    for user_id in user_ids:
        try:
            key = user_model._meta.pk.to_python(user_id)
            user_model._meta.pk.run_validators(key)
            keys.append(key)
        except ValidationError:
            continue
    users = user_model._base_manager.all() if among is None else among
    found = users.in_bulk(keys) if keys else {}
    return {online.user_id_of(user): user for user in found.values()}
