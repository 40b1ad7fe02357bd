"""Recording what a request views: which item it is, and whether the view counts."""

from __future__ import annotations

import logging

from django.http import HttpRequest
from django.http.response import HttpResponseBase

from django_redsess.conf import conf
from django_redsess.exceptions import SessionStoreUnavailable
from django_redsess.session.lifecycle import SessionLifecycle, session_of
from django_redsess.transport.steps import Steps
from django_redsess.viewed import items

logger = logging.getLogger("django_redsess")


def may_view(request: HttpRequest, response: HttpResponseBase) -> bool:
    """Tell whether ``request`` can count as a view of an item: a GET of a view that shows items, answered with 200."""
    match = request.resolver_match
    if match is None or (getattr(match.func, "views_item", None) or conf.VIEWED_VIEWS.get(match.view_name)) is None:
        return False
    return request.method == "GET" and response.status_code == 200 and session_of(request) is not None


def note_view(request: HttpRequest) -> Steps[None]:
    """Have the session record what ``request`` viewed. Call it only if :func:`may_view` says so."""
    session = session_of(request)
    if session is None or session.passive or session.unavailable or _is_ahead(request):
        return
    session.viewed(_item_viewed(request))
    if session.visit is None:
        # Under Django's own session middleware, nothing would record it at the end.
        yield from send_view(session)


def send_view(session: SessionLifecycle) -> Steps[None]:
    """Record the view that no save has recorded. An outage is logged, and does not fail the page."""
    item = session.pending.item
    session.viewed("")
    try:
        if item:
            yield from items.record_view(session, item)
        else:
            yield from items.count_pending_view(session)
    except SessionStoreUnavailable:
        # The outage itself has been logged once.
        logger.info("A view was not recorded.")


def _item_viewed(request: HttpRequest) -> str:
    # An error here must not fail the page.
    match = request.resolver_match
    if match is None:
        return ""
    item = getattr(match.func, "views_item", None) or conf.VIEWED_VIEWS.get(match.view_name)
    if item is None:
        return ""
    try:
        if callable(item):
            found = item(request, *match.args, **match.kwargs)
            return "" if found is None else items.item_id(found)
        if item not in match.kwargs:
            raise ValueError(f"its URL has no keyword {item!r}.")
        return items.item_id(str(match.kwargs[item]))
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
