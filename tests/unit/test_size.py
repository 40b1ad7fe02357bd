"""Files and functions stay short. Ruff checks the number of parameters (PLR0913)."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
TREES = ("benchmarks", "django_redsess", "testproject")
FILES = [path for tree in TREES for path in sorted((ROOT / tree).rglob("*.py"))]

LINES_OF_FILE = 300
LINES_OF_FUNCTION = 40
"""From its ``def`` to its end, without its docstring."""


def too_long(source: str) -> Iterator[str]:
    """Name the functions that have too many lines."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        lines = _lines(node)
        if ast.get_docstring(node) is not None:
            lines -= _lines(node.body[0])
        if lines > LINES_OF_FUNCTION:
            yield f"{node.name}, {lines} lines"


def _lines(node: ast.stmt) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def test_no_file_is_too_long() -> None:
    lengths = {path: len(path.read_text().splitlines()) for path in FILES}
    assert len(lengths) > 20
    assert {str(path): length for path, length in lengths.items() if length > LINES_OF_FILE} == {}


def test_no_function_is_too_long() -> None:
    found = {str(path): list(too_long(path.read_text())) for path in FILES}
    assert {path: names for path, names in found.items() if names} == {}


def test_a_docstring_is_not_counted() -> None:
    body = "    x = 1\n" * (LINES_OF_FUNCTION - 1)
    assert list(too_long(f'def short():\n    """One.\n\n    Two.\n    """\n{body}')) == []
    assert list(too_long(f"class A:\n  async def long(self):\n{body}    return x\n")) == ["long, 41 lines"]
