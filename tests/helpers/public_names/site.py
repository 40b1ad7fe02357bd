"""What a site sets, installs, links to and overrides: collected from what Django knows of the package."""

from __future__ import annotations

import argparse
import ast
import inspect
import re
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from django.apps import AppConfig, apps
from django.contrib import admin
from django.core.management.base import CommandError
from django.db import models as db
from django.template import Template
from django.template.loader_tags import BlockNode
from django.urls import URLPattern, URLResolver

from django_redsess import conf
from django_redsess.accounts import urls as accounts_urls
from django_redsess.contrib.api import urls as api_urls
from django_redsess.management import terminal
from django_redsess.management.commands.cleansessions import COMPARED
from django_redsess.templatetags import viewed_items
from django_redsess.user_messages import OWN_MESSAGES
from docs._ext import facts
from release.environments import FOR_DEVELOPERS
from tests.helpers.public_names import source
from tests.helpers.public_names.python import described

DICTS: dict[str, Iterable[str]] = {"MOVE_FROM": {*conf.STORE_KEYS, *conf.ENGINE_KEYS}, "MOVE_TO": conf.STORE_KEYS}
"""The keys of settings that are dicts with certain keys."""

PRIVATE_TEMPLATES = ("admin/", "django_redsess/api.html", "django_redsess/online_chart.html")
"""How the names of templates begin that the page of the reference calls private."""


def settings() -> Iterator[str]:
    """Return the keys of ``REDSESS`` with their defaults, the few texts that some take, and what profiles set."""
    for name, setting in conf.SETTINGS.items():
        yield f"{name} = {setting.default!r}"
        yield from (f"{name}: key {key}" for key in DICTS.get(name, ()))
        if setting.rule.words.startswith("one of "):
            values = re.findall(r"'(\w+)'", setting.rule.words)
            yield from (f"{name}: value {value!r}" for value in values if setting.rule.allows(value))
    for profile, values in conf.PROFILES.items():
        yield from (f"PROFILE {profile}: {name} = {value!r}" for name, value in values.items())


def environment() -> Iterator[str]:
    """Return the environment variables that are the package's own."""
    return (text for text in source.texts() if text.startswith("REDSESS_") and text.isupper())


def commands() -> Iterator[str]:
    """Return each command with its options, and the exit statuses. Options of all Django's commands are left out."""
    for name in command_names():
        yield name
        for action in facts.actions_of(name):
            for option in action.option_strings or [""]:
                yield " ".join(filter(None, (name, option, _value(action))))
    statuses = 0, CommandError().returncode, terminal.UNWRITTEN, terminal.STOPPED
    yield from (f"exit status {each}" for each in statuses)


LINES_OF_JSON = ("counts", "confirmed", "who", "words")
"""The variables of commands whose dicts are printed with ``--json``."""


def counts() -> Iterator[str]:
    """Return the fields of the lines with counts that commands print with ``--json``."""
    for path in sorted(source.PACKAGE.rglob("commands/[a-z]*.py")):
        found = _printed(path)
        if path.stem == "cleansessions":
            found |= set(COMPARED)
        if "(CleaningCommand)" in path.read_text(encoding="utf-8"):
            found |= _printed(source.PACKAGE / "management" / "cleaning_command.py", ("facts",))
        yield from (f"{path.stem} --json: {field}" for field in found)


def _printed(path: Path, variables: Sequence[str] = LINES_OF_JSON) -> set[str]:
    """Return the keys of dicts that are assigned to these variables, and what methods that print JSON are given."""
    found = set[str]()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Assign) and {*map(_name_of, node.targets)} & {*variables}:
            dicts = (each for each in ast.walk(node.value) if isinstance(each, ast.Dict))
            found |= {str(key.value) for each in dicts for key in each.keys if isinstance(key, ast.Constant)}
        elif isinstance(node, ast.Call) and _name_of(node.func) in ("_print_json", "_print_result"):
            found |= {each.arg for each in node.keywords if each.arg}
            found |= {str(each.value) for each in node.args[:1] if isinstance(each, ast.Constant)}
    return found


def _name_of(node: ast.expr) -> str:
    return getattr(node, "attr", getattr(node, "id", ""))


def command_names() -> list[str]:
    """Return the names of all commands."""
    return sorted(path.stem for path in source.PACKAGE.rglob("commands/[a-z]*.py"))


def _value(action: argparse.Action) -> str:
    if action.nargs == 0:
        return ""
    # In the help, words that are to be typed are in small letters.
    shown = action.metavar if isinstance(action.metavar, str) and action.metavar.islower() else "VALUE"
    one = f"{{{','.join(map(str, action.choices))}}}" if action.choices else shown
    form = {"?": f"[{one}]", "*": f"[{one} ...]", "+": f"{one} ..."}.get(str(action.nargs), one)
    return form + (f" = {action.default!r}" if action.default not in (None, False, "", []) else "")


def extras() -> Iterator[str]:
    """Return the extras that sites install."""
    project = tomllib.loads(facts.PYPROJECT.read_text(encoding="utf-8"))["project"]
    return (each for each in project["optional-dependencies"] if each not in FOR_DEVELOPERS)


def _apps() -> list[AppConfig]:
    return [each for each in apps.get_app_configs() if each.name.startswith("django_redsess")]


def models() -> Iterator[str]:
    """Return the apps with their labels, and models with tables and fields."""
    for app in _apps():
        yield f"app {app.label}: {app.name}"
        for model in app.get_models():
            options = model._meta
            yield f"model {options.label}: {f'table {options.db_table}' if options.managed else 'no table'}"
            for field in options.concrete_fields:
                yield f"model {options.label}.{field.name}: {_column(field)}"


def _column(field: Any) -> str:
    length = f"({field.max_length})" if field.max_length else ""
    return f"{field.get_internal_type()}{length} {field.column}{' null' if field.null else ''}"


def message_codes() -> Iterator[str]:
    """Return the codes of the ready-made messages that the package gives by itself. ``END_MESSAGES`` has the others."""
    yield from OWN_MESSAGES


def permissions() -> Iterator[str]:
    """Return the permissions with their labels."""
    for app in _apps():
        for model in app.get_models():
            options: db.options.Options[Any] = model._meta
            names = [f"{action}_{options.model_name}" for action in options.default_permissions]
            yield from (f"{app.label}.{name}" for name in [*names, *(name for name, _ in options.permissions)])


def urls() -> Iterator[str]:
    """Return the names of URLs with their patterns: self-service, the API, and what we add to Django's admin."""
    yield from _patterns(accounts_urls.urlpatterns, f"{accounts_urls.app_name}:")
    patterns, _, namespace = api_urls()
    yield from _patterns(patterns, f"{namespace}:")
    for model, page in admin.site._registry.items():
        if type(page).__module__.startswith("django_redsess"):
            ours = f"{model._meta.app_label}_{model._meta.model_name}_"
            of_django = {f"{ours}{view}" for view in ("changelist", "add", "history", "delete", "change")}
            added = [each for each in page.get_urls() if each.name and each.name not in of_django]
            yield from _patterns(added, "admin:", f"{model._meta.app_label}/{model._meta.model_name}/")


def _patterns(patterns: Iterable[URLPattern | URLResolver], names: str, before: str = "") -> Iterator[str]:
    for each in patterns:
        place = f"{before}{each.pattern}"
        if isinstance(each, URLResolver):
            yield from _patterns(each.url_patterns, names, place)
        elif each.name:
            yield f"{names}{each.name} {place}"


def templates() -> Iterator[str]:
    """Return the templates that a site may override, with their blocks and context."""
    contexts = source.contexts()
    for name, path in source.template_files().items():
        if not name.startswith(PRIVATE_TEMPLATES):
            yield name
            blocks = Template(path.read_text(encoding="utf-8")).nodelist.get_nodes_by_type(BlockNode)
            yield from (f"{name}: block {block.name}" for block in blocks if isinstance(block, BlockNode))
            yield from (f"{name}: context {each}" for each in contexts.get(name, ()))
    static = source.PACKAGE / "static"
    yield from (f"static {path.relative_to(static).as_posix()}" for path in static.rglob("plain.css"))


def template_tags() -> Iterator[str]:
    """Return the tags and filters of the library, and what each entry has that a tag lists."""
    library = viewed_items.register
    for kind, found in (("tag", library.tags), ("filter", library.filters)):
        for name, function in found.items():
            yield f"{kind} {next(described(name, inspect.unwrap(function))).replace('(context, ', '(')}"
    for tag, entry in (("recently_viewed", viewed_items.Recent), ("most_viewed", viewed_items.Popular)):
        yield from (f"tag {tag}: {field}" for field in entry._fields)


def fields() -> Iterator[str]:
    """Return the fields of files and of the JSON API."""
    for name in ("SESSION", "SIGN_IN", "BLOCK"):
        yield from (f"{name.lower()}.{each.name}: {each.type}" for each in facts.fields_of(name))
