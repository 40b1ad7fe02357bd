"""The pages on architecture: pictures that are drawn from the code, and what the text names is there."""

from __future__ import annotations

import re
import tomllib
from itertools import combinations
from pathlib import Path
from xml.etree import ElementTree

import pytest

from django_redsess.signals import Reason
from docs._ext import rooms, sequence

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "architecture"
PACKAGE = ROOT / "django_redsess"

NO_CODE = {"locale", "lua", "migrations", "static", "templates"}
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(autouse=True)
def empty_store() -> None:
    """Pages need no server."""


def page(name: str) -> str:
    return (PAGES / f"{name}.rst").read_text(encoding="utf-8")


def test_the_picture_has_every_module_and_room() -> None:
    there = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or path.is_dir()}
    drawn = set(rooms.spots())
    assert drawn == {name for name in there if not name.startswith("_")} - NO_CODE
    picture = ElementTree.fromstring(rooms.draw(alt="Rooms"))
    assert {text.text for text in picture.iter(f"{SVG}text")} == drawn


def test_the_rows_of_the_picture_are_the_layers() -> None:
    told = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    # A bar stands between those that may not import each other.
    [layers] = [each["layers"] for each in told["contracts"] if each.get("containers") == ["django_redsess"]]
    by_row: dict[float, list[str]] = {}
    for name, (_, y) in rooms.spots().items():
        by_row.setdefault(y, []).append(name)
    drawn = [" | ".join(names) for _, names in sorted(by_row.items())]
    assert drawn == layers


def test_all_imports_point_down() -> None:
    spots = rooms.spots()
    imports = [(name, other) for name, others in rooms.imports().items() for other in others]
    assert len(imports) > 50
    assert all(spots[name][1] < spots[other][1] for name, other in imports)


def test_no_import_is_lost_where_an_arrow_is_left_out() -> None:
    arrows = rooms.arrows()

    def reached(name: str) -> set[str]:
        direct = {other for start, other in arrows if start == name}
        return direct.union(*map(reached, direct))

    imports = rooms.imports()
    assert len(arrows) < sum(map(len, imports.values()))
    assert all(others <= reached(name) for name, others in imports.items())
    # And none is drawn that is no import.
    assert all(other in imports[name] for name, other in arrows)


def test_no_box_lies_on_another() -> None:
    for (x1, y1), (x2, y2) in combinations(rooms.spots().values(), 2):
        assert abs(x1 - x2) > rooms.WIDTH or abs(y1 - y2) > rooms.HEIGHT


def test_an_arrow_goes_through_no_box() -> None:
    spots = rooms.spots()
    crossed = set()
    for (upper, lower), (x1, y1, x2, y2) in rooms.lines().items():
        assert abs(x1 - spots[upper][0]) < rooms.WIDTH / 2
        assert abs(x2 - spots[lower][0]) < rooms.WIDTH / 2
        for name in spots.keys() - {upper, lower}:
            x, y = spots[name]
            for step in range(101):
                at_x, at_y = x1 + (x2 - x1) * step / 100, y1 + (y2 - y1) * step / 100
                if abs(at_x - x) <= rooms.WIDTH / 2 and abs(at_y - y) <= rooms.HEIGHT / 2:
                    crossed.add(f"{upper} to {lower} goes through {name}")
    assert not crossed


def test_each_room_is_explained() -> None:
    explained = re.findall(r"^``(\w+)`` {2,}", page("rooms").split("Where to look")[0], re.MULTILINE)
    assert set(explained) | {"templatetags"} == {name for name in rooms.spots() if rooms.is_room(name)}


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
    for drawn in (rooms.draw(alt="A < B"), sequence.draw("A | B\nA -> B: words", alt="A < B")):
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
    # A script, or what several rooms have, is named without its folder.
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
