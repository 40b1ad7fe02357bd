"""``make screenshots`` makes the pictures of the documentation, and presses what the steps of errands say."""

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Playwright

from tests.helpers import screenshots
from tests.helpers.demo import Demo
from tests.project.docs.pages import DOCS

pytestmark = pytest.mark.slow


def test_all_pictures_of_the_documentation_are_made_anew(
    playwright: Playwright, browser: Browser, demo_with: Callable[[str], Demo], tmp_path: Path
) -> None:
    screenshots.take_all(browser, demo_with(screenshots.SETTINGS), tmp_path)
    screenshots.take_bound(playwright, tmp_path)
    pictures = {path.relative_to(tmp_path) for path in tmp_path.rglob("*.png")}
    assert pictures == {path.relative_to(DOCS) for path in DOCS.rglob("*.png")}
