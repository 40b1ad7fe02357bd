"""
The public names of Python: what the pages of the reference document, with the signatures that the code has.

Annotations are left out: they may become wider, and Python writes them differently in each version.
"""

from __future__ import annotations

import dataclasses
import enum
import inspect
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, get_args

from docs._ext import signatures, written

REFERENCE = Path(__file__).parents[3] / "docs" / "reference"

_MISSING = object()


class Documented(NamedTuple):
    """A name of a module that a page documents, and the members of a class that it documents."""

    module: str
    name: str
    members: list[str]
    is_indexed: bool
    """False for a class that is described where something returns it, and can't be imported from a public module."""

    @property
    def value(self) -> Any:
        return getattr(import_module(self.module), self.name)


def documented() -> list[Documented]:
    """Return all names that the pages of the reference document, async variants included."""
    return [name for page in sorted(REFERENCE.glob("*.rst")) for name in _on_page(page)]


def modules() -> set[str]:
    """Return the names of the modules that have a page, or a part of one."""
    return {each.module for each in documented() if each.is_indexed}


def _on_page(page: Path) -> Iterator[Documented]:
    last = None
    for part in written.parts(page):
        if part.kind == "python":
            found = signatures.find(part.name)
            if found.owner is not None:
                assert last is not None, f"{page.name}: {part.name} stands in no class"
                assert last.value is found.owner, f"{page.name}: {part.name} stands in another class"
                last.members.append(found.name)
                continue
            last = Documented(found.module.__name__, found.name, [], hasattr(found.module, "__all__"))
            if inspect.isclass(found.value) and issubclass(found.value, enum.Enum):
                last.members.extend(found.value.__members__)
            yield last
        elif part.kind == "async-variants":
            has = vars(import_module(part.argument))
            own = [name for name in has["__all__"] if inspect.iscoroutinefunction(has[name])]
            yield from (Documented(part.argument, name, [], True) for name in own)


def names() -> Iterator[str]:
    """Return each name with its module, and the members of classes."""
    for each in documented():
        yield from described(f"{each.module}.{each.name}", each.value, each.members)


def described(name: str, value: Any, members: list[str] | None = None) -> Iterator[str]:
    """Return the lines about ``value``, and about the named ``members`` of a class and their async variants."""
    if not inspect.isclass(value):
        choices = get_args(value)
        yield _of_function(name, value) if callable(value) and not choices else f"{name}{_of(choices)}"
        return
    if issubclass(value, Exception):
        yield f"{name}: exception, {', '.join(base.__name__ for base in value.__bases__)}"
    else:
        yield f"{name}{_signature(value) if _has_constructor(value) else ''}: class"
    for member in members or ():
        for variant in (member, f"a{member}"):
            found = inspect.getattr_static(value, variant, inspect.get_annotations(value).get(variant, _MISSING))
            # What a page still has and the class has not is no name any more.
            if found is not _MISSING and (variant == member or inspect.iscoroutinefunction(found)):
                yield from _of_member(f"{name}.{variant}", value, found)


def _of_member(name: str, owner: type, found: Any) -> Iterator[str]:
    if inspect.isfunction(found):
        yield _of_function(name, found, is_method=True)
    elif isinstance(found, (classmethod, staticmethod)):
        yield _of_function(name, getattr(owner, name.rpartition(".")[2]))
    elif isinstance(found, enum.Enum):
        yield f"{name} = {found.value!r}"
    else:
        yield name


def _of_function(name: str, function: Any, *, is_method: bool = False) -> str:
    kind = ": async" if inspect.iscoroutinefunction(function) else ""
    return f"{name}{_signature(function, is_method=is_method)}{kind}"


def _signature(function: Any, *, is_method: bool = False) -> str:
    parameters = list(inspect.signature(function).parameters.values())[is_method:]
    plain = [each.replace(annotation=inspect.Parameter.empty) for each in parameters]
    return str(inspect.Signature(plain))


def _of(choices: tuple[Any, ...]) -> str:
    return f": {', '.join(map(repr, choices))}" if choices else ""


def _has_constructor(value: type) -> bool:
    """Tell whether a class itself says what it is made of: the fields of a tuple or dataclass are attributes, too."""
    own = vars(value).get("__init__")
    return hasattr(value, "_fields") or dataclasses.is_dataclass(value) or (_is_ours(own) and _names_parameters(own))


def _names_parameters(function: Any) -> bool:
    """Tell whether a constructor takes more than what it passes on to the class above."""
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return any(each.kind in named for each in [*inspect.signature(function).parameters.values()][1:])


def _is_ours(function: Any) -> bool:
    # Python gives a constructor to each protocol.
    return getattr(function, "__module__", "").startswith("django_redsess")
