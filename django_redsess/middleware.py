"""
The middleware of sessions and of viewed items, and the decorator of passive views. Public.

At the end of a request the session is saved, and its response gets the cookie and the notice. In an outage the
response is a 503.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

from asgiref.sync import sync_to_async
from django.conf import settings
from django.contrib.sessions.backends.base import UpdateError
from django.contrib.sessions.exceptions import SessionInterrupted
from django.contrib.sessions.middleware import SessionMiddleware as DjangoSessionMiddleware
from django.http import HttpRequest
from django.http.request import HttpHeaders
from django.http.response import HttpResponseBase
from django.utils.cache import patch_vary_headers
from django.utils.deprecation import MiddlewareMixin
from django.utils.module_loading import import_string

from django_redsess import viewed
from django_redsess.backend import SessionStore, is_in_use, require_app
from django_redsess.conf import conf
from django_redsess.exceptions import SessionStoreUnavailable, SignInRefused
from django_redsess.responses import (
    View,
    cookie_key,
    delete_session_cookie,
    is_shared,
    refused_response,
    send_new_key,
    session_ended_response,
    set_session_cookie,
    unavailable_response,
    wants_problem_details,
)
from django_redsess.session import binding
from django_redsess.session.client import read_client
from django_redsess.session.django_messages import add_at_the_end, add_message, add_pending_message, store_late_message
from django_redsess.session.state import COOKIE_UNCHANGED, NOTHING_PENDING, Visit
from django_redsess.session.store import session_of
from django_redsess.signals import RequestScope
from django_redsess.transport.steps import Steps, adrive, drive

response_hooks: list[Callable[[HttpRequest, SessionStore, HttpResponseBase], None]] = []
"""Called with each response to a request with a session, before that is saved. An app adds to it in ``ready()``."""


def is_unchanged(request: HttpRequest, session: SessionStore) -> bool:
    """Tell whether session and cookie can stay as they are. This is so for most responses."""
    if (
        session.modified
        or session.unavailable
        or session.pending != NOTHING_PENDING
        or session.cookie != COOKIE_UNCHANGED
        or session.viewed_item
        or ((visit := session.visit) is not None and visit.is_late)
    ):
        return False
    key = session.session_key
    if key != request.COOKIES.get(settings.SESSION_COOKIE_NAME):
        return False
    return key is None or not settings.SESSION_SAVE_EVERY_REQUEST or session.passive


def interruption(error: UpdateError) -> SessionInterrupted:
    """Return the error for a request whose session can't be saved any more. Django logs it, and answers with 400."""
    text = "The session was ended, or got another key, while this request was answered."
    return SessionInterrupted(str(error) or text)


class Closing:
    """The work on ``session`` when ``response`` is ready. Not needed if :func:`is_unchanged`."""

    def __init__(self, request: HttpRequest, session: SessionStore, response: HttpResponseBase) -> None:
        self.request, self.session, self.response = request, session, response
        self.saves_always = settings.SESSION_SAVE_EVERY_REQUEST and not session.passive
        # A shared cache sends a stored response to other visitors, with its cookie.
        self.shared = is_shared(response)
        self.failed = response.status_code >= 500
        self.begun = False  # Whether a guest's view has just created the session.

    def steps(self) -> Steps[HttpResponseBase]:
        """Record the view, save the session and send the cookie, each if needed. Return the response."""
        session = self.session
        if session.visit is not None and session.visit.is_late:
            session.visit.is_late = False
            yield from session.touching()
        if self.saves_always and session.session_key is not None:
            # If the cookie names no session, the key is dropped here. Then there is nothing to save.
            yield from session.opening()
        if session.viewed_item and (session.is_empty() or not (session.modified or self.saves_always)):
            yield from self._record_view_without_save()
        self._show_notice()
        # The message about the end of the old session is no reason to create a new one.
        tells_only = self.shared and session.cookie.notice and set((yield from session.opening())) <= {"_messages"}
        if not tells_only and not self._is_over() and (yield from self._save_or_refresh()):
            if self.shared:
                yield from self._send_shared_cookie()
            else:
                set_session_cookie(session, self.response)
        if session.viewed_item and not self.failed:
            # Only now: a save that is refused records no view.
            yield from self._record_view()
        return self.response

    def _record_view_without_save(self) -> Steps[None]:
        """Record the view when no save does. A guest may get a session for it."""
        modified, self.session.modified = self.session.modified, False
        yield from self._record_view()
        self.begun, self.session.modified = self.session.modified, modified

    def _record_view(self) -> Steps[None]:
        if self.session.visit is not None:
            self.session.visit.begins_by_view = not self.shared
        yield from viewed.record_noted_view(self.session)

    def _show_notice(self) -> None:
        found = self.session.cookie.notice
        if found and not self.shared:
            add_at_the_end(self.request, self.response, found)
        elif not self.shared and "_redsess_told" in self.request.__dict__:
            store_late_message(self.request, self.response)
        if self.session.accessed:
            patch_vary_headers(self.response, ("Cookie",))

    def _is_over(self) -> bool:
        """Tell whether nothing is to be saved. The cookie then stays, is deleted, or gets a newer key."""
        session, empty = self.session, self.session.is_empty()
        if session.cookie.late and session.saved_key is None:
            # The browser already has a newer cookie. This response must not replace it, unless somebody signs in.
            return empty or not session.modified or self.failed
        if empty:
            if settings.SESSION_COOKIE_NAME in self.request.COOKIES and not self.shared:
                delete_session_cookie(self.response)
            return True
        if self.failed:
            send_new_key(self.request, self.response)
        return self.failed

    def _save_or_refresh(self) -> Steps[bool]:
        """Save the session if it was changed. Tell whether the response gets the cookie."""
        session = self.session
        if session.modified or (self.saves_always and not self.begun):
            try:
                yield from session.saving()
            except UpdateError as error:
                if not wants_problem_details(self.request):
                    raise interruption(error) from None
                self.response = session_ended_response(self.response)
                return False
            except SignInRefused:
                # The user was blocked after the sign-in had asked.
                yield from session.flushing()
                raise
            return True
        if self.begun:
            return True
        if not session.cookie.refresh or self.shared or session.session_key != cookie_key(self.request):
            # A session that came by a header needs no cookie.
            return False
        # The session may not be loaded yet: recording a view does not load it. Its data have the age of the cookie.
        yield from session.opening()
        # The session may have got another key meanwhile. An older cookie must not replace the newer one.
        return not session.get_expire_at_browser_close() and (yield from session.still_there())

    def _send_shared_cookie(self) -> Steps[None]:
        session = self.session
        if session.session_key == cookie_key(self.request):
            return
        if (yield from session.opening()):
            # The site itself has stored data in the session.
            set_session_cookie(session, self.response)
        else:
            # It was created for a view, before the response was known to be shared.
            yield from session.flushing()


def places_of(middleware: type) -> list[int]:
    """Return the positions in ``MIDDLEWARE`` of this class and of classes derived from it."""
    return [at for at, path in enumerate(settings.MIDDLEWARE) if issubclass(_class_at(path), middleware)]


def _class_at(path: str) -> type:
    try:
        found = import_string(path)
    except Exception:  # Django reports it when it starts to serve.
        return object
    return found if isinstance(found, type) else object


__all__ = ["SessionMiddleware", "ViewedItemsMiddleware", "passive"]

if is_in_use():
    require_app()


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
    or the one that ``TRUSTED_PROXY_COUNT`` proxies report. The user agent is cut to 256 bytes, without control
    characters. Both are deleted with the session.

    A subclass may override ``process_request`` and ``process_response``, as one of Django's class may. Under ASGI, what
    it overrides runs in a thread.
    """

    def __init__(self, get_response: Any) -> None:
        super().__init__(get_response)
        conf.require_values()
        own = type(self)
        self._request_in_thread = own.process_request is not SessionMiddleware.process_request
        self._response_in_thread = own.process_response is not SessionMiddleware.process_response

    def __call__(self, request: HttpRequest) -> Any:
        if self.async_mode:
            return self.__acall__(request)
        with RequestScope(request, visit_of):
            response: Any = None
            try:
                response = self.process_request(request) or self.get_response(request)
                return self.process_response(request, response)
            except SessionStoreUnavailable as error:
                # Django's error page may need the session, too. Then there would be no response at all.
                return unavailable_response(request, error, response)
            finally:
                # Of one_at_a_time(). The session is saved by now.
                if "_redsess_lock" in request.__dict__:
                    request._redsess_lock.give_back()  # type: ignore[attr-defined]

    async def __acall__(self, request: HttpRequest) -> HttpResponseBase:
        with RequestScope(request, visit_of) as answering:
            try:
                return await self._aanswer(request)
            except asyncio.CancelledError:
                # The visitor has disconnected, so no response will be sent. A synchronous view goes on in its thread,
                # and this waits for that thread.
                await sync_to_async(answering.send_held)()
                raise
            finally:
                if "_redsess_lock" in request.__dict__:
                    await request._redsess_lock.agive_back()  # type: ignore[attr-defined]

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
            for hook in response_hooks:
                hook(request, session, response)
            if is_unchanged(request, session):
                if session.accessed:
                    patch_vary_headers(response, ("Cookie",))
                return response
            return await session.arun_steps(Closing(request, session, response).steps())
        except SessionStoreUnavailable as error:
            return unavailable_response(request, error, response)
        except SignInRefused as error:
            if (page := await sync_to_async(refused_response)(request, error, response)) is None:
                raise
            return page

    def process_request(self, request: HttpRequest) -> HttpResponseBase | None:  # type: ignore[override]
        super().process_request(request)
        session = request.session
        if isinstance(session, SessionStore):
            # As visit_of() does, in one call less. Not request.headers: building it takes as long as the rest of this.
            is_passive = request.META.get(_name_in_meta(conf.PASSIVE_HEADER)) == "1" or (
                bool(conf.PASSIVE_PATHS) and request.path_info.startswith(tuple(conf.PASSIVE_PATHS))
            )
            session.visit = Visit(partial(read_client, request), partial(add_message, request), is_passive)
            if binding.guard is not None:
                session.brought_by = request
                binding.guard.prepare(request, session)
        return None

    def process_view(self, request: HttpRequest, view: Callable[..., Any], *args: Any) -> None:
        if getattr(view, "session_passive", False):
            session = session_of(request)
            if session is not None and session.visit is not None:
                session.visit.passive = True
        if "_redsess_untold" in request.__dict__:
            add_pending_message(request)

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponseBase | None:
        session = session_of(request)
        # Any other error in an outage is most likely a consequence of it.
        if isinstance(exception, SessionStoreUnavailable) or (session is not None and session.unavailable):
            return unavailable_response(request, exception)
        if session is not None and isinstance(exception, UpdateError):
            raise interruption(exception) from exception
        if session is not None and isinstance(exception, SignInRefused):
            if exception.user_id in ("", session.loaded_user_id):
                # The view may have saved the session by itself. That of another user stays.
                session.flush()
            return refused_response(request, exception)
        return None

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:  # type: ignore[override]
        session = session_of(request)
        if session is None:
            return super().process_response(request, response)  # type: ignore[arg-type]
        for hook in response_hooks:
            hook(request, session, response)
        if is_unchanged(request, session):
            if session.accessed:
                patch_vary_headers(response, ("Cookie",))
            return response
        try:
            return session.run_steps(Closing(request, session, response).steps())
        except SessionStoreUnavailable as error:
            # A subclass goes on with this response.
            return unavailable_response(request, error, response)
        except SignInRefused as error:
            if (page := refused_response(request, error, response)) is None:
                raise
            return page


_name_in_meta = lru_cache(maxsize=8)(HttpHeaders.to_wsgi_name)


def visit_of(request: HttpRequest) -> Visit:
    """Return the visit of a session that the site itself has found. By then, the view may be known."""
    is_passive = (
        request.META.get(_name_in_meta(conf.PASSIVE_HEADER)) == "1"
        or (bool(conf.PASSIVE_PATHS) and request.path_info.startswith(tuple(conf.PASSIVE_PATHS)))
        or (request.resolver_match is not None and getattr(request.resolver_match.func, "session_passive", False))
    )
    return Visit(partial(read_client, request), partial(add_message, request), is_passive)


class ViewedItemsMiddleware(MiddlewareMixin):
    """
    Records the items that visitors view.

    Views show items if ``REDSESS["VIEWED_VIEWS"]`` names them, or if they are marked with
    :func:`~django_redsess.viewed.records_view`. A GET that is answered with 200 counts. Prefetches and passive requests
    do not count. Visitors without a session are recorded only if ``VIEWED_GUESTS`` is on.

    Put it below the session middleware. If the session is saved at the end of the request, the view is recorded after
    that.
    """

    def __call__(self, request: HttpRequest) -> Any:
        if self.async_mode:
            return self.__acall__(request)
        response: HttpResponseBase = self.get_response(request)  # type: ignore[assignment]
        if viewed.may_view(request, response):
            drive(viewed.note_view_of(request))
        return response

    async def __acall__(self, request: HttpRequest) -> HttpResponseBase:
        response: HttpResponseBase = await self.get_response(request)  # type: ignore[misc]
        if viewed.may_view(request, response):
            await adrive(viewed.note_view_of(request))
        return response
