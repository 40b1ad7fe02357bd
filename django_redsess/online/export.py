"""Sessions as rows of a CSV file."""

from __future__ import annotations

import re

# These characters begin a formula: in some languages, wide ones too. A tab or the end of a line before them is skipped.
# Some spreadsheets split a file at semicolons, as Excel does in German, or at tabs: a new cell begins there. Blanks and
# quotation marks before its text may be dropped, since the CSV writer doubles each quotation mark.
_FORMULA = re.compile(r'\A(?=[\t\r\n])|(?:\A|(?<=[;|\t\r\n]))(?=[" ]*[=+@＝＋－＠-])')  # noqa: RUF001


def csv_cell(text: str) -> str:
    """
    Return ``text`` for a cell of a CSV file. What a spreadsheet would take for a formula gets an apostrophe before it.

    So does what it would take for a formula if it splits the file at another character than a comma.
    """
    return _FORMULA.sub("'", text)
