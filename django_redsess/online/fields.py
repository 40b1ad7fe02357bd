"""The fields of a session, of a sign-in and of a block, for files and programs: one name for a thing, everywhere."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from django_redsess.online import places
from django_redsess.online.browsers import browser_name
from django_redsess.online.listing import Session
from django_redsess.session.blocks import Block

if TYPE_CHECKING:
    from django_redsess.sign_in_source import PastSignIn  # It is above this package.

Users = Mapping[str, object]
"""What names users, by primary key as text: the users themselves, or their names. Who is not there has no name."""

NO_USERS: Users = MappingProxyType({})


class Described(NamedTuple):
    """A session, a sign-in or a block, with what is looked up for many of them at once."""

    described: Any
    users: Users = NO_USERS
    place: str = ""
    is_current: bool = False

    def name_of(self, user_id: str) -> str | None:
        user = self.users.get(user_id)
        return None if user is None else str(user)


class Field(NamedTuple):
    """
    A field: its ``name``, the ``type`` of its values as in Python, and its ``meaning``, a sentence.

    ``source`` is the attribute that has the value, or a function that makes it of a row. ``absent`` is what a CSV file
    has in place of None, and of a text that is empty. ``of_request`` tells that the value depends on who asks: files
    that no request asked for have no such field, see :func:`without_request`. ``for_staff`` tells that users do not
    learn it of their own sessions: see ``OWN_SESSION``.
    """

    name: str
    type: Any
    meaning: str
    source: str | Callable[[Described], Any]
    absent: str = ""
    of_request: bool = False
    for_staff: bool = False

    def value(self, row: Described) -> Any:
        found = getattr(row.described, self.source) if isinstance(self.source, str) else self.source(row)
        return None if found == "" and self.type is not str else found


NOT_STORED = "not stored"

_USER = Field(
    "user",
    str | None,
    "The user's name; none for a guest, for a deleted user, and for one whom the reader may not see.",
    lambda row: row.name_of(row.described.user_id),
)
_CLIENT = (
    Field("ip", str, "The address.", "address", absent=NOT_STORED),
    Field("user_agent", str, "The browser's header ``User-Agent``.", "user_agent", absent=NOT_STORED),
    Field(
        "device",
        str,
        "Browser and system, such as ``Firefox 145 on Linux``: made of the user agent.",
        lambda row: browser_name(row.described.user_agent),
        absent=NOT_STORED,
    ),
    Field("place", str, "Where the address is, by the setting ``PLACES``.", lambda row: row.place),
)

SESSION = (
    Field("id", str, "What the session is called. It is no session key: nobody gets in with it.", "sid"),
    Field("user_id", str | None, "The user's primary key; none for a guest, and for an unreadable session.", "user_id"),
    _USER,
    *_CLIENT,
    Field("created_at", datetime | None, "When the user signed in; none for a guest.", "created_at"),
    Field("last_seen_at", datetime, "The last request, rounded down by up to ``TOUCH_INTERVAL``.", "last_seen_at"),
    Field("expires_at", datetime, "When the session expires, unless it is used before.", "expires_at"),
    Field(
        "is_current",
        bool,
        "Whether it is the session of the request that asks.",
        lambda row: row.is_current,
        of_request=True,
    ),
    Field(
        "size",
        int | None,
        "The size of the session's data before compression, in bytes, rounded up to whole KiB (1024 bytes); none for "
        "an unreadable session.",
        "size",
        for_staff=True,
    ),
    Field("newest_item", str | None, "The item that the session has viewed last.", "newest_item"),
)
"""The fields of a live session."""

OWN_SESSION = tuple(field for field in SESSION if not field.for_staff)
"""
Those that users are told of their own sessions.

No length is among them: who can put text beside a secret into a session, and learns how long both are together, finds
out the secret. See "No length tells a secret" in docs/explanation/security.rst.
"""

SIGN_IN = (
    Field("id", str, "The primary key of the row that stores the sign-in.", "id"),
    Field("user_id", str, "The user's primary key.", "user_id"),
    _USER,
    *_CLIENT,
    Field("created_at", datetime, "When the user signed in.", "created_at"),
    Field("last_seen_at", datetime | None, "The last request that is known.", "last_seen_at"),
    Field("ended_at", datetime | None, "When the session ended; none if no end is known: it may live.", "ended_at"),
    Field("ended_is_about", bool, "Whether the end was noticed later: its time is not exact.", "ended_is_about"),
    Field("reason", str | None, "How the session ended; none if that is not recorded.", "reason"),
    Field("ended_by", str | None, "The primary key of the user who ended it; none if no request of a user did.", "by"),
    Field(
        "ended_by_user",
        str | None,
        "The name of the user who ended it; none if the reader may not see this user.",
        lambda row: row.name_of(row.described.by),
    ),
    Field("message", str, "What the user was told.", "message"),
    Field("is_new_device", bool | None, "Whether the device was new to the user, if it is known.", "is_new_device"),
)
"""The fields of a sign-in of the past, and of what became of its session."""

BLOCK = (
    Field("user_id", str, "The primary key of the user, who may not sign in.", "user_id"),
    Field("until", datetime, "When the block is over.", "until"),
    Field("message", str, "What the user is told.", "message"),
    Field("by", str | None, "The primary key of the user who has set the block, if it is known.", "by"),
)
"""The fields of a block."""


def without_request(fields: Iterable[Field]) -> tuple[Field, ...]:
    """Return those of ``fields`` that a file has which no request asked for, as a command writes it."""
    return tuple(field for field in fields if not field.of_request)


def described(
    sessions: Iterable[Session],
    users: Users = NO_USERS,
    current_sid: str | None = None,
    columns: Sequence[Field] | None = None,
) -> list[dict[str, Any]]:
    """
    Describe sessions by ``columns``, None for ``SESSION``: times are datetimes, and what is absent is None.

    ``current_sid`` is the session of the request. Places are asked for together: call this once a page.
    """
    sessions = list(sessions)
    found = places.by_address(each.address for each in sessions)
    rows = (Described(each, users, found.get(each.address, ""), each.sid == current_sid) for each in sessions)
    return [{field.name: field.value(row) for field in columns or SESSION} for row in rows]


def sign_ins_described(sign_ins: Iterable[PastSignIn], users: Users = NO_USERS) -> list[dict[str, Any]]:
    """Describe sign-ins by ``SIGN_IN``. They have their places: see :func:`django_redsess.sign_in_source.placed`."""
    rows = (Described(each, users, each.place) for each in sign_ins)
    return [{field.name: field.value(row) for field in SIGN_IN} for row in rows]


def block_described(block: Block) -> dict[str, Any]:
    """Describe a block by ``BLOCK``."""
    return {field.name: field.value(Described(block)) for field in BLOCK}
