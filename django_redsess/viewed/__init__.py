"""
Record which items a session viewed, and read which items are viewed most.

The names in ``__all__`` are public, and most functions have an awaitable twin: ``await viewed.apopular()``. This room
may import ``session``, ``transport``, ``conf``, ``signals`` and ``exceptions``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from typing import Any, NamedTuple, TypeVar

from django.contrib.sessions.backends.base import SessionBase
from django.utils.module_loading import import_string

from django_redsess.conf import conf
from django_redsess.session.lifecycle import SessionLifecycle
from django_redsess.transport.keys import is_sid
from django_redsess.transport.steps import Steps, both
from django_redsess.transport.together import together
from django_redsess.viewed import items, popularity
from django_redsess.viewed.items import item_id, record_view
from django_redsess.viewed.popularity import ViewTotal

__all__ = [
    "ViewCount",
    "ViewTotal",
    "ViewedItem",
    "acount",
    "aforget",
    "apopular",
    "arank",
    "arecent",
    "arecord",
    "areset",
    "areset_all",
    "atotal",
    "count",
    "forget",
    "popular",
    "rank",
    "recent",
    "record",
    "records_view",
    "reset",
    "reset_all",
    "resolve",
    "total",
]

View = TypeVar("View", bound=Callable[..., Any])


class ViewedItem(NamedTuple):
    """An item, and the time when a session viewed it last (aware, UTC)."""

    item: str
    at: datetime


class ViewCount(NamedTuple):
    """An item, and how often all sessions together viewed it."""

    item: str
    views: int


def records_view(item: str | Callable[..., str | int | None]) -> Callable[[View], View]:
    """
    Mark a view that shows an item. ``ViewedItemsMiddleware`` records the item.

    ``item`` is the name of the URL keyword that holds the item's id. Or it is a function: it is called after the view,
    with the view's own arguments, the request first. It returns the item's id, or None to record nothing. For a
    class-based view, use ``method_decorator(records_view(…), name="dispatch")``.
    """

    def mark(view: View) -> View:
        view.views_item = item  # type: ignore[attr-defined]
        return view

    return mark


def _record(session: SessionBase, item: str | int) -> Steps[bool]:
    """
    Record that ``session`` viewed ``item``, and count the view. The command is sent immediately.

    ``item`` is the site's own id: an integer, or text of 1 to 64 bytes. Each session keeps its newest
    ``VIEWED_PER_SESSION`` items (25 by default). Returns True if the view was recorded. Returns False, and records
    nothing, if the session is gone or was never saved. With ``VIEWED_GUESTS``, a guest's request gets a session for the
    view instead.

    Raises ValueError if ``item`` can't be an id, TypeError for a session of another engine, and SessionStoreUnavailable
    in an outage. After an outage it is unknown whether the view was counted.
    """
    item = item_id(item)
    return (yield from record_view(_ours(session), item))


record, arecord = both(_record)


def _recent(session: SessionBase | str, *, limit: int = 25) -> Steps[list[ViewedItem]]:
    """
    Return up to ``limit`` items that ``session`` viewed, newest first, as a list of :class:`ViewedItem`.

    ``session`` is a session or a sid. The list is empty if there is no such session. Raises TypeError for a session of
    another engine.
    """
    sid = _sid(session)
    if sid is None or limit < 1:
        return []
    found = yield from items.history(sid, limit=limit)
    return [ViewedItem(item, at) for item, at in found]


recent, arecent = both(_recent)


def _forget(session: SessionBase | str, item: str | int | None = None) -> Steps[int]:
    """
    Forget that ``session`` viewed ``item``. None stands for all items. Return how many items were forgotten.

    ``session`` is a session or a sid. The view counts stay. Raises ValueError if ``item`` can't be an id, and TypeError
    for a session of another engine.
    """
    text = None if item is None else item_id(item)
    sid = _sid(session)
    if sid is None:
        return 0
    return (yield from items.forget(sid, text))


forget, aforget = both(_forget)


def _popular(*, limit: int = 10, offset: int = 0) -> Steps[list[ViewCount]]:
    """
    Return up to ``limit`` of the most viewed items, after skipping ``offset``, as a list of :class:`ViewCount`.

    Raises ValueError for a negative ``offset``.
    """
    if offset < 0:
        raise ValueError(f"offset must be 0 or more, not {offset}.")
    if limit < 1:
        return []
    found = yield from popularity.page(offset, limit)
    return [ViewCount(item, count) for item, count in found]


popular, apopular = both(_popular)


def _count(item: str | int) -> Steps[int]:
    """Return how often ``item`` was viewed. Raises ValueError if ``item`` can't be an id."""
    return (yield from popularity.views_of(item_id(item)))


count, acount = both(_count)


def _rank(views: int) -> Steps[int]:
    """Return the rank of an item with so many ``views``. The most viewed has rank 1. Equal views share a rank."""
    more = yield from together(popularity.counted(views + 1))
    return sum(part.items for part in more) + 1


rank, arank = both(_rank)


def _total() -> Steps[ViewTotal]:
    """Return how many items were viewed, how many views they have together, and since when they are counted."""
    counted = yield from together(popularity.counted(1))
    since = min((part.since for part in counted if part.since is not None), default=None)
    return ViewTotal(sum(part.items for part in counted), sum(part.views for part in counted), since)


total, atotal = both(_total)


def _reset(*items: str | int) -> Steps[int]:
    """
    Set the view counts of these items back to 0. Return how many views were removed.

    What each session viewed stays. Raises ValueError if an item can't be an id. Then no count changes.
    """
    return sum((yield from together(popularity.reset([item_id(item) for item in items]))))


reset, areset = both(_reset)


def _reset_all() -> Steps[int]:
    """Set the view counts of all items back to 0. Return how many views were removed. Session histories stay."""
    return sum((yield from together(popularity.reset_all())))


reset_all, areset_all = both(_reset_all)


def resolve(items: Collection[str]) -> dict[str, Any]:
    """
    Return the objects of ``items``, as a dict of item to object.

    The setting ``VIEWED_RESOLVE`` names a function. It is called once, with a list of ids as text. It returns a mapping
    of ids to objects, without the ids that have no object. Its keys may be integers: ``Product.objects.in_bulk`` works
    for primary keys. Without the setting, the dict is empty. An error of the function is passed on.
    """
    if conf.VIEWED_RESOLVE is None or not items:
        return {}
    found: Mapping[Any, Any] = import_string(conf.VIEWED_RESOLVE)(list(items))
    return {str(item): thing for item, thing in found.items()}


def _sid(session: SessionBase | str) -> str | None:
    if isinstance(session, str):
        return session if is_sid(session) else None
    return _ours(session).stored_sid


def _ours(session: SessionBase) -> SessionLifecycle:
    if not isinstance(session, SessionLifecycle):
        raise TypeError('Viewed items are kept for sessions of SESSION_ENGINE = "django_redsess.backend" only.')
    session.fail_at_once()
    return session
