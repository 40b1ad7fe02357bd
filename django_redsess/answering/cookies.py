"""The session's cookie in a response."""

from __future__ import annotations

import time

from django.conf import settings
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.cache import patch_vary_headers
from django.utils.http import http_date

from django_redsess.session.lifecycle import SessionLifecycle, session_of


def key_in(request: HttpRequest) -> str | None:
    """Return the session key in the request's cookie, or None."""
    return request.COOKIES.get(settings.SESSION_COOKIE_NAME)


def is_shared(response: HttpResponseBase) -> bool:
    """Tell whether shared caches may store this response, or use it to update a stored one."""
    directives = {
        part.partition("=")[0].strip().lower() for part in response.headers.get("Cache-Control", "").split(",")
    }
    return response.status_code == 304 or not directives.isdisjoint({"public", "s-maxage"})


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
