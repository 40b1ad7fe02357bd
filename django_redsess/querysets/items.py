"""A QuerySet of the most viewed items."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote, unquote

from django.db import NotSupportedError

from django_redsess import viewed
from django_redsess.querysets.rows import READ_AT_ONCE, RedisQuerySet, refuse

if TYPE_CHECKING:
    from django_redsess.models import PopularItem

Resolve = Callable[[Collection[str]], Mapping[str, Any]]
"""A function that returns the objects of items. See :func:`django_redsess.viewed.resolve`."""

QUOTED = "\t"
"""The first character of a quoted key. Items are quoted if a form would change them."""

CONTROLS = {code: 0x2400 + code for code in range(32)} | {0x7F: 0x2421} | dict.fromkeys(range(0xD800, 0xE000), 0xFFFD)
"""Unicode has a picture for each control character. Half a surrogate pair can't be sent: it becomes "�"."""


class RankingQuerySet(RedisQuerySet["PopularItem"]):
    """
    The items that were viewed, the most viewed first.

    Filters are ``item``, ``item__in``, ``pk`` and ``pk__in``. Rows can be sliced, counted and iterated. Everything else
    raises NotSupportedError.
    """

    _title = "Most viewed items"
    _items: tuple[str, ...] | None = None
    _resolve: Resolve | None = None

    @property
    def items(self) -> tuple[str, ...] | None:
        """The items that a filter names. None for all items."""
        return () if self.query.is_empty() else self._items

    @property
    def total(self) -> viewed.ViewTotal:
        """How many items were viewed, and how often. It counts all items, whatever the filter is."""
        return self._once("total", viewed.total)

    def resolving(self, resolve: Resolve) -> Self:
        """Set each row's ``object`` to what ``resolve`` returns for its item. It is called once for all rows."""
        clone = self.all()
        clone._resolve = resolve
        return clone

    def order_by(self, *field_names: Any) -> Self:
        # Items with equal views are always in the same order.
        for name in field_names:
            if name != "-views" and str(name).lstrip("-") not in {"pk", "item"}:
                raise NotSupportedError(f"{self._title} can't be ordered by {name!r}.")
        return self._unsliced()

    reverse = refuse("reverse")

    def _clone(self) -> Self:
        clone = super()._clone()
        clone._items, clone._resolve = self._items, self._resolve
        return clone

    def _where(self, lookup: str, value: Any) -> Self:
        match lookup:
            case "item" | "item__exact":
                return self._of_items([value])
            case "item__in":
                return self._of_items(value)
            case "pk" | "pk__exact":
                return self._of_items([item_of(str(value))])
            case "pk__in":
                return self._of_items(item_of(str(key)) for key in value)
            case _:
                return super()._where(lookup, value)

    def _of_items(self, items: Iterable[Any]) -> Self:
        clone = self._unsliced()
        wanted = dict.fromkeys(map(str, items))
        clone._items = tuple(wanted if self._items is None else (item for item in self._items if item in wanted))
        return clone

    def _count(self) -> int:
        return self.total.items if self._items is None else len(self._found())

    def _rows(self) -> list[PopularItem]:
        first, last = self.query.low_mark, self.query.high_mark
        entries = self._read(first, last) if self._items is None else self._found()[first:last]
        objects = self._resolve([entry.item for entry in entries]) if self._resolve and entries else {}
        views = self.total.views if entries else 0
        # The first of all has the longest bar, on whatever page.
        top = entries if self._items is None and first == 0 else entries and viewed.popular(limit=1)
        most = top[0].views if top else 0
        rows = [self.model.of(entry, of_views=views, most=most, thing=objects.get(entry.item)) for entry in entries]
        if self._items is None:
            _rank(rows, first)
        return rows

    def _read(self, first: int, last: int | None) -> list[viewed.ViewCount]:
        last = self.total.items if last is None else last
        found: list[viewed.ViewCount] = []
        for offset in range(first, last, READ_AT_ONCE):
            limit = min(READ_AT_ONCE, last - offset)
            part = viewed.popular(limit=limit, offset=offset)
            found += part
            if len(part) < limit:
                break
        return found

    def _found(self) -> list[viewed.ViewCount]:
        items = self._items or ()
        return self._once(items, lambda: sorted(_viewed(items), key=lambda entry: (-entry.views, entry.item)))


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


def _rank(rows: Sequence[PopularItem], first: int) -> None:
    """Set the ranks of consecutive rows. ``first`` is the position of the first row, from 0."""
    for place, row in enumerate(rows, 1):
        if place > 1 and row.views == rows[place - 2].views:
            row.rank = rows[place - 2].rank
        elif place > 1 or first == 0:
            row.rank = first + place
        # Else the row before this page may have equal views. Then the row asks the server for its rank.


def _viewed(items: Iterable[str]) -> Iterator[viewed.ViewCount]:
    for item in items:
        try:
            entry = viewed.ViewCount(item, viewed.count(item))
        except ValueError:
            # Text that can't be an id was never viewed.
            continue
        if entry.views > 0:
            yield entry
