"""A true QuerySet over the sessions in Redis, so that Django's admin works with them as with any model."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NoReturn, Self, get_args

from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.db import NotSupportedError
from django.db.models import Q, QuerySet
from django.utils import timezone

from django_redsess import online
from django_redsess.listing import Which

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser

    from django_redsess.models import OnlineSession

READ_AT_ONCE = 1000

REVERSED: dict[online.Order, online.Order] = {
    "login_at": "-login_at",
    "-login_at": "login_at",
    "seen_at": "-seen_at",
    "-seen_at": "seen_at",
}


class SessionQuerySet(QuerySet["OnlineSession"]):
    """
    The signed-in sessions, by the time of sign-in.

    It filters by ``sid`` (or ``pk``), ``sid__in`` and ``user_id``, orders by ``login_at`` or ``seen_at``, slices,
    counts, gets and iterates. Anything else raises NotSupportedError, since it would ask the database for a table that
    isn't there.
    """

    _sids: tuple[str, ...] | None = None
    _order: online.Order = "-login_at"

    _own_sid: str | None = None
    _links_users = False
    _counts: dict[Which, int] | None = None

    which = Which()
    """Which sessions these are, ``sids`` aside."""

    @property
    def sids(self) -> tuple[str, ...] | None:
        """The only sids that these may have; None where there are others than ``which`` tells of."""
        return () if self.query.is_empty() else self._sids

    @property
    def ordered(self) -> bool:
        return True

    def of_users(self, user_ids: Collection[str]) -> Self:
        """Keep the sessions of these users: primary keys as text, at most 1 000."""
        before = self.which.user_ids
        return self._with(user_ids=tuple(uid for uid in user_ids if before is None or uid in before))

    def with_guests(self) -> Self:
        """Add the sessions in which nobody is signed in. The order is by last seen then."""
        return self._with(guests=True)

    def active(self, seconds: float) -> Self:
        """Keep those that were seen in so many last seconds. The order is by last seen then."""
        return self._with(active_seconds=seconds)

    def marking(self, sid: str | None, *, links_users: bool = False) -> Self:
        """Mark the session ``sid`` as that of whoever asks, ``is_own``, and whether that one may see users' pages."""
        clone = self.all()
        clone._own_sid, clone._links_users = sid, links_users
        return clone

    def counting_once(self) -> Self:
        """Keep what is counted, for all querysets that are made of this one: a page asks for its count twice."""
        clone = self.all()
        clone._counts = {}
        return clone

    def filter(self, *args: Any, **kwargs: Any) -> Self:
        clone = self._unsliced()
        for lookup, value in _conditions(Q(*args, **kwargs)):
            match lookup:
                case "pk" | "sid" | "pk__exact" | "sid__exact":
                    clone = clone._of_sids([value])
                case "pk__in" | "sid__in":
                    clone = clone._of_sids(value)
                case "user_id" | "user_id__exact":
                    clone = clone.of_users([str(value)])
                case _:
                    raise NotSupportedError(f"Online sessions can't be filtered by {lookup!r}.")
        return clone

    def order_by(self, *field_names: Any) -> Self:
        clone = self._unsliced()
        # The sid only breaks ties, as it does anyway.
        for name in [name for name in field_names if str(name).lstrip("-") not in {"pk", "sid"}][:1]:
            if name not in get_args(online.Order):
                raise NotSupportedError(f"Online sessions can't be ordered by {name!r}.")
            clone._order = name
        return clone

    def reverse(self) -> Self:
        clone = self._unsliced()
        clone._order = REVERSED[self._order]
        return clone

    def count(self) -> int:
        if self._result_cache is not None:
            return len(self._result_cache)
        if self.query.is_empty():
            return 0
        if self._sids is not None:
            return len(self._read())
        first, last = self.query.low_mark, self.query.high_mark
        total = self._count()
        return max(0, (total if last is None else min(total, last)) - first)

    def exists(self) -> bool:
        return self.count() > 0

    def get(self, *args: Any, **kwargs: Any) -> OnlineSession:
        found = list((self.filter(*args, **kwargs) if args or kwargs else self)[:2])
        if not found:
            raise self.model.DoesNotExist("There is no such session online.")
        if len(found) > 1:
            raise self.model.MultipleObjectsReturned("More than one session is online.")
        return found[0]

    def iterator(self, chunk_size: int | None = None) -> Iterator[OnlineSession]:
        return iter(self)

    async def aiterator(self, chunk_size: int = READ_AT_ONCE) -> AsyncIterator[OnlineSession]:
        async for session in self:
            yield session

    def _clone(self) -> Self:
        clone = super()._clone()  # type: ignore[misc]
        clone._sids, clone.which, clone._order = self._sids, self.which, self._order
        clone._own_sid, clone._links_users, clone._counts = self._own_sid, self._links_users, self._counts
        return clone  # type: ignore[no-any-return]

    def _fetch_all(self) -> None:
        if self._result_cache is None:
            self._result_cache = [] if self.query.is_empty() else self._with_users(self._read())

    def _unsliced(self) -> Self:
        if self.query.is_sliced:
            raise TypeError("Online sessions can't be filtered or ordered once a slice has been taken.")
        return self.all()

    def _with(self, **changes: Any) -> Self:
        clone = self._unsliced()
        clone.which = self.which._replace(**changes)
        return clone

    def _of_sids(self, sids: Sequence[Any]) -> Self:
        clone = self._unsliced()
        wanted = dict.fromkeys(map(str, sids))
        clone._sids = tuple(wanted if self._sids is None else (sid for sid in self._sids if sid in wanted))
        return clone

    @property
    def _by_seen(self) -> bool:
        return self.which.only_by_seen or self._order.endswith("seen_at")

    @property
    def _is_limited(self) -> bool:
        # Whether they have to be looked at one by one to find their order: see online.sessions().
        user_ids = self.which.user_ids
        return user_ids is not None and (len(user_ids) > 1 or self._by_seen)

    def _count(self) -> int:
        counts = {} if self._counts is None else self._counts
        if self.which not in counts:
            counts[self.which], _ = online.census(self.which, listed=self._is_limited)
        return counts[self.which]

    def _read(self) -> list[online.Session]:
        first, last = self.query.low_mark, self.query.high_mark
        if self._sids is not None:
            return self._found()[first:last]
        order: online.Order = self._order
        if self._by_seen:
            order = "-seen_at" if order.startswith("-") else "seen_at"
        last = self._count() if last is None else last
        sessions: list[online.Session] = []
        for offset in range(first, last, READ_AT_ONCE):
            limit = min(READ_AT_ONCE, last - offset)
            sessions += online.sessions(offset=offset, limit=limit, order=order, **self.which._asdict())
        return sessions

    def _found(self) -> list[online.Session]:
        user_ids, guests, active_seconds = self.which
        since = datetime.min.replace(tzinfo=UTC)
        if active_seconds is not None:
            since = timezone.now() - timedelta(seconds=active_seconds)
        found = [
            session
            for session in online.find(self._sids or ())
            if session.seen_at >= since
            and (session.user_id in user_ids if user_ids is not None else session.login_at or guests)
        ]
        by_seen = self._by_seen

        def place(session: online.Session) -> tuple[datetime, str]:
            return session.login_at if session.login_at and not by_seen else session.seen_at, session.sid

        return sorted(found, key=place, reverse=self._order.startswith("-"))

    def _with_users(self, sessions: list[online.Session]) -> list[OnlineSession]:
        users = users_by_id({session.user_id for session in sessions} - {""})
        rows = [self.model.of(session, users.get(session.user_id)) for session in sessions]
        for row in rows:
            row.is_own, row.links_user = row.sid == self._own_sid, self._links_users
        return rows


def _refuse(name: str) -> Any:
    def refuse(self: SessionQuerySet, *args: Any, **kwargs: Any) -> NoReturn:
        raise NotSupportedError(f"Online sessions are in Redis: {name}() is not possible with them.")

    refuse.__name__ = name
    return refuse


for _name in (
    *("aggregate", "alias", "annotate", "complex_filter", "dates", "datetimes", "defer", "difference", "distinct"),
    *("earliest", "exclude", "explain", "extra", "intersection", "latest", "only", "prefetch_related", "raw"),
    *(
        "__and__",
        "__or__",
        "__xor__",
        "resolve_expression",
        "select_for_update",
        "select_related",
        "union",
        "values",
        "values_list",
    ),
    *("bulk_create", "bulk_update", "create", "delete", "get_or_create", "update", "update_or_create"),
):
    setattr(SessionQuerySet, _name, _refuse(_name))


def users_by_id(user_ids: set[str]) -> dict[str, AbstractBaseUser]:
    """Fetch these users (primary keys as text) in one query. One that was deleted is left out."""
    user_model = get_user_model()
    keys = []
    for user_id in user_ids:
        try:
            key = user_model._meta.pk.to_python(user_id)
            user_model._meta.pk.run_validators(key)
            keys.append(key)
        except ValidationError:
            continue
    found = user_model._base_manager.in_bulk(keys) if keys else {}
    return {online.user_id_of(user): user for user in found.values()}


def _conditions(q: Q) -> Iterator[tuple[str, Any]]:
    if q.negated or (q.connector != Q.AND and len(q.children) > 1):
        raise NotSupportedError("Online sessions can be filtered by conditions that all hold, and by no others.")
    for child in q.children:
        if isinstance(child, Q):
            yield from _conditions(child)
        elif isinstance(child, tuple):
            yield child
        else:
            raise NotSupportedError("Online sessions can't be filtered by an expression.")
