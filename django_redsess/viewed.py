"""What a session viewed, and what is viewed most. Public."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from typing import NamedTuple

from django.contrib.sessions.backends.base import SessionBase

from django_redsess import store
from django_redsess.backend import SessionStore
from django_redsess.conf import conf

ITEM_BYTES_MAX = 64


class ViewedItem(NamedTuple):
    """An item and when it was viewed."""

    item: str
    at: datetime


class PopularItem(NamedTuple):
    """An item and how often it was viewed."""

    item: str
    views: int


def record(session: SessionBase, item: str | int) -> bool:
    """
    Note that ``session`` viewed ``item``, and count the view.

    ``item`` is your own id of what was viewed: an integer, or text of 1 to 64 bytes. Of each session the newest
    ``VIEWED_PER_SESSION`` (25) are kept. Returns False, having noted nothing, where there is no such session (any
    more): none is created for it. Raises ValueError when ``item`` can't be an id.
    """
    item = item_id(item)
    sid = _sid(session)
    return sid is not None and all(call.run() for call in store.view(sid, item, keep=conf.VIEWED_PER_SESSION))


def recent(session: SessionBase | str, *, limit: int = 25) -> list[ViewedItem]:
    """List what ``session`` (or the session of that sid) viewed, newest first, at most ``limit``."""
    sid = session if isinstance(session, str) else _sid(session)
    if sid is None or limit < 1:
        return []
    return [ViewedItem(item, at) for item, at in store.recent_items(sid, limit=limit).run()]


def popular(*, limit: int = 10) -> list[PopularItem]:
    """List the most viewed items, at most ``limit``, with their views."""
    if limit < 1:
        return []
    found = [PopularItem(item, count) for call in store.popular_items(limit=limit) for item, count in call.run()]
    return sorted(found, key=lambda entry: (-entry.views, entry.item))[:limit]


def views(item: str | int) -> int:
    """Return how often ``item`` was viewed. Raises ValueError when it can't be an id."""
    return store.views_of(item_id(item)).run()


def item_id(item: str | int) -> str:
    """Return ``item`` as text. Raises ValueError unless it is an integer, or text of 1 to 64 bytes."""
    if isinstance(item, (str, int)) and not isinstance(item, bool):
        text = str(item)
        with suppress(UnicodeEncodeError):
            if 1 <= len(text.encode()) <= ITEM_BYTES_MAX:
                return text
    raise ValueError(f"An item id is an integer, or text of 1 to {ITEM_BYTES_MAX} bytes in UTF-8.")


def _sid(session: SessionBase) -> str | None:
    if not isinstance(session, SessionStore):
        raise TypeError('Viewed items are kept for sessions of SESSION_ENGINE = "django_redsess.backend" only.')
    return session.stored_sid
