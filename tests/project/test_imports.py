"""
No file of the package imports another that imports it, nor in a longer circle.

Imports for type checkers don't count, as for import-linter: a file may name the type of what it is given.
"""

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import django_redsess

pytestmark = pytest.mark.unit

PACKAGE = Path(django_redsess.__file__).parent


def is_for_type_checkers(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def test_no_imports_are_in_a_circle() -> None:
    # Those of functions count, too.
    files = {".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts): path for path in PACKAGE.rglob("*.py")}
    files = {name.removesuffix(".__init__"): path for name, path in files.items()}
    graph: dict[str, set[str]] = {name: set() for name in files}
    for name, path in files.items():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        tree.body = [node for node in tree.body if not is_for_type_checkers(node)]
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == PACKAGE.name:
                named = {f"{node.module}.{alias.name}" for alias in node.names}
                graph[name] |= {each if each in files else str(node.module) for each in named} - {name}
    assert sum(map(len, graph.values())) > 200
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" → ".join(error.args[1]))
