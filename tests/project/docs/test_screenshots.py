from __future__ import annotations

import re
import struct
from pathlib import Path

import pytest

from tests.helpers.browsing import CHROMIUM
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


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no browser is installed")
def test_make_screenshots_makes_each_in_its_size(tmp_path: Path) -> None:
    pictures.make(tmp_path)
    sizes = {path.stem: struct.unpack(">2I", path.read_bytes()[16:24]) for path in tmp_path.iterdir()}
    assert sizes.keys() == pictures.PICTURES.keys()
    assert {width for width, _ in sizes.values()} == {1280}
    assert {height for name, (_, height) in sizes.items() if name not in pictures.WHOLE} == {800}
