"""What a person does in a real browser."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, BrowserContext, Locator, Page, expect

from testproject.people import CHROME_MAC
from tests.helpers.admin_pages import LIST
from tests.helpers.items import LIST as MOST_VIEWED

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking", "--disable-sync"]
NO_BROWSER = "no browser is installed: install chromium, or name one in CHROMIUM"

Visitor = Callable[..., Page]
KeepPicture = Callable[[Page, str], None]


def sign_in(page: Page, username: str, password: str) -> None:
    page.goto("/login/")
    page.get_by_label("Username").fill(username)
    page.get_by_label("Password").fill(password)
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Sign out")).to_be_visible()


def pages_of_admin(page: Page) -> list[tuple[str, str]]:
    """Return the paths of the admin's pages, the last session's among them, each with a name."""
    page.goto(LIST)
    session = page.locator("#result_list a[href*='onlinesession'][href*='/change/']").last.get_attribute("href") or ""
    lists = [(LIST, "list"), (LIST + "?guests=true", "everyone")]
    lists.append((LIST + "blocked/", "blocked"))
    return [*lists, (LIST + "confirm/", "confirm"), (session, "session"), (MOST_VIEWED, "most-viewed")]


def go_to(page: Page, what: Locator) -> None:
    """Press Tab until ``what`` has the focus, then Enter."""
    for _ in range(60):
        page.keyboard.press("Tab")
        if what.evaluate("element => element === document.activeElement"):
            page.keyboard.press("Enter")
            return
    raise AssertionError(f"{what} is not reached with the keyboard")


@contextmanager
def visiting(browser: Browser, url: str) -> Iterator[Callable[..., Page]]:
    """Give what ``visitor`` returns, for the site at ``url``; close at the end what was opened."""
    opened: list[BrowserContext] = []

    def open_page(width: int = 1280) -> Page:
        context = browser.new_context(
            base_url=url,
            viewport={"width": width, "height": 800},
            reduced_motion="reduce",
            user_agent=CHROME_MAC,
        )
        context.set_default_timeout(30_000)
        opened.append(context)
        return context.new_page()

    yield open_page
    for context in opened:
        context.close()
