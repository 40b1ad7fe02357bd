"""What files have of a session: the admin's export, and what the command ``online`` prints as JSON or CSV."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from django_redsess.online import presentation

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser

    from django_redsess.online.rows import Session

COLUMNS = (
    *("sid", "user_id", "username", "login_at", "seen_at", "expires_at"),
    *("address", "browser", "user_agent", "size", "newest_item"),
)

Record = Mapping[str, str | int | None]

# These characters begin a formula: in some languages, wide ones too. A tab or the end of a line before them is skipped.
# Some spreadsheets split a file at semicolons, as Excel does in German, or at tabs: a new cell begins there. Blanks and
# quotation marks before its text may be dropped, since the CSV writer doubles each quotation mark.
_FORMULA = re.compile(r'\A(?=[\t\r\n])|(?:\A|(?<=[;|\t\r\n]))(?=[" ]*[=+@＝＋－＠-])')  # noqa: RUF001


def record_of(session: Session, user: AbstractBaseUser | None) -> Record:
    """
    Return the values of ``session``, in the order of ``COLUMNS``. Times are ISO 8601, in UTC.

    ``user`` is None for a guest and for a deleted user: only the second has a ``user_id``.
    """
    values = (
        session.sid,
        session.user_id,
        None if user is None else str(user.get_username()),
        None if session.login_at is None else _iso(session.login_at),
        _iso(session.seen_at),
        _iso(session.expires_at),
        session.address,
        presentation.browser_name(session.user_agent),
        session.user_agent,
        session.size,
        session.newest_item,
    )
    return dict(zip(COLUMNS, values, strict=True))


def csv_row(record: Record) -> list[str]:
    """Return the cells of ``record`` for a CSV file."""
    return [csv_cell("" if value is None else str(value)) for value in record.values()]


def csv_cell(text: str) -> str:
    """
    Return ``text`` for a cell of a CSV file. What a spreadsheet would take for a formula gets an apostrophe before it.

    So does what it would take for a formula if it splits the file at another character than a comma.
    """
    return _FORMULA.sub("'", text)


def _iso(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="milliseconds")
