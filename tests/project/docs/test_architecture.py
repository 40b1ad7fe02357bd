"""The pages on architecture: pictures that are drawn from the code, and what the text names is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from django_redsess.signals import Reason
from docs._ext import facts

ROOT = Path(__file__).parents[3]
PAGES = ROOT / "docs" / "architecture"
PACKAGE = ROOT / "django_redsess"

NO_CODE = {"locale", "lua", "migrations", "static", "templates"}


@pytest.fixture(autouse=True)
def empty_store() -> None:
    """Pages need no server."""


def page(name: str) -> str:
    return (PAGES / f"{name}.rst").read_text(encoding="utf-8")


def test_each_module_is_in_a_layer() -> None:
    # import-linter reads these lists, too, and refuses imports upwards.
    for package in (PACKAGE, PACKAGE / "session", PACKAGE / "transport"):
        there = {path.stem for path in package.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
        listed = [name for layer in facts.layers(".".join(package.relative_to(ROOT).parts)) for name in layer]
        assert sorted(listed) == sorted(name for name in there - NO_CODE if not name.startswith("_"))


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
