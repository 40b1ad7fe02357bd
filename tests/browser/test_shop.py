import re
from typing import Any

import pytest
from playwright.sync_api import expect

from testproject import people
from testproject.people import PASSWORD
from tests.helpers.browsing import KeepPicture, Visitor, go_to, sign_in

pytestmark = pytest.mark.slow

REFUSED = "You are already signed in on 3 devices, and more are not allowed. Sign out on one of them first."


def test_a_shopper_finds_a_popular_product_and_clears_the_history_with_the_keyboard_alone(visitor) -> None:
    people.bring_in_shoppers()
    page = visitor()
    sign_in(page, "alice", PASSWORD)
    for slug in ("rock-pool", "blue-hour", "paper-moon"):
        page.goto(f"/products/{slug}/")
    page.goto("/")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("document.querySelector('main').contains(document.activeElement)")
    go_to(page, page.get_by_role("region", name="Most viewed").get_by_role("link", name="All of the most viewed"))
    expect(page.get_by_role("heading", level=1)).to_have_text("Popular kites")
    go_to(page, page.locator(".ranking a").first)
    strip = page.get_by_role("region", name="Recently viewed")
    expect(strip.get_by_role("listitem")).to_have_count(3)
    go_to(page, strip.get_by_role("button", name="Forget Blue Hour"))
    expect(page.get_by_role("status")).to_have_text("That kite is off your list.")
    expect(strip.get_by_role("listitem").filter(has_text="Blue Hour")).to_have_count(0)
    expect(strip.get_by_role("listitem")).to_have_count(2)
    go_to(page, page.get_by_role("link", name="Basket"))
    expect(page.get_by_role("heading", level=1)).to_have_text("Your basket")
    go_to(page, strip.get_by_role("button", name="Clear my history"))
    expect(page).to_have_url(re.compile("/basket/$"))
    expect(page.get_by_role("status")).to_have_text("Your history is cleared.")
    expect(strip).to_contain_text("Nothing here yet.")
    expect(page.get_by_role("region", name="Most viewed").get_by_role("listitem")).to_have_count(6)


def test_all_other_sessions_are_ended_with_the_keyboard_alone(visitor: Visitor) -> None:
    here, there = visitor(), visitor()
    for page in (here, there):
        sign_in(page, "alice", PASSWORD)
    here.goto("/account/sessions/")
    here.get_by_role("link", name="Skip to the content").focus()
    here.keyboard.press("Enter")
    # The sessions come first, each with its own button.
    here.keyboard.press("Tab")
    expect(here.locator("main").get_by_role("button", name="Sign out").first).to_be_focused()
    go_to(here, here.get_by_role("link", name="Sign out everywhere else"))
    expect(here.locator("main")).to_contain_text("1 other device will be signed out.")
    go_to(here, here.get_by_role("button", name="Sign out everywhere else"))
    expect(here.get_by_role("status")).to_contain_text("1 other device was signed out.")
    there.goto("/account/sessions/")
    expect(there.get_by_role("button", name="Sign in")).to_be_visible()


@pytest.mark.parametrize("width", [320, 768])
def test_a_refusal_is_seen_and_fits_on_a_small_screen_with_the_keyboard_alone(
    visitor: Visitor, settings: Any, keep_picture: KeepPicture, width: int
) -> None:
    limit = {"MAX_SESSIONS_PER_USER": 3, "SESSION_LIMIT_POLICY": "refuse"}
    settings.REDSESS = {**settings.REDSESS, **limit}
    first, *others = [visitor() for _ in range(3)]
    for page in (first, *others):
        sign_in(page, "alice", PASSWORD)
    page = visitor(width)
    page.goto("/")
    go_to(page, page.get_by_role("link", name="Sign in"))
    expect(page.get_by_label("Username")).to_be_focused()
    page.keyboard.type("alice")
    page.keyboard.press("Tab")
    page.keyboard.type(PASSWORD)
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_have_text(REFUSED)
    expect(page.get_by_role("alert")).to_be_in_viewport(ratio=1)
    expect(page.get_by_label("Username")).to_have_value("alice")
    expect(page.get_by_label("Password")).to_have_value("")
    expect(page.get_by_label("Username")).to_be_focused()
    keep_picture(page, f"limits-refused-{width}")
    assert page.evaluate("document.documentElement.scrollWidth") <= width

    first.get_by_role("link", name="Skip to the content").focus()
    go_to(first, first.get_by_role("button", name="Sign out"))
    expect(first.get_by_role("link", name="Sign in")).to_be_visible()
    page.keyboard.press("Tab")
    page.keyboard.type(PASSWORD)
    page.keyboard.press("Enter")
    expect(page.get_by_text("Signed in as alice")).to_be_visible()
