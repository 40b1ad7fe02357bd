"""
The signal that a session has ended, and when it is sent. Public.

The process whose command ended a session sends it, once: immediately, or after the response if a request through our
middleware is under way. It is never sent if that process is killed before, or if the reply to its command was lost.
"""

from __future__ import annotations

from collections.abc import Collection
from contextvars import ContextVar
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from django.dispatch import Signal
from django.http import HttpRequest

__all__ = [
    "EndedSession",
    "Reason",
    "session_ended",
]

session_ended = Signal()
"""
Sent when a session has ended. The sender is :class:`EndedSession`. Receivers get its fields as keyword arguments:
``sid``; ``user_id``, the primary key as text, ``""`` for a guest; ``reason``, a :class:`Reason`; and ``at``, an aware
datetime of the server's clock.

If a receiver raises, the error is logged to ``django.dispatch``, and the other receivers are still called. The signal
is not sent when a session gets another key.
"""


class Reason(StrEnum):
    """Why a session has ended."""

    LOGOUT = "logout"
    """Its user signed out."""
    INVALIDATED = "invalidated"
    """The site ended it: another user signed in, the account or its password changed, or ``flush()`` was called."""
    EXPIRED = "expired"
    """Its deadline has passed."""
    EVICTED = "evicted"
    """There were too many sessions, or the server was full. Guests' sessions go first, the longest unseen first."""
    KICKED = "kicked"
    """Somebody ended it: an administrator, its user on another device, or code such as ``online.end()``."""
    REPLACED = "replaced"
    """Its user signed in elsewhere, and would have had more sessions than the limit or the ceiling allows."""


class EndedSession(NamedTuple):
    """A session that has ended. Receivers of :data:`session_ended` get its fields."""

    sid: str
    user_id: str
    reason: Reason
    at: datetime


class RequestScope:
    """Context in which ``request`` is answered. Signals of sessions that end meanwhile are sent after the response."""

    def __init__(self, request: HttpRequest) -> None:
        self.request = request
        self._ended: list[EndedSession] = []
        self._over = False

    def __enter__(self) -> RequestScope:
        self._token = _answering.set(self)
        return self

    def __exit__(self, *error: object) -> None:
        _answering.reset(self._token)
        self._over = True
        if self._ended:
            self._send_at_the_end()

    def hold(self, ended: Collection[EndedSession]) -> bool:
        """Keep ``ended`` for later. False if the response was already sent: a task may outlive its request."""
        if not self._over:
            self._ended.extend(ended)
        return not self._over

    def send(self) -> None:
        """Send the signals that were kept."""
        self._over = True
        ended, self._ended = self._ended, []
        for each in ended:
            session_ended.send_robust(EndedSession, **each._asdict())

    def _send_at_the_end(self) -> None:
        # Receivers may be slow: the visitor has the response by then. Django closes the request together with the
        # response that is sent, even if other middleware replaced ours.
        close = self.request.close

        def closing() -> None:
            close()
            self.send()

        self.request.close = closing  # type: ignore[method-assign]


_answering: ContextVar[RequestScope | None] = ContextVar("django_redsess_answering", default=None)


def request_answered() -> HttpRequest | None:
    """Return the request that is being answered; None outside of requests, and without our middleware."""
    answering = _answering.get()
    return None if answering is None else answering.request


def hold(ended: Collection[EndedSession]) -> bool:
    """Keep ``ended`` for after the response, if a request is under way. False if the signals are to be sent now."""
    # Where nobody listens, there is no need to read what the reply says.
    if not ended or not session_ended.receivers:
        return True
    answering = _answering.get()
    return answering is not None and answering.hold(ended)
