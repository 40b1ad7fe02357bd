"""Sessions as rows of a CSV file."""

from __future__ import annotations

import re

FORMULAS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")  # noqa: RUF001
"""The characters with which spreadsheets begin a formula: in some languages, wide ones too."""

# Some spreadsheets split a file at semicolons, as Excel does in German, or at tabs: a new cell begins there.
_WITHIN = re.compile(r"(?<=[;|\t\r\n])(?=[=+@＝＋－＠-])")  # noqa: RUF001


def csv_cell(text: str) -> str:
    """
    Return ``text`` for a cell of a CSV file. What a spreadsheet would take for a formula gets an apostrophe before it.

    So does what it would take for a formula if it splits the file at another character than a comma.
    """
    text = _WITHIN.sub("'", text)
    return f"'{text}" if text.startswith(FORMULAS) else text
