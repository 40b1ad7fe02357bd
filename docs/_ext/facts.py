"""What the pages say that the code or a file says already: commands, fields, async variants, runs. Needs no Sphinx."""

from __future__ import annotations

import argparse
import inspect
import json
import textwrap
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from django.core.management import load_command_class
from django.core.management.base import BaseCommand

from django_redsess.online import fields

PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"

WORKS_WITH = Path(__file__).parents[1] / "reference" / "works-with.json"
"""What came out when the tests of other packages were run beside this one: see tests/neighbours."""

RUNS = WORKS_WITH.with_name("where-it-runs.json")
"""What the tests ran with: see tests/helpers/where_it_runs.py."""

COLUMNS = 80

COMMANDS = (
    *("blockuser", "cleansessions", "cleanviewed", "endsessions", "history", "movesessions", "online"),
    "supportgroup",
)

APPS = {"history": "django_redsess.contrib.history", "movesessions": "django_redsess.contrib.moving"}
"""Which app has a command, if it is not the core."""


class Option(NamedTuple):
    names: str
    help: str


class Command(NamedTuple):
    usage: Sequence[str]
    help: str
    options: Sequence[Option]
    examples: Sequence[str]


def command(name: str) -> Command:
    """Describe a command, by its own parser."""
    parser, actions = _parser(name), actions_of(name)
    words = [_in_usage(action) for action in actions]
    help_text, epilog = parser.description or "", parser.epilog or ""
    return Command(
        _lines([parser.prog, *words]),
        help_text,
        [Option(_names(action), (action.help or "") % {"default": action.default}) for action in actions],
        [example.strip() for example in epilog.partition("Examples:\n")[2].splitlines()],
    )


def actions_of(name: str) -> list[argparse.Action]:
    """Return the arguments and options of a command. Those that all commands of Django have are left out."""
    # There is no public name for what a parser has.
    return [action for action in _parser(name)._actions if action.dest not in _of_all_commands()]


def _parser(name: str) -> argparse.ArgumentParser:
    return load_command_class(APPS.get(name, "django_redsess"), name).create_parser("manage.py", name)


def _of_all_commands() -> set[str]:
    return {action.dest for action in BaseCommand().create_parser("manage.py", "any")._actions}


def _names(action: argparse.Action) -> str:
    value = "" if action.nargs == 0 else f" {action.metavar or action.dest.upper()}"
    return ", ".join(f"{name}{value}" for name in action.option_strings) or str(action.metavar)


def _in_usage(action: argparse.Action) -> str:
    if not action.option_strings:
        return f"[{action.metavar}]" if action.nargs == "?" else f"[{action.metavar} …]"
    return f"[{_names(action).partition(',')[0]}]"


def _lines(words: list[str]) -> list[str]:
    # No option is cut in two.
    glued = [word.replace(" ", "\N{NO-BREAK SPACE}") for word in words]
    lines = textwrap.wrap(" ".join(glued), COLUMNS, subsequent_indent="    ", break_on_hyphens=False)
    return [line.replace("\N{NO-BREAK SPACE}", " ") for line in lines]


class Field(NamedTuple):
    name: str
    type: str
    meaning: str
    in_python: str


def fields_of(name: str) -> list[Field]:
    """Describe the fields of a session, a sign-in or a block: ``name`` is that of their tuple."""
    return [
        Field(
            each.name,
            inspect.formatannotation(each.type).replace("datetime.", ""),
            each.meaning,
            each.source if isinstance(each.source, str) else "",
        )
        for each in getattr(fields, name)
    ]


def async_variants(module: ModuleType) -> Mapping[str, str]:
    """Return the functions of ``module`` that have an async variant, each with its name."""
    public = getattr(module, "__all__", [name for name in vars(module) if not name.startswith("_")])
    return {
        name: f"a{name}"
        for name in public
        if inspect.isfunction(vars(module).get(name)) and inspect.iscoroutinefunction(vars(module).get(f"a{name}"))
    }


def layers(package: str) -> list[list[str]]:
    """Return the layers of a package, from the top, as import-linter is told them."""
    contracts = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
    [found] = [contract for contract in contracts if contract.get("containers") == [package]]
    return [layer.split(" | ") for layer in found["layers"]]


class Neighbour(NamedTuple):
    """A package whose tests were run beside this one. ``not_run`` says why they were not, or is empty."""

    name: str
    version: str
    date: str
    not_run: str = ""
    python: str = ""
    django: str = ""
    repository: str = ""
    """Where the tests are from, unless it is the source distribution."""
    revision: str = ""
    """The tag or the commit of the repository."""
    passed: int = 0
    failed: int = 0
    notes: Sequence[str] = ()
    """Which tests are left out, and why."""
    differences: Mapping[str, int] = {}
    """How many tests differ, by the reason. The reason of a test which nothing explains is empty."""


def neighbours(path: Path = WORKS_WITH) -> list[Neighbour]:
    """Return what came out for each package."""
    found = []
    for name, kept in json.loads(path.read_text(encoding="utf-8")).items():
        known = {field: kept[field] for field in Neighbour._fields if field in kept and field != "differences"}
        differences = Counter(each["reason"] for each in kept.get("differences", []))
        found.append(Neighbour(name, differences=differences, **known))
    return found


def runs() -> list[dict[str, Any]]:
    """Return what the tests ran with, and how many passed: ``tests/helpers/where_it_runs.py`` writes it."""
    found: list[dict[str, Any]] = json.loads(RUNS.read_text(encoding="utf-8"))
    return found
