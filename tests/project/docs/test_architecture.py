"""The pages on architecture: pictures that are drawn from the code, and what the text names is there."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from django_redsess.signals import Reason
from docs._ext import facts, sequence

ROOT = Path(__file__).parents[3]
PAGES = ROOT / "docs" / "architecture"
PACKAGE = ROOT / "django_redsess"

NO_CODE = {"locale", "lua", "migrations", "static", "templates"}
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(autouse=True)
def empty_store() -> None:
    """Pages need no server."""


def page(name: str) -> str:
    return (PAGES / f"{name}.rst").read_text(encoding="utf-8")


def test_each_package_is_explained() -> None:
    explained = re.findall(r"^``(\w+)`` {2,}", page("packages").split("Who imports whom")[0], re.MULTILINE)
    packages = {path.parent.name for path in PACKAGE.glob("*/__init__.py")} - NO_CODE
    assert {*explained, "templatetags"} == {*packages, "templatetags", "lua"}


def test_each_module_is_in_a_layer() -> None:
    # import-linter reads these lists, too, and refuses imports upwards.
    for package in (PACKAGE, PACKAGE / "session", PACKAGE / "transport"):
        there = {path.stem for path in package.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
        listed = [name for layer in facts.layers(".".join(package.relative_to(ROOT).parts)) for name in layer]
        assert sorted(listed) == sorted(name for name in there - NO_CODE if not name.startswith("_"))


def test_the_picture_of_a_request_has_all_its_lines() -> None:
    [text] = re.findall(r"\.\. sequence::\n(?: {3}:alt:.*\n)(?: {4,}.*\n)*\n((?: {3}.*\n)+)", page("request"))
    first, *lines = text.strip().splitlines()
    picture = ElementTree.fromstring(sequence.draw(text, alt="A request"))
    shown = [each.text for each in picture.iter(f"{SVG}text")]
    assert shown == [*map(str.strip, first.split("|")), *(line.partition(": ")[2] for line in lines)]
    width = float(picture.attrib["viewBox"].split()[2])
    assert all(0 <= float(box.attrib["x"]) <= width - float(box.attrib["width"]) for box in picture.iter(f"{SVG}rect"))


def test_what_is_no_line_of_a_sequence_is_refused() -> None:
    with pytest.raises(ValueError, match="no line of a sequence: nonsense"):
        sequence.draw("A | B\nA -> B: words\nnonsense", alt="")


def test_a_picture_has_words_and_the_colours_of_the_page() -> None:
    drawn = sequence.draw("A | B\nA -> B: words", alt="A < B")
    picture = ElementTree.fromstring(drawn)
    assert picture.attrib["role"] == "img"
    assert picture.attrib["aria-label"] == "A < B"
    assert "var(--color-foreground-primary" in drawn


def test_a_file_that_is_named_is_there() -> None:
    pattern = r"``([\w/.-]+\.(?:py|lua|rst|toml|po)|tests/\w+)``"
    named = {
        (path.stem, name)
        for path in PAGES.glob("*.rst")
        for name in re.findall(pattern, path.read_text(encoding="utf-8"))
        # That is the site's.
        if name != "manage.py"
    }
    assert len(named) > 50
    # A script, or what several packages have, is named without its folder.
    missing = [
        each
        for each in sorted(named)
        if not any((folder / each[1]).exists() for folder in (ROOT, PACKAGE))
        and ("/" in each[1] or not list(PACKAGE.rglob(each[1])))
    ]
    assert not missing


def test_the_glossary_has_each_reason() -> None:
    [reasons] = re.findall(r"^   reason\n((?: {6}.*\n|\n)+)", page("glossary"), re.MULTILINE)
    assert re.findall(r"^ {6}``(\w+)``$", reasons, re.MULTILINE) == [reason.value for reason in Reason]


def test_the_glossary_is_in_order() -> None:
    terms = re.findall(r"^   (\w.*)$", page("glossary"), re.MULTILINE)
    assert terms == sorted(terms)
    assert len(terms) > 25
