"""What this app raises. Public."""

from __future__ import annotations

from django.core.exceptions import PermissionDenied

__all__ = [
    "SessionLimitReached",
    "SessionStoreUnavailable",
]


class SessionStoreUnavailable(Exception):  # noqa: N818
    """
    The server that holds the sessions can't be reached in time, or can't do now, or not for us, what it was asked to;
    or too many requests change one session at once.

    This is neither a missing key nor a missing session: nobody is signed out by it, and the same cookie works
    afterwards. The middleware answers 503.
    """


class SessionLimitReached(PermissionDenied):
    """
    A sign-in is refused, since its user has as many sessions as ``MAX_SESSIONS_PER_USER`` allows.

    Django's ``login()`` raises it where ``SESSION_LIMIT_POLICY`` is ``"refuse"``. Nobody is signed in then, and what
    the visitor had for a session is over. Its text is for the visitor to read. Where nobody catches it, Django answers
    with 403.
    """
