"""The page "When it does not work": what a server says, and every line that is logged, is on it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import django_redsess
from tests.project.docs.pages import DOCS

PAGE = (DOCS / "howto" / "troubleshooting.rst").read_text()

TITLES = [" ".join(found.split()) for found in re.findall(r"^``([^`]+)``$", PAGE, re.MULTILINE)]
"""What a reader searches for: log lines, errors and answers, with … for what differs."""


LOGS = {f"logger.{level}" for level in ("debug", "info", "warning", "error", "exception", "critical")}


def is_told(line: str, titles: list[str]) -> bool:
    return any(re.fullmatch(".*".join(map(re.escape, title.split("…"))), line) for title in titles)


def formats() -> Iterator[str]:
    """Yield what the package hands to its loggers: texts with placeholders."""
    for path in Path(django_redsess.__file__).parent.rglob("*.py"):
        nodes = list(ast.walk(ast.parse(path.read_text())))
        names = {ast.unparse(node.targets[0]): node.value for node in nodes if isinstance(node, ast.Assign)}
        for node in nodes:
            if isinstance(node, ast.Call) and ast.unparse(node.func) in LOGS:
                text = names.get(ast.unparse(node.args[0]), node.args[0])
                yield str(ast.literal_eval(text))


def test_every_line_that_is_logged_is_on_the_page() -> None:
    written = {re.sub(r"%(\.\d)?[a-z]", "", text) for text in formats()}
    assert len(written) > 15
    assert sorted(text for text in written if not is_told(text, TITLES)) == []
