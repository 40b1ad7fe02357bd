"""Each kind of error has a type of its own, and a section that says what it is and what a program does about it."""

import ast
import re
from pathlib import Path

import pytest
from docutils import nodes
from docutils.core import publish_doctree

import django_redsess
from django_redsess import problems
from tests.helpers.api import description
from tests.project.docs.pages import DOCS

pytestmark = pytest.mark.unit

PAGE = DOCS / "reference" / "api.rst"


def sections() -> dict[str, str]:
    """Return the texts of the page's sections, by their anchors."""
    quiet = {"report_level": 5, "file_insertion_enabled": False}
    page = publish_doctree(PAGE.read_text(encoding="utf-8"), settings_overrides=quiet)
    return {each["ids"][0]: each.astext() for each in page.findall(nodes.section)}


def test_each_type_leads_to_a_section_with_its_status_and_what_to_do() -> None:
    found = sections()
    for name, kind in problems.TYPES.items():
        assert kind.uri.endswith(f"/reference/api.html#{name}")
        title, reason, *todo = found[name].split("\n\n")
        assert (title, reason.startswith(f"Status {kind.status}. "), bool(todo)) == (name, True, True), name
    described = {re.sub(r"\s.*", "", text, flags=re.DOTALL) for text in found.values() if "\n\nStatus " in text}
    assert described - {"JSON", "Errors"} == set(problems.TYPES)


def test_each_type_is_used() -> None:
    package = Path(django_redsess.__file__).parent
    used = {
        node.id if isinstance(node, ast.Name) else node.attr
        for path in package.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load)
    }
    names = {name for name, each in vars(problems).items() if isinstance(each, problems.ProblemType)}
    assert names - used == set()


def test_the_openapi_file_has_all_types_and_an_answer_of_each() -> None:
    described = description()
    known = {kind.uri for kind in problems.TYPES.values()}
    assert set(described["components"]["schemas"]["Problem"]["properties"]["type"]["examples"]) == known
    for operation in (each for methods in described["paths"].values() for each in methods.values()):
        for status, answer in operation["responses"].items():
            examples = answer.get("content", {}).get("application/problem+json", {}).get("examples", {})
            assert all(each["value"]["status"] == int(status) for each in examples.values())
            assert bool(examples) == (int(status) >= 400 and int(status) != 414), status
