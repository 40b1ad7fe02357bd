from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from testproject.people import PASSWORD
from tests.helpers.browsing import LIST, KeepPicture, Visitor, go_to, sign_in
from tests.helpers.shop import AskedNobody

pytestmark = pytest.mark.slow

REFUSED = "You already have 3 sessions, and more are not allowed. Sign out of one of them first."


@pytest.fixture
def refusing(settings: Any) -> None:
    have_limit(settings, 3, "refuse")


def have_limit(settings: Any, maximum: int, policy: str = "end_oldest") -> None:
    settings.REDSESS = {**settings.REDSESS, "MAX_SESSIONS_PER_USER": maximum, "SESSION_LIMIT_POLICY": policy}


def signed_in(visitor: Visitor, count: int, username: str = "alice", password: str = PASSWORD) -> list[Page]:
    """Sign a user in from so many browsers, one after the other."""
    pages = [visitor() for _ in range(count)]
    for page in pages:
        sign_in(page, username, password)
    return pages


def send_form(page: Page, username: str = "alice", password: str = PASSWORD) -> None:
    """Fill in the form to sign in and send it, whatever comes of it."""
    page.goto("/login/")
    page.get_by_label("Username").fill(username)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Sign in").click()


def expect_refused(page: Page) -> None:
    expect(page.get_by_role("alert")).to_have_text(REFUSED)
    expect(page.get_by_role("alert")).to_be_in_viewport(ratio=1)
    expect(page.get_by_label("Username")).to_have_value("alice")
    expect(page.get_by_label("Password")).to_have_value("")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [320, 768])
def test_a_refusal_is_seen_and_fits_on_a_small_screen_with_the_keyboard_alone(
    visitor: Visitor, refusing: None, keep_picture: KeepPicture, width: int, dark: bool
) -> None:
    first, *_ = signed_in(visitor, 3)
    page = visitor(width, dark)
    page.goto("/")
    go_to(page, page.get_by_role("link", name="Sign in"))
    expect(page.get_by_label("Username")).to_be_focused()
    page.keyboard.type("alice")
    page.keyboard.press("Tab")
    page.keyboard.type(PASSWORD)
    page.keyboard.press("Enter")
    expect_refused(page)
    expect(page.get_by_label("Username")).to_be_focused()
    keep_picture(page, f"limits-refused-{width}{'-dark' * dark}")
    assert page.evaluate("document.documentElement.scrollWidth") <= width

    first.get_by_role("link", name="Skip to the content").focus()
    go_to(first, first.get_by_role("button", name="Sign out"))
    expect(first.get_by_role("link", name="Sign in")).to_be_visible()
    page.keyboard.press("Tab")
    page.keyboard.type(PASSWORD)
    page.keyboard.press("Enter")
    expect(page.get_by_text("Signed in as alice")).to_be_visible()


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [320, 1280])
def test_a_refusal_that_no_form_tells_has_a_page_that_leads_back_to_the_form(
    visitor: Visitor, settings: Any, refusing: None, keep_picture: KeepPicture, width: int, dark: bool
) -> None:
    signed_in(visitor, 3)
    settings.ROOT_URLCONF = AskedNobody
    page = visitor(width, dark)
    send_form(page)
    expect(page.get_by_role("main")).to_contain_text(REFUSED)
    expect(page).to_have_title(re.compile("^Not allowed"))
    keep_picture(page, f"limits-403-{width}{'-dark' * dark}")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    go_to(page, page.get_by_role("link", name="Back to sign in"))
    expect(page.get_by_role("button", name="Sign in")).to_be_visible()


def test_a_refused_administrator_reads_that_in_the_form_of_the_admin(
    visitor: Visitor, refusing: None, keep_picture: KeepPicture
) -> None:
    signed_in(visitor, 3, "admin", "admin")
    page = visitor(360, dark=True)
    page.goto(LIST)
    page.get_by_label("Username").fill("admin")
    page.get_by_label("Password").fill("admin")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_text(REFUSED)).to_be_in_viewport(ratio=1)
    expect(page.get_by_label("Username")).to_have_value("admin")
    keep_picture(page, "limits-refused-admin-360-dark")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
