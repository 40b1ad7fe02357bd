"""
The notice that the browser of an ended session gets: why it is gone, and the message.

The holder of the cookie, who may be a thief, gets this notice, which is made from the note of the session. The user's
other sessions, or the next sign-in, get a message: see :mod:`django_redsess.session.messages`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from typing import Any, NamedTuple
from urllib.parse import quote

from django.utils.translation import gettext, ngettext

from django_redsess.conf import conf, is_integer
from django_redsess.signals import Reason
from django_redsess.transport.steps import time_of
from django_redsess.user_messages import ENDED_BY_USER, code_of, contact_text, isolated, message_in_words, plain

HEADER = "X-Session-Ended"

REASONS_TOLD = (Reason.KICKED, Reason.REPLACED, Reason.EXPIRED, Reason.EVICTED, Reason.INVALIDATED)
"""The reasons for which a user gets a notice: all except a sign-out."""


class Notice(NamedTuple):
    """
    Why the session of a cookie is gone: the value of ``request.session.ended``.

    ``message`` is the message for the user in the active language, or ``""``. ``message_code`` is its code if it is a
    ready-made one. ``ended_at`` is the server's time. ``str()`` returns the reason as a sentence in the active
    language, followed by the message, and by whom the user can ask if somebody else has ended it.
    """

    reason: Reason
    stored_message: str
    ended_at: datetime

    @property
    def message(self) -> str:
        return message_in_words(self.stored_message)

    @property
    def message_code(self) -> str:
        return code_of(self.stored_message)

    def __str__(self) -> str:
        return self._in_words()

    def _in_words(self, isolate: Callable[[str], str] = plain) -> str:
        """Return what ``str()`` does. ``isolate`` is that of :func:`~django_redsess.user_messages.message_in_words`."""
        said = {
            Reason.KICKED: gettext("Your session was ended."),
            Reason.INVALIDATED: gettext("Your session was ended."),
            Reason.REPLACED: _replaced(),
            Reason.EXPIRED: gettext("Your session has expired."),
            Reason.EVICTED: gettext("Your session was ended, because too many others were open."),
        }[self.reason]
        is_by_another = self.reason in (Reason.KICKED, Reason.INVALIDATED) and self.message_code != ENDED_BY_USER
        message = message_in_words(self.stored_message, isolate)
        return " ".join(filter(None, (said, message, contact_text(isolate) if is_by_another else "")))

    @property
    def header(self) -> str:
        """The value of the header ``X-Session-Ended``: the reason, the code, and the message as in RFC 8187."""
        code, message = self.message_code, self.message
        parts = [self.reason.value, code and f"code={code}", message and f"message*=UTF-8''{quote(message, safe='')}"]
        return "; ".join(filter(None, parts))


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


def about_another(stored_message: str) -> str:
    """Return the text about the end of another session of the user, for a page in the active language."""
    ended = gettext("One of your sessions was ended.")
    return " ".join(filter(None, (ended, message_in_words(stored_message, isolated), contact_text(isolated))))


def notice_in(note: str) -> Notice | None:
    """Return the notice that the note of an ended session makes. None if the user gets no notice."""
    reason, _, rest = note.partition(" ")
    at, _, text = rest.partition(" ")
    if reason not in REASONS_TOLD or not re.fullmatch(r"\d{1,15}", at, re.ASCII):
        return None
    return Notice(Reason(reason), text, time_of(at.encode()))
