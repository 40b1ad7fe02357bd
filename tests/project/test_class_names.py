"""Each class of the package has a name of its own, so that a search by name finds one class."""

import ast
from collections import defaultdict
from pathlib import Path

import pytest

import django_redsess

pytestmark = pytest.mark.unit

PACKAGE = Path(django_redsess.__file__).parent

REQUIRED = {"Command", "Media", "Meta", "Migration", "Observer", "SessionStore"}
"""Names that Django requires of modules and classes; and that of an observer, in each module that has one."""


SCHEMAS = {"EndedSessions", "LookedThrough"}
"""Schemas of the API are called as clients call them."""


def test_each_class_has_a_name_of_its_own() -> None:
    places = defaultdict(list)
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(f"{path.relative_to(PACKAGE.parent)}:{node.lineno}")
    assert len(places) > 200
    shared = {name: where for name, where in places.items() if len(where) > 1}
    expected = REQUIRED | SCHEMAS
    assert set(shared) <= expected, {name: where for name, where in shared.items() if name not in expected}
    # An exception that nothing needs is none.
    assert set(shared) >= expected
