"""Docstrings and comments name only modules, functions, classes and files that are there."""

import ast
import io
import re
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import pytest

import django_redsess
from tests.helpers.public_names import source

pytestmark = pytest.mark.unit

PACKAGE = Path(django_redsess.__file__).parent
FILES = sorted(path for kind in ("*.py", "*.lua") for path in PACKAGE.rglob(kind))

ROLE = re.compile(r":(?:attr|class|data|func|meth|mod):`~?([\w.]+)`")
DOTTED = re.compile(r"(?<![\w./:@~`'\"-])(`{0,2})([A-Za-z_]\w*(?:\.[A-Za-z_]\w+)+)(?![\w/])")
FILE = re.compile(r"(?<![\w./])[\w/]+\.(?:py|lua)\b")

VARIABLES = ("request", "step")
"""Variables in examples. Others are in the code beside the text."""

OF_OTHERS = {
    "Product.objects.in_bulk",
    "QuerySet.update",
    "base.html",
    "db.client.operation.duration",
    "evil.example",
    "queue.get",
}
"""Names of Django, of a site, or of what is no code."""


def _bound(body: list[ast.stmt]) -> Iterator[str]:
    """Yield the names that these statements of a module or class bind."""
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            yield from (alias.asname or alias.name for alias in node.names)
        elif isinstance(node, (ast.If, ast.Try)):
            yield from _bound([*node.body, *node.orelse])
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                yield from (each.id for each in ast.walk(target) if isinstance(each, ast.Name))


class Names(NamedTuple):
    """The names of the package."""

    trees: dict[Path, ast.Module]
    modules: dict[str, set[str]]
    """What each module binds, by its full name."""
    short: dict[str, set[str]]
    """The same by the last part of a module's name; and what classes have, by the name of the class."""
    of_classes: set[str]


@cache
def package() -> Names:
    """Read the package: once, and by the process alone that runs a test of this file."""
    trees = source.trees()
    names = Names(trees, {}, defaultdict(set), set())
    for path, tree in trees.items():
        name = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")
        names.modules[name] = set(_bound(tree.body))
        names.short[name.rpartition(".")[2]] |= names.modules[name]
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                of_self = {each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute)}
                names.short[node.name] |= {*_bound(node.body), *of_self}
                names.of_classes.update(_bound(node.body), of_self)
    return names


def exists(name: str, path: Path) -> bool:
    """Tell whether ``name`` in a text of the file ``path`` is there: in full, or as the code would write it."""
    first, _, rest = name.partition(".")
    if first == PACKAGE.name:
        module = name
        while module not in package().modules:
            module = module.rpartition(".")[0]
        wanted, *of_class = [*name[len(module) + 1 :].split("."), ""]
        return not wanted or (wanted in package().modules[module] and (of_class[0] in {"", *package().of_classes}))
    if not rest:
        full = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")
        return name in package().modules[full] | package().of_classes
    return rest.partition(".")[0] in package().short[first] if first in package().short else False


def _is_variable(name: str, path: Path) -> bool:
    """Tell whether ``name`` is one of a variable in this file, such as ``request`` in ``request.user``."""
    nodes = list(ast.walk(package().trees[path])) if path in package().trees else []
    names = {each.id for each in nodes if isinstance(each, ast.Name)}
    return name in {*names, *(each.arg for each in nodes if isinstance(each, ast.arg)), *VARIABLES}


def _is_of_others(name: str) -> bool:
    first = name.partition(".")[0]
    return name in OF_OTHERS or (
        first != PACKAGE.name and first not in package().short and find_spec(first) is not None
    )


def _texts(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the comments and docstrings of a file, each with its line."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".lua":
        yield from ((at, line.partition("--")[2]) for at, line in enumerate(text.splitlines(), 1))
        return
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    for node in ast.walk(package().trees[path]):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value


def _missing(path: Path) -> Iterator[str]:
    for line, text in _texts(path):
        place = f"{path.relative_to(PACKAGE.parent)}:{line}"
        for name in ROLE.findall(text):
            if not exists(name, path):
                yield f"{place}: {name}"
        for _, name in DOTTED.findall(text):
            first = name.partition(".")[0]
            if not (
                name.endswith((".py", ".lua")) or exists(name, path) or _is_variable(first, path) or _is_of_others(name)
            ):
                yield f"{place}: {name}"
        for name in FILE.findall(text):
            if name != "manage.py" and not any(each.as_posix().endswith(f"/{name}") for each in FILES):
                yield f"{place}: {name}"


def test_texts_name_what_is_there() -> None:
    assert sum(len(list(_texts(path))) for path in FILES) > 1000
    missing = [each for path in FILES for each in _missing(path)]
    assert not missing, "\n".join(missing)


@pytest.mark.parametrize("name", ["operations.save", "django_redsess.online.end", "Record.user_id", "read"])
def test_what_is_there_is_found(name: str) -> None:
    assert exists(name, PACKAGE / "session" / "operations.py")


@pytest.mark.parametrize("name", ["operations.fly", "django_redsess.flying", "django_redsess.online.fly", "fly"])
def test_what_is_not_there_is_found_out(name: str) -> None:
    assert not exists(name, PACKAGE / "session" / "operations.py")
