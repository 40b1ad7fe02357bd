"""Recording what a request views: which item that is, and when it counts."""

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
    """Tell whether ``response`` is of a view that shows items, and one that counts. Most requests end here."""
    match = request.resolver_match
    if match is None or (getattr(match.func, "views_item", None) or conf.VIEWED_VIEWS.get(match.view_name)) is None:
        return False
    return request.method == "GET" and response.status_code == 200 and session_of(request) is not None


def note_view(request: HttpRequest) -> Steps[None]:
    """Have the session note what ``request`` viewed, with its next save or at the end. It is one that may view."""
    session = session_of(request)
    if session is None or session.passive or session.unavailable or _is_ahead(request):
        return
    session.viewed(_item_viewed(request))
    if session.visit is None:
        # Django's own session middleware does nothing for it at the end.
        yield from send_view(session)


def send_view(session: SessionLifecycle) -> Steps[None]:
    """Send what no save has taken along. An outage is none of the page's business."""
    item = session.pending.item
    session.viewed("")
    try:
        if item:
            yield from items.record_view(session, item)
        else:
            yield from items.count_pending_view(session)
    except SessionStoreUnavailable:
        # Whoever runs the site has been told of the outage, once.
        logger.info("A view was not recorded.")


def _item_viewed(request: HttpRequest) -> str:
    # What goes wrong here is no reason to fail a page.
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
    except Exception:  # It is the site's own function.
        logger.exception("A view of %s was not recorded: what names its item failed.", match.view_name)
    return ""


# What browsers say that load pages which somebody may open: Sec-Purpose is it by now, the others are older.
_PURPOSES = ("HTTP_SEC_PURPOSE", "HTTP_PURPOSE", "HTTP_X_MOZ")


def _is_ahead(request: HttpRequest) -> bool:
    # Not request.headers, which takes longer to make than the rest of this.
    return any(request.META.get(name, "").strip().lower().startswith("prefetch") for name in _PURPOSES)
