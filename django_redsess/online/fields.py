"""The fields of a session, of a sign-in and of a block, in files and for programs: one name for a thing, everywhere."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from django_redsess.online import places
from django_redsess.online.browsers import browser_name
from django_redsess.online.listing import Session
from django_redsess.session.blocks import Block

if TYPE_CHECKING:
    from django_redsess.past_sign_ins import PastSignIn  # It is above this package.

Users = Mapping[str, object]
"""Users, or their names, by primary key as text. A user who is not in it gets no name."""

NO_USERS: Users = MappingProxyType({})


class DescribedRow(NamedTuple):
    """A session, a sign-in or a block, with values that are looked up for many of them at once."""

    subject: Any
    users: Users = NO_USERS
    place: str = ""
    is_current: bool = False

    def user_name(self, user_id: str) -> str | None:
        user = self.users.get(user_id)
        return None if user is None else str(user)


class Field(NamedTuple):
    """
    A field: its ``name``, the ``type`` of its values as in Python, and its ``meaning``, a sentence.

    ``source`` is the attribute that has the value, or a function that makes it of a row. ``absent`` is what a CSV file
    has in place of None, and of a text that is empty. ``of_request`` marks a value that depends on the request: files
    that a command writes have no such field, see :func:`without_request`. ``for_staff`` marks a value that users do not
    learn of their own sessions: see ``OWN_SESSION``.
    """

    name: str
    type: Any
    meaning: str
    source: str | Callable[[DescribedRow], Any]
    absent: str = ""
    of_request: bool = False
    for_staff: bool = False

    def value(self, row: DescribedRow) -> Any:
        found = getattr(row.subject, self.source) if isinstance(self.source, str) else self.source(row)
        return None if found == "" and self.type is not str else found


NOT_STORED = "not stored"

_USER = Field(
    "user",
    str | None,
    "The user's name; none for a guest, for a deleted user, and for one whom the reader may not see.",
    lambda row: row.user_name(row.subject.user_id),
)
_CLIENT = (
    Field("address", str, "The address.", "address", absent=NOT_STORED),
    Field("user_agent", str, "The browser's header ``User-Agent``.", "user_agent", absent=NOT_STORED),
    Field(
        "device",
        str,
        "Browser and system, such as ``Firefox 145 on Linux``: made of the user agent.",
        lambda row: browser_name(row.subject.user_agent),
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
    Field("device_bound", bool, "Whether the session is bound to its user's device.", "device_bound"),
)
"""The fields of a live session."""

OWN_SESSION = tuple(field for field in SESSION if not field.for_staff)
"""
The fields that users learn of their own sessions.

No length is among them. A user who can put text beside a secret into a session, and learns the length of both together,
can find out the secret. See "No length tells a secret" in docs/explanation/security.rst.
"""

SIGN_IN = (
    Field("id", str, "The primary key of the row that stores the sign-in.", "id"),
    Field("user_id", str, "The user's primary key.", "user_id"),
    _USER,
    *_CLIENT,
    Field("created_at", datetime, "When the user signed in.", "created_at"),
    Field("last_seen_at", datetime | None, "The last request that is known.", "last_seen_at"),
    Field("ended_at", datetime | None, "When the session ended; none if no end is known: it may live.", "ended_at"),
    Field(
        "ended_at_is_approximate",
        bool,
        "Whether the end was noticed later: its time is not exact.",
        "ended_at_is_approximate",
    ),
    Field("reason", str | None, "How the session ended; none if that is not recorded.", "reason"),
    Field(
        "ended_by",
        str | None,
        "The primary key of the user who ended it; none if no request of a user did.",
        "ended_by",
    ),
    Field(
        "ended_by_user",
        str | None,
        "The name of the user who ended it; none if the reader may not see this user.",
        lambda row: row.user_name(row.subject.ended_by),
    ),
    Field("message", str, "What the user was told, in the reader's language.", "message"),
    Field("message_code", str, "The code of that message, if it is a ready-made one.", "message_code"),
    Field(
        "internal_note",
        str | None,
        "The note of who ended it, for administrators; none without one, and for a reader who may not end the user's "
        "sessions.",
        "internal_note",
        of_request=True,
    ),
    Field("is_new_device", bool | None, "Whether the device was new to the user, if it is known.", "is_new_device"),
    Field(
        "unproven_at",
        datetime | None,
        "When a request last used the session without the proof of its device; none if none did.",
        "unproven_at",
    ),
    Field("unproven_address", str, "The address of that request.", "unproven_address"),
    Field("unproven_user_agent", str, "Its header ``User-Agent``.", "unproven_user_agent"),
    Field("unproven_refused", bool | None, "Whether it was refused; none without such a request.", "unproven_refused"),
)
"""The fields of a sign-in of the past, and of what became of its session."""

BLOCK = (
    Field("user_id", str, "The primary key of the user, who may not sign in.", "user_id"),
    _USER,
    Field("until", datetime, "When the block is over.", "until"),
    Field("message", str, "What the user is told, in the reader's language.", "message"),
    Field("message_code", str, "The code of that message, if it is a ready-made one.", "message_code"),
    Field("by", str | None, "The primary key of the user who has set the block, if it is known.", "by"),
    Field(
        "by_user",
        str | None,
        "The name of the user who has set the block; none if the reader may not see this user.",
        lambda row: row.user_name(row.subject.by),
    ),
    Field(
        "internal_note",
        str | None,
        "The note of that user for administrators; none without one, and for a reader who may not end the user's "
        "sessions.",
        "internal_note",
    ),
)
"""The fields of a block."""


def without_request(fields: Iterable[Field]) -> tuple[Field, ...]:
    """Return the ``fields`` of a file that a command writes: none depends on a request."""
    return tuple(field for field in fields if not field.of_request)


def describe_sessions(
    sessions: Iterable[Session],
    users: Users = NO_USERS,
    current_sid: str | None = None,
    columns: Sequence[Field] | None = None,
) -> list[dict[str, Any]]:
    """
    Describe sessions by ``columns``, None for ``SESSION``: times are datetimes, and absent values are None.

    ``current_sid`` is the session of the request. Places are asked for together: call this once a page.
    """
    sessions = list(sessions)
    found = places.find_places(each.address for each in sessions)
    rows = (DescribedRow(each, users, found.get(each.address, ""), each.sid == current_sid) for each in sessions)
    return [{field.name: field.value(row) for field in columns or SESSION} for row in rows]


def describe_sign_ins(sign_ins: Iterable[PastSignIn], users: Users = NO_USERS) -> list[dict[str, Any]]:
    """Describe sign-ins by ``SIGN_IN``. Their places are set: see :func:`django_redsess.past_sign_ins.with_places`."""
    rows = (DescribedRow(each, users, each.place) for each in sign_ins)
    return [{field.name: field.value(row) for field in SIGN_IN} for row in rows]


def describe_block(block: Block, users: Users = NO_USERS) -> dict[str, Any]:
    """Describe a block by ``BLOCK``."""
    return {field.name: field.value(DescribedRow(block, users)) for field in BLOCK}


ExportedRow = Mapping[str, str | int | None]

# These characters begin a formula: in some languages, wide ones too. Some spreadsheets split a file at semicolons, as
# Excel does in German: a new cell begins there. Blanks, characters that are not seen, and quotation marks before a
# formula may be dropped: the CSV writer doubles each quotation mark.
_FORMULA = re.compile(r'(?:\A|(?<=[;|]))(?=[\s"\u200b-\u200f\u2060-\u2064\ufeff]*[=+@＝＋－＠-])')  # noqa: RUF001

# They could control the terminal on which a file is printed. The last ones turn the text around.
_CONTROLS = {
    **{code: f"\\x{code:02x}" for code in (*range(32), *range(0x7F, 0xA0))},
    **{code: f"\\u{code:04x}" for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A))},
}


def exported_row(described: Mapping[str, Any], fields: Sequence[Field]) -> ExportedRow:
    """Return these fields of ``described`` for a file, with times as :func:`iso_time` writes them."""
    values = {field.name: described[field.name] for field in fields}
    return {name: iso_time(value) if isinstance(value, datetime) else value for name, value in values.items()}


def csv_row(row: ExportedRow, fields: Sequence[Field]) -> list[str]:
    """Return the cells of ``row`` for a CSV file. A missing value is named, in English in all languages."""
    values = ((field, row[field.name]) for field in fields)
    return [csv_cell(field.absent if value in (None, "") else str(value)) for field, value in values]


def csv_cell(text: str) -> str:
    """
    Return ``text`` for a cell of a CSV file. Text that a spreadsheet would take for a formula gets an apostrophe.

    So does text that would be a formula if the file were split at another character than a comma. Control characters
    are escaped, as ``\\x1b``.
    """
    return _FORMULA.sub("'", text.translate(_CONTROLS))


def iso_time(at: datetime) -> str:
    """Return ``at`` as exported files have it: ISO 8601, in UTC, with milliseconds."""
    return at.astimezone(UTC).isoformat(timespec="milliseconds")
