"""Sessions as rows of a CSV file."""

from __future__ import annotations

FORMULAS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")  # noqa: RUF001
"""The characters with which spreadsheets begin a formula: in some languages, wide ones too."""


def csv_cell(text: str) -> str:
    """Return ``text`` for a cell of a CSV file. What a spreadsheet would take for a formula gets an apostrophe."""
    return f"'{text}" if text.startswith(FORMULAS) else text
