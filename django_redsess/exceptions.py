"""The exceptions of this app. Public."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING

from django.core.exceptions import ImproperlyConfigured, PermissionDenied

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse

__all__ = [
    "SessionLimitReached",
    "SessionNotProven",
    "SessionNotReadable",
    "SessionStoreUnavailable",
    "SignInRefused",
]


class SessionStoreUnavailable(Exception):  # noqa: N818
    """
    The server that stores the sessions can't be reached in time, or it refuses a command.

    It is also raised when too many requests change one session at once. It never means that a session is missing:
    nobody is signed out, and the same cookie works afterwards. The middleware answers with 503.
    """

    cause = ""
    """Why, in words that may name addresses. They are for developers only."""
    setting = ""
    """The setting of Django or of the server that has to change, and how. It is for developers only."""
    lasts = False
    """Whether it lasts until a person changes something: a password, a permission, an address."""


class SessionNotProven(SessionStoreUnavailable):
    """
    A request has brought the key of a session that is bound to a device, and no proof that it comes from this device.

    The session is not opened: nothing is read, saved or ended. Code that handles an outage handles this, too: nobody is
    signed out, and whatever a view makes of it, the middleware answers with :attr:`respond`.
    """

    respond: Callable[[HttpRequest], HttpResponse]
    """Returns the response to the request."""


class SessionNotReadable(ImproperlyConfigured):
    """
    A session can't be read or written by this process, and could be by another one.

    A later release has written it, in a way that this one does not know; or it is encrypted, and the extra
    ``encryption`` is missing here, or the key; or the function that :confval:`ENCRYPTION_KEYS` names has failed, or has
    returned no keys. The session is
    good: nobody is signed out. The text of the exception says what to do.
    """


class SignInRefused(PermissionDenied):
    """
    A sign-in is refused, because the user is blocked: see :func:`django_redsess.online.block`.

    Django's ``login()`` raises it. If the user is blocked only after that, the save of the session raises it. Then
    nobody is signed in, and the visitor's session has ended. The text of the exception is meant for the visitor: it has
    the message and until when. If nobody catches it, the answer is a page with this text and the status 403.

    Django's signal ``user_logged_in`` raises it, too, if a package sends it for a token of a blocked user. Then the
    visitor's session stays as it is.
    """

    user_id: str = ""
    """The primary key of the user who is refused, as text."""

    until: datetime | None = None
    """Until when the user is blocked. None if that is not why the sign-in is refused."""
    message: str = ""
    """The message of the administrator who has blocked the user, in the language of the sign-in."""
    message_code: str = ""
    """The code of that message, if it is a ready-made one."""

    _in_words: Callable[[Callable[[str], str]], str] | None = None
    # Makes the text once more, for a page: see refusal_in_words().


class SessionLimitReached(SignInRefused):
    """
    A sign-in is refused, because the user already has as many sessions as ``MAX_SESSIONS_PER_USER`` allows.

    Django's ``login()`` raises it if ``SESSION_LIMIT_POLICY`` is ``"refuse"``. Then nobody is signed in, and the
    visitor's session has ended. The text of the exception is meant for the visitor. If nobody catches it, the answer is
    a page with this text and the status 403.
    """
