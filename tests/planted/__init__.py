"""
Planted faults: do the tests find them?

Each ``.patch`` beside this file plants one fault into a copy of the package. Its first line says what a user would
suffer. ``Tests:`` names the files or folders whose tests have to fail. ``python -m tests.planted`` plants one after the
other.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parent


class Fault(NamedTuple):
    """What is planted: ``old`` in ``file`` becomes ``new``."""

    name: str
    what: str
    tests: list[str]
    file: str
    old: str
    new: str

    def plant(self, root: Path) -> None:
        """Change the file below ``root``. Raises ValueError unless the text is there exactly once."""
        path = root / self.file
        text = path.read_text(encoding="utf-8")
        if text.count(self.old) != 1:
            raise ValueError(f"{self.name}.patch does not fit {self.file} any more.")
        path.write_text(text.replace(self.old, self.new), encoding="utf-8")


def faults() -> list[Fault]:
    """Read all patches, by name."""
    return [_read(path) for path in sorted(FOLDER.glob("*.patch"))]


def _read(path: Path) -> Fault:
    text = path.read_text(encoding="utf-8")
    [what] = re.findall(r"\A(.+)\n", text)
    [tests] = re.findall(r"^Tests: (.+)$", text, re.MULTILINE)
    [file] = re.findall(r"^\+\+\+ b/(.+)$", text, re.MULTILINE)
    [hunk] = re.findall(r"^@@ .+ @@.*\n((?:[ +-].*\n|\n)+)", text, re.MULTILINE)
    lines = [line or " " for line in hunk.splitlines()]
    old = "".join(f"{line[1:]}\n" for line in lines if line[0] in " -")
    new = "".join(f"{line[1:]}\n" for line in lines if line[0] in " +")
    return Fault(path.stem, what, tests.split(), file, old, new)
