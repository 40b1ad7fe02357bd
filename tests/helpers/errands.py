"""
What people do to get something done, step by step: the documentation shows each step as a picture.

An errand opens browsers. For each step it yields a page, with what is pressed there next: that gets a ring in the
picture, and is then pressed. It yields None in its place where the picture only shows what has come of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

from playwright.sync_api import Locator, Page

from testproject.people import CHROME_MAC, FIREFOX_LINUX, PASSWORD
from tests.helpers.admin_pages import LIST
from tests.helpers.site.addresses import OFFICE, STRANGER

MESSAGE = "Please call us about your account."


class Step(NamedTuple):
    page: Page
    press: Locator | None = None


class OpenBrowser(Protocol):
    """Open a browser in which ``who`` is signed in, or nobody."""

    def __call__(self, who: str = "", *, address: str = OFFICE, user_agent: str = CHROME_MAC) -> Page: ...


Errand = Callable[[OpenBrowser], Iterator[Step]]


def stolen_session(browser: OpenBrowser) -> Iterator[Step]:
    """Support ends the session of a stranger, and leaves the others of the user alone."""
    stranger = browser("elif", address=STRANGER, user_agent=FIREFOX_LINUX)
    page = browser("sam")
    page.goto(LIST)
    page.locator("#searchbar").fill("elif")
    yield Step(page, page.locator("#changelist-search [type=submit]"))
    yield Step(page, page.locator("#result_list tr", has_text=STRANGER).get_by_role("link", name="End"))
    page.locator("[name=message]").fill(MESSAGE)
    page.locator("[name=note]").fill("elif on the phone: has never been in Oslo.")
    yield Step(page, page.locator(".redsess-confirm [type=submit]").first)
    yield Step(page)
    stranger.goto("/account/sessions/")
    yield Step(stranger)


def block(browser: OpenBrowser) -> Iterator[Step]:
    """Support keeps out a stranger who knows the password, and lifts that again."""
    stranger = browser("kavya", address=STRANGER, user_agent=FIREFOX_LINUX)
    page = browser("sam")
    page.goto(f"{LIST}?q=kavya")
    yield Step(page, page.locator("#result_list tr", has_text=STRANGER).get_by_role("link", name="End"))
    page.locator("[name=message]").fill(MESSAGE)
    yield Step(page, page.locator("[name=block]").nth(1))
    yield Step(page, page.get_by_role("link", name="Blocked users"))
    stranger.goto("/login/")
    stranger.get_by_label("Username").fill("kavya")
    stranger.get_by_label("Password").fill(PASSWORD)
    with stranger.expect_navigation():
        stranger.keyboard.press("Enter")
    yield Step(stranger)
    yield Step(page, page.get_by_role("button", name="Lift").first)


def not_me(browser: OpenBrowser) -> Iterator[Step]:
    """A shopper finds a device that is not theirs."""
    browser("hugo", address=STRANGER, user_agent=FIREFOX_LINUX)
    page = browser("hugo", address="2001:db8:7:31::9")
    page.goto("/account/sessions/")
    yield Step(page, page.locator("li", has_text=STRANGER).get_by_role("link", name="This was not me"))
    yield Step(page, page.locator("form.redsess-question").get_by_role("button", name="Sign out"))
    yield Step(page, page.get_by_role("button", name="Sign out everywhere else"))
    yield Step(page, page.get_by_role("link", name="Change your password"))


def from_an_address(browser: OpenBrowser) -> Iterator[Step]:
    """An administrator ends all sessions from the stranger's address, whoever's they are."""
    for name in ("grace", "ines", "jun"):
        browser(name, address=STRANGER, user_agent=FIREFOX_LINUX)
    page = browser("admin")
    page.goto("/admin/redsess_history/signin/")
    page.locator("#searchbar").fill(STRANGER)
    yield Step(page, page.locator("#changelist-search [type=submit]"))
    yield Step(page, page.locator("#changelist-filter").get_by_role("link", name="Still signed in"))
    yield Step(page, page.locator(".redsess-end-all .redsess-end"))
    page.locator("[name=message]").fill(MESSAGE)
    yield Step(page, page.locator(".redsess-confirm [type=submit]").first)
    yield Step(page)


ERRANDS: dict[str, Errand] = {
    "stolen-session": stolen_session,
    "block": block,
    "not-me": not_me,
    "from-an-address": from_an_address,
}
"""In the order in which they are done. Each step is a picture in ``docs/errands``: ``block-1.png``, and so on."""
