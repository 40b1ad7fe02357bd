"""
What a session viewed, and what is viewed most. Public.

Each function that asks the server has a twin to be awaited, whose name begins with ``a``: ``await viewed.apopular()``.
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
    """An item and when it was viewed."""

    item: str
    at: datetime


class ViewCount(NamedTuple):
    """An item and how often it was viewed."""

    item: str
    views: int


def records_view(item: str | Callable[..., str | int | None]) -> Callable[[View], View]:
    """
    Mark a view as one that shows an item: ``ViewedItemsMiddleware`` records it.

    ``item`` is the keyword of its URL that names the item; or a function of what the view is called with, the request
    first, that returns the item's id, or None where nothing is to be recorded. It is called after the view. For a view
    that is a class, use ``method_decorator(records_view(…), name="dispatch")``.
    """

    def mark(view: View) -> View:
        view.views_item = item  # type: ignore[attr-defined]
        return view

    return mark


def _record(session: SessionBase, item: str | int) -> Steps[bool]:
    """
    Note that ``session`` viewed ``item``, and count the view. It is sent at once.

    ``item`` is your own id of what was viewed: an integer, or text of 1 to 64 bytes. Of each session the newest
    ``VIEWED_PER_SESSION`` (25) are kept. Returns False, having noted nothing, where there is no such session (any
    more): none is created for it, unless ``VIEWED_GUESTS`` says so and a request opened it. Raises ValueError when
    ``item`` can't be an id, and SessionStoreUnavailable in an outage; whether the view counts is open then.
    """
    item = item_id(item)
    return (yield from record_view(_ours(session), item))


record, arecord = both(_record)


def _recent(session: SessionBase | str, *, limit: int = 25) -> Steps[list[ViewedItem]]:
    """List what ``session`` (or the session of that sid) viewed, newest first, at most ``limit``."""
    sid = _sid(session)
    if sid is None or limit < 1:
        return []
    found = yield from items.history(sid, limit=limit)
    return [ViewedItem(item, at) for item, at in found]


recent, arecent = both(_recent)


def _forget(session: SessionBase | str, item: str | int | None = None) -> Steps[int]:
    """
    Forget that ``session`` (or the session of that sid) viewed ``item``, or, for None, all that it viewed.

    Returns how many items that were. How often each was viewed by everybody stays. Raises ValueError when ``item``
    can't be an id.
    """
    text = None if item is None else item_id(item)
    sid = _sid(session)
    if sid is None:
        return 0
    return (yield from items.forget(sid, text))


forget, aforget = both(_forget)


def _popular(*, limit: int = 10, offset: int = 0) -> Steps[list[ViewCount]]:
    """
    List the most viewed items: at most ``limit``, after leaving out the first ``offset``.

    Raises ValueError for an ``offset`` below 0.
    """
    if offset < 0:
        raise ValueError(f"offset must be 0 or more, not {offset}.")
    if limit < 1:
        return []
    found = yield from popularity.page(offset, limit)
    return [ViewCount(item, count) for item, count in found]


popular, apopular = both(_popular)


def _count(item: str | int) -> Steps[int]:
    """Return how often ``item`` was viewed. Raises ValueError when it can't be an id."""
    return (yield from popularity.views_of(item_id(item)))


count, acount = both(_count)


def _rank(views: int) -> Steps[int]:
    """Return the rank of an item with so many views: 1 for the most viewed; items with as many views share one."""
    more = 0
    for part in popularity.counted(views + 1):
        more += (yield from part).items
    return more + 1


rank, arank = both(_rank)


def _total() -> Steps[ViewTotal]:
    """Count the items that were viewed, and their views."""
    items = views = 0
    for part in popularity.counted(1):
        counted = yield from part
        items, views = items + counted.items, views + counted.views
    return ViewTotal(items, views)


total, atotal = both(_total)


def _reset(*items: str | int) -> Steps[int]:
    """
    Forget how often these items were viewed: they begin at 0 again. What each session viewed stays.

    Returns how many views that were. Raises ValueError when one can't be an id; then nothing is forgotten.
    """
    count = 0
    for part in popularity.reset([item_id(item) for item in items]):
        count += yield from part
    return count


reset, areset = both(_reset)


def _reset_all() -> Steps[int]:
    """Forget how often all items were viewed; returns how many views that were. What each session viewed stays."""
    count = 0
    for part in popularity.reset_all():
        count += yield from part
    return count


reset_all, areset_all = both(_reset_all)


def resolve(items: Collection[str]) -> dict[str, Any]:
    """
    Find the objects of items, by the function that the setting ``VIEWED_RESOLVE`` names.

    It is called once, with a list of ids as text, and returns a mapping of ids to objects; ids that it leaves out are
    of items that are no more. Its keys may be integers: ``Product.objects.in_bulk`` will do for primary keys. Returns
    item → object, nothing where the setting isn't there. Whatever the function raises is raised.
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
