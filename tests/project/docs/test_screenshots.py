from __future__ import annotations

import re
from pathlib import Path

from tests.helpers.screenshots import pictures

ROOT = Path(__file__).parents[3]


def test_every_picture_in_the_docs_is_one_that_make_screenshots_makes() -> None:
    shown = {
        Path(name).stem
        for page in [ROOT / "README.rst", *(ROOT / "docs").rglob("*.rst")]
        for name in re.findall(r"^ *\.\. (?:image|figure):: (\S+\.png)", page.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert shown == set(pictures.PICTURES)
    assert {path.stem for path in pictures.DOCS.glob("*.png")} == shown
