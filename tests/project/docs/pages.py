"""What the pages of the documentation hold: blocks of code, with language and heading."""

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from textwrap import dedent
from typing import NamedTuple

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"

BLOCK = re.compile(
    r"^(?P<indent> *)\.\. code-block:: (?P<language>\S+)\n\n"
    r"(?P<text>(?:(?P=indent) +\S.*\n|\n)+)",
    re.MULTILINE,
)


HEADING = re.compile(r"(?:#|//) (.+)\n\n")
"""A comment on the first line of a block, and an empty line: which file it goes to, mostly."""


class Block(NamedTuple):
    language: str
    heading: str
    text: str


def blocks(path: Path) -> Iterator[Block]:
    """Return the blocks of code of a page, in order."""
    for found in BLOCK.finditer(path.read_text(encoding="utf-8") + "\n"):
        text = dedent(found["text"]).strip("\n") + "\n"
        heading = HEADING.match(text)
        yield Block(found["language"], heading[1] if heading else "", text[heading.end() :] if heading else text)


def typed(page: Iterable[Block]) -> list[tuple[str, str]]:
    """Return the commands that the blocks of a page type at a terminal, each with what it prints."""
    steps = [
        step.partition("\n")
        for block in page
        if block.language == "console"
        for step in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]
    ]
    return [(command, said) for command, _, said in steps]


def pages() -> list[Path]:
    """Return all pages, with the README."""
    return [ROOT / "README.rst", *sorted(DOCS.rglob("*.rst"))]


def environment() -> dict[str, str]:
    """Return the environment of a process that is to know nothing of the tests."""
    ours = ("DJANGO_SETTINGS_MODULE", "REDIS_URL", "PYTHONPATH")
    return {**{name: value for name, value in os.environ.items() if name not in ours}, "PYTHONUTF8": "1"}


def named_tests(text: str) -> list[str]:
    """Return the tests that a text names as what keeps a promise of it."""
    return re.findall(r"``(tests/[\w/]+\.py::\w+)``", text)


def is_test(name: str) -> bool:
    """Tell whether there is a test of that name: a file, and a function of it."""
    path, _, function = name.partition("::")
    file = ROOT / path
    return file.is_file() and re.search(rf"^(?:async )?def {function}\(", file.read_text(), re.MULTILINE) is not None


STEP = re.compile(
    r"^#\. (?P<text>.+\n(?:   .+\n)*)\n"
    r"   \.\. image:: \.\./errands/(?P<name>[\w-]+)-(?P<number>\d+)\.png\n"
    r"(?P<options>(?:      .+\n)+)",
    re.MULTILINE,
)


class StepText(NamedTuple):
    """What a page says about a step of an errand, and about its picture."""

    number: int
    text: str
    alt: str


def steps_of(errand: str) -> list[StepText]:
    """Return the steps of an errand, as the documentation has them."""
    return [
        StepText(int(step["number"]), " ".join(step["text"].split()), step["options"].partition(":alt:")[2].strip())
        for page in pages()
        for step in STEP.finditer(page.read_text(encoding="utf-8"))
        if step["name"] == errand
    ]
