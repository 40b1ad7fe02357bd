"""The middleware of sessions and of viewed items, and the decorator of passive views. Public."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, TypeVar

from asgiref.sync import sync_to_async
from django.apps import apps
from django.contrib.sessions.backends.base import UpdateError
from django.contrib.sessions.middleware import SessionMiddleware as DjangoSessionMiddleware
from django.core.exceptions import ImproperlyConfigured
from django.http import HttpRequest
from django.http.request import HttpHeaders
from django.http.response import HttpResponseBase
from django.utils.cache import patch_vary_headers
from django.utils.deprecation import MiddlewareMixin

from django_redsess.answering.closing import Closing, interruption, is_unchanged
from django_redsess.answering.telling import tell, tell_what_waits
from django_redsess.answering.unavailable import unavailable
from django_redsess.backend import SessionStore, is_in_use
from django_redsess.conf import conf
from django_redsess.exceptions import SessionStoreUnavailable
from django_redsess.session.lifecycle import session_of
from django_redsess.session.origin import client_of
from django_redsess.session.state import Visit
from django_redsess.transport.announcing import Answering
from django_redsess.transport.steps import adrive, drive
from django_redsess.viewed import recording

__all__ = ["SessionMiddleware", "ViewedItemsMiddleware", "passive"]

if apps.apps_ready and is_in_use() and not apps.is_installed("django_redsess"):
    # Without the app, there is no check to say it.
    raise ImproperlyConfigured(
        "'django_redsess' is not in INSTALLED_APPS: add it. Without it, sessions do not end with a new password or a "
        "deactivated account, and there are no checks, commands and admin pages."
    )

View = TypeVar("View", bound=Callable[..., Any])


def passive(view: View) -> View:
    """
    Mark ``view`` as one that pages call by themselves, such as polling or a heartbeat.

    Its requests count as seen, but they do not prolong the session. If a middleware below ours reads the session before
    the view is known, the request counts as active. In that case, name the path in ``PASSIVE_PATHS``.
    """
    view.session_passive = True  # type: ignore[attr-defined]
    return view


class SessionMiddleware(DjangoSessionMiddleware):
    """
    Replaces Django's SessionMiddleware. It saves the session, sends its cookie, and answers 503 in an outage.

    A user is told at the next request if the session has expired, was kicked, replaced or evicted, or was ended with a
    message. This is a message in ``django.contrib.messages`` and the response header ``X-Session-Ended``.

    While somebody is signed in, the session stores the client's address and user agent. The address is ``REMOTE_ADDR``,
    or the one that ``TRUSTED_PROXIES`` proxies report. The user agent is cut to 256 bytes, without control characters.
    Both are deleted with the session.

    A subclass may override ``process_request`` and ``process_response``, as one of Django's class may. Under ASGI, what
    it overrides runs in a thread.
    """

    def __init__(self, get_response: Any) -> None:
        super().__init__(get_response)
        own = type(self)
        self._request_in_thread = own.process_request is not SessionMiddleware.process_request
        self._response_in_thread = own.process_response is not SessionMiddleware.process_response

    def __call__(self, request: HttpRequest) -> Any:
        if self.async_mode:
            return self.__acall__(request)
        with Answering(request):
            response: Any = None
            try:
                response = self.process_request(request) or self.get_response(request)
                return self.process_response(request, response)
            except SessionStoreUnavailable as error:
                # Django's error page may need the session, too. Then there would be no response at all.
                return unavailable(request, error, response)

    async def __acall__(self, request: HttpRequest) -> HttpResponseBase:
        with Answering(request) as answering:
            try:
                return await self._aanswer(request)
            except asyncio.CancelledError:
                # The visitor has disconnected, so no response will be sent.
                await sync_to_async(answering.send)()
                raise

    async def _aanswer(self, request: HttpRequest) -> HttpResponseBase:
        response: HttpResponseBase | None = None
        try:
            if self._request_in_thread:
                response = await sync_to_async(self.process_request)(request)
            else:
                self.process_request(request)
            response = response or await self.get_response(request)  # type: ignore[misc]
            session = session_of(request)
            if self._response_in_thread or session is None:
                return await sync_to_async(self.process_response)(request, response)
            if is_unchanged(request, session):
                if session.accessed:
                    patch_vary_headers(response, ("Cookie",))
                return response
            return await session.arun(Closing(request, session, response).steps())
        except SessionStoreUnavailable as error:
            return unavailable(request, error, response)

    def process_request(self, request: HttpRequest) -> HttpResponseBase | None:  # type: ignore[override]
        super().process_request(request)
        session = request.session
        if isinstance(session, SessionStore):
            # Not request.headers: building it takes as long as the rest of this method.
            is_passive = request.META.get(_name_in_meta(conf.PASSIVE_HEADER)) == "1" or (
                bool(conf.PASSIVE_PATHS) and request.path_info.startswith(tuple(conf.PASSIVE_PATHS))
            )
            session.visit = Visit(partial(client_of, request), partial(tell, request), is_passive)
        return None

    def process_view(self, request: HttpRequest, view: Callable[..., Any], *args: Any) -> None:
        if getattr(view, "session_passive", False):
            session = session_of(request)
            if session is not None and session.visit is not None:
                session.visit.passive = True
        if "_redsess_untold" in request.__dict__:
            tell_what_waits(request)

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponseBase | None:
        session = session_of(request)
        # Any other error in an outage is most likely a consequence of it.
        if isinstance(exception, SessionStoreUnavailable) or (session is not None and session.unavailable):
            return unavailable(request, exception)
        if session is not None and isinstance(exception, UpdateError):
            raise interruption() from exception
        return None

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:  # type: ignore[override]
        session = session_of(request)
        if session is None:
            return super().process_response(request, response)  # type: ignore[arg-type]
        if is_unchanged(request, session):
            if session.accessed:
                patch_vary_headers(response, ("Cookie",))
            return response
        try:
            return session.run(Closing(request, session, response).steps())
        except SessionStoreUnavailable as error:
            # A subclass goes on with this response.
            return unavailable(request, error, response)


_name_in_meta = lru_cache(maxsize=8)(HttpHeaders.to_wsgi_name)


class ViewedItemsMiddleware(MiddlewareMixin):
    """
    Records the items that visitors view.

    Views show items if ``REDSESS["VIEWED_VIEWS"]`` names them, or if they are marked with
    :func:`~django_redsess.viewed.records_view`. A GET that is answered with 200 counts. Prefetches and passive requests
    do not count. Visitors without a session are recorded only if ``VIEWED_GUESTS`` is on.

    Put it below the session middleware. If the session is saved at the end of the request, the same save records the
    view.
    """

    def __call__(self, request: HttpRequest) -> Any:
        if self.async_mode:
            return self.__acall__(request)
        response: HttpResponseBase = self.get_response(request)  # type: ignore[assignment]
        if recording.may_view(request, response):
            drive(recording.note_view(request))
        return response

    async def __acall__(self, request: HttpRequest) -> HttpResponseBase:
        response: HttpResponseBase = await self.get_response(request)  # type: ignore[misc]
        if recording.may_view(request, response):
            await adrive(recording.note_view(request))
        return response
