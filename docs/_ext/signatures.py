"""Names of Python in the pages: the signature, as a stub, and the docstring in plain reStructuredText."""

from __future__ import annotations

import ast
import dataclasses
import enum
import inspect
import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, get_args

COLUMNS = 88

THROUGH_THE_MODULE = ("django_redsess.online", "django_redsess.viewed")
"""Modules that sites import, to call ``online.count()``. From others they import the names themselves."""


class Found(NamedTuple):
    """What a dotted name stands for. ``owner`` is the class that has it, or None."""

    module: ModuleType
    owner: type | None
    name: str
    value: Any

    @property
    def short(self) -> str:
        """The name as sites write it, such as ``online.count`` or ``SessionStore.save``."""
        if self.owner is not None:
            return f"{self.owner.__name__}.{self.name}"
        if self.module.__name__ in THROUGH_THE_MODULE and inspect.isfunction(self.value):
            return f"{self.module.__name__.rpartition('.')[2]}.{self.name}"
        return self.name

    @property
    def kind(self) -> str:
        """What Sphinx calls it."""
        if inspect.isclass(self.value):
            return "exception" if issubclass(self.value, Exception) else "class"
        if isinstance(self.value, classmethod | staticmethod) or inspect.isfunction(self.value):
            return "function" if self.owner is None else "method"
        return "data" if self.owner is None else "attribute"

    @property
    def is_called(self) -> bool:
        """Tell whether texts write it with brackets behind."""
        return self.kind in ("function", "method")


def find(name: str) -> Found:
    """Find what a full dotted name stands for: something of a module, or of a class of it."""
    home, _, last = name.rpartition(".")
    try:
        module = import_module(home)
    except ModuleNotFoundError:
        of_module, _, of_class = home.rpartition(".")
        module = import_module(of_module)
        owner = getattr(module, of_class)
        # A name that has only an annotation has no value.
        return Found(module, owner, last, inspect.getattr_static(owner, last, None))
    return Found(module, None, last, getattr(module, last))


def signature(found: Found) -> str:
    """Return the signature as a stub, or nothing for a value that says nothing of its own."""
    value = found.value
    if inspect.isclass(value):
        return _of_class(value)
    if isinstance(value, classmethod):
        return f"@classmethod\n{_of_function(found.name, value.__func__)}"
    if inspect.isfunction(value):
        return _of_function(found.name, value)
    if isinstance(value, property):
        return f"{found.name}: {_annotation(inspect.signature(value.fget).return_annotation)}"
    if choices := get_args(value):
        return f"{found.name} = Literal[{', '.join(map(_quoted, choices))}]"
    return _of_attribute(found)


def _of_attribute(found: Found) -> str:
    annotation = inspect.get_annotations(found.owner).get(found.name) if found.owner else None
    text = ""
    if annotation is not None:
        text = ": " + re.sub(r"^ClassVar\[(.*)\]$", r"\1", _annotation(annotation))
    if type(found.value) in (bool, int, float, str):
        text += f" = {_quoted(found.value)}"
    return f"{found.name}{text}" if text else ""


def docstring(found: Found) -> str:
    """Return the docstring, without roles: names are literals. Empty if there is none."""
    value = found.value.fget if isinstance(found.value, property) else found.value
    value = value.__func__ if isinstance(value, classmethod) else value
    has_its_own = inspect.isclass(value) or inspect.isfunction(value)
    text = inspect.cleandoc(value.__doc__ or "" if has_its_own else _written_below(found))
    if inspect.isclass(value) and issubclass(value, enum.Enum):
        values = [
            f"``{value.__name__}.{each.name}`` = ``{_quoted(each.value)}``\n"
            f"    {_written_below(Found(found.module, value, each.name, each))}"
            for each in value
        ]
        text = "\n\n".join([text, *values])
    return plain(text, found)


ROLE = re.compile(r":(?P<role>[a-z]+(?::[a-z]+)?):`(?P<text>[^`<]+?)(?:\s*<(?P<target>[^`>]+)>)?`")


def plain(text: str, of: Found | None = None) -> str:
    """Return ``text`` without roles. Names become literals, other words stay words."""
    return ROLE.sub(lambda role: _plain(role, of), text)


def _plain(role: re.Match[str], of: Found | None) -> str:
    kind, text = role["role"].rpartition(":")[2], " ".join(role["text"].split())
    if role["target"] and kind not in ("doc", "ref", "term"):
        return f"``{text}``" if re.fullmatch(r"[\w.]+(?:\(\))?", text) and "." in text else text
    if kind in ("doc", "ref", "term"):
        raise ValueError(f"Only pages are read with such links: {role[0]}")
    name = text.removeprefix("~")
    if name.startswith("django_redsess.") and kind != "mod":
        name = find(name).short
    elif kind == "func" and of is not None and of.module.__name__ in THROUGH_THE_MODULE and "." not in name:
        name = f"{of.module.__name__.rpartition('.')[2]}.{name}"
    return f"``{name}()``" if kind in ("func", "meth") else f"``{name}``"


def _of_function(name: str, function: Any, *, indent: str = "") -> str:
    found = inspect.signature(function)
    word = "async def" if inspect.iscoroutinefunction(function) else "def"
    parameters = list(found.parameters.values())
    if function.__module__.startswith("django_redsess.templatetags") and parameters[0].name == "context":
        parameters = parameters[1:]
    back = "" if found.return_annotation is found.empty else f" -> {_annotation(found.return_annotation)}"
    return _wrapped(f"{word} {name}", list(_parameters(parameters)), f"{back}: ...", indent)


def _parameters(parameters: list[inspect.Parameter]) -> Iterator[str]:
    is_starred = False
    for number, each in enumerate(parameters):
        if each.kind is each.KEYWORD_ONLY and not is_starred:
            yield "*"
            is_starred = True
        is_starred = is_starred or each.kind is each.VAR_POSITIONAL
        stars = {each.VAR_POSITIONAL: "*", each.VAR_KEYWORD: "**"}.get(each.kind, "")
        annotation = "" if each.annotation is each.empty else f": {_annotation(each.annotation)}"
        sign = " = " if annotation else "="
        yield f"{stars}{each.name}{annotation}{'' if each.default is each.empty else sign + _quoted(each.default)}"
        is_last = number + 1 == len(parameters) or parameters[number + 1].kind is not each.POSITIONAL_ONLY
        if each.kind is each.POSITIONAL_ONLY and is_last:
            yield "/"


def _wrapped(head: str, parameters: list[str], tail: str, indent: str) -> str:
    line = f"{indent}{head}({', '.join(parameters)}){tail}"
    if len(line) <= COLUMNS:
        return line
    return "\n".join([f"{indent}{head}(", *(f"{indent}    {each}," for each in parameters), f"{indent}){tail}"])


def _of_class(value: type) -> str:
    bases = ", ".join(_bases(value))
    head = f"class {value.__name__}({bases}):" if bases else f"class {value.__name__}:"
    if fields := _fields(value):
        return "\n    ".join([head, *fields])
    if _has_constructor(value):
        return f"{head}\n{_of_function('__init__', value.__init__, indent='    ')}"
    return f"{head} ..." if bases else ""


def _has_constructor(value: type) -> bool:
    function = vars(value).get("__init__")
    if not getattr(function, "__module__", "").startswith("django_redsess"):
        return False
    # A mixin that passes on what it gets says nothing.
    return list(inspect.signature(function).parameters)[1:] not in ([], ["args"], ["args", "kwargs"])


def _fields(value: type) -> list[str]:
    annotations = inspect.get_annotations(value)
    if dataclasses.is_dataclass(value):
        fields = dataclasses.fields(value)
        defaults = {each.name: each.default for each in fields if each.default is not dataclasses.MISSING}
        annotations = {each.name: each.type for each in fields if each.init}
    elif hasattr(value, "_fields"):
        defaults = value._field_defaults
    else:
        return []
    return [
        f"{name}: {_annotation(annotation)}" + (f" = {_quoted(defaults[name])}" if name in defaults else "")
        for name, annotation in annotations.items()
    ]


def _bases(value: type) -> Iterator[str]:
    """Yield the public bases of a class: those of other packages, and those of ours that its own module has."""
    for base in value.__bases__:
        if base is tuple:
            yield "NamedTuple"
        elif base.__module__ == "builtins" and base is not object:
            yield base.__name__
        elif base.__module__ in ("typing", "enum"):
            if base.__name__ != "Generic":
                yield base.__name__
        elif not base.__module__.startswith("django_redsess") and base is not object:
            yield _public(base)
        elif base.__name__ in getattr(import_module(value.__module__), "__all__", ()):
            yield base.__name__
        elif base is not object:
            yield from _bases(base)


def _public(value: type) -> str:
    """Return the dotted name of a class at the highest package that has it."""
    parts = value.__module__.split(".")
    homes = (".".join(parts[:length]) for length in range(1, len(parts) + 1))
    home = next(home for home in homes if getattr(import_module(home), value.__name__, None) is value)
    return f"{home}.{value.__name__}"


def _annotation(annotation: Any) -> str:
    text = getattr(annotation, "__forward_arg__", annotation)
    return text if isinstance(text, str) else inspect.formatannotation(text).replace("collections.abc.", "")


def _quoted(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) and '"' not in value else repr(value)


def _written_below(found: Found) -> str:
    """Return the text that stands below what gives the name its value, or its type."""
    owner = found.owner or found.module
    for home in getattr(owner, "__mro__", [owner]):
        if home.__module__.startswith("django_redsess") if found.owner else True:
            texts = _texts_below(Path(inspect.getfile(home)), home.__name__ if found.owner else "")
            if found.name in texts:
                return texts[found.name]
    return ""


@cache
def _texts_below(path: Path, owner: str) -> dict[str, str]:
    tree: ast.AST = ast.parse(path.read_text(encoding="utf-8"))
    if owner:
        tree = next(node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name == owner)
    texts, name = dict[str, str](), ""
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            name = ast.unparse(node.targets[0] if isinstance(node, ast.Assign) else node.target)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and name:
            texts[name] = inspect.cleandoc(str(node.value.value))
            name = ""
        else:
            name = ""
    return texts
