"""The pages of the reference say what the code says. What they take from the code themselves is not compared here."""

import ast
import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

import django_redsess
from django_redsess.conf import PROFILES, SETTINGS, conf
from docs._ext import facts
from tests.helpers.public_names import names_file, python, site, source
from tests.project.docs.pages import DOCS

pytestmark = pytest.mark.unit

PACKAGE = Path(django_redsess.__file__).parent


def page(name: str) -> str:
    return (DOCS / "reference" / f"{name}.rst").read_text(encoding="utf-8")


def directives(text: str, name: str) -> dict[str, str]:
    """Return the content of each directive of that name, by its argument. None may stand there twice."""
    found = re.findall(rf"^\.\. {name}:: (.+)\n((?:(?: .*)?\n)*)", text + "\n", re.MULTILINE)
    assert len(found) == len(dict(found))
    return {argument: dedent(content) for argument, content in found}


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


def test_a_page_names_the_async_variants_of_its_modules() -> None:
    """One sentence of the page names them."""
    texts = "".join(path.read_text(encoding="utf-8") for path in (DOCS / "reference").glob("*.rst"))
    named = re.findall(r"^\.\. async-variants:: (.+)$", texts, re.MULTILINE)
    assert sorted(named) == sorted(name for name in python.modules() if facts.async_variants(import_module(name)))


def test_each_setting_is_there_once_with_an_example_that_is_allowed(settings: Any) -> None:
    settings.REDSESS = {}
    described = directives(page("settings"), "setting")
    assert sorted(described) == sorted(SETTINGS)
    for name, content in described.items():
        examples = re.findall(r"\.\. code-block:: python\n\n +(.+)", content)
        assert examples, name
        for example in examples:
            given: dict[str, Any] = {"REDSESS": {}}
            exec(example, given)
            assert all(SETTINGS[each].rule.allows(value) for each, value in given["REDSESS"].items()), example
            assert given["REDSESS"][name] != getattr(conf, name), f"{name}: the example is the default"


def test_the_values_of_each_profile_are_listed() -> None:
    assert re.findall(r"^   \.\. profile:: (\w+)$", page("settings"), re.MULTILINE) == list(PROFILES)


def names(kind: str, after: str = "") -> set[str]:
    """Return the last parts of public names of a kind, of those that begin with ``after``."""
    found = [name for name in names_file.collected_of(kind) if name.startswith(after)]
    return {re.split("[.:]", name.split()[0])[-1] for name in found}


TEMPLATES = PACKAGE / "templates"


@pytest.mark.parametrize(
    ("name", "pattern", "collect"),
    [
        ("checks", r"^\.\. check:: (\w+)$", lambda: names("System checks")),
        ("commands", r"^\.\. command:: (\w+)$", lambda: {*site.command_names()}),
        ("permissions", r"^``(\w+)``  ", lambda: names("Permissions")),
        (
            "templates",
            r"^(?:- )?``([\w/]+\.html)``$",
            lambda: {str(p.relative_to(TEMPLATES)) for p in TEMPLATES.rglob("*.html")},
        ),
        ("urls", r"^``(\w+)``  ", lambda: names("URLs", "django_redsess:")),
    ],
)
def test_a_page_has_all_names_of_the_code_and_no_others(
    name: str, pattern: str, collect: Callable[[], set[str]]
) -> None:
    assert set(re.findall(pattern, page(name), re.MULTILINE)) == collect()
