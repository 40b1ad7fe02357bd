"""The base of querysets whose rows are in Redis: what they support, and what they refuse."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Hashable, Iterator
from typing import Any, NoReturn, Self, TypeVar

from django.db import NotSupportedError
from django.db.models import Model, Q, QuerySet

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
        total = self._count()
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

    def _count(self) -> int:
        """Count the rows, ignoring the slice."""
        raise NotImplementedError

    def _rows(self) -> list[M]:
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
        clone._answers = self._answers
        return clone  # type: ignore[no-any-return]

    def _fetch_all(self) -> None:
        if self._result_cache is None:
            self._result_cache = [] if self.query.is_empty() else self._rows()

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


def refuse(name: str) -> Any:
    """Return a method called ``name`` that raises NotSupportedError."""

    def refused(self: RedisQuerySet[Any], *args: Any, **kwargs: Any) -> NoReturn:
        raise NotSupportedError(f"{self._title} are in Redis: {name}() is not supported.")

    refused.__name__ = name
    return refused


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
    setattr(RedisQuerySet, _name, refuse(_name))
