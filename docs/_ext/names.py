"""
Where the reference describes a name: a setting, a system check, a command, or something of Python.

Pages link to the place as to any section: the anchor is what docutils makes of the section's title.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from docutils import nodes

from docs._ext import signatures, written

REFERENCE = written.DOCS / "reference"

LITERAL_TITLE = re.compile(r"^``(?P<title>[^`\n]+)``\n(?P<line>[=~-])(?P=line)+$", re.MULTILINE)
CHECK = re.compile(r"[EIW]\d{3}")


class Place(NamedTuple):
    """Where a name is described. ``name`` is its full name, ``kind`` what it is, as Sphinx calls it."""

    page: str
    anchor: str
    kind: str
    name: str


def places() -> Iterator[Place]:
    """Yield the place of each name that the reference describes."""
    for page in sorted(REFERENCE.glob("*.rst")):
        docname = f"reference/{page.stem}"
        for part in written.parts(page):
            if part.kind == "setting":
                yield Place(docname, anchor_of(part.argument), "setting", part.argument)
            elif part.kind == "command":
                yield Place(docname, anchor_of(part.argument), "command", part.argument)
            elif part.kind == "python":
                kind = signatures.find(part.name).kind
                yield Place(docname, anchor_of(part.title), kind, part.name)
        for found in LITERAL_TITLE.finditer(page.read_text(encoding="utf-8")):
            title = found["title"]
            if page.stem == "checks" and CHECK.fullmatch(title):
                yield Place(docname, anchor_of(title), "check", title)
            elif re.fullmatch(r"django_redsess(\.\w+)*", title):
                yield Place(docname, anchor_of(title), "module", title)


def anchor_of(title: str) -> str:
    """Return the anchor of a section, by its title. It is that of the first section of a page with such a title."""
    return nodes.make_id(title)
