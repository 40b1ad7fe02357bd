"""
Make the pictures of the documentation: ``make screenshots``, or ``python -m tests.helpers.screenshots [FOLDER]``.

They are taken in a demo of their own with Chromium. The times in them are those of the day on which they are made.
"""

import io
import os
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from PIL import Image
from playwright.sync_api import Page, sync_playwright

if __name__ == "__main__":
    import django

    # The people of the demo are models.
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "testproject.settings")
    django.setup()

from testproject.people import PASSWORD
from tests.helpers.browsing import CHROMIUM, FLAGS, LIST, NO_BROWSER, sign_in, visiting
from tests.helpers.demo import running
from tests.helpers.items import LIST as MOST_VIEWED

DOCS = Path(__file__).parents[2] / "docs"

COLORS = 128
"""Pages have few colours. A picture of so many takes a third of the bytes."""


def show_session(page: Page) -> None:
    page.goto(f"{LIST}?q=kavya")
    page.goto(page.locator(f'#result_list a[href*="{LIST}"][href*="/change/"]').first.get_attribute("href") or "")


def ask_before_the_end(page: Page) -> None:
    page.goto(f"{LIST}?q=kavya")
    page.locator("#result_list tbody input[type=checkbox]").first.check()
    page.locator("select[name=action]").select_option("end_selected")
    page.locator(".actions button[type=submit]").click()


PICTURES: dict[str, tuple[str, str, Callable[[Page], object]]] = {
    "online-sessions": ("admin", "admin", lambda page: page.goto(LIST)),
    "session": ("admin", "admin", show_session),
    "end-session": ("admin", "admin", ask_before_the_end),
    "most-viewed": ("admin", "admin", lambda page: page.goto(MOST_VIEWED)),
    "your-sessions": ("elif", PASSWORD, lambda page: page.goto("/account/sessions/")),
}
"""Each picture, with who is signed in, and what they do to see it."""

WHOLE = ("session",)
"""Pictures of the whole page. The others show what is seen without scrolling."""


def make(folder: Path = DOCS) -> None:
    """Make all pictures in ``folder``, each as ``<name>.png``."""
    if CHROMIUM is None:
        sys.exit(f"Error: {NO_BROWSER}")
    with (
        TemporaryDirectory() as directory,
        running(Path(directory)) as demo,
        sync_playwright() as playwright,
        playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS) as browser,
    ):
        for name, (username, password, show) in PICTURES.items():
            # A browser for each, which signs out: so the list has no sessions of the browsers before.
            with visiting(browser, demo.url) as open_page:
                page = open_page()
                sign_in(page, username, password)
                show(page)
                picture = page.screenshot(full_page=name in WHOLE, animations="disabled")
                page.goto("/")
                page.get_by_role("button", name="Sign out").click()
            file = folder / f"{name}.png"
            Image.open(io.BytesIO(picture)).convert("RGB").quantize(COLORS, dither=Image.Dither.NONE).save(
                file, optimize=True
            )
            print(f"{file}: {file.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    make(*map(Path, sys.argv[1:2]))
