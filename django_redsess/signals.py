"""
The signal that a session has ended, and when it is sent.

It comes once for each session, in the process whose command ended it, after that command: at once, or after the answer
where a request through our middleware is under way. What a process has not sent when it is killed, or when the reply to
its command was lost, nobody sends.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from django.dispatch import Signal

session_ended = Signal()
"""
A session is over. Receivers get ``sid``, ``user_id`` (the primary key as text, ``""`` for a guest), ``reason`` (a
:class:`Reason`) and ``at`` (aware, the server's clock), and the sender :class:`Ended`. One that raises is logged to
``django.dispatch``, and the others are called all the same. A session that got another key has not ended.
"""


class Reason(StrEnum):
    """Why a session has ended."""

    LOGOUT = "logout"
    """Its user signed out."""
    INVALIDATED = "invalidated"
    """The site ended it, by ``flush()`` or ``delete()``: another user signed in, or a password had changed."""
    EXPIRED = "expired"
    """Its deadline has passed."""
    EVICTED = "evicted"
    """There were more than ``MAX_SESSIONS``, and it was the one longest unseen."""
    KICKED = "kicked"
    """An administrator ended it, or ``online.end()``."""
    REPLACED = "replaced"
    """Its user signed in elsewhere, and has no more sessions than the site allows. (Nothing does that yet.)"""


class Ended(NamedTuple):
    """A session that is over; ``user_id`` is ``""`` for a guest's, ``at`` the server's time."""

    sid: str
    user_id: str
    reason: Reason
    at: datetime


_held: ContextVar[list[Ended] | None] = ContextVar("django_redsess_held", default=None)


@contextmanager
def held_back() -> Iterator[list[Ended]]:
    """Collect what ends meanwhile in place of sending it; the caller sends it later."""
    ended: list[Ended] = []
    token = _held.set(ended)
    try:
        yield ended
    finally:
        _held.reset(token)


def tell(ended: Iterable[Ended]) -> None:
    """Send the signal for each of ``ended``, or hold it back."""
    held = _held.get()
    if held is None:
        send(ended)
    else:
        held.extend(ended)


async def atell(ended: Iterable[Ended]) -> None:
    """Do as :func:`tell` does, awaiting receivers."""
    held = _held.get()
    if held is None:
        for each in ended:
            await session_ended.asend_robust(Ended, **each._asdict())
    else:
        held.extend(ended)


def send(ended: Iterable[Ended]) -> None:
    """Send the signal for each of ``ended`` now."""
    for each in ended:
        session_ended.send_robust(Ended, **each._asdict())
