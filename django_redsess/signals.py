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
A session has ended. The sender is :class:`EndedSession`. Receivers get its fields as keyword arguments: ``sid``;
``user_id``, the primary key as text, ``""`` for a guest; ``reason``, a :class:`Reason`; and ``at``, an aware datetime
of the server's clock.

A receiver that raises is logged to ``django.dispatch``, and the others are still called. A session that got another key
has not ended.
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
    """There were too many sessions, or the server was full, and it was the one longest unseen: guests' go first."""
    KICKED = "kicked"
    """An administrator ended it, its user did on another device, or ``online.end()`` was called."""
    REPLACED = "replaced"
    """Its user signed in elsewhere, and has no more sessions than the site allows: ``MAX_SESSIONS_PER_USER``."""


class EndedSession(NamedTuple):
    """A session that has ended: what receivers of :data:`session_ended` get."""

    sid: str
    user_id: str
    reason: Reason
    at: datetime
