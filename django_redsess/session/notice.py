"""
What users are told of an ended session: notices to its own browser, and messages in the user's other sessions.

Whoever has the cookie of the ended session is told by its note: that may be a thief. The user's other sessions, or the
next sign-in, get a message.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from contextlib import suppress
from datetime import datetime
from typing import Any, NamedTuple
from urllib.parse import quote

from django.utils.translation import gettext
from redis.exceptions import ResponseError

from django_redsess.conf import MESSAGE_MAX
from django_redsess.exceptions import SessionStoreUnavailable
from django_redsess.session import script_calls
from django_redsess.session.record import log_unusable, named, pack, revision_of, unpack
from django_redsess.signals import Reason
from django_redsess.transport import lua_scripts, sending
from django_redsess.transport.keys import Partition, is_sid, keyspace
from django_redsess.transport.round_trips import Plain, Steps, time_of

MESSAGE_KEY = "_redsess_message"
"""Where the data of a session have the message, until a request shows it."""

USERS_MAX = 200
"""The most users that are told of one call that ends sessions."""

SESSIONS_MAX = 200
"""The most sessions of a user that are told: those that signed in last."""

TRIES = 5
"""How often a message is put into a session that other requests change at the same time."""


def tell(user_ids: Iterable[str], message: str, *, among: Collection[str] | None = None) -> Steps[None]:
    """
    Leave ``message`` in the live sessions of these users, and for the next sign-in of each within a day.

    ``among`` are the sids of the sessions that may be told. None: any. Nothing is raised in an outage: the sessions
    have ended, and that must be reported.
    """
    homes: dict[Partition, list[str]] = {}
    for user_id in list(dict.fromkeys(user_ids))[:USERS_MAX]:
        homes.setdefault(keyspace().of_user(user_id), []).append(user_id)
    for partition, of_partition in homes.items():
        # Another program may have stored anything as a user's list.
        with suppress(SessionStoreUnavailable, ResponseError):
            for user_id, sids in (yield from _leaving(partition, of_partition, message)):
                for sid in sids:
                    if among is None or sid in among:
                        yield from _put(sid, user_id, message)


def deliver(sid: str, user_id: str, message: bytes) -> Steps[None]:
    """Put the ``message`` that waited for this user into the session ``sid``, which has just signed in."""
    home = keyspace().of_user(user_id)
    # The user is signed in, even if this fails.
    with suppress(SessionStoreUnavailable):
        # In this order, what fails in between is told twice, and not never.
        yield from _put(sid, user_id, message.decode(errors="replace")[:MESSAGE_MAX])
        yield from Plain(home, "message", sending.command("DEL", home.message_of(user_id)), 1, list)


def _leaving(partition: Partition, user_ids: list[str], message: str) -> Plain[list[tuple[str, list[str]]]]:
    """Store the message for the next sign-in of these users. Return the sids of each."""
    day = lua_scripts.CONSTANTS["DAY"]
    lists = [sending.command("ZRANGE", partition.online_user_of(each), -SESSIONS_MAX, -1) for each in user_ids]
    stored = [sending.command("SET", partition.message_of(each), message, "PX", day) for each in user_ids]

    def found(replies: list[Any]) -> list[tuple[str, list[str]]]:
        return [
            (user_id, [sid for each in reply if is_sid(sid := each.decode(errors="replace"))])
            for user_id, reply in zip(user_ids, replies, strict=False)
        ]

    # A full server refuses to store it. The sessions are told all the same.
    return Plain(partition, "message", b"".join(lists + stored), 2 * len(user_ids), found, needed=len(user_ids))


def _put(sid: str, user_id: str, message: str) -> Steps[None]:
    """Put the message into the data of a session of this user: compare and set, as a save does."""
    for _ in range(TRIES):
        loaded = yield from script_calls.read(sid)
        if loaded.record is None:
            return
        try:
            record = unpack(sid, loaded.record)
            serializer = named(record.serializer)()
            data = {**serializer.loads(record.data), MESSAGE_KEY: message}
            packed = pack(sid, record._replace(data=serializer.dumps(data)))
        except Exception as error:  # A serializer may raise anything.
            log_unusable(sid, error)
            return
        if record.user_id != user_id:
            return
        changing = script_calls.change(sid, packed, revision=revision_of(packed), loaded=record.revision)
        if (yield from changing).status != "changed":
            return


JOINERS = "\u200c\u200d"
"""Joiners that Persian, Hindi and many emoji need. Python counts them as not printable."""

HEADER = "X-Session-Ended"

TOLD = (Reason.KICKED, Reason.REPLACED, Reason.EXPIRED, Reason.EVICTED, Reason.INVALIDATED)
"""The reasons that a user is told: all except a sign-out."""


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
            Reason.REPLACED: gettext("Your session was ended, because you signed in elsewhere."),
            Reason.EXPIRED: gettext("Your session has expired."),
            Reason.EVICTED: gettext("Your session was ended, because too many others were open."),
        }[self.reason]
        return f"{said} {self.message}" if self.message else said

    @property
    def header(self) -> str:
        """The value of the header ``X-Session-Ended``: the reason, then the message in the encoding of RFC 8187."""
        return f"{self.reason}; message*=UTF-8''{quote(self.message, safe='')}" if self.message else self.reason.value


def about_another(message: str) -> str:
    """Return what a user is told, in the active language, in a session that has not ended: that another one has."""
    ended = gettext("One of your sessions was ended.")
    return f"{ended} {clean(message)[:MESSAGE_MAX]}"


def read(note: str) -> Notice | None:
    """Read the note of an ended session. None if there is nothing to tell the user."""
    reason, _, rest = note.partition(" ")
    at, _, text = rest.partition(" ")
    if reason not in TOLD or not re.fullmatch(r"\d{1,15}", at, re.ASCII):
        return None
    return Notice(Reason(reason), clean(text)[:MESSAGE_MAX], time_of(at.encode()))


def clean(text: str) -> str:
    """Return ``text`` on one line, without characters that could forge a log line or a header."""
    return " ".join("".join(letter if letter.isprintable() or letter in JOINERS else " " for letter in text).split())


def check(text: str) -> str:
    """Return ``text`` as :func:`clean` does. Raises ValueError for more than 200 characters."""
    cleaned = clean(text)
    if len(cleaned) > MESSAGE_MAX:
        raise ValueError(f"A message to ended users has at most {MESSAGE_MAX} characters, not {len(cleaned)}.")
    return cleaned
