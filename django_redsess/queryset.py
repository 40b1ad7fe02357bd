"""A true QuerySet over the sessions in Redis, so that Django's admin works with them as with any model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, Self

from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.db import NotSupportedError
from django.db.models import Q, QuerySet

from django_redsess import online

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser

    from django_redsess.models import OnlineSession

READ_AT_ONCE = 1000


class SessionQuerySet(QuerySet["OnlineSession"]):
    """
    The signed-in sessions, by the time of sign-in.

    It filters by ``sid`` (or ``pk``), ``sid__in`` and ``user_id``, orders by ``login_at``, slices, counts, gets and
    iterates. Anything else raises NotSupportedError, since it would ask the database for a table that isn't there.
    """

    _sids: frozenset[str] | None = None
    _user_ids: tuple[str, ...] | None = None
    _newest_first = True

    @property
    def ordered(self) -> bool:
        return True

    def of_users(self, user_ids: Sequence[str]) -> Self:
        """Keep the sessions of these users: primary keys as text, at most 1 000."""
        clone = self.all()
        clone._user_ids = tuple(uid for uid in user_ids if self._user_ids is None or uid in self._user_ids)
        return clone

    def filter(self, *args: Any, **kwargs: Any) -> Self:
        clone = self.all()
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
        clone = self.all()
        # The sid only breaks ties, as it does anyway.
        for name in [name for name in field_names if str(name).lstrip("-") not in {"pk", "sid"}][:1]:
            if name not in {"login_at", "-login_at"}:
                raise NotSupportedError(f"Online sessions can't be ordered by {name!r}.")
            clone._newest_first = name == "-login_at"
        return clone

    def reverse(self) -> Self:
        clone = self.all()
        clone._newest_first = not self._newest_first
        return clone

    def count(self) -> int:
        if self._result_cache is not None:
            return len(self._result_cache)
        if self.query.is_empty():
            return 0
        if self._sids is not None:
            return len(self)
        first, last = self.query.low_mark, self.query.high_mark
        total = online.count(user_ids=self._user_ids)
        return max(0, (total if last is None else min(total, last)) - first)

    def exists(self) -> bool:
        return self.count() > 0

    def get(self, *args: Any, **kwargs: Any) -> OnlineSession:
        found = list(self.filter(*args, **kwargs)[:2])
        if not found:
            raise self.model.DoesNotExist("There is no such session online.")
        if len(found) > 1:
            raise self.model.MultipleObjectsReturned("More than one session is online.")
        return found[0]

    def iterator(self, chunk_size: int | None = None) -> Iterator[OnlineSession]:
        return iter(self)

    def _clone(self) -> Self:
        clone = super()._clone()  # type: ignore[misc]
        clone._sids, clone._user_ids, clone._newest_first = self._sids, self._user_ids, self._newest_first
        return clone  # type: ignore[no-any-return]

    def _fetch_all(self) -> None:
        if self._result_cache is None:
            self._result_cache = [] if self.query.is_empty() else self._with_users(self._read())

    def _of_sids(self, sids: Sequence[Any]) -> Self:
        clone = self.all()
        wanted = frozenset(map(str, sids))
        clone._sids = wanted if self._sids is None else wanted & self._sids
        return clone

    def _read(self) -> list[online.Session]:
        first, last = self.query.low_mark, self.query.high_mark
        if self._sids is not None:
            return self._found()[first:last]
        sessions: list[online.Session] = []
        while last is None or first < last:
            wanted = READ_AT_ONCE if last is None else min(READ_AT_ONCE, last - first)
            page = online.sessions(offset=first, limit=wanted, newest_first=self._newest_first, user_ids=self._user_ids)
            sessions += page
            if len(page) < wanted:
                break
            first += wanted
        return sessions

    def _found(self) -> list[online.Session]:
        found = [
            session
            for session in online.find(sorted(self._sids or ()))
            if session.login_at and (self._user_ids is None or session.user_id in self._user_ids)
        ]
        return sorted(found, key=lambda session: (session.login_at, session.sid), reverse=self._newest_first)

    def _with_users(self, sessions: list[online.Session]) -> list[OnlineSession]:
        users = users_by_id({session.user_id for session in sessions})
        return [self.model.of(session, users.get(session.user_id)) for session in sessions]


def _refuse(name: str) -> Any:
    def refuse(self: SessionQuerySet, *args: Any, **kwargs: Any) -> NoReturn:
        raise NotSupportedError(f"Online sessions are in Redis: {name}() is not possible with them.")

    refuse.__name__ = name
    return refuse


for _name in (
    *("aggregate", "alias", "annotate", "complex_filter", "dates", "datetimes", "defer", "difference", "distinct"),
    *("earliest", "exclude", "explain", "extra", "intersection", "latest", "only", "prefetch_related", "raw"),
    *("select_for_update", "select_related", "union", "values", "values_list"),
    *("bulk_create", "bulk_update", "create", "delete", "get_or_create", "update", "update_or_create"),
):
    setattr(SessionQuerySet, _name, _refuse(_name))


def users_by_id(user_ids: set[str]) -> dict[str, AbstractBaseUser]:
    """Fetch these users (primary keys as text) in one query. One that was deleted is left out."""
    user_model = get_user_model()
    keys = []
    for user_id in user_ids:
        try:
            keys.append(user_model._meta.pk.to_python(user_id))
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
