"""The message about an ended session, in ``django.contrib.messages`` and in a header of the response."""

from __future__ import annotations

from django.apps import apps
from django.contrib import messages
from django.contrib.messages.storage import default_storage
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from django_redsess.session import notice
from django_redsess.session.messages import MESSAGE_KEY
from django_redsess.session.notice import Notice
from django_redsess.user_messages import isolated


def add_message(request: HttpRequest, found: Notice | str | None) -> bool:
    """Add the message of ``found``. Return False if it must wait. With None, take the message back."""
    if found is None:
        _take_back(request)
    elif hasattr(request, "_messages"):
        messages.warning(request, _in_words(found))
        request._redsess_told = found  # type: ignore[attr-defined]
    else:
        # A middleware above MessageMiddleware has read the session, before messages can be stored.
        request._redsess_untold = found  # type: ignore[attr-defined]
        return False
    return True


def add_pending_message(request: HttpRequest) -> None:
    """Add the message that waits, once messages can be stored."""
    if hasattr(request, "_messages") and (untold := request.__dict__.pop("_redsess_untold", None)):
        add_message(request, untold)
        if isinstance(untold, str):
            # The session was loaded before, so this asks no server.
            request.session.pop(MESSAGE_KEY, None)


def add_at_the_end(request: HttpRequest, response: HttpResponseBase, found: Notice) -> None:
    """Add the header. If the message still waits, add it: MessageMiddleware has stored the other messages already."""
    response.headers[notice.HEADER] = found.header
    if not apps.is_installed("django.contrib.messages"):
        return
    if not hasattr(request, "_messages"):
        request.__dict__["_messages"] = default_storage(request)
    if untold := request.__dict__.pop("_redsess_untold", None):
        messages.warning(request, _in_words(untold))
    request.__dict__["_messages"].update(response)


def store_late_message(request: HttpRequest, response: HttpResponseBase) -> None:
    """Store the message about another session: MessageMiddleware may have stored the other messages before."""
    if isinstance(request.__dict__.get("_redsess_told"), str):
        request.__dict__["_messages"].update(response)


def _take_back(request: HttpRequest) -> None:
    request.__dict__.pop("_redsess_untold", None)
    if told := request.__dict__.pop("_redsess_told", None):
        storage = request._messages  # type: ignore[attr-defined]
        # Django has no function that removes an unread message.
        text = _in_words(told)
        storage._queued_messages = [queued for queued in storage._queued_messages if queued.message != text]


def _in_words(found: Notice | str) -> str:
    return found if isinstance(found, str) else found._in_words(isolated)
