"""
The notice that the browser of an ended session gets: why it is gone, and the message.

The holder of the cookie, who may be a thief, gets this notice, which is made from the note of the session. The user's
other sessions, or the next sign-in, get a message: see :mod:`django_redsess.session.messages`.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any, NamedTuple
from urllib.parse import quote

from django.utils.translation import gettext, ngettext

from django_redsess.conf import MESSAGE_MAX, conf, is_integer
from django_redsess.signals import Reason
from django_redsess.transport.steps import time_of

JOINERS = "\u200c\u200d"
"""Joiners that Persian, Hindi and many emoji need. Python counts them as not printable."""

HEADER = "X-Session-Ended"

REASONS_TOLD = (Reason.KICKED, Reason.REPLACED, Reason.EXPIRED, Reason.EVICTED, Reason.INVALIDATED)
"""The reasons for which a user gets a notice: all except a sign-out."""


class Notice(NamedTuple):
    """
    Why the session of a cookie is gone: the value of ``request.session.ended``.

    ``message`` is the message for the user, or ``""``. ``ended_at`` is the server's time. ``str()`` returns the reason
    as a sentence in the active language, followed by the message.
    """

    reason: Reason
    message: str
    ended_at: datetime

    def __str__(self) -> str:
        said = {
            Reason.KICKED: gettext("Your session was ended."),
            Reason.INVALIDATED: gettext("Your session was ended."),
            Reason.REPLACED: _replaced(),
            Reason.EXPIRED: gettext("Your session has expired."),
            Reason.EVICTED: gettext("Your session was ended, because too many others were open."),
        }[self.reason]
        return f"{said} {self.message}" if self.message else said

    @property
    def header(self) -> str:
        """The value of the header ``X-Session-Ended``: the reason, then the message in the encoding of RFC 8187."""
        return f"{self.reason}; message*=UTF-8''{quote(self.message, safe='')}" if self.message else self.reason.value


def _replaced() -> str:
    maximum: Any = conf.MAX_SESSIONS_PER_USER
    if not is_integer(maximum):  # A function needs the user, who is not known here.
        return gettext("Your session was ended, because you signed in elsewhere.")
    text = ngettext(
        "Your session was ended, because you reached the limit of %(maximum)d device.",
        "Your session was ended, because you reached the limit of %(maximum)d devices.",
        maximum,
    )
    return text % {"maximum": maximum}


def about_another(message: str) -> str:
    """Return the text about the end of another session of the user, in the active language."""
    ended = gettext("One of your sessions was ended.")
    return f"{ended} {clean_text(message)[:MESSAGE_MAX]}"


def notice_in(note: str) -> Notice | None:
    """Return the notice that the note of an ended session makes. None if the user gets no notice."""
    reason, _, rest = note.partition(" ")
    at, _, text = rest.partition(" ")
    if reason not in REASONS_TOLD or not re.fullmatch(r"\d{1,15}", at, re.ASCII):
        return None
    return Notice(Reason(reason), clean_text(text)[:MESSAGE_MAX], time_of(at.encode()))


def clean_text(text: str) -> str:
    """Return ``text`` on one line, without characters that could forge a log line or a header."""
    return " ".join("".join(letter if letter.isprintable() or letter in JOINERS else " " for letter in text).split())


def check_message(text: str) -> str:
    """Return ``text`` as :func:`clean_text` does. Raises ValueError for more than 200 characters."""
    cleaned = clean_text(text)
    if len(cleaned) > MESSAGE_MAX:
        raise ValueError(f"A message to ended users has at most {MESSAGE_MAX} characters, not {len(cleaned)}.")
    return cleaned
