"""The session's cookie in a response."""

from __future__ import annotations

import time

from django.conf import settings
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.cache import patch_vary_headers
from django.utils.http import http_date

from django_redsess.session.lifecycle import SessionLifecycle, session_of

OF_CACHES_IN_FRONT = ("-cache-control", "surrogate-control")
"""How the names of headers end that are only for caches in front of the site. See RFC 9213."""

FRESH = frozenset({"public", "s-maxage", "max-age"})


def key_in(request: HttpRequest) -> str | None:
    """Return the session key in the request's cookie, or None."""
    return request.COOKIES.get(settings.SESSION_COOKIE_NAME)


def is_shared(response: HttpResponseBase) -> bool:
    """
    Tell whether shared caches may store this response, or use it to update a stored one.

    They may if a header tells how long it is fresh. 0 seconds count, too: such a response may be stored, and sent to
    others when the site confirms it. ``private`` and ``no-store`` forbid it. Caches in front of the site prefer their
    own headers to ``Cache-Control``: ``Surrogate-Control``, ``CDN-Cache-Control``, and those of single networks.
    """
    headers = response.headers
    own_rules = [said for name, said in headers.items() if name.lower().endswith(OF_CACHES_IN_FRONT)]
    if response.status_code == 304 or not all(map(_forbids_sharing, own_rules)):
        return True
    said = headers.get("Cache-Control", "")
    directives = {part.partition("=")[0].strip().lower() for part in said.split(",")}
    return not _forbids_sharing(said) and ("Expires" in headers or not directives.isdisjoint(FRESH))


def _forbids_sharing(said: str) -> bool:
    # With a value, private is about single headers. Caches that know must-understand ignore no-store beside it.
    directives = {part.strip().lower() for part in said.split(",")}
    return "private" in directives or ("no-store" in directives and "must-understand" not in directives)


def set_cookie(session: SessionLifecycle, response: HttpResponseBase) -> None:
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
    patch_vary_headers(response, ("Cookie",))


def delete_cookie(response: HttpResponseBase) -> None:
    """Delete the session cookie."""
    response.delete_cookie(
        settings.SESSION_COOKIE_NAME,
        path=settings.SESSION_COOKIE_PATH,
        domain=settings.SESSION_COOKIE_DOMAIN,
        samesite=settings.SESSION_COOKIE_SAMESITE,
    )
    patch_vary_headers(response, ("Cookie",))


def send_new_key(request: HttpRequest, response: HttpResponseBase) -> None:
    """Set the cookie of a failed response if the session has been stored under a new key, as after a sign-in."""
    session = session_of(request)
    if session is not None and session.stored_key not in (None, key_in(request)):
        set_cookie(session, response)
