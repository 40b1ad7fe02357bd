"""The answer in an outage."""

from __future__ import annotations

import logging

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.template import TemplateDoesNotExist
from django.template.loader import render_to_string

from django_redsess.answering.cookies import send_new_key
from django_redsess.exceptions import SessionStoreUnavailable

RETRY_AFTER_SECONDS = 5

logger = logging.getLogger("django_redsess")


def unavailable(request: HttpRequest, instead_of: HttpResponseBase | None = None) -> HttpResponse:
    """
    Answer 503: the sessions can't be reached. Nobody is signed out by that.

    The page is the template ``django_redsess/503.html``, rendered without the request, whose user is not known; or a
    line of text, if rendering fails. Whatever ``instead_of`` would close at its end, this answer closes.
    """
    try:
        response = HttpResponse(render_to_string("django_redsess/503.html"), status=503)
    except Exception as error:
        # A site need not look for templates in apps, or collect static files; and the template may be its own.
        if not isinstance(error, TemplateDoesNotExist):
            logger.warning("The page django_redsess/503.html can't be made: %s", type(error).__name__)
        response = HttpResponse("Sessions can't be reached.", status=503, content_type="text/plain")
    response.headers["Cache-Control"] = "no-store"
    if request.method in ("GET", "HEAD", "OPTIONS"):
        response.headers["Retry-After"] = str(RETRY_AFTER_SECONDS)
    if instead_of is not None:
        response._resource_closers.extend(instead_of._resource_closers)  # type: ignore[attr-defined]
    send_new_key(request, response)
    # Django would log each 503 as an error: the client has logged the outage once.
    response._has_been_logged = True  # type: ignore[attr-defined]
    return response


def not_about_an_outage(line: logging.LogRecord) -> bool:
    """Filter the line that Django logs for each request whose outage passed through other middleware as an error."""
    return not (line.exc_info and isinstance(line.exc_info[1], SessionStoreUnavailable))
