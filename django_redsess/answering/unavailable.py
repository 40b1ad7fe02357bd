"""The response in an outage."""

from __future__ import annotations

import logging

from django.conf import settings
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.http.response import HttpResponseBase
from django.template import TemplateDoesNotExist
from django.template.loader import render_to_string
from django.utils.translation import gettext

from django_redsess.answering.cookies import send_new_key
from django_redsess.exceptions import SessionStoreUnavailable
from django_redsess.online.language import in_our_language
from django_redsess.session.lifecycle import session_of

RETRY_AFTER_SECONDS = 5
RETRY_AFTER_SECONDS_IF_IT_LASTS = 60

logger = logging.getLogger("django_redsess")


def unavailable(
    request: HttpRequest, error: Exception | None = None, instead_of: HttpResponseBase | None = None
) -> HttpResponse:
    """
    Return the response 503: the sessions can't be reached. Nobody is signed out by it.

    Browsers get the template ``django_redsess/503.html``, other clients JSON. The page is rendered without the request,
    since its user is unknown. If rendering fails, the page is a line of text. ``error`` is the outage, unless the
    session has met it. This response also closes what ``instead_of``, the response that it replaces, would have closed.
    """
    session = session_of(request)
    outage = (session.unavailable if session is not None else None) or error
    lasts = isinstance(outage, SessionStoreUnavailable) and outage.lasts
    try:
        with in_our_language():
            if lasts:
                detail = gettext("This site can’t look up who you are just now. Please try again later.")
            else:
                detail = gettext("This site can’t look up who you are just now. Please try again in a few seconds.")
            for_developers = _for_developers(outage) if settings.DEBUG else {}
            response: HttpResponse
            if _wants_json(request):
                response = JsonResponse({"detail": detail, **for_developers}, status=503)
            else:
                context = {"detail": detail, "for_developers": for_developers}
                response = HttpResponse(render_to_string("django_redsess/503.html", context), status=503)
    except Exception as failure:
        # The site may not load templates from apps or collect static files. Or its own template may fail.
        if not isinstance(failure, TemplateDoesNotExist):
            logger.warning("The page django_redsess/503.html can't be made: %s", type(failure).__name__)
        response = HttpResponse("Sessions can't be reached.", status=503, content_type="text/plain")
    response.headers["Cache-Control"] = "no-store"
    if request.method in ("GET", "HEAD", "OPTIONS"):
        response.headers["Retry-After"] = str(RETRY_AFTER_SECONDS_IF_IT_LASTS if lasts else RETRY_AFTER_SECONDS)
    if instead_of is not None:
        response._resource_closers.extend(instead_of._resource_closers)  # type: ignore[attr-defined]
    send_new_key(request, response)
    # Otherwise Django logs each 503 as an error. The outage has already been logged once.
    response._has_been_logged = True  # type: ignore[attr-defined]
    return response


def _wants_json(request: HttpRequest) -> bool:
    # Browsers name text/html where they show a page. Who takes anything is a program.
    accept = request.headers.get("Accept", "")
    is_named = not accept or "text/html" in accept.lower()
    return not is_named or request.get_preferred_type(["text/html", "application/json"]) == "application/json"


def _for_developers(outage: Exception | None) -> dict[str, str]:
    cause = getattr(outage, "cause", "")
    if not cause:
        # No setting mends it: too many requests change one session, or a cluster is moving it.
        return {"cause": str(outage)}
    entry = f"CACHES[{settings.SESSION_CACHE_ALIAS!r}]['LOCATION']"
    return {"cause": cause, "setting": f"{entry}: manage.py check says what may be wrong with it."}


def not_about_an_outage(line: logging.LogRecord) -> bool:
    """Log filter: drop the error lines that Django writes for requests that failed in an outage."""
    return not (line.exc_info and isinstance(line.exc_info[1], SessionStoreUnavailable))
