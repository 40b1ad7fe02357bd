"""
Template tags: what this visitor viewed, and what all of them view most.

``{% load viewed_items %}``, then ``{% recently_viewed 5 as items %}`` or ``{% most_viewed 10 as items %}``. Each of
``items`` has the ``item``, its ``object`` where ``REDSESS["VIEWED_RESOLVE"]`` finds it, and ``at``, when it was viewed,
or ``views``, how often.
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
from django_redsess.session.lifecycle import session_of
from django_redsess.viewed import ViewCount, ViewedItem

Viewed = TypeVar("Viewed", ViewedItem, ViewCount)

register = template.Library()


class Recent(NamedTuple):
    """An item that the visitor viewed."""

    item: str
    at: datetime
    object: Any


class Popular(NamedTuple):
    """An item that many viewed."""

    item: str
    views: int
    object: Any


@register.simple_tag(takes_context=True)
def recently_viewed(context: template.Context, limit: int, leave_out: str | int | None = None) -> list[Recent]:
    """
    List what this visitor viewed, newest first, at most ``limit``; not ``leave_out``, such as what the page shows.

    It needs the request in the context. Items whose object is gone are left out, where objects are looked up.
    """
    session = session_of(context.get("request"))
    if session is None:
        if settings.DEBUG and "request" not in context:
            warnings.warn(
                "{% recently_viewed %} finds no request: render the page with it, and have "
                "django.template.context_processors.request in TEMPLATES.",
                stacklevel=2,
            )
        return []
    found = viewed.recent(session, limit=conf.VIEWED_PER_SESSION)
    left = [entry for entry in found if leave_out is None or entry.item != str(leave_out)]
    return [Recent(*entry, thing) for entry, thing in _with_objects(left)][: max(0, limit)]


@register.simple_tag
def most_viewed(limit: int) -> list[Popular]:
    """
    List what is viewed most by everybody, at most ``limit``.

    Items whose object is gone are left out, where objects are looked up; as many more are read, to make up for some. In
    an outage the list is empty: it is no part of anybody's session.
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
