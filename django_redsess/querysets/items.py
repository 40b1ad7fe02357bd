"""A true QuerySet over the most viewed items in Redis, for Django's admin."""

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
"""Finds the objects of items: see :func:`django_redsess.viewed.resolve`."""

QUOTED = "\t"
"""What the key of an item begins with that a form would not bring back as it was."""

CONTROLS = {code: 0x2400 + code for code in range(32)} | {0x7F: 0x2421}
"""Unicode has a picture of each control character."""


class RankingQuerySet(RedisQuerySet["PopularItem"]):
    """
    The items that were viewed, the most viewed first.

    It filters by ``item``, ``item__in`` and ``pk``, slices, counts, gets and iterates. Anything else raises
    NotSupportedError.
    """

    _called = "Most viewed items"
    _items: tuple[str, ...] | None = None
    _resolve: Resolve | None = None

    @property
    def items(self) -> tuple[str, ...] | None:
        """The only items that these may be; None where they are all there are."""
        return () if self.query.is_empty() else self._items

    @property
    def total(self) -> viewed.ViewTotal:
        """How many items were viewed, and how often: all of them, however this is filtered."""
        return self._once("total", viewed.total)

    def resolving(self, resolve: Resolve) -> Self:
        """Give each row the ``object`` that ``resolve`` finds for its item. It is called once for all rows."""
        clone = self.all()
        clone._resolve = resolve
        return clone

    def order_by(self, *field_names: Any) -> Self:
        # The item only breaks ties, as it does anyway.
        for name in field_names:
            if name != "-views" and str(name).lstrip("-") not in {"pk", "item"}:
                raise NotSupportedError(f"{self._called} can't be ordered by {name!r}.")
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
        rows = [self.model.of(entry, of_views=views, thing=objects.get(entry.item)) for entry in entries]
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
    """Return ``item``, or another text for one with characters that get lost or change on the way through a form."""
    is_safe = not (item.startswith(QUOTED) or {"\0", "\r", "\n"} & set(item))
    return item if is_safe else QUOTED + quote(item)


def item_of(key: str) -> str:
    """Return the item whose key is ``key``: see :func:`key_of`."""
    return unquote(key.removeprefix(QUOTED)) if key.startswith(QUOTED) else key


def shown(item: str) -> str:
    """Return ``item``, or another text, as pages and the history show it: with pictures of what can't be seen."""
    return item.translate(CONTROLS)


def _rank(rows: Sequence[PopularItem], first: int) -> None:
    """Tell rows that follow each other, the first of them at the place ``first`` from 0, their ranks."""
    for place, row in enumerate(rows, 1):
        if place > 1 and row.views == rows[place - 2].views:
            row.rank = rows[place - 2].rank
        elif place > 1 or first == 0:
            row.rank = first + place
        # Else it may be level with others that come before, and asks for its rank.


def _viewed(items: Iterable[str]) -> Iterator[viewed.ViewCount]:
    for item in items:
        try:
            entry = viewed.ViewCount(item, viewed.count(item))
        except ValueError:
            # None that was ever viewed.
            continue
        if entry.views > 0:
            yield entry
