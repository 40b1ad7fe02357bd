"""The pages of the reference say what the code says. What is written into them from the code is as it is now."""

import ast
import re
from collections import Counter
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import django_redsess
from django_redsess.conf import PROFILES, SETTINGS, conf
from docs._ext import facts, written
from docs._ext import names as references
from tests.helpers.public_names import names_file, python, site, source
from tests.project.docs.pages import DOCS

pytestmark = pytest.mark.unit

PACKAGE = Path(django_redsess.__file__).parent


def page(name: str) -> str:
    return (DOCS / "reference" / f"{name}.rst").read_text(encoding="utf-8")


PRIVATE_MODULES = {"django_redsess.checks", "django_redsess.contrib.sockets.ended_sessions"}
"""Modules whose ``__all__`` is for others of the package."""


def test_the_reference_has_what_modules_have_in_all() -> None:
    documented: dict[str, list[str]] = {name: [] for name in python.modules()}
    for each in python.documented():
        if each.is_indexed:
            documented.setdefault(each.module, []).append(each.name)
    assert len(documented) > 25
    in_all = {name: sorted(import_module(name).__all__) for name in documented.keys() | modules_with_all()}
    # Also the other way round: a module with such a list has a page.
    assert {name: sorted(found) for name, found in documented.items()} == {
        name: found for name, found in in_all.items() if name not in PRIVATE_MODULES
    }


def modules_with_all() -> set[str]:
    return {
        ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")
        for path, tree in source.trees().items()
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
    }


def arguments(kind: str) -> list[str]:
    """Return what parts of a kind are about, on all pages."""
    return [part.argument for path in written.pages() for part in written.parts(path) if part.kind == kind]


def test_a_page_names_the_async_variants_of_its_modules() -> None:
    """One sentence of the page names them."""
    have = sorted(name for name in python.modules() if facts.async_variants(import_module(name)))
    assert sorted(arguments("async-variants")) == have


def test_each_setting_is_there_once_with_an_example_that_is_allowed(settings: Any) -> None:
    settings.REDSESS = {}
    assert sorted(arguments("setting")) == sorted(SETTINGS)
    # The first examples below the heading of a setting are its own.
    _, *sections = re.split(r"^``(\w+)``\n-+$", page("settings"), flags=re.MULTILINE)
    for name, text in zip(sections[::2], sections[1::2], strict=True):
        examples = re.findall(r"\.\. code-block:: python\n\n +(.+)", text)
        assert examples, name
        for example in examples:
            given: dict[str, Any] = {"REDSESS": {}}
            exec(example, given)
            assert all(SETTINGS[each].rule.allows(value) for each, value in given["REDSESS"].items()), example
            assert given["REDSESS"][name] != getattr(conf, name), f"{name}: the example is the default"


def test_the_values_of_each_profile_are_listed() -> None:
    assert arguments("profile") == list(PROFILES)


def names(kind: str, after: str = "") -> set[str]:
    """Return the last parts of public names of a kind, of those that begin with ``after``."""
    found = [name for name in names_file.collected_of(kind) if name.startswith(after)]
    return {re.split("[.:]", name.split()[0])[-1] for name in found}


TEMPLATES = PACKAGE / "templates"


@pytest.mark.parametrize(
    ("name", "pattern", "collect"),
    [
        ("checks", r"^``(\w+)``\n-+$", lambda: names("System checks")),
        ("permissions", r"^``(\w+)``  ", lambda: names("Permissions")),
        (
            "templates",
            r"^(?:- )?``([\w/]+\.html)``$",
            lambda: {str(p.relative_to(TEMPLATES)) for p in TEMPLATES.rglob("*.html")},
        ),
        ("urls", r"^``(\w+)`` +``", lambda: names("URLs", "django_redsess:")),
    ],
)
def test_a_page_has_all_names_of_the_code_and_no_others(
    name: str, pattern: str, collect: Callable[[], set[str]]
) -> None:
    assert set(re.findall(pattern, page(name), re.MULTILINE)) == collect()


def test_what_is_written_from_the_code_is_as_the_code_is_now() -> None:
    outdated = [str(path.relative_to(DOCS)) for path in written.outdated()]
    assert outdated == [], "make docs-pages writes them anew"


def test_each_command_is_described_below_its_name() -> None:
    described = arguments("command")
    assert sorted(described) == sorted(site.command_names())
    below = re.findall(
        r"^(\w+)\n=+\n(?:(?!=+$).*\n)*?\.\. written by .*: command (\w+)$", page("commands"), re.MULTILINE
    )
    assert [(name, name) for name in described] == below


def test_a_section_of_a_name_has_an_anchor_of_its_own() -> None:
    """docutils gives the second section of the same title another one, and the links would lead to the first."""
    anchors = Counter((place.page, place.anchor) for place in references.places())
    assert [anchor for anchor, count in anchors.items() if count > 1] == []
