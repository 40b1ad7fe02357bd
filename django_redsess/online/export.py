"""Sessions as records for programs: one dict a session, rows of CSV."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime

from django_redsess.online.labels import browser_name
from django_redsess.online.listing import Session

COLUMNS = (
    *("sid", "user_id", "user", "created_at", "last_seen_at", "expires_at"),
    *("address", "browser", "user_agent", "size", "newest_item"),
)

Record = Mapping[str, str | int | None]

# These characters begin a formula: in some languages, wide ones too. Some spreadsheets split a file at semicolons, as
# Excel does in German: a new cell begins there. Blanks, characters that are not seen, and quotation marks before a
# formula may be dropped: the CSV writer doubles each quotation mark.
_FORMULA = re.compile(r'(?:\A|(?<=[;|]))(?=[\s"\u200b-\u200f\u2060-\u2064\ufeff]*[=+@＝＋－＠-])')  # noqa: RUF001

# They could control the terminal on which a file is printed. The last ones turn the text around.
_CONTROLS = {
    **{code: f"\\x{code:02x}" for code in (*range(32), *range(0x7F, 0xA0))},
    **{code: f"\\u{code:04x}" for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A))},
}


def record_of(session: Session, user: str | None) -> Record:
    """
    Return the values of ``session``, in the order of ``COLUMNS``. Times are ISO 8601, in UTC.

    ``user`` is the user's name, or None for a guest and for a deleted user: only the second has a ``user_id``. What is
    not stored is None, too.
    """
    values = (
        session.sid,
        session.user_id,
        user,
        None if session.created_at is None else iso(session.created_at),
        iso(session.last_seen_at),
        iso(session.expires_at),
        session.address or None,
        browser_name(session.user_agent) or None,
        session.user_agent or None,
        session.size,
        session.newest_item,
    )
    return dict(zip(COLUMNS, values, strict=True))


def csv_row(record: Record) -> list[str]:
    """Return the cells of ``record`` for a CSV file. What is not stored is said, in English in all languages."""
    absent = dict.fromkeys(("address", "browser", "user_agent"), "not stored")
    return [csv_cell(absent.get(name, "") if value is None else str(value)) for name, value in record.items()]


def csv_cell(text: str) -> str:
    """
    Return ``text`` for a cell of a CSV file. What a spreadsheet would take for a formula gets an apostrophe before it.

    So does what it would take for a formula if it splits the file at another character than a comma. Control characters
    are escaped, as ``\\x1b``.
    """
    return _FORMULA.sub("'", text.translate(_CONTROLS))


def iso(at: datetime) -> str:
    """Return ``at`` as exported files have it: ISO 8601, in UTC, with milliseconds."""
    return at.astimezone(UTC).isoformat(timespec="milliseconds")
