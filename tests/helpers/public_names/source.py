"""What only the text of the package says: what is sent, logged and answered. Read from its syntax trees."""

from __future__ import annotations

import ast
import logging
import re
from collections import defaultdict
from collections.abc import Collection, Iterator
from datetime import UTC, datetime
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from django.dispatch import Signal

import django_redsess
from django_redsess import problems
from django_redsess import signals as sent
from django_redsess.conf import conf
from django_redsess.observers import failures
from django_redsess.transport import scripts
from tests.helpers.public_names import python

PACKAGE = Path(django_redsess.__file__).parent

SENDS = {"send", "asend", "send_robust", "asend_robust"}
RENDERS = {"render_in_site", "render", "render_to_string"}
LEVELS = {"debug", "info", "warning", "error", "exception", "critical"}

HEADER = re.compile(r"[A-Z][A-Za-z]*(?:-[A-Z][A-Za-z]*)+")
"""A header's name with a hyphen. Those without are found by how they are used."""


@cache
def trees() -> dict[Path, ast.Module]:
    """Return the syntax tree of each module."""
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(PACKAGE.rglob("*.py"))}


class Found(NamedTuple):
    path: Path
    node: Any


@cache
def _by_kind() -> dict[type[ast.AST], list[Found]]:
    found: dict[type[ast.AST], list[Found]] = defaultdict(list)
    for path, tree in trees().items():
        for node in ast.walk(tree):
            found[type(node)].append(Found(path, node))
    return found


def _nodes(kind: type[ast.AST]) -> Iterator[Any]:
    return (node for _, node in _by_kind()[kind])


def _module(path: Path) -> ModuleType:
    name = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
    return import_module(name.removesuffix(".__init__"))


def texts() -> Iterator[str]:
    """Return all constant texts of the package."""
    return (node.value for node in _nodes(ast.Constant) if isinstance(node.value, str))


def _text(node: ast.expr | None) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _called(call: ast.Call) -> str:
    """Return the last part of the name that is called."""
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _calls(*names: str) -> Iterator[Any]:
    return (call for call in _nodes(ast.Call) if _called(call) in names)


# Signals


def signals() -> Iterator[str]:
    """Return the signals with the arguments that receivers get."""
    public = {each.name: each.module for each in python.documented() if isinstance(each.value, Signal)}
    arguments = {**_sent_by_name(public), **_sent_about_sessions()}
    for name, module in public.items():
        yield from (f"{module}.{name}: {argument}" for argument in arguments[name])


def _sent_by_name(names: Collection[str]) -> dict[str, set[str]]:
    """Find calls such as ``signal.send(Sender, argument=…)``, also those that a ``partial`` makes later."""
    found: dict[str, set[str]] = defaultdict(set)
    for path, call in _by_kind()[ast.Call]:
        later = _called(call) == "partial"
        send, sender = (call.args[0], call.args[1:2]) if later else (call.func, call.args[:1])
        if isinstance(send, ast.Attribute) and send.attr in SENDS and isinstance(send.value, ast.Name):
            for keyword in call.keywords if send.value.id in names else ():
                found[send.value.id].update([keyword.arg] if keyword.arg else _fields_of(path, *sender))
    return found


def _fields_of(path: Path, sender: ast.expr) -> Collection[str]:
    """Return the fields of a sender that is a named tuple: a signal about a block sends those of the block."""
    fields: Collection[str] = vars(_module(path))[ast.unparse(sender)]._fields
    return fields


def _sent_about_sessions() -> dict[str, set[str]]:
    """Have the signals about sessions sent. In the code their arguments are those of no single call."""
    now, found = datetime.now(UTC), dict[str, set[str]]()
    began = sent.BegunSession("", "", now, None, "", "")
    ended = sent.EndedSession("", "", sent.Reason.LOGOUT, now)
    unproven = sent.UnprovenRequest("", "", now, "", "", "", never_refreshed=False, refused=True)
    for name, event in (("sessions_began", began), ("session_not_proven", unproven), ("sessions_ended", ended)):
        signal = Signal()

        def receive(signal: Signal, sender: object, name: str = name, **arguments: object) -> None:
            found[name] = {*arguments}

        # In place of the signal itself, which others may receive.
        signal.connect(receive)
        real, vars(sent)[name] = vars(sent)[name], signal
        try:
            sent.send_signals([event])
        finally:
            vars(sent)[name] = real
    return found


# The log


class LogLine(NamedTuple):
    logger: str
    level: str
    text: str


def logged() -> Iterator[LogLine]:
    """Return what the package hands to its loggers: texts with placeholders."""
    for path, call in _by_kind()[ast.Call]:
        if _called(call) in LEVELS and isinstance(call.func, ast.Attribute):
            logger = vars(_module(path)).get(ast.unparse(call.func.value))
            if isinstance(logger, logging.Logger):
                text, level = _constant(path, call.args[0]), _called(call).replace("exception", "error")
                yield LogLine(logger.name, level, ast.literal_eval(text))


def _constant(path: Path, value: ast.expr) -> ast.expr:
    """Return what a name stands for in a module, and any other expression as it is."""
    if not isinstance(value, ast.Name):
        return value
    [given] = [
        node.value
        for of, node in _by_kind()[ast.Assign]
        if of == path and ast.unparse(node.targets[0]) == value.id and isinstance(node.value, ast.Constant)
    ]
    return given


def log_lines() -> Iterator[str]:
    """Return the lines of the log, with the logger and the level."""
    return (f"{line.logger} {line.level.upper()}: {line.text}" for line in logged())


# Observers


def operations() -> set[str]:
    """Return the names of the operations that observers are told of."""
    plain = {text for call in _calls("Pipeline", "ask_each", "notify_observers") for text in map(_text, call.args[:2])}
    return {script.task for script in scripts.all_scripts()} | {"sign_in"} | plain - {""}


def events() -> dict[str, set[str]]:
    """Return the events that observers are told of, with their facts."""
    found: dict[str, set[str]] = defaultdict(set)
    for call in _calls("notify_event"):
        if ast.unparse(call.func) == "observers.notify_event":
            found[_text(call.args[0])].update(str(keyword.arg) for keyword in call.keywords)
    return found


def _outcomes() -> Iterator[str]:
    """Return the words for how operations fail: of metrics, and of the view for readiness."""
    yield from failures._OUTCOMES.values()
    for call in _calls("Failure"):
        yield _text(call.args[0])
    for node in _nodes(ast.Assign):
        if ast.unparse(node.targets[0]) == "outcome":
            parts = [node.value.body, node.value.orelse] if isinstance(node.value, ast.IfExp) else [node.value]
            yield from (_text(each) for part in parts for each in ast.walk(part) if isinstance(each, ast.Constant))


def observed() -> Iterator[str]:
    """Return operations, outcomes, and events with their facts."""
    yield from (f"operation {name}" for name in operations())
    yield from (f"outcome {name}" for name in ("ok", *_outcomes()) if name)
    for name, facts in events().items():
        yield from (f"event {name}: {fact}" for fact in facts)


# Answers


def headers() -> Iterator[str]:
    """Return the headers that are read, and those that are sent."""
    for text in texts():
        if re.fullmatch(r"HTTP_[A-Z_]+", text):
            yield f"read {text.removeprefix('HTTP_').replace('_', '-').title()}"
        elif HEADER.fullmatch(text) and text != conf.PASSIVE_HEADER:
            yield f"sent {text}"
    yield f"read {type(conf).PASSIVE_HEADER.default}"
    for call in _calls("get"):
        if ast.unparse(call.func).endswith("headers.get"):
            yield f"read {_text(call.args[0])}"
    for call in _calls("patch_vary_headers"):
        yield from (f"sent Vary: {_text(name)}" for name in call.args[1].elts)
    if any(_calls("set_cookie")):
        yield "sent Set-Cookie"
    for keyword in _nodes(ast.keyword):
        if keyword.arg == "headers" and isinstance(keyword.value, ast.Dict):
            yield from (f"sent {_text(name)}" for name in keyword.value.keys)
    for path, suffix in _constants("COOKIE_SUFFIX"):
        yield f"cookie SESSION_COOKIE_NAME{suffix} ({path.parent.name})"


def _constants(wanted: str) -> Iterator[tuple[Path, str]]:
    """Return the texts of all constants of this name."""
    for path, tree in trees().items():
        for node in tree.body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == wanted and _text(node.value):
                yield path, _text(node.value)


def statuses() -> Iterator[str]:
    """Return the statuses of answers to errors."""
    given = [keyword.value for keyword in _nodes(ast.keyword) if keyword.arg == "status"]
    yield from (str(kind.status) for kind in problems.TYPES.values())
    given += [node.value for node in _nodes(ast.Assign) if getattr(node.targets[0], "attr", "") == "status_code"]
    return (str(each.value) for each in given if isinstance(each, ast.Constant) and type(each.value) is int)


OF_ALL_PAGES = ""
"""Stands for the templates of all self-service pages, for what ``page()`` adds to their contexts."""


def contexts() -> dict[str, set[str]]:
    """Return what the templates of ``django_redsess/`` find in their context, and in lists of it."""
    found: dict[str, set[str]] = defaultdict(set)
    pages = set()
    rendering = {path for path, call in _by_kind()[ast.Call] if _called(call) in RENDERS}
    for function in (node for path, node in _by_kind()[ast.FunctionDef] if path in rendering):
        nodes = list(ast.walk(function))
        made = {ast.unparse(each.targets[0]): each.value for each in nodes if isinstance(each, ast.Assign)}
        for call in nodes:
            if isinstance(call, ast.Call) and _called(call) in RENDERS and len(call.args) >= 2:
                context = made.get(ast.unparse(call.args[-1]), call.args[-1])
                for name in _named(call.args[-2]) if isinstance(context, ast.Dict) else ():
                    found[name].update(_keys(context))
                    if _called(call) == "render_in_site":
                        pages.add(name)
    shared = found.pop(OF_ALL_PAGES)
    return {name: keys | shared if name in pages else keys for name, keys in found.items()}


def _named(template: ast.expr) -> Iterator[str]:
    """Return the templates that an expression names: a text, one without the folder, or one with an end to be added."""
    if isinstance(template, ast.JoinedStr):
        start = _text(template.values[0])
        if start == "django_redsess/":
            yield OF_ALL_PAGES
        else:
            yield from (name for name in template_files() if name.startswith(start))
    elif name := _text(template):
        yield name if "/" in name else f"django_redsess/{name}"


def _keys(context: ast.Dict, before: str = "") -> Iterator[str]:
    """Return the keys of a dict that is written out, and those of the dicts in a list that it has."""
    for key, value in zip(context.keys, context.values, strict=True):
        if name := _text(key):
            yield f"{before}{name}"
            rows = _returned(_called(value)) if isinstance(value, ast.Call) else value
            if isinstance(rows, ast.ListComp) and isinstance(rows.elt, ast.Dict):
                yield from _keys(rows.elt, f"{before}{name}.")


def _returned(name: str) -> ast.expr | None:
    """Return what the function of that name returns at its end."""
    bodies = [function.body for function in _nodes(ast.FunctionDef) if function.name == name]
    return bodies[0][-1].value if len(bodies) == 1 and isinstance(bodies[0][-1], ast.Return) else None


def template_files() -> dict[str, Path]:
    """Return the files of all templates, by name."""
    folders = PACKAGE.rglob("templates")
    files = [(path, folder) for folder in folders for path in folder.rglob("*.*")]
    return {path.relative_to(folder).as_posix(): path for path, folder in files}


# Other names


def checks() -> Iterator[str]:
    """Return the ids of system checks. Their first letter is the level."""
    modules = [tree for path, tree in trees().items() if "checks" in {path.stem, path.parent.name}]
    for tree in modules:
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and re.fullmatch(r"[EIW]\d{3}", str(node.value)):
                yield f"django_redsess.{node.value}"


def fixtures() -> Iterator[str]:
    """Return the fixtures of the plugin for pytest."""
    for node in trees()[PACKAGE / "pytest_plugin.py"].body:
        if isinstance(node, ast.FunctionDef) and any("fixture" in ast.unparse(each) for each in node.decorator_list):
            yield f"fixture {node.name}"
