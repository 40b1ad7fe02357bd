"""The response in an outage."""

from __future__ import annotations

import logging

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.template import TemplateDoesNotExist
from django.template.loader import render_to_string

from django_redsess.answering.cookies import send_new_key
from django_redsess.exceptions import SessionStoreUnavailable
from django_redsess.online.language import in_our_language

RETRY_AFTER_SECONDS = 5

logger = logging.getLogger("django_redsess")


def unavailable(request: HttpRequest, instead_of: HttpResponseBase | None = None) -> HttpResponse:
    """
    Return the response 503: the sessions can't be reached. Nobody is signed out by it.

    The page is the template ``django_redsess/503.html``. It is rendered without the request, since its user is unknown.
    If rendering fails, the page is a line of text. This response also closes what ``instead_of``, the response that it
    replaces, would have closed.
    """
    try:
        with in_our_language():
            response = HttpResponse(render_to_string("django_redsess/503.html"), status=503)
    except Exception as error:
        # The site may not load templates from apps or collect static files. Or its own template may fail.
        if not isinstance(error, TemplateDoesNotExist):
            logger.warning("The page django_redsess/503.html can't be made: %s", type(error).__name__)
        response = HttpResponse("Sessions can't be reached.", status=503, content_type="text/plain")
    response.headers["Cache-Control"] = "no-store"
    if request.method in ("GET", "HEAD", "OPTIONS"):
        response.headers["Retry-After"] = str(RETRY_AFTER_SECONDS)
    if instead_of is not None:
        response._resource_closers.extend(instead_of._resource_closers)  # type: ignore[attr-defined]
    send_new_key(request, response)
    # Otherwise Django logs each 503 as an error. The outage has already been logged once.
    response._has_been_logged = True  # type: ignore[attr-defined]
    return response


def not_about_an_outage(line: logging.LogRecord) -> bool:
    """Log filter: drop the error lines that Django writes for requests that failed in an outage."""
    return not (line.exc_info and isinstance(line.exc_info[1], SessionStoreUnavailable))
