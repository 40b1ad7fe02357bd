"""
QuerySets whose rows are read from Redis, so that Django's admin can use them as it uses a table.

They support the filters, orders and slices that the server answers quickly. All others raise NotSupportedError.
Private: :mod:`django_redsess.models` is the public module. It imports this one, so rows have no type here.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, NoReturn, Self, TypeVar, get_args
from urllib.parse import quote, unquote

from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.db import NotSupportedError
from django.db.models import Model, Q, QuerySet

from django_redsess import online, viewed
from django_redsess.online.labels import server_time
from django_redsess.online.listing import (
    ROWS_MAX,
    USERS_MAX,
    Position,
    SessionFilter,
    count_in_lists,
    iterate_pages,
    page_after,
    position_of,
    rows_end,
    seconds_of_active,
)
from django_redsess.online.networks import common_networks, require_networks
from django_redsess.online.searching import LookedThrough, SearchMatcher, SearchResult, search
from django_redsess.session.store import user_id_of
from django_redsess.transport.steps import drive

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser

READ_AT_ONCE = 1000

M = TypeVar("M", bound=Model)
T = TypeVar("T")


class RedisQuerySet(QuerySet[M]):
    """
    Rows that are read from Redis. They always have an order.

    Subclasses define the filters in ``_where()``. Rows can be sliced, counted and iterated. Everything else raises
    NotSupportedError: it would need a table in the database, and there is none.
    """

    _title = "Rows"
    """The name of the rows in error messages."""

    _answers: dict[Hashable, Any] | None = None

    _named: tuple[str, ...] | None = None
    """The ids that a filter names. None for all rows."""

    @property
    def ordered(self) -> bool:
        return True

    def counting_once(self) -> Self:
        """Return a clone that counts once, together with its own clones. A page of the admin counts twice."""
        clone = self.all()
        clone._answers = {}
        return clone

    def filter(self, *args: Any, **kwargs: Any) -> Self:
        clone = self._unsliced()
        for lookup, value in self._conditions(Q(*args, **kwargs)):
            clone = clone._where(lookup, value)
        return clone

    def count(self) -> int:
        if self._result_cache is not None:
            return len(self._result_cache)
        if self.query.is_empty():
            return 0
        first, last = self.query.low_mark, self.query.high_mark
        total = self._count_rows()
        return max(0, (total if last is None else min(total, last)) - first)

    def exists(self) -> bool:
        return self.count() > 0

    def get(self, *args: Any, **kwargs: Any) -> M:
        found = list((self.filter(*args, **kwargs) if args or kwargs else self)[:2])
        if not found:
            raise self.model.DoesNotExist(f"{self._title}: no row matches.")  # type: ignore[attr-defined]
        if len(found) > 1:
            raise self.model.MultipleObjectsReturned(  # type: ignore[attr-defined]
                f"{self._title}: more than one row matches."
            )
        return found[0]

    def iterator(self, chunk_size: int | None = None) -> Iterator[M]:
        return iter(self)

    async def aiterator(self, chunk_size: int = READ_AT_ONCE) -> AsyncIterator[M]:
        async for row in self:
            yield row

    def _where(self, lookup: str, value: Any) -> Self:
        """Return a clone with this condition. Subclasses add lookups. All others raise NotSupportedError."""
        raise NotSupportedError(f"{self._title} can't be filtered by {lookup!r}.")

    def _count_rows(self) -> int:
        """Count the rows, ignoring the slice."""
        raise NotImplementedError

    def _fetch_rows(self) -> list[M]:
        """Read the rows of the slice."""
        raise NotImplementedError

    def _once(self, question: Hashable, ask: Callable[[], T]) -> T:
        """Return the result of ``ask``. After :meth:`counting_once`, it is called once for each ``question``."""
        answers = {} if self._answers is None else self._answers
        if question not in answers:
            answers[question] = ask()
        answer: T = answers[question]
        return answer

    def _clone(self) -> Self:
        clone = super()._clone()  # type: ignore[misc]
        clone._answers, clone._named = self._answers, self._named
        return clone  # type: ignore[no-any-return]

    def _keep_ids(self, ids: Iterable[Any]) -> Self:
        """Keep the rows with these ids."""
        clone, wanted = self._unsliced(), dict.fromkeys(map(str, ids))
        clone._named = tuple(wanted if self._named is None else (each for each in self._named if each in wanted))
        return clone

    def _fetch_all(self) -> None:
        if self._result_cache is None:
            self._result_cache = [] if self.query.is_empty() else self._fetch_rows()

    def _unsliced(self) -> Self:
        if self.query.is_sliced:
            raise TypeError(f"{self._title} can't be filtered or ordered once a slice has been taken.")
        return self.all()

    def _conditions(self, q: Q) -> Iterator[tuple[str, Any]]:
        if q.negated or (q.connector != Q.AND and len(q.children) > 1):
            raise NotSupportedError(f"{self._title} can't be filtered with OR, XOR or NOT.")
        for child in q.children:
            if isinstance(child, Q):
                yield from self._conditions(child)
            elif isinstance(child, tuple):
                yield child
            else:
                raise NotSupportedError(f"{self._title} can't be filtered by an expression.")


def refusing_method(name: str) -> Any:
    """Return a method called ``name`` that raises NotSupportedError."""

    def refused(self: RedisQuerySet[Any], *args: Any, **kwargs: Any) -> NoReturn:
        raise NotSupportedError(f"{self._title} are in Redis: {name}() is not supported.")

    refused.__name__ = name
    return refused


for _name in (
    *("aggregate", "alias", "annotate", "complex_filter", "dates", "datetimes", "defer", "difference", "distinct"),
    *("earliest", "exclude", "explain", "extra", "intersection", "latest", "only", "prefetch_related", "raw"),
    *("__and__", "__or__", "__xor__", "resolve_expression"),
    *("select_for_update", "select_related", "union", "values", "values_list"),
    *("bulk_create", "bulk_update", "create", "delete", "get_or_create", "update", "update_or_create"),
):
    setattr(RedisQuerySet, _name, refusing_method(_name))


Resolve = Callable[[Collection[str]], Mapping[str, Any]]
"""A function that returns the objects of items. See :func:`django_redsess.viewed.resolve`."""

QUOTED = "\t"
"""The first character of a quoted key. Items are quoted if a form would change them."""

CONTROLS = {code: 0x2400 + code for code in range(32)} | {0x7F: 0x2421} | dict.fromkeys(range(0xD800, 0xE000), 0xFFFD)
"""Unicode has a picture for each control character. Half a surrogate pair can't be sent: it becomes "�"."""


class RankingQuerySet(RedisQuerySet[Any]):
    """
    The items that were viewed, the most viewed first.

    Filters are ``item``, ``item__in``, ``pk`` and ``pk__in``. Rows can be sliced, counted and iterated. Everything else
    raises NotSupportedError.
    """

    _title = "Most viewed items"
    _resolve: Resolve | None = None

    @property
    def items(self) -> tuple[str, ...] | None:
        """The items that a filter names. None for all items."""
        return () if self.query.is_empty() else self._named

    @property
    def entries(self) -> Sequence[viewed.ViewCount]:
        """The items that a filter names, with their views, the most viewed first."""
        return self._count_named()

    @property
    def total(self) -> viewed.ViewTotal:
        """How many items were viewed, and how often. It counts all items, whatever the filter is."""
        return self._once("total", viewed.total)

    def resolving(self, resolve: Resolve) -> Self:
        """Set each row's ``object`` to what ``resolve`` returns for its item. It is called once for all rows."""
        clone = self.all()
        clone._resolve = resolve
        return clone

    def of_entries(self, entries: Iterable[viewed.ViewCount]) -> Self:
        """Keep these items, whose views were just read: they are not counted again."""
        counted = {entry.item: entry for entry in entries}
        clone = self._keep_ids(counted)
        clone._answers = {} if self._answers is None else self._answers
        clone._answers[clone._named] = sorted(
            (counted[item] for item in clone._named or ()), key=lambda entry: (-entry.views, entry.item)
        )
        return clone

    def order_by(self, *field_names: Any) -> Self:
        # Items with equal views are always in the same order.
        for name in field_names:
            if name != "-views" and str(name).lstrip("-") not in {"pk", "item"}:
                raise NotSupportedError(f"{self._title} can't be ordered by {name!r}.")
        return self._unsliced()

    reverse = refusing_method("reverse")

    def _clone(self) -> Self:
        clone = super()._clone()
        clone._resolve = self._resolve
        return clone

    def _where(self, lookup: str, value: Any) -> Self:
        match lookup:
            case "item" | "item__exact":
                return self._keep_ids([value])
            case "item__in":
                return self._keep_ids(value)
            case "pk" | "pk__exact":
                return self._keep_ids([item_of(str(value))])
            case "pk__in":
                return self._keep_ids(item_of(str(key)) for key in value)
            case _:
                return super()._where(lookup, value)

    def _count_rows(self) -> int:
        return self.total.items if self._named is None else len(self._count_named())

    def _fetch_rows(self) -> list[Any]:
        first, last = self.query.low_mark, self.query.high_mark
        entries = self._read_entries(first, last) if self._named is None else self._count_named()[first:last]
        objects = self._resolve([entry.item for entry in entries]) if self._resolve and entries else {}
        views = self.total.views if entries else 0
        # The first of all has the longest bar, on whatever page.
        top = entries if self._named is None and first == 0 else entries and viewed.popular(limit=1)
        most = top[0].views if top else 0
        rows = [self.model.of(entry, of_views=views, most=most, thing=objects.get(entry.item)) for entry in entries]
        if self._named is None:
            _set_ranks(rows, first)
        return rows

    def _read_entries(self, first: int, last: int | None) -> list[viewed.ViewCount]:
        last = self.total.items if last is None else last
        found: list[viewed.ViewCount] = []
        for offset in range(first, last, READ_AT_ONCE):
            limit = min(READ_AT_ONCE, last - offset)
            part = viewed.popular(limit=limit, offset=offset)
            found += part
            if len(part) < limit:
                break
        return found

    def _count_named(self) -> list[viewed.ViewCount]:
        items = self._named or ()
        return self._once(items, lambda: sorted(_viewed_entries(items), key=lambda entry: (-entry.views, entry.item)))


def key_of(item: str) -> str:
    """Return ``item`` as a form can carry it. It is quoted if it has characters that a form would lose or change."""
    is_safe = not (item.startswith(QUOTED) or {"\0", "\r", "\n"} & set(item))
    return item if is_safe else QUOTED + quote(item)


def item_of(key: str) -> str:
    """Return the item of ``key``. See :func:`key_of`."""
    return unquote(key.removeprefix(QUOTED)) if key.startswith(QUOTED) else key


def visible(text: str) -> str:
    """Return ``text`` for pages and histories. Control characters and surrogates are replaced: see ``CONTROLS``."""
    return text.translate(CONTROLS)


def _set_ranks(rows: Sequence[Any], first: int) -> None:
    """Set the ranks of consecutive rows. ``first`` is the position of the first row, from 0."""
    for position, row in enumerate(rows, 1):
        if position > 1 and row.views == rows[position - 2].views:
            row.rank = rows[position - 2].rank
        elif position > 1 or first == 0:
            row.rank = first + position
        # Else the row before this page may have equal views. Then the row asks the server for its rank.


def _viewed_entries(items: Iterable[str]) -> Iterator[viewed.ViewCount]:
    for item in items:
        try:
            entry = viewed.ViewCount(item, viewed.count(item))
        except ValueError:
            # Text that can't be an id was never viewed.
            continue
        if entry.views > 0:
            yield entry


REVERSED: dict[online.Order, online.Order] = {
    "created_at": "-created_at",
    "-created_at": "created_at",
    "last_seen_at": "-last_seen_at",
    "-last_seen_at": "last_seen_at",
}


class SessionQuerySet(RedisQuerySet[Any]):
    """
    The signed-in sessions, the latest sign-in first.

    Filters are ``sid``, ``sid__in``, ``pk``, ``pk__in`` and ``user_id``. Orders are by ``created_at`` or
    ``last_seen_at``. Rows can be sliced, counted and iterated. Everything else raises NotSupportedError.
    """

    _title = "Online sessions"
    _order: online.Order = "-created_at"

    _looked_through: LookedThrough | None = None
    _own_sid: str | None = None
    _links_users = False

    session_filter = SessionFilter()
    """The filter, apart from ``sids``."""

    @property
    def sids(self) -> tuple[str, ...] | None:
        """The sids that a filter names. None for all sessions that match ``session_filter``."""
        return () if self.query.is_empty() else self._named

    def of_users(self, user_ids: Collection[str]) -> Self:
        """Keep the sessions of these users. ``user_ids`` are primary keys as text, at most 1 000."""
        if self.session_filter.guests == "only":
            return self._keep_ids(())
        before = self.session_filter.user_ids
        return self._with(user_ids=tuple(uid for uid in user_ids if before is None or uid in before))

    def with_guests(self) -> Self:
        """Add guests' sessions, unless only these are kept. The order is then by last seen."""
        return self._with(guests=self.session_filter.guests or True)

    def only_guests(self) -> Self:
        """Keep guests' sessions only. The order is then by last seen."""
        return self._with(guests="only") if self.session_filter.user_ids is None else self._keep_ids(())

    def of_network(self, network: str | Sequence[str]) -> Self:
        """
        Keep the sessions of an address or a network, or of several.

        The name of a list in the setting ``NETWORKS`` stands for all of the list. Raises ValueError for a text that
        names none.
        """
        wanted, before = require_networks(network), self.session_filter.networks
        # A site's list may have a filter of its own, as in _of_client().
        wanted = wanted if before is None else common_networks(before, wanted)
        return self._with(networks=wanted) if wanted else self._keep_ids(())

    def of_browser(self, browser: str) -> Self:
        """Keep the sessions of a browser: its name, or the beginning of name and version, such as ``Chrome 120``."""
        return self._of_client(browser=browser)

    def of_system(self, system: str) -> Self:
        """Keep the sessions of an operating system, such as ``Windows``."""
        return self._of_client(system=system)

    def device_bound(self, *, is_bound: bool = True) -> Self:
        """Keep the sessions that are bound to a device, or without ``is_bound`` those that are not."""
        before = self.session_filter.device_bound
        return self._with(device_bound=is_bound) if before in (None, is_bound) else self._keep_ids(())

    @property
    def looked_through(self) -> LookedThrough | None:
        """
        How many sessions were looked through for the rows, or for their number.

        None if a list had them all, and before the rows are read or counted.
        """
        found: SearchResult | None = (self._answers or {}).get((self.session_filter, self.by_seen))
        return self._looked_through if found is None else found.looked_through

    @property
    def found_sids(self) -> Collection[str] | None:
        """The sids of all rows, if a search has found them. None if a list has the rows in its order."""
        if self.sids is not None or not self.session_filter.needs_search:
            return None
        return self._search_once().sids

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
        if len(user_ids) == USERS_MAX:
            return True
        of_users = SessionFilter(user_ids)
        return self._once(
            ("is_cut", user_ids),
            lambda: drive(count_in_lists(of_users, listed=True)) < drive(count_in_lists(of_users)),
        )

    @property
    def rows_max(self) -> int | None:
        """How many rows a slice can reach. None for any number. Iterating has all rows."""
        return ROWS_MAX if self.sids is None and rows_end(self.session_filter) else None

    def active(self, seconds: float | None = None) -> Self:
        """
        Keep the sessions that were seen in the last ``seconds``. The order is then by last seen.

        None stands for the five minutes in which a session is active: see :func:`django_redsess.online.count`.
        """
        if seconds is None:
            seconds = seconds_of_active()
        before = self.session_filter.active_seconds
        return self._with(active_seconds=seconds if before is None else min(before, seconds))

    def rows_after(self, position: Position | None, limit: int) -> tuple[list[Any], Position | None]:
        """
        Return up to ``limit`` rows that come after ``position``, or the first ones; and the position of the last one.

        The position is None if no others come. Raises NotSupportedError for a search.
        """
        latest_first, by_seen = self._latest_first, self.by_seen
        if self._named is not None or self.query.is_empty():
            found = [] if self.query.is_empty() else self._find_named()
            positions = [position_of(each, by_seen=by_seen) for each in found]
            start = 0
            if position is not None:
                start = sum(each >= position if latest_first else each <= position for each in positions)
            end = start + limit
            return self.rows_of(found[start:end]), positions[end - 1] if end < len(positions) else None
        if self.session_filter.needs_search:
            raise NotSupportedError("A search by network, browser, system or binding has no positions.")
        sessions, last = page_after(self.session_filter, position, limit, by_seen=by_seen, latest_first=latest_first)
        return self.rows_of(sessions), last

    def in_pages(self, at_once: int) -> Iterator[list[Any]]:
        """Yield all rows in lists of up to ``at_once``. Sessions that end meanwhile make it leave out no other."""
        if self.sids is None and self.session_filter.needs_search:
            found = self._search_once()
            for sessions in found.iterate_found(0, found.count, latest_first=self._latest_first, at_once=at_once):
                yield self.rows_of(sessions)
            return
        rows, position = self.rows_after(None, at_once)
        yield rows
        while position is not None:
            rows, position = self.rows_after(position, at_once)
            yield rows

    def marked_for(self, sid: str | None, *, links_users: bool = False) -> Self:
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
        clone.session_filter, clone._order = self.session_filter, self._order
        clone._own_sid, clone._links_users = self._own_sid, self._links_users
        return clone

    def _where(self, lookup: str, value: Any) -> Self:
        match lookup:
            case "pk" | "sid" | "pk__exact" | "sid__exact":
                return self._keep_ids([value])
            case "pk__in" | "sid__in":
                return self._keep_ids(value)
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
        return self._keep_ids(()) if wanted is None else self._with(**{name: wanted})

    @property
    def _latest_first(self) -> bool:
        return self._order.startswith("-")

    @property
    def by_seen(self) -> bool:
        """Whether the order is by last seen."""
        return self.session_filter.only_by_seen or self._order.endswith("last_seen_at")

    @property
    def _is_limited(self) -> bool:
        # If the server has to sort users' sessions, it sorts a limited number. See online.sessions().
        user_ids = self.session_filter.user_ids
        return user_ids is not None and (len(user_ids) > 1 or self.by_seen)

    def _count_rows(self) -> int:
        if self._named is not None:
            return len(self._find_named())
        if self.session_filter.needs_search:
            return self._search_once().count
        return self._once(
            self.session_filter, lambda: drive(count_in_lists(self.session_filter, listed=self._is_limited))
        )

    def _search_once(self) -> SearchResult:
        question = self.session_filter, self.by_seen
        found = self._once(question, lambda: search(self.session_filter, by_seen=self.by_seen))
        self._looked_through = found.looked_through
        return found

    def _fetch_rows(self) -> list[Any]:
        return self.rows_of(self._read_sessions())

    def rows_of(self, sessions: Iterable[online.Session]) -> list[Any]:
        """Return the rows of ``sessions``, with their users."""
        sessions = list(sessions)
        users = users_by_id({session.user_id for session in sessions} - {""})
        rows = [self.model.of(session, users.get(session.user_id)) for session in sessions]
        for row in rows:
            row.is_own, row.links_user = row.sid == self._own_sid, self._links_users
        return rows

    def _read_sessions(self) -> list[online.Session]:
        first, last = self.query.low_mark, self.query.high_mark
        if self._named is not None:
            return self._find_named()[first:last]
        last = self._count_rows() if last is None else last
        if self.session_filter.needs_search:
            found = self._search_once().iterate_found(first, last - first, latest_first=self._latest_first)
        else:
            order: online.Order = self._order
            if self.by_seen:
                order = "-last_seen_at" if self._latest_first else "last_seen_at"
            found = iterate_pages(self.session_filter, order, offset=first, limit=last - first)
        return list(chain.from_iterable(found))

    def _find_named(self) -> list[online.Session]:
        """Look up the sessions that a filter names. Keep those that match the other filters, in order."""
        matcher = SearchMatcher(self.session_filter) if self.session_filter.needs_search else None
        since = None
        if self.session_filter.active_seconds is not None:
            since = server_time() - timedelta(seconds=self.session_filter.active_seconds)
        found = [
            session
            for session in online.find(self._named or ())
            if (since is None or session.last_seen_at >= since)
            and (matcher is None or matcher.matches(session))
            and self._lists(session)
        ]
        return sorted(found, key=partial(position_of, by_seen=self.by_seen), reverse=self._latest_first)

    def _lists(self, session: online.Session) -> bool:
        """Tell whether ``session`` is one of the users, or of the guests, that are listed."""
        user_ids, guests = self.session_filter.user_ids, self.session_filter.guests
        if user_ids is not None:
            return session.user_id in user_ids
        return bool(guests) if session.created_at is None else guests != "only"


def _narrower(first: str, second: str) -> str | None:
    """Return the narrower of two names, such as ``Chrome`` and ``Chrome 120``. None if they differ."""
    short, long = sorted((" ".join(text.split()) for text in (first, second)), key=len)
    # "Chrome 12" is no beginning of "Chrome 120", as in is_browser().
    cuts_number = short[-1:].isdigit() and long[len(short) :][:1].isdigit()
    return long if long.lower().startswith(short.lower()) and not cuts_number else None


def users_by_id(user_ids: set[str], among: QuerySet[Any] | None = None) -> dict[str, AbstractBaseUser]:
    """
    Fetch the users with these primary keys (text) in one query. Unknown and invalid keys are left out.

    So are users who are not in ``among``, if it is given.
    """
    users, keys = get_user_model()._base_manager.all() if among is None else among, user_keys(user_ids)
    found = users.in_bulk(keys) if keys else {}
    return {user_id_of(user): user for user in found.values()}


def user_keys(user_ids: Iterable[str]) -> list[Any]:
    """Return the primary keys of users that are given as text, as the database has them. Invalid ones are left out."""
    return [key for user_id in user_ids if (key := user_key(user_id)) is not None]


def user_key(user_id: str) -> Any:
    """Return ``user_id`` as the primary key of the user model. None for a guest, and for text that can't be one."""
    # PostgreSQL has no text with this character.
    if not user_id or "\0" in user_id:
        return None
    field = get_user_model()._meta.pk
    try:
        key = field.to_python(user_id)
        field.run_validators(key)
    except ValidationError:
        return None
    return key
