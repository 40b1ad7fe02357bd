"""
Template tags for the items that this visitor viewed, and for the most viewed items.

Load them with ``{% load viewed_items %}``. Use ``{% recently_viewed 5 as items %}`` or
``{% most_viewed 10 as items %}``. Each row has ``item`` (the id as text), ``object`` (what the function of
``REDSESS["VIEWED_RESOLVE"]`` returned for it, or None without that setting), and ``at`` (when it was viewed) or
``views`` (how often).
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple, TypeVar

from django import template
from django.conf import settings

from django_redsess import viewed
from django_redsess.conf import conf
from django_redsess.exceptions import SessionStoreUnavailable
from django_redsess.session.store import session_of
from django_redsess.viewed import ViewCount, ViewedItem

__all__ = ["most_viewed", "recently_viewed"]

Viewed = TypeVar("Viewed", ViewedItem, ViewCount)

register = template.Library()


class Recent(NamedTuple):
    """A row of ``recently_viewed``."""

    item: str
    at: datetime
    object: Any


class Popular(NamedTuple):
    """A row of ``most_viewed``."""

    item: str
    views: int
    object: Any


@register.simple_tag(takes_context=True)
def recently_viewed(context: template.Context, limit: int, leave_out: str | int | None = None) -> list[Recent]:
    """
    Return up to ``limit`` items that this visitor viewed, newest first.

    ``leave_out`` is an item to leave out, such as the one that the page shows. The context must have the request;
    without one the list is empty. If ``VIEWED_RESOLVE`` is set, items without an object are left out. Raises
    SessionStoreUnavailable in an outage.
    """
    session = session_of(context.get("request"))
    if session is None:
        if settings.DEBUG and "request" not in context:
            warnings.warn(
                "{% recently_viewed %} finds no request: render the page with a request, and add "
                "django.template.context_processors.request to TEMPLATES.",
                stacklevel=2,
            )
        return []
    found = viewed.recent(session, limit=conf.VIEWED_PER_SESSION)
    left = [entry for entry in found if leave_out is None or entry.item != str(leave_out)]
    return [Recent(*entry, thing) for entry, thing in _with_objects(left)][: max(0, limit)]


@register.simple_tag
def most_viewed(limit: int) -> list[Popular]:
    """
    Return up to ``limit`` of the items that all visitors view most.

    If ``VIEWED_RESOLVE`` is set, items without an object are left out. To replace them, twice as many items are read.
    In an outage the list is empty, so that the page can be shown without it.
    """
    try:
        found = viewed.popular(limit=limit if conf.VIEWED_RESOLVE is None else 2 * limit)
    except SessionStoreUnavailable:
        return []
    return [Popular(*entry, thing) for entry, thing in _with_objects(found)][: max(0, limit)]


def _with_objects(entries: Sequence[Viewed]) -> list[tuple[Viewed, Any]]:
    if conf.VIEWED_RESOLVE is None:
        return [(entry, None) for entry in entries]
    objects = viewed.resolve([entry.item for entry in entries])
    return [(entry, objects[entry.item]) for entry in entries if entry.item in objects]
