from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from django_redsess import cleaning
from testproject import people
from testproject.people import PASSWORD
from tests.helpers.browsing import LIST, KeepPicture, Visitor, sign_in

pytestmark = pytest.mark.slow


@pytest.fixture
def admin(visitor: Visitor) -> Page:
    """An administrator who looks at a shop with a dozen shoppers."""
    people.bring_in_shoppers()
    cleaning.sample()
    page = visitor()
    sign_in(page, "admin", "admin")
    page.goto(LIST)
    return page


def users(page: Page) -> list[str]:
    """Return the users of the list, from the top."""
    return page.locator(".field-user a > bdi").all_inner_texts()


def row_of(page: Page, name: str) -> Locator:
    """Return the row of this user's session."""
    return page.get_by_role("row").filter(has=page.locator("bdi", has_text=re.compile(f"^{name}$")))


def choose(page: Page, *names: str) -> None:
    """Tick the sessions of these users, and choose to end them."""
    for name in names:
        row = row_of(page, name)
        row.get_by_role("checkbox").check()
    page.get_by_label("Action:").select_option(label="End selected sessions")
    page.get_by_role("button", name="Run").or_(page.get_by_role("button", name="Go")).click()


def test_a_session_is_ended_and_its_user_reads_why_at_the_next_click(
    visitor: Visitor, admin: Page, keep_picture: KeepPicture
) -> None:
    shopper = visitor()
    sign_in(shopper, "alice", PASSWORD)
    admin.goto(LIST)
    keep_picture(admin, "admin-list")
    choose(admin, "alice")
    expect(admin.get_by_text("Do you want to end 1 session?")).to_be_visible()
    shopper.goto("/")
    expect(shopper.get_by_text("Signed in as alice")).to_be_visible()

    admin.get_by_label("Message").fill("We close <b>at noon</b>.")
    keep_picture(admin, "admin-end")
    admin.get_by_role("button", name="Yes, end it").click()
    expect(admin.get_by_text("The session of alice was ended: ")).to_be_visible()
    keep_picture(admin, "admin-ended")
    assert "alice" not in users(admin)

    shopper.get_by_role("link", name="Basket").click()
    expect(shopper.get_by_role("link", name="Sign in")).to_be_visible()
    expect(shopper.get_by_role("status")).to_contain_text("Your session was ended. We close <b>at noon</b>.")
    keep_picture(shopper, "shop-told-why")
    shopper.get_by_role("link", name="Kites", exact=True).click()
    expect(shopper.get_by_role("status")).to_have_count(0)


def test_a_session_is_ended_with_the_keyboard_alone(admin: Page) -> None:
    row_of(admin, "hugo").get_by_role("checkbox").focus()
    admin.keyboard.press("Space")
    admin.get_by_label("Action:").focus()
    admin.keyboard.press("E")
    admin.keyboard.press("Tab")
    admin.keyboard.press("Enter")
    expect(admin.get_by_text("Do you want to end 1 session?")).to_be_visible()
    admin.get_by_label("Message").focus()
    admin.keyboard.press("Enter")
    expect(admin.get_by_text("The session of hugo was ended: ")).to_be_visible()


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
def test_pages_fit_their_window(visitor: Visitor, keep_picture: KeepPicture, width: int, dark: bool) -> None:
    people.bring_in_shoppers()
    cleaning.sample()
    page = visitor(width, dark)
    sign_in(page, "admin", "admin")
    look_around(page, keep_picture, f"{width}{'-dark' * dark}")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
def test_pages_work_and_fit_with_django_unfold(
    unfold_visitor: Visitor, keep_picture: KeepPicture, width: int, dark: bool
) -> None:
    page = unfold_visitor(width, dark)
    sign_in(page, "admin", "admin")
    look_around(page, keep_picture, f"unfold-{width}{'-dark' * dark}")
    if width < 1280:
        return
    page.goto(LIST + "?q=amelia" if dark else LIST + "?q=chiara")
    page.locator("#result_list tbody input[type=checkbox]").first.check()
    page.locator("select[name=action]").select_option(label="End selected sessions")
    page.get_by_role("button", name="Run").click()
    page.get_by_role("button", name="Yes, end it").click()
    expect(page.get_by_text("was ended: ")).to_be_visible()


def look_around(page: Page, keep_picture: KeepPicture, name: str) -> None:
    """Open each page, and see that it is there, and no wider than the window."""
    page.goto(LIST)
    session = page.locator(".field-user a").last.get_attribute("href") or ""
    page.goto(session)
    user = page.locator("a[href*='/auth/user/'][href$='/change/']").first.get_attribute("href") or ""
    for path, shown, picture in (
        (LIST, "Online over time", "list"),
        (LIST + "numbers/?range=week", "Online in the last 7 days", "over-time"),
        (LIST + "?who=everyone", "online sessions", "everyone"),
        (LIST + "?q=nobody", "0 online sessions", "empty"),
        (session, "Viewed items", "session"),
        (LIST + "confirm/", "Do you want to end", "confirm"),
        (user, "End all of them", "user"),
    ):
        response = page.goto(path)
        assert response is not None
        assert response.ok
        expect(page.locator("body")).to_contain_text(shown)
        keep_picture(page, f"admin-{picture}-{name}")
        # The page of a user has other fields that are too wide.
        if picture != "user":
            assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), path


PROBLEMS = """
[...document.querySelectorAll("#result_list :is(a, input), .redsess-about a, .redsess-end-all a")]
    .filter(each => each.checkVisibility())
    .filter(each => each.offsetHeight < 24 || each.getBoundingClientRect().right > innerWidth)
    .map(each => each.outerHTML)
"""


@pytest.mark.parametrize("language", ["en", "de", "ar"])
@pytest.mark.parametrize("width", [320, 390, 767])
def test_on_a_phone_each_row_is_a_card(
    visitor: Visitor, settings: Any, keep_picture: KeepPicture, width: int, language: str
) -> None:
    people.bring_in_shoppers()
    page = visitor(width)
    sign_in(page, "admin", "admin")
    settings.LANGUAGE_CODE = language
    page.goto(LIST)
    keep_picture(page, f"admin-cards-{width}-{language}")
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert page.locator(".results").evaluate("results => results.scrollWidth <= results.clientWidth")
    assert page.evaluate(PROBLEMS) == []
    card = page.locator("#result_list tbody tr").last
    expect(card.locator(".field-signed_in .redsess-label")).to_be_visible()
    expect(card.locator(".field-seen .redsess-label").first).to_be_visible()
    # Each part is below the other, and the card is narrower than the window.
    tops = [card.locator(f".field-{name}").bounding_box() for name in ("user", "client", "signed_in", "seen")]
    assert all(upper and lower and upper["y"] < lower["y"] for upper, lower in pairwise(tops))


def test_rows_tell_apart_what_they_are_about(admin: Page) -> None:
    expect(admin.get_by_role("rowheader", name="jun Mobile Safari 26 on iOS, 203.0.113.201")).to_have_count(1)
    expect(admin.get_by_role("checkbox", name="jun: Mobile Safari 26 on iOS, 203.0.113.201")).to_have_count(1)
    admin.get_by_role("link", name="End the session of jun: Mobile Safari 26 on iOS, 203.0.113.201").click()
    expect(admin.get_by_text("Do you want to end 1 session?")).to_be_visible()


def test_focus_on_the_links_of_a_row_is_visible(admin: Page) -> None:
    row = row_of(admin, "jun")
    for link in (row.locator(".field-user a"), row.locator(".field-client a"), row.locator(".redsess-end")):
        before = link.evaluate("link => getComputedStyle(link).outlineStyle")
        link.focus()
        admin.keyboard.press("Shift+Tab")
        admin.keyboard.press("Tab")
        expect(link).to_be_focused()
        assert (before, link.evaluate("link => getComputedStyle(link).outlineStyle")) == ("none", "auto")
