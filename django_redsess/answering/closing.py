"""The end of a request: saving its session, and completing its response."""

from __future__ import annotations

from django.conf import settings
from django.contrib.sessions.backends.base import UpdateError
from django.contrib.sessions.exceptions import SessionInterrupted
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.cache import patch_vary_headers

from django_redsess.answering.cookies import delete_cookie, is_shared, key_in, send_new_key, set_cookie
from django_redsess.answering.telling import store_told, tell_at_the_end
from django_redsess.session.lifecycle import SessionLifecycle
from django_redsess.session.state import COOKIE_UNCHANGED, NOTHING_PENDING
from django_redsess.transport.steps import Steps
from django_redsess.viewed import recording


def is_unchanged(request: HttpRequest, session: SessionLifecycle) -> bool:
    """Tell whether session and cookie can stay as they are. For most responses, nothing else is to be done."""
    if (
        session.modified
        or session.unavailable
        or session.pending != NOTHING_PENDING
        or session.cookie != COOKIE_UNCHANGED
    ):
        return False
    key = session.session_key
    if key != request.COOKIES.get(settings.SESSION_COOKIE_NAME):
        return False
    return key is None or not settings.SESSION_SAVE_EVERY_REQUEST or session.passive


def interruption() -> SessionInterrupted:
    """Return the error for a request whose session can't be saved any more. Django answers it with 400."""
    return SessionInterrupted("The session was ended, or got another key, while this request was answered.")


class Closing:
    """The work on ``session`` when ``response`` is ready. Not needed if :func:`is_unchanged`."""

    def __init__(self, request: HttpRequest, session: SessionLifecycle, response: HttpResponseBase) -> None:
        self.request, self.session, self.response = request, session, response
        self.saves_always = settings.SESSION_SAVE_EVERY_REQUEST and not session.passive
        # A shared cache sends a stored response to other visitors, with its cookie.
        self.shared = is_shared(response)
        self.failed = response.status_code >= 500
        self.begun = False  # Whether a guest's view has just created the session.

    def steps(self) -> Steps[HttpResponseBase]:
        """Record the view, save the session and send the cookie, each if needed. Return the response."""
        session = self.session
        if self.saves_always and session.session_key is not None:
            # If the cookie names no session, the key is dropped here. Then there is nothing to save.
            yield from session.opening()
        if session.pending.item and (session.is_empty() or not (session.modified or self.saves_always)):
            yield from self._record_view_without_save()
        self._tell()
        # The message about the end of the old session is no reason to create a new one.
        tells_only = self.shared and session.cookie.notice and set((yield from session.opening())) <= {"_messages"}
        if not tells_only and not self._is_over() and (yield from self._save_or_refresh()):
            if self.shared:
                yield from self._send_shared_cookie()
            else:
                set_cookie(session, self.response)
        if not self.failed and (session.pending.item or session.pending.uncounted):
            # A save does not record the view if it moves the session to another partition. It does not count the view
            # if another partition counts the item.
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
        yield from recording.send_view(self.session)

    def _tell(self) -> None:
        found = self.session.cookie.notice
        if found and not self.shared:
            tell_at_the_end(self.request, self.response, found)
        elif not self.shared:
            store_told(self.request, self.response)
        if self.session.accessed:
            patch_vary_headers(self.response, ("Cookie",))

    def _is_over(self) -> bool:
        """Tell whether nothing is to be saved. The cookie then stays, is deleted, or gets a newer key."""
        session, empty = self.session, self.session.is_empty()
        if session.cookie.late and session.session_key is None:
            # The browser already has a newer cookie. This response must not replace it, unless somebody signs in.
            return empty or not session.modified or self.failed
        if empty:
            if settings.SESSION_COOKIE_NAME in self.request.COOKIES and not self.shared:
                delete_cookie(self.response)
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
            except UpdateError:
                raise interruption() from None
            return True
        if self.begun:
            return True
        if not session.cookie.refresh or self.shared:
            return False
        # The session may not be loaded yet: recording a view does not load it. Its data have the age of the cookie.
        yield from session.opening()
        # The session may have got another key meanwhile. An older cookie must not replace the newer one.
        return not session.get_expire_at_browser_close() and (yield from session.still_there())

    def _send_shared_cookie(self) -> Steps[None]:
        session = self.session
        if session.session_key == key_in(self.request):
            return
        if (yield from session.opening()):
            # The site itself has stored data in the session.
            set_cookie(session, self.response)
        else:
            # It was created for a view, before the response was known to be shared.
            yield from session.flushing()
