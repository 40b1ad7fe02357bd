"""The signal that a session has ended. Public."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from django.dispatch import Signal

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
