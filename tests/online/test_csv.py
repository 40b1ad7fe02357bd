"""Cells of CSV files."""

import csv
import io
from itertools import product

import pytest

from django_redsess.online.fields import csv_cell

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "＝1+1"])  # noqa: RUF001
def test_what_a_spreadsheet_would_take_for_a_formula_gets_an_apostrophe(text: str) -> None:
    assert csv_cell(text) == f"'{text}"
    # Another spreadsheet may split at another character.
    for separator in ";|":
        assert csv_cell(f"x{separator}{text}{separator}y") == f"x{separator}'{text}{separator}y"


@pytest.mark.parametrize("text", ["", "anna", "2001:db8::1", "a=b", "a; b=c", "'=1", 'a "b", c', '"a"=1'])
def test_any_other_text_stays(text: str) -> None:
    assert csv_cell(text) == text


def test_control_characters_are_escaped() -> None:
    for code in (*range(32), *range(0x7F, 0xA0)):
        # A reader that drops a control character before a formula finds none.
        assert csv_cell(f"{chr(code)}=1;{chr(code)}=1") == rf"\x{code:02x}=1;\x{code:02x}=1"


@pytest.mark.parametrize("before", [" ", '"', '""', ' "', '" " ', "\xa0", "\u3000", "\u200b", "\ufeff", "\u2060 "])
def test_blanks_and_quotation_marks_before_a_formula_hide_it_from_nobody(before: str) -> None:
    assert csv_cell(f"{before}=1") == f"'{before}=1"
    assert csv_cell(f"x;{before}=1") == f"x;'{before}=1"


@pytest.mark.parametrize("skips_blanks", [False, True], ids=["keeps blanks", "skips blanks"])
@pytest.mark.parametrize("delimiter", [",", ";", "|", "\t"], ids=repr)
def test_no_reader_finds_a_formula_however_it_splits(delimiter: str, skips_blanks: bool) -> None:
    agent = "Mozilla;\"=cmd|'/c calc'!A0;x".replace(";", delimiter)
    texts = [agent, *map("".join, product([delimiter, '"', "=", " ", "x", "\r", "\n"], repeat=5))]
    for text in texts:
        written = io.StringIO(newline="")
        rows = [["sid", csv_cell(text), csv_cell(f"x{text}"), "12"]] * 2
        csv.writer(written).writerows(rows)
        lines = io.StringIO(written.getvalue(), newline="")
        for row in csv.reader(lines, delimiter=delimiter, skipinitialspace=skips_blanks):
            assert [cell for cell in row if cell.startswith("=")] == [], text
