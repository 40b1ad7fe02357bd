"""Cells of CSV files."""

from __future__ import annotations

import pytest

from django_redsess.online.export import csv_cell


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t1", "\r1", "\n1", "＝1+1"])  # noqa: RUF001
def test_what_a_spreadsheet_would_take_for_a_formula_gets_an_apostrophe(text: str) -> None:
    assert csv_cell(text) == f"'{text}"


@pytest.mark.parametrize("text", ["", "anna", "2001:db8::1", "a=b", "a; b=c", "'=1", " =1", 'a "b", c\nd'])
def test_any_other_text_stays(text: str) -> None:
    assert csv_cell(text) == text


@pytest.mark.parametrize("separator", [";", "|", "\t", "\r", "\n"], ids=repr)
@pytest.mark.parametrize("formula", ["=1+1", "+1", "-1", "@SUM(A1)", "＝1+1"])  # noqa: RUF001
def test_a_spreadsheet_that_splits_at_another_character_finds_no_formula(separator: str, formula: str) -> None:
    assert csv_cell(f"x{separator}{formula}{separator}y") == f"x{separator}'{formula}{separator}y"
