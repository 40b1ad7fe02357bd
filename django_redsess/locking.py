"""
A lock for views whose requests must not overlap: counters in the session, and steps that are taken once. Public.

Without it, overlapping requests lose no key: saves merge. But of two requests that read the same number and add one to
it, one addition is lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import wraps
from inspect import isawaitable
from math import isfinite
from typing import Any, TypeVar

from asgiref.sync import iscoroutinefunction
from django.contrib.sessions.backends.base import UpdateError
from django.core.exceptions import ImproperlyConfigured
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest
from django.urls import URLPattern, URLResolver

from django_redsess.middleware import interruption
from django_redsess.responses import busy_response, cookie_key
from django_redsess.session import binding
from django_redsess.session.lock import SessionLock, reading_anew
from django_redsess.session.store import django_request, session_of
from django_redsess.transport.keys import is_session_key, sid_of
from django_redsess.transport.steps import Steps

__all__ = ["one_at_a_time"]

View = TypeVar("View", bound=Callable[..., Any] | tuple[Any, ...])
Otherwise = Callable[[HttpRequest], Any]

NO_SESSION = (
    "one_at_a_time() needs request.session of django_redsess, and django_redsess.middleware.SessionMiddleware, which "
    "gives the lock back once the session is saved."
)


def one_at_a_time(*, wait: float = 10, hold: float = 30, otherwise: Otherwise | None = None) -> Callable[[View], View]:
    """
    Decorate a view: the requests of one session are answered one after the other, in the order in which they came.

    A request waits ``wait`` seconds at most. Then it is answered by ``otherwise(request)``, a view that is synchronous
    if the decorated one is, or by a 409 with ``Retry-After``. It holds the others up for ``hold`` seconds at most. One
    that takes longer goes on, and so does the next. Then their saves merge, as without a lock.

    What is decorated is a view, synchronous or not; a method of a class of views, by Django's ``method_decorator``; or
    what ``include()`` returns: then all its views have the lock together. A request that has it does not wait for it
    again. All views that are decorated share one lock, for each session.

    The session is read once the lock is had, and saved before it is given back. If it was read earlier, it is read
    again. If it was changed earlier, it is saved first. If it is another user's by then, or no user's, the answer is
    400. A request that brings no session has nothing to share, and does not wait.

    Raises TypeError or ValueError for times that are no numbers, a ``wait`` below 0 or a ``hold`` that is not above 0,
    and for objects that are no views. The view raises ImproperlyConfigured where sessions are not of this app, or its
    middleware does not save them, and SessionStoreUnavailable in an outage: the middleware answers that with 503.
    """
    _require_seconds("wait", wait)
    _require_seconds("hold", hold)
    if hold <= 0:
        raise ValueError(f"hold must be above 0 seconds; it is {hold!r}.")
    if otherwise is not None and not callable(otherwise):
        raise TypeError(f"otherwise must be a view; it is {otherwise!r}.")
    turns = _Turns(wait, hold, otherwise or busy_response)

    def decorate(view: Any) -> Any:
        if isinstance(view, tuple):
            patterns, *names = view
            return (_decorated(getattr(patterns, "urlpatterns", patterns), turns.view), *names)
        if isinstance(view, type) or not callable(view):
            raise TypeError(f"one_at_a_time() decorates a view, a method or what include() returns; it is {view!r}.")
        return turns.view(view)

    return decorate


def _require_seconds(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name} must be a number of seconds; it is {value!r}.")
    if not isfinite(value) or value < 0:
        raise ValueError(f"{name} must be a number of seconds, 0 or more; it is {value!r}.")


def _decorated(patterns: Any, decorate: Callable[[Any], Any]) -> list[URLPattern | URLResolver]:
    """Return the same URL patterns with decorated views."""
    return [_decorated_pattern(each, decorate) for each in patterns]


def _decorated_pattern(each: Any, decorate: Callable[[Any], Any]) -> URLPattern | URLResolver:
    if isinstance(each, URLPattern):
        return URLPattern(each.pattern, decorate(each.callback), each.default_args, each.name)
    inner = _decorated(each.url_patterns, decorate)
    return URLResolver(each.pattern, inner, each.default_kwargs, each.app_name, each.namespace)


class _Turns:
    """The arguments of :func:`one_at_a_time`."""

    def __init__(self, wait: float, hold: float, otherwise: Otherwise) -> None:
        self.wait, self.hold, self.otherwise = wait, hold, otherwise

    def view(self, view: Callable[..., Any]) -> Callable[..., Any]:
        """Return the decorated ``view``."""
        if iscoroutinefunction(view):

            @wraps(view)
            async def awaited(request: HttpRequest, *args: Any, **named: Any) -> Any:
                return await self._aanswer(view, request, *args, **named)

            return awaited

        @wraps(view)
        def called(request: HttpRequest, *args: Any, **named: Any) -> Any:
            # The method ``dispatch`` of an asynchronous class of views is none itself, and returns what is awaited.
            answer = self._aanswer if _is_awaited(request) else self._answer
            return answer(view, request, *args, **named)

        return called

    def _answer(self, view: Callable[..., Any], request: HttpRequest, *args: Any, **named: Any) -> Any:
        lock = _new_lock(request, self.hold)
        goes_on = lock is None or lock.session.run_steps(self._waiting(request, lock))
        return view(request, *args, **named) if goes_on else self.otherwise(request)

    async def _aanswer(self, view: Callable[..., Any], request: HttpRequest, *args: Any, **named: Any) -> Any:
        lock = _new_lock(request, self.hold)
        goes_on = lock is None or await lock.session.arun_steps(self._waiting(request, lock))
        response = view(request, *args, **named) if goes_on else self.otherwise(request)
        return await response if isawaitable(response) else response

    def _waiting(self, request: HttpRequest, lock: SessionLock) -> Steps[bool]:
        """Wait for the lock. Return whether the view is to be called."""
        if binding.guard is not None:
            is_first = "_session_cache" not in lock.session.__dict__
            yield from lock.session.proving()
            if lock.session.saved_key is None:
                # The request goes on without the session of its cookie.
                del django_request(request).__dict__[LOCK]
                return True
            if is_first:
                # The view loads what is there once it has the lock: maybe nothing, which is no error then.
                lock.session.abandon()
        outcome = yield from lock.taking(self.wait)
        if outcome != "locked":
            # The request has no lock to give back.
            del django_request(request).__dict__[LOCK]
        if outcome == "late":
            return False
        try:
            yield from reading_anew(lock.session)
        except UpdateError as error:
            raise interruption(error) from None
        return True


LOCK = "_redsess_lock"
"""The attribute of a request that has a lock, or waits for it. The middleware looks for it."""


def _new_lock(request: HttpRequest, hold: float) -> SessionLock | None:
    """Return a lock for this request. None if it has one already, or brings no session."""
    session = session_of(request)
    if session is None:
        raise ImproperlyConfigured(NO_SESSION)
    plain = django_request(request)
    # By the key in the cookie: the session object may have another key by now, which no other request has.
    key = (session.visit.key if session.visit is not None else None) or cookie_key(plain)
    if key is None or not is_session_key(key) or LOCK in plain.__dict__:
        return None
    if session.visit is None:
        raise ImproperlyConfigured(NO_SESSION)
    lock = plain.__dict__[LOCK] = SessionLock(session, sid_of(key), hold)
    return lock


def _is_awaited(request: HttpRequest) -> bool:
    """Tell whether a plain function is called in an event loop, so that it must not block."""
    if not isinstance(django_request(request), ASGIRequest):
        return False
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
