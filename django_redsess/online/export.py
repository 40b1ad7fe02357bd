"""What exported files have of sessions and sign-ins: values for JSON, rows of CSV."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from django_redsess.online.fields import Field

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


def record_of(described: Mapping[str, Any], fields: Sequence[Field]) -> Record:
    """Return what a file has of ``described``: these fields, with times as :func:`iso` writes them."""
    values = {field.name: described[field.name] for field in fields}
    return {name: iso(value) if isinstance(value, datetime) else value for name, value in values.items()}


def csv_row(record: Record, fields: Sequence[Field]) -> list[str]:
    """Return the cells of ``record`` for a CSV file. What is not stored is said, in English in all languages."""
    values = ((field, record[field.name]) for field in fields)
    return [csv_cell(field.absent if value in (None, "") else str(value)) for field, value in values]


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
