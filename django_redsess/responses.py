"""Responses and cookies that the middleware sends: 503 in an outage, 403 to a refused sign-in, problem details."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any, TypeVar

from django.conf import settings
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.http.response import HttpResponseBase
from django.template import TemplateDoesNotExist
from django.template.loader import get_template, render_to_string
from django.urls import get_resolver, get_urlconf
from django.utils.cache import patch_vary_headers
from django.utils.http import http_date
from django.utils.safestring import mark_safe
from django.utils.translation import gettext
from django.views.defaults import permission_denied

from django_redsess import problems
from django_redsess.backend import SessionStore
from django_redsess.exceptions import SessionLimitReached, SessionNotProven, SessionStoreUnavailable, SignInRefused
from django_redsess.problems import ProblemType
from django_redsess.session.blocks import refusal_in_words
from django_redsess.session.store import django_request, session_of
from django_redsess.user_messages import in_our_language, isolated_html

OF_CACHES_IN_FRONT = ("-cache-control", "surrogate-control")
"""Suffixes of headers that only caches in front of the site read. See RFC 9213."""

FRESH = frozenset({"public", "s-maxage", "max-age"})


def cookie_key(request: HttpRequest) -> str | None:
    """Return the session key in the request's cookie, or None."""
    return request.COOKIES.get(settings.SESSION_COOKIE_NAME)


def is_shared(response: HttpResponseBase) -> bool:
    """
    Tell whether shared caches may store this response, or use it to update a stored one.

    They may if a header gives its freshness. 0 seconds count, too: such a response may be stored, and sent to others
    when the site confirms it. ``private`` and ``no-store`` forbid it. Caches in front of the site prefer their own
    headers to ``Cache-Control``: ``Surrogate-Control``, ``CDN-Cache-Control``, and headers of single networks.
    """
    headers = response.headers
    own_rules = [said for name, said in headers.items() if name.lower().endswith(OF_CACHES_IN_FRONT)]
    if response.status_code == 304 or not all(map(_forbids_sharing, own_rules)):
        return True
    said = headers.get("Cache-Control", "")
    directives = {part.partition("=")[0].strip().lower() for part in said.split(",")}
    return not _forbids_sharing(said) and ("Expires" in headers or not directives.isdisjoint(FRESH))


def _forbids_sharing(said: str) -> bool:
    # "private" with a value forbids single headers only. Caches that know must-understand ignore no-store beside it.
    directives = {part.strip().lower() for part in said.split(",")}
    return "private" in directives or ("no-store" in directives and "must-understand" not in directives)


def set_session_cookie(session: SessionStore, response: HttpResponseBase) -> None:
    """Set the session cookie to the key of ``session``."""
    at_browser_close = session.get_expire_at_browser_close()
    age = None if at_browser_close else session.get_expiry_age()
    response.set_cookie(
        settings.SESSION_COOKIE_NAME,
        session.session_key or "",
        max_age=age,
        expires=None if age is None else http_date(time.time() + age),
        domain=settings.SESSION_COOKIE_DOMAIN,
        path=settings.SESSION_COOKIE_PATH,
        secure=settings.SESSION_COOKIE_SECURE,
        httponly=settings.SESSION_COOKIE_HTTPONLY,
        samesite=settings.SESSION_COOKIE_SAMESITE,
    )
    if session.visit is not None:
        for add in session.visit.with_cookie:
            add(response)
    patch_vary_headers(response, ("Cookie",))


def delete_session_cookie(response: HttpResponseBase) -> None:
    """Delete the session cookie."""
    response.delete_cookie(
        settings.SESSION_COOKIE_NAME,
        path=settings.SESSION_COOKIE_PATH,
        domain=settings.SESSION_COOKIE_DOMAIN,
        samesite=settings.SESSION_COOKIE_SAMESITE,
    )
    patch_vary_headers(response, ("Cookie",))


def send_new_key(request: HttpRequest, response: HttpResponseBase) -> None:
    """Set the session cookie on an error response if the session was stored under a new key, as after a sign-in."""
    session = session_of(request)
    if session is not None and session.stored_key not in (None, cookie_key(request)):
        set_session_cookie(session, response)


def sign_out_request(request: Any) -> None:
    """Make ``request`` anonymous again after its sign-in was refused."""
    # As in Django's logout(). Imported here, since a site may not have django.contrib.auth installed.
    from django.contrib.auth.models import AnonymousUser

    nobody = AnonymousUser()

    async def auser() -> AnonymousUser:
        return nobody

    # A wrapper around Django's request keeps attributes of its own.
    for each in (request, django_request(request)):
        if hasattr(each, "user"):
            each.user = nobody
        if hasattr(each, "auser"):
            each.auser = auser


RETRY_AFTER_SECONDS = 5
RETRY_AFTER_SECONDS_IF_IT_LASTS = 60
logger = logging.getLogger("django_redsess")


def unavailable_response(
    request: HttpRequest, error: Exception | None = None, instead_of: HttpResponseBase | None = None
) -> HttpResponse:
    """
    Return the response 503: the server of the sessions can't be reached. It signs nobody out.

    If the outage is a :class:`~django_redsess.exceptions.SessionNotProven`, return its response.

    Browsers get the template ``django_redsess/503.html``, other clients JSON. A view of :func:`with_problem_details`
    sends problem details to all. The page is rendered without the request, since its user is unknown. If rendering
    fails, the page is a line of text. ``error`` is the outage, unless the session has recorded one. The
    response replaces ``instead_of``, and closes the resources of it.
    """
    session = session_of(request)
    outage = (session.unavailable if session is not None else None) or error
    if isinstance(outage, SessionNotProven):
        return without_log(_finish_refusal(outage.respond(request), instead_of))
    lasts = isinstance(outage, SessionStoreUnavailable) and outage.lasts
    with in_our_language():
        if lasts:
            detail = gettext("This site can’t look up who you are just now. Please try again later.")
        else:
            detail = gettext("This site can’t look up who you are just now. Please try again in a few seconds.")
        for_developers = _for_developers(outage) if settings.DEBUG else {}
        response = program_response(request, problems.STORE_UNAVAILABLE, detail, **for_developers)
        if response is None:
            context = {"detail": detail, "for_developers": for_developers}
            response = page_response("django_redsess/503.html", context, 503, "Sessions can't be reached.")
    if request.method in ("GET", "HEAD", "OPTIONS"):
        response.headers["Retry-After"] = str(RETRY_AFTER_SECONDS_IF_IT_LASTS if lasts else RETRY_AFTER_SECONDS)
    _finish_refusal(response, instead_of)
    send_new_key(request, response)
    return without_log(response)


def busy_response(request: HttpRequest) -> HttpResponse:
    """
    Return the response 409 to a request that other requests of its session have held up for too long.

    Browsers get a line of text, other clients JSON; a view of :func:`with_problem_details` has problem details for all.
    """
    with in_our_language():
        detail = gettext("Another request of yours is still being answered. Please try again in a few seconds.")
    response = program_response(request, problems.SESSION_BUSY, detail)
    if response is None:
        response = HttpResponse(detail, status=409, content_type="text/plain; charset=utf-8")
    response.headers["Retry-After"] = str(RETRY_AFTER_SECONDS)
    return _finish_refusal(response)


def program_response(request: HttpRequest, kind: ProblemType, detail: str, **more: Any) -> HttpResponse | None:
    """Return an error as problem details or JSON. None for browsers."""
    if wants_problem_details(request):
        return problem_response(kind, detail, **more)
    return _json_response(kind, detail, **more) if _wants_json(request) else None


def _json_response(kind: ProblemType, detail: str, **more: Any) -> JsonResponse:
    return JsonResponse({"type": kind.uri, "detail": detail, **more}, status=kind.status)


def page_response(template: str, context: dict[str, Any], status: int, line: str) -> HttpResponse:
    """
    Return an error as a page, which is rendered without the request: the user is unknown.

    If rendering fails, the page is ``line``.
    """
    try:
        return HttpResponse(render_to_string(template, context), status=status)
    except Exception as failure:
        # The site may not load templates from apps or collect static files. Or its own template may fail.
        if not isinstance(failure, TemplateDoesNotExist):
            logger.warning("The page %s can't be made: %s", template, type(failure).__name__)
        return HttpResponse(line, status=status, content_type="text/plain; charset=utf-8")


def problem_response(kind: ProblemType, detail: str, **more: Any) -> JsonResponse:
    """Return an error as problem details (RFC 9457). ``more`` are other members."""
    content = {"type": kind.uri, "title": kind.title, "status": kind.status, "detail": detail, **more}
    return JsonResponse(content, status=kind.status, content_type="application/problem+json")


def without_log(response: HttpResponse) -> HttpResponse:
    """Keep Django from logging this response as an error. What it is about has been logged, as far as it has to be."""
    response._has_been_logged = True  # type: ignore[attr-defined]
    return response


def refused_response(
    request: HttpRequest, error: SignInRefused, instead_of: HttpResponseBase | None = None
) -> HttpResponse | None:
    """
    Return the response 403 to a refused sign-in. None if the site has its own page, which Django shows.

    Browsers get the template ``django_redsess/403.html``, other clients JSON. A view of :func:`with_problem_details`
    sends problem details to all. ``instead_of`` is the response that it replaces, if any.
    """
    sign_out_request(request)
    kind = problems.TOO_MANY_SESSIONS if isinstance(error, SessionLimitReached) else problems.SIGN_IN_REFUSED
    response: HttpResponse
    try:
        with in_our_language():
            handler: Any = get_resolver(get_urlconf()).resolve_error_handler(403)
            if wants_problem_details(request):
                response = problem_response(kind, str(error))
            elif handler is not permission_denied or _template_exists("403.html"):
                return None
            elif _wants_json(request):
                response = _json_response(kind, str(error))
            else:
                html = mark_safe(refusal_in_words(error, isolated_html))  # noqa: S308  # its parts are escaped
                context = {"detail": str(error), "detail_html": html}
                response = HttpResponse(render_to_string("django_redsess/403.html", context), status=403)
    except TemplateDoesNotExist:
        # The site does not load templates from apps.
        return None
    session = session_of(request)
    is_over = session is None or (session.session_key is None and not session.cookie.late)
    if is_over and settings.SESSION_COOKIE_NAME in request.COOKIES:
        # Its session has ended.
        delete_session_cookie(response)
    return _finish_refusal(response, instead_of)


ENDED_MEANWHILE = (
    "Your session was ended, or got another key, while this request was answered. The next answer tells whether you "
    "are still signed in."
)


def session_ended_response(instead_of: HttpResponseBase) -> HttpResponse:
    """
    Return the response 401 of a view of :func:`with_problem_details` whose session has ended during the request.

    It replaces ``instead_of``.
    """
    return _finish_refusal(problem_response(problems.SESSION_ENDED, ENDED_MEANWHILE), instead_of)


def _finish_refusal(response: HttpResponse, instead_of: HttpResponseBase | None = None) -> HttpResponse:
    """Return ``response``, which no cache may store, and which closes the resources of ``instead_of``."""
    response.headers["Cache-Control"] = "no-store"
    if instead_of is not None:
        response._resource_closers.extend(instead_of._resource_closers)  # type: ignore[attr-defined]
    return response


def _template_exists(template: str) -> bool:
    try:
        get_template(template)
    except TemplateDoesNotExist:
        return False
    return True


def wants_problem_details(request: HttpRequest) -> bool:
    """Tell whether the view of ``request`` is marked by :func:`with_problem_details`."""
    return getattr(getattr(request.resolver_match, "func", None), "wants_problem_details", False)


def _wants_json(request: HttpRequest) -> bool:
    # Browsers ask for text/html when they show a page. A client that accepts */* only is a program.
    accept = request.headers.get("Accept", "")
    is_named = not accept or "text/html" in accept.lower()
    return not is_named or request.get_preferred_type(["text/html", "application/json"]) == "application/json"


def _for_developers(outage: Exception | None) -> dict[str, str]:
    cause = getattr(outage, "cause", "")
    if not cause:
        # No setting helps: too many requests change one session, or a cluster is moving it.
        return {"cause": str(outage)}
    return {"cause": cause, "setting": getattr(outage, "setting", "")}


def not_about_an_outage(line: logging.LogRecord) -> bool:
    """Log filter: drop the error lines that Django writes for requests that failed in an outage."""
    return not (line.exc_info and isinstance(line.exc_info[1], SessionStoreUnavailable))


View = TypeVar("View", bound=Callable[..., Any])


def with_problem_details(view: View) -> View:
    """
    Mark ``view`` as one whose errors are problem details (RFC 9457).

    The middleware sends problem details for it, too: in an outage, and if the session ends during the request.
    """
    view.wants_problem_details = True  # type: ignore[attr-defined]
    return view
