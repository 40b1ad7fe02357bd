"""
No code goes by the wall clock of its process: :mod:`django_redsess.online.labels` has the server's time.

Where it is right all the same, the place and the reason stand here.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests.helpers.running import ROOT

pytestmark = pytest.mark.unit

PACKAGE = ROOT / "django_redsess"

RIGHT = {
    ("online/labels.py", "known_server_time"): "shown as long as the server has not told its time",
    ("responses.py", "set_session_cookie"): "browsers compare it with the header Date of the same process",
    ("contrib/sentry.py", "operation"): "a span is compared with Sentry's own, which this process has timed",
    ("contrib/opentelemetry.py", "operation"): "a span is compared with others that this process has timed",
    (
        "contrib/moving/sources/engines.py",
        "_left_in_memory",
    ): "compared with a time of this process",
}
"""By file and function."""

READ = {
    "datetime": {"now", "utcnow", "today"},
    "date": {"today"},
    "timezone": {"now"},
    "time": {"time", "time_ns", "gmtime", "localtime", "ctime", "asctime"},
}
"""What reads the clock, by what it is called on."""

READ_BY_DEFAULT = {"localtime": 1, "localdate": 1, "timesince": 2, "timeuntil": 2}
"""What reads it unless it gets so many arguments in order, or one of these by name: ``now``, ``value``."""

SIGNED = {"unsign", "loads", "get_signed_cookie"}
"""What compares a time in what was signed with the clock, if it gets ``max_age``."""

IN_TEMPLATES = re.compile(r"{%\s*now\b|\|\s*(naturaltime|naturalday|timesince|timeuntil)\b(?!:)")


def name_of(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def reads_clock(node: ast.AST) -> bool:
    if isinstance(node, ast.keyword):
        return node.arg in ("auto_now", "auto_now_add")
    if isinstance(node, ast.Attribute):
        # Also where it is not called, but handed on.
        return node.attr in READ.get(name_of(node.value), ())
    if not isinstance(node, ast.Call):
        return False
    name = name_of(node.func)
    count = len(node.args) + sum(each.arg in ("now", "value") for each in node.keywords)
    if name in SIGNED:
        return any(each.arg == "max_age" for each in node.keywords)
    return count < READ_BY_DEFAULT.get(name, 0)


def places_in(tree: ast.AST, function: str = "") -> Iterator[str]:
    """Yield the innermost function around each place that reads the clock."""
    for node in ast.iter_child_nodes(tree):
        inner = node.name if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else function
        if reads_clock(node):
            yield inner
        yield from places_in(node, inner)


def test_the_wall_clock_is_read_where_it_is_right_and_nowhere_else() -> None:
    found = {
        (path.relative_to(PACKAGE).as_posix(), function)
        for path in PACKAGE.rglob("*.py")
        for function in places_in(ast.parse(path.read_text()))
    }
    assert found == set(RIGHT)


def test_no_template_reads_the_wall_clock() -> None:
    templates = [path for path in PACKAGE.rglob("*") if path.suffix in (".html", ".txt") and "templates" in path.parts]
    assert len(templates) > 20
    assert [path.name for path in templates if IN_TEMPLATES.search(path.read_text())] == []


@pytest.mark.parametrize(
    "source",
    [
        "datetime.now(UTC)",
        "datetime.datetime.utcnow()",
        "timezone.now()",
        "default = timezone.now",
        "date.today()",
        "int(time.time() * 1000)",
        "timezone.localtime().tzname()",
        "timesince(at)",
        "timesince(at, depth=1)",
        "TimestampSigner().unsign(value, max_age=60)",
        "models.DateTimeField(auto_now=True)",
    ],
)
def test_whoever_reads_it_is_found(source: str) -> None:
    assert set(places_in(ast.parse(f"def function():\n    {source}"))) == {"function"}


@pytest.mark.parametrize("source", ["timezone.localtime(at)", "timesince(at, now)", "clock.now()", "monotonic()"])
def test_nobody_else_is(source: str) -> None:
    assert list(places_in(ast.parse(source))) == []


@pytest.mark.parametrize("text", ["{% now 'Y' %}", "{{ at|timesince }}", "{{ at | naturaltime }}"])
def test_templates_that_read_it_are_found(text: str) -> None:
    assert IN_TEMPLATES.search(text)
    assert not IN_TEMPLATES.search("{{ at|timesince:now }}")
