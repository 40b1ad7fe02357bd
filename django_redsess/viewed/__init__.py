"""Record which items a session viewed, and read which items are viewed most. Public."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

from django.contrib.sessions.backends.base import SessionBase
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.module_loading import import_string

from django_redsess.conf import conf
from django_redsess.exceptions import SessionStoreUnavailable
from django_redsess.session import binding, reading
from django_redsess.session.reading import Touch, templates
from django_redsess.session.store import SessionStore, proving_own, session_of
from django_redsess.transport import scripts
from django_redsess.transport.keys import Partition, is_sid, keyspace
from django_redsess.transport.partitions import together
from django_redsess.transport.steps import EndedSessions, ScriptCall, Steps, adrive, drive, time_of
from django_redsess.viewed import popularity
from django_redsess.viewed.popularity import ViewTotal

ITEM_BYTES_MAX = 64


def item_id(item: str | int) -> str:
    """Return ``item`` as text. Raises ValueError unless it is an integer, or text of 1 to 64 bytes in UTF-8."""
    if isinstance(item, (str, int)) and not isinstance(item, bool):
        # Text that is no UTF-8 and integers of thousands of digits raise ValueError with another message.
        with suppress(ValueError):
            text = str(item)
            if 1 <= len(text.encode()) <= ITEM_BYTES_MAX:
                return text
    raise ValueError(f"An item id is an integer, or text of 1 to {ITEM_BYTES_MAX} bytes in UTF-8.")


def call_record_view(sid: str, item: str, touch: Touch = Touch.NOTHING) -> ScriptCall[bool]:
    """
    Record that a live session viewed ``item``. ``touch`` tells how the session is touched. False if it is gone.

    The view is counted, too, unless another partition counts the item: then :func:`call_count_view` does.
    """
    space, script = keyspace(), scripts.RECORD_VIEW
    partition = space.of_sid(sid)
    keys = _keys_of_view(partition, space.count == 1 or space.of_item(item) == partition)
    args = script.arguments(sid=sid, item=item, keep=conf.VIEWED_PER_SESSION, items_max=items_max())
    if touch is Touch.NOTHING:
        return ScriptCall(partition, script, keys, args, _is_recorded)
    touching, name = templates(space.prefix, space.count)[space.number_of(sid)].touch, sid.encode()

    def pack_touch(now: int) -> bytes:
        seen = reading.seen_at(now)
        return touching % (seen, name, seen, name)

    return ScriptCall(partition, script, keys, args, _is_recorded, (), pack_touch, 2)


@lru_cache(maxsize=2048)
def _keys_of_view(partition: Partition, counts: bool) -> tuple[bytes, ...]:
    popularity = {"popularity": partition.viewed} if counts else {}
    return scripts.RECORD_VIEW.keys(partition, **popularity)


def _is_recorded(reply: int, ended: EndedSessions, touched: object = None) -> bool:
    return bool(reply)


def call_count_view(item: str) -> ScriptCall[bool]:
    """Count a view of ``item`` that was recorded in another partition."""
    partition, script = keyspace().of_item(item), scripts.COUNT_VIEW
    keys = script.keys(partition, popularity=partition.viewed)
    return ScriptCall(partition, script, keys, script.arguments(item=item, items_max=items_max()), bool)


def items_max() -> int:
    """Return the most items that one partition counts."""
    return keyspace().quota(conf.VIEWED_LIMIT)


def record_view(session: SessionStore, item: str) -> Steps[bool]:
    """Record that ``session`` viewed ``item``, and count the view. Return False if nothing was recorded."""
    if (yield from _record_if_live(session, item)):
        return True
    if not (conf.VIEWED_GUESTS and session.visit is not None and session.visit.begins_by_view):
        return False
    yield from session.opening()
    if session.session_key is not None or session.cookie.late:
        return False
    yield from session.saving()
    return (yield from _record_if_live(session, item))


def _record_if_live(session: SessionStore, item: str) -> Steps[bool]:
    if session.touch is Touch.ACTIVE and conf.moves_deadlines:
        # The new deadline is known only after the session has been read.
        yield from session.opening()
    if binding.guard is not None:
        yield from session.proving()
    sid = session.stored_sid
    if sid is None:
        return False
    if not (yield from call_record_view(sid, item, session.touch)):
        return False
    space = keyspace()
    if space.count > 1 and space.of_item(item) != space.of_sid(sid):
        yield from call_count_view(item)
    return True


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
    item = item_id(item)
    return (yield from record_view(_ours(session), item))


def record(session: SessionBase, item: str | int) -> bool:
    """
    Record that ``session`` viewed ``item``, and count the view. The command is sent immediately.

    ``item`` is the site's own id: an integer, or text of 1 to 64 bytes. Each session keeps its newest
    ``VIEWED_PER_SESSION`` items (25 by default). Returns True if the view was recorded. Returns False, and records
    nothing, if the session is gone or was never saved. With ``VIEWED_GUESTS``, a guest's request gets a session for the
    view instead.

    Raises ValueError if ``item`` can't be an id, TypeError for a session of another engine, and SessionStoreUnavailable
    in an outage. After an outage it is unknown whether the view was counted.
    """
    return drive(_record(session, item))


async def arecord(session: SessionBase, item: str | int) -> bool:
    """Await what :func:`record` returns."""
    return await adrive(_record(session, item))


def _recent(session: SessionBase | str, limit: int) -> Steps[list[ViewedItem]]:
    sid = yield from _proven_sid(session)
    if sid is None or limit < 1:
        return []
    partition, script = keyspace().of_sid(sid), scripts.RECENT_ITEMS
    args = script.arguments(sid=sid, limit=limit)
    reply: list[Any] = yield from ScriptCall(partition, script, script.keys(partition), args, list)
    pairs = zip(reply[::2], reply[1::2], strict=True)
    # Another program may have written anything.
    return [ViewedItem(item.decode(errors="replace"), time_of(at)) for item, at in pairs]


def recent(session: SessionBase | str, *, limit: int = 25) -> list[ViewedItem]:
    """
    Return up to ``limit`` items that ``session`` viewed, newest first, as a list of :class:`ViewedItem`.

    ``session`` is a session or a sid. The list is empty if there is no such session. Raises TypeError for a session of
    another engine.
    """
    return drive(_recent(session, limit))


async def arecent(session: SessionBase | str, *, limit: int = 25) -> list[ViewedItem]:
    """Await what :func:`recent` returns."""
    return await adrive(_recent(session, limit))


def _forget(session: SessionBase | str, item: str | int | None) -> Steps[int]:
    text = None if item is None else item_id(item)
    sid = yield from _proven_sid(session)
    if sid is None:
        return 0
    partition, script = keyspace().of_sid(sid), scripts.FORGET_ITEMS
    keys = script.keys(partition, items=partition.viewed_by(sid))
    return (yield from ScriptCall(partition, script, keys, script.arguments(item=text), int))


def forget(session: SessionBase | str, item: str | int | None = None) -> int:
    """
    Forget that ``session`` viewed ``item``. None stands for all items. Return how many items were forgotten.

    ``session`` is a session or a sid. The view counts stay. Raises ValueError if ``item`` can't be an id, and TypeError
    for a session of another engine.
    """
    return drive(_forget(session, item))


async def aforget(session: SessionBase | str, item: str | int | None = None) -> int:
    """Await what :func:`forget` returns."""
    return await adrive(_forget(session, item))


def _popular(limit: int, offset: int) -> Steps[list[ViewCount]]:
    if offset < 0:
        raise ValueError(f"offset must be 0 or more, not {offset}.")
    if limit < 1:
        return []
    found = yield from popularity.read_most_viewed(offset, limit)
    return [ViewCount(item, count) for item, count in found]


def popular(*, limit: int = 10, offset: int = 0) -> list[ViewCount]:
    """
    Return up to ``limit`` of the most viewed items, after skipping ``offset``, as a list of :class:`ViewCount`.

    Raises ValueError for a negative ``offset``.
    """
    return drive(_popular(limit, offset))


async def apopular(*, limit: int = 10, offset: int = 0) -> list[ViewCount]:
    """Await what :func:`popular` returns."""
    return await adrive(_popular(limit, offset))


def count(item: str | int) -> int:
    """Return how often ``item`` was viewed. Raises ValueError if ``item`` can't be an id."""
    return popularity.views_of(item_id(item)).run()


async def acount(item: str | int) -> int:
    """Await what :func:`count` returns."""
    return await popularity.views_of(item_id(item)).arun()


def _rank(views: int) -> Steps[int]:
    more = yield from together(popularity.count_items(views + 1))
    return sum(part.items for part in more) + 1


def rank(views: int) -> int:
    """Return the rank of an item with so many ``views``. The most viewed has rank 1. Equal views share a rank."""
    return drive(_rank(views))


async def arank(views: int) -> int:
    """Await what :func:`rank` returns."""
    return await adrive(_rank(views))


def _total() -> Steps[ViewTotal]:
    counted = yield from together(popularity.count_items(1))
    since = min((part.since for part in counted if part.since is not None), default=None)
    return ViewTotal(sum(part.items for part in counted), sum(part.views for part in counted), since)


def total() -> ViewTotal:
    """Return how many items were viewed, how many views they have together, and since when they are counted."""
    return drive(_total())


async def atotal() -> ViewTotal:
    """Await what :func:`total` returns."""
    return await adrive(_total())


def _removed(calls: list[ScriptCall[int]]) -> Steps[int]:
    return sum((yield from together(calls)))


def reset(*items: str | int) -> int:
    """
    Set the view counts of these items back to 0. Return how many views were removed.

    The lists of the sessions stay. Raises ValueError if an item can't be an id. Then no count changes.
    """
    return drive(_removed(popularity.reset_items([item_id(item) for item in items])))


async def areset(*items: str | int) -> int:
    """Await what :func:`reset` returns."""
    return await adrive(_removed(popularity.reset_items([item_id(item) for item in items])))


def reset_all() -> int:
    """Set the view counts of all items back to 0. Return how many views were removed. Session histories stay."""
    return drive(_removed(popularity.reset_all_items()))


async def areset_all() -> int:
    """Await what :func:`reset_all` returns."""
    return await adrive(_removed(popularity.reset_all_items()))


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


def _proven_sid(session: SessionBase | str) -> Steps[str | None]:
    if isinstance(session, str):
        return session if is_sid(session) and (yield from proving_own([session])) else None
    yield from _ours(session).proving()
    return _ours(session).stored_sid


def _ours(session: SessionBase) -> SessionStore:
    if not isinstance(session, SessionStore):
        raise TypeError('Viewed items are kept for sessions of SESSION_ENGINE = "django_redsess.backend" only.')
    session.raise_outage()
    return session


logger = logging.getLogger("django_redsess")


def may_view(request: HttpRequest, response: HttpResponseBase) -> bool:
    """Tell whether ``request`` may count as a view of an item: a GET of a view that shows items, answered with 200."""
    match = request.resolver_match
    if match is None or (getattr(match.func, "views_item", None) or conf.VIEWED_VIEWS.get(match.view_name)) is None:
        return False
    return request.method == "GET" and response.status_code == 200 and session_of(request) is not None


def note_view_of(request: HttpRequest) -> Steps[None]:
    """Note the item that ``request`` viewed, for :func:`record_noted_view`. :func:`may_view` must be true before."""
    session = session_of(request)
    if session is None or session.passive or session.unavailable or _is_ahead(request):
        return
    session.note_view(_item_viewed(request))
    if session.visit is None:
        # Under Django's own session middleware, nothing would record it at the end.
        yield from record_noted_view(session)


def record_noted_view(session: SessionStore) -> Steps[None]:
    """Record the view that ``session`` has noted. An outage is logged, and does not fail the page."""
    item, session.viewed_item = session.viewed_item, ""
    try:
        if item:
            yield from record_view(session, item)
    except SessionStoreUnavailable:
        # The outage itself has been logged once.
        logger.info("A view was not recorded.")


def _item_viewed(request: HttpRequest) -> str:
    # An error here must not fail the page.
    match = request.resolver_match
    if match is None:
        return ""
    item = getattr(match.func, "views_item", None) or conf.VIEWED_VIEWS.get(match.view_name)
    try:
        if callable(item):
            found = item(request, *match.args, **match.kwargs)
            return "" if found is None else item_id(found)
        if item not in match.kwargs:
            raise ValueError(f"its URL has no keyword {item!r}.")
        return item_id(str(match.kwargs[item]))
    except ValueError as error:
        logger.warning("A view of %s was not recorded: %s", match.view_name, error)
    except Exception:  # The function is the site's own, and may raise anything.
        logger.exception("A view of %s was not recorded: what names its item failed.", match.view_name)
    return ""


# Headers of browsers that prefetch a page. Sec-Purpose is the present one, the others are older.
_PURPOSES = ("HTTP_SEC_PURPOSE", "HTTP_PURPOSE", "HTTP_X_MOZ")


def _is_ahead(request: HttpRequest) -> bool:
    # Not request.headers: building it takes longer than the rest of this function.
    return any(request.META.get(name, "").strip().lower().startswith("prefetch") for name in _PURPOSES)
