"""Cells of CSV files."""

from __future__ import annotations

import pytest

from django_redsess.online.export import csv_cell


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "＝1+1"])  # noqa: RUF001
def test_what_a_spreadsheet_would_take_for_a_formula_gets_an_apostrophe(text: str) -> None:
    assert csv_cell(text) == f"'{text}"


@pytest.mark.parametrize("text", ["", "anna", "2001:db8::1", "a=b", "'=1", " =1", 'a "b", c\nd'])
def test_any_other_text_stays(text: str) -> None:
    assert csv_cell(text) == text
