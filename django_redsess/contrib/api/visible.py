"""Pages of the rows that an administrator may see by the rules of a site. Nothing in them tells of hidden rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from django_redsess.online.searching import SCAN_LIMIT

Position = TypeVar("Position")

ROWS_AT_ONCE = 500
"""So many rows are read at a time, if a rule is asked about each."""


class VisiblePage(NamedTuple):
    """
    A page of a list.

    ``last`` is the position of its last row, None on the last page. ``looked_through`` is None, or tells that rows may
    follow although none were found: too many in a row are hidden.
    """

    rows: list[Any]
    last: Any
    looked_through: dict[str, Any] | None = None


def read_visible_page(
    read_after: Callable[[Position | None, int], tuple[Sequence[Any], Position | None]],
    position: Position | None,
    limit: int,
    *,
    may_see: Callable[[Any], bool] | None,
    position_of: Callable[[Any], Position],
) -> VisiblePage:
    """
    Return up to ``limit`` rows after ``position`` that ``may_see`` lets pass.

    ``read_after`` takes a position and a limit. It returns up to so many rows after the position, and the position of
    the last one, None if no others follow. ``may_see`` is None if no rule is asked about each row: then one page is
    read. Otherwise pages are read until this one is full, and ``last`` is always the position of a row that is shown.
    So neither a cursor nor a short page tells of a hidden row. After 10 000 rows it stops.
    """
    if may_see is None:
        rows, last = read_after(position, limit)
        return VisiblePage(list(rows), last)
    seen, count = list[Any](), 0
    while True:
        # One more tells whether others come.
        rows, position = read_after(position, ROWS_AT_ONCE)
        seen += filter(may_see, rows)
        count += len(rows)
        if len(seen) > limit or position is None or count >= SCAN_LIMIT:
            break
    page, is_cut = seen[:limit], len(seen) <= limit and position is not None
    last = position_of(page[-1]) if page and (is_cut or len(seen) > limit) else None
    return VisiblePage(page, last, {"count": SCAN_LIMIT, "is_all": False} if is_cut else None)
