"""The middleware: who opens a session, what an outage is answered with, and what is viewed."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, TypeVar

from asgiref.sync import sync_to_async
from django.apps import apps
from django.conf import settings
from django.contrib import messages
from django.contrib.messages.storage import default_storage
from django.contrib.sessions.backends.base import UpdateError
from django.contrib.sessions.exceptions import SessionInterrupted
from django.contrib.sessions.middleware import SessionMiddleware as DjangoSessionMiddleware
from django.http import HttpRequest, HttpResponse
from django.http.request import HttpHeaders
from django.http.response import HttpResponseBase
from django.template import TemplateDoesNotExist
from django.template.loader import render_to_string
from django.utils.cache import patch_vary_headers
from django.utils.deprecation import MiddlewareMixin
from django.utils.http import http_date
from django.utils.module_loading import import_string

from django_redsess.backend import SessionStore
from django_redsess.conf import conf
from django_redsess.exceptions import SessionStoreUnavailable
from django_redsess.session import notice
from django_redsess.session.lifecycle import SessionLifecycle, session_of
from django_redsess.session.notice import Notice
from django_redsess.session.origin import client_of
from django_redsess.transport.announcing import Answering
from django_redsess.transport.steps import Steps, adrive, drive
from django_redsess.viewed import recording

__all__ = [
    "SessionMiddleware",
    "ViewedItemsMiddleware",
    "passive",
]

RETRY_AFTER_SECONDS = 5

View = TypeVar("View", bound=Callable[..., Any])

logger = logging.getLogger("django_redsess")


def passive(view: View) -> View:
    """
    Mark ``view`` as one that pages call by themselves: polling, or a heartbeat.

    Its requests are noted as seen, but prolong no session. Middleware below ours that reads the session before the
    view is known counts as active: name the path in ``PASSIVE_PATHS`` then.
    """
    view.session_passive = True  # type: ignore[attr-defined]
    return view


class SessionMiddleware(DjangoSessionMiddleware):
    """
    Takes the place of Django's: tells the session who opened it, sends its cookie, and answers 503 in an outage.

    Who comes back with the cookie of a session that an administrator ended, or that expired, was evicted or replaced,
    gets a message through ``django.contrib.messages``, and the answer the header ``X-Session-Ended``.

    The address is ``REMOTE_ADDR`` (or what ``TRUSTED_PROXIES`` proxies say), the user agent the first 256 bytes of the
    header without control characters. Both are kept with the session once somebody is signed in, and go with it.
    """

    def __call__(self, request: HttpRequest) -> Any:
        if self.async_mode:
            return self.__acall__(request)
        with Answering(request):
            self.process_request(request)
            try:
                response: Any = self.get_response(request)
            except SessionStoreUnavailable:
                # Django's page for an error may need the session too, and then there is no answer at all.
                return unavailable(request)
            return self.process_response(request, response)

    async def __acall__(self, request: HttpRequest) -> HttpResponseBase:
        with Answering(request) as answering:
            try:
                return await self._aanswer(request)
            except asyncio.CancelledError:
                # The visitor has gone: there will be no answer.
                await sync_to_async(answering.send)()
                raise

    async def _aanswer(self, request: HttpRequest) -> HttpResponseBase:
        self.process_request(request)
        try:
            response: HttpResponseBase = await self.get_response(request)  # type: ignore[misc]
        except SessionStoreUnavailable:
            return unavailable(request)
        session = session_of(request)
        if session is None:
            return await sync_to_async(super().process_response)(request, response)  # type: ignore[arg-type]
        if _is_unchanged(request, session):
            if session.accessed:
                patch_vary_headers(response, ("Cookie",))
            return response
        try:
            return await session.arun(self._closing(request, session, response))
        except SessionStoreUnavailable:
            return unavailable(request, response)

    def process_request(self, request: HttpRequest) -> None:
        super().process_request(request)
        session = request.session
        if isinstance(session, SessionStore):
            session.opened_by(partial(client_of, request), partial(_tell, request))
            # Not request.headers, which takes as long to make as the rest of this.
            if request.META.get(_name_in_meta(conf.PASSIVE_HEADER)) == "1" or (
                conf.PASSIVE_PATHS and request.path_info.startswith(tuple(conf.PASSIVE_PATHS))
            ):
                session.passive = True

    def process_view(self, request: HttpRequest, view: Callable[..., Any], *args: Any) -> None:
        if getattr(view, "session_passive", False):
            request.session.passive = True  # type: ignore[attr-defined]
        if hasattr(request, "_messages") and (untold := request.__dict__.pop("_redsess_untold", None)):
            _tell(request, untold)

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponseBase | None:
        session = session_of(request)
        # Whatever else is raised in an outage is most likely its consequence.
        if isinstance(exception, SessionStoreUnavailable) or (session is not None and session.unavailable):
            return unavailable(request)
        if session is not None and isinstance(exception, UpdateError):
            raise _interrupted() from exception
        return None

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:  # type: ignore[override]
        session = session_of(request)
        if session is None:
            return super().process_response(request, response)  # type: ignore[arg-type]
        if _is_unchanged(request, session):
            if session.accessed:
                patch_vary_headers(response, ("Cookie",))
            return response
        try:
            return session.run(self._closing(request, session, response))
        except SessionStoreUnavailable:
            return unavailable(request, response)

    def _closing(
        self, request: HttpRequest, session: SessionLifecycle, response: HttpResponseBase
    ) -> Steps[HttpResponseBase]:
        every = settings.SESSION_SAVE_EVERY_REQUEST and not session.passive
        if every and session.session_key is not None:
            # A cookie that names no session loses its key here, and then there is nothing to save.
            yield from session.opening()
        # Shared caches keep it, and may hand it to others with all that it has.
        shared = _is_shared(response)
        session.begins_by_view = not shared
        begun = False
        if session.views_item and (session.is_empty() or not (session.modified or every)):
            # No save will take the view along. It may find that a guest gets a session for it.
            modified, session.modified = session.modified, False
            yield from recording.send_view(session)
            begun, session.modified = session.modified, modified
        response = yield from self._saved(request, session, response, every=every, begun=begun, shared=shared)
        if response.status_code < 500 and (session.views_item or session.uncounted_item):
            # A save has left this where it moved the session to another partition, or the item is counted in one.
            yield from recording.send_view(session)
        return response

    def _saved(
        self,
        request: HttpRequest,
        session: SessionLifecycle,
        response: HttpResponseBase,
        *,
        every: bool,
        begun: bool,
        shared: bool,
    ) -> Steps[HttpResponseBase]:
        if session.notice and not shared:
            response.headers[notice.HEADER] = session.notice.header
            _tell_late(request, response)
        empty = session.is_empty()
        if session.accessed:
            patch_vary_headers(response, ("Cookie",))
        if shared and session.notice and set((yield from session.opening())) <= {"_messages"}:
            # The message that says why the old one is gone is no reason to begin another.
            return response
        if session.late and session.session_key is None:
            # The browser has a newer cookie by now, which this answer must not touch. Somebody who signs in gets one.
            if empty or not session.modified or response.status_code >= 500:
                return response
        elif empty:
            if settings.SESSION_COOKIE_NAME in request.COOKIES and not shared:
                self._delete_cookie(response)
            return response
        if response.status_code >= 500:
            _send_new_key(request, response)
            return response
        if session.modified or (every and not begun):
            try:
                yield from session.saving()
            except UpdateError:
                raise _interrupted() from None
        elif not begun:
            if not session.refresh_cookie or shared:
                return response
            # A view may have been noted in a session that nobody has read, and its data tell how long the cookie lasts.
            yield from session.opening()
            # It may have got another key while this answer was made: an older cookie must not follow the newer.
            if session.get_expire_at_browser_close() or not (yield from session.still_there()):
                return response
        if not shared:
            _set_cookie(session, response)
        elif session.session_key != request.COOKIES.get(settings.SESSION_COOKIE_NAME):
            if (yield from session.opening()):
                # What is in it is the site's own doing.
                _set_cookie(session, response)
            else:
                # Begun for a view, before anybody knew of the answer.
                yield from session.flushing()
        return response

    def _delete_cookie(self, response: HttpResponseBase) -> None:
        response.delete_cookie(
            settings.SESSION_COOKIE_NAME,
            path=settings.SESSION_COOKIE_PATH,
            domain=settings.SESSION_COOKIE_DOMAIN,
            samesite=settings.SESSION_COOKIE_SAMESITE,
        )
        patch_vary_headers(response, ("Cookie",))


_name_in_meta = lru_cache(maxsize=8)(HttpHeaders.to_wsgi_name)


def _is_unchanged(request: HttpRequest, session: SessionLifecycle) -> bool:
    """Tell whether the session and its cookie may stay as they are: with most answers, that is all there is to know."""
    if (
        session.unavailable
        or session.modified
        or session.views_item
        or session.uncounted_item
        or session.refresh_cookie
        or session.notice
        or session.late
    ):
        return False
    key = session.session_key
    if key != request.COOKIES.get(settings.SESSION_COOKIE_NAME):
        return False
    return key is None or session.passive or not settings.SESSION_SAVE_EVERY_REQUEST


def _is_shared(response: HttpResponseBase) -> bool:
    """Tell whether shared caches keep this answer, or what it says of one that they have."""
    directives = {
        part.partition("=")[0].strip().lower() for part in response.headers.get("Cache-Control", "").split(",")
    }
    return response.status_code == 304 or not directives.isdisjoint({"public", "s-maxage"})


def _set_cookie(session: SessionLifecycle, response: HttpResponseBase) -> None:
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


def _send_new_key(request: HttpRequest, response: HttpResponseBase) -> None:
    # A sign-in may have been saved before what failed: the key that the browser has is no longer that of a session.
    session = session_of(request)
    known = (None, request.COOKIES.get(settings.SESSION_COOKIE_NAME))
    if session is not None and session.saved_as not in known:
        _set_cookie(session, response)


def _tell(request: HttpRequest, notice: Notice | None) -> None:
    if notice is None:
        _tell_nothing(request)
        return
    # Middleware between ours and that of messages may read the session before there is a place for them.
    if hasattr(request, "_messages"):
        messages.warning(request, str(notice))
        request._redsess_told = notice  # type: ignore[attr-defined]
    else:
        request._redsess_untold = notice  # type: ignore[attr-defined]


def _tell_nothing(request: HttpRequest) -> None:
    request.__dict__.pop("_redsess_untold", None)
    if told := request.__dict__.pop("_redsess_told", None):
        storage = request._messages  # type: ignore[attr-defined]
        # Django has no way to take back a message that nobody has read.
        storage._queued_messages = [queued for queued in storage._queued_messages if queued.message != told.message]


def _tell_late(request: HttpRequest, response: HttpResponseBase) -> None:
    # The session may have been read only after the middleware of messages has put them into the answer.
    if not apps.is_installed("django.contrib.messages"):
        return
    if not hasattr(request, "_messages"):
        request.__dict__["_messages"] = default_storage(request)
    if untold := request.__dict__.pop("_redsess_untold", None):
        messages.warning(request, untold.message)
    request.__dict__["_messages"].update(response)


def unavailable(request: HttpRequest, instead_of: HttpResponseBase | None = None) -> HttpResponse:
    """
    Answer 503: the sessions can't be reached, and nobody is signed out by that.

    The page is the template ``django_redsess/503.html``, rendered without the request, whose user can't be told; a line
    of text, where that fails. What ``instead_of`` was to close at its end is closed at the end of this answer.
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
    _send_new_key(request, response)
    # Django would log each 503 as an error: the outage has been logged once, by the client.
    response._has_been_logged = True  # type: ignore[attr-defined]
    return response


def not_about_an_outage(line: logging.LogRecord) -> bool:
    """Filter Django's line for each request of an outage whose error passed through other middleware."""
    return not (line.exc_info and isinstance(line.exc_info[1], SessionStoreUnavailable))


def places_of(middleware: type) -> list[int]:
    """Tell where in ``MIDDLEWARE`` this class stands, or one that is derived from it."""
    return [at for at, path in enumerate(settings.MIDDLEWARE) if issubclass(_class_at(path), middleware)]


def _class_at(path: str) -> type:
    try:
        found = import_string(path)
    except Exception:  # Django says so itself when it starts to serve.
        return object
    return found if isinstance(found, type) else object


def _interrupted() -> SessionInterrupted:
    return SessionInterrupted("The session was ended, or got another key, while this request was answered.")


class ViewedItemsMiddleware(MiddlewareMixin):
    """
    Record the items that visitors view: those of the views that ``REDSESS["VIEWED_VIEWS"]`` names, and of those that
    are marked with :func:`~django_redsess.viewed.records_view`.

    A GET that was answered with 200 counts, unless the browser only fetched it ahead, or nobody made it by hand. A
    visitor without a session is not recorded, unless ``VIEWED_GUESTS`` says so. Stands below the session middleware,
    whose save at the end of the request takes the view along, where there is one.
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
