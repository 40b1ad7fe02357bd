"""All pages of the documentation: links, code, and the names of settings, checks and options in them."""

from __future__ import annotations

import ast
import importlib
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from django.core.management import load_command_class
from django.core.management.base import BaseCommand

import django_redsess
from django_redsess import online, viewed
from django_redsess.conf import Conf
from tests.project.docs.pages import DOCS, ROOT, Block, blocks, pages

pytestmark = pytest.mark.unit

PACKAGE = Path(django_redsess.__file__).parent

COMMANDS = {
    path.stem: load_command_class("django_redsess", path.stem)
    for path in (PACKAGE / "management" / "commands").glob("[a-z]*.py")
}


def python() -> Iterator[tuple[Path, Block, ast.Module]]:
    for page in pages():
        for block in blocks(page):
            if block.language == "python":
                yield page, block, ast.parse(block.text, filename=str(page))


def test_names_of_this_package_that_code_uses_exist() -> None:
    modules: dict[str, ModuleType] = {"online": online, "viewed": viewed}
    used = set()
    for _, _, tree in python():
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("django_redsess"):
                used |= {(importlib.import_module(str(node.module)), alias.name) for alias in node.names}
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules:
                used.add((modules[node.value.id], node.attr))
    assert len(used) > 20
    assert [f"{module.__name__}.{name}" for module, name in used if not hasattr(module, name)] == []


def test_settings_that_are_named_exist() -> None:
    named = set()
    for page in pages():
        named |= set(re.findall(r'REDSESS\["(\w+)"\]', page.read_text()))
    for _, _, tree in python():
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "REDSESS":
                assert isinstance(node.value, ast.Dict)
                named |= {key.value for key in node.value.keys if isinstance(key, ast.Constant)}
    assert len(named) > 8
    assert sorted(name for name in named if not hasattr(Conf, str(name))) == []


def test_checks_that_are_named_exist() -> None:
    code = "".join(path.read_text() for path in PACKAGE.rglob("*.py"))
    named = {found for page in pages() for found in re.findall(r"\b[EW]0\d\d\b", page.read_text())}
    assert named
    assert sorted(each for each in named if f'"{each}"' not in code) == []


def parsed(name: str, arguments: list[str]) -> None:
    command: BaseCommand = COMMANDS[name]
    command.create_parser("manage.py", name).parse_args(arguments)


def test_commands_that_are_shown_have_these_options() -> None:
    shown = 0
    for page in pages():
        lines = re.findall(r"^ *\$ (?:\S*python )\S*manage\.py (.*)$", page.read_text(), re.MULTILINE)
        for name, _, arguments in [line.partition(" ") for line in lines]:
            if name in COMMANDS:
                parsed(name, shlex.split(arguments))
                shown += 1
    assert shown > 5


def test_links_between_pages_are_checked_by_sphinx() -> None:
    """Sphinx does not check a link to a file that is written by hand: pages use ``:doc:`` and ``:ref:``."""
    for page in DOCS.rglob("*.rst"):
        assert re.findall(r"<(?!https://)[^<>`\s]+(?:rst|html|md)[^<>`]*>`_", page.read_text()) == [], page


@pytest.mark.parametrize("name", ["README.rst", "SECURITY.md"])
def test_files_that_the_readme_links_to_exist(name: str) -> None:
    text = (ROOT / name).read_text()
    links = re.findall(r"<(docs/[^>]+)>`_", text) + re.findall(r"\]\((docs/[^)]+)\)", text)
    assert links
    assert [link for link in links if not (ROOT / link).is_file()] == []


@pytest.mark.slow
def test_the_site_is_built_without_a_warning_and_without_the_network(tmp_path: Path) -> None:
    if "REDSESS_SKIP_NOTHING" not in os.environ:
        pytest.importorskip("sphinx", reason="make docs installs it")
    nowhere = {"http_proxy": "http://127.0.0.1:1", "https_proxy": "http://127.0.0.1:1"}
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", str(DOCS), str(tmp_path / "site")]
    built = subprocess.run(
        command, env={**os.environ, **nowhere}, capture_output=True, text=True, check=False, timeout=120
    )
    assert (built.returncode, built.stderr) == (0, "")
    for page in DOCS.rglob("*.rst"):
        assert (tmp_path / "site" / page.relative_to(DOCS).with_suffix(".html")).is_file()


def test_options_that_are_named_in_the_text_exist() -> None:
    ours = {
        option for name in COMMANDS for option in COMMANDS[name].create_parser("manage.py", name)._option_string_actions
    }
    named = {option for page in pages() for option in re.findall(r"``(--[a-z-]+)", page.read_text())}
    assert named
    assert sorted(named - ours) == []
