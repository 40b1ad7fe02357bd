from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from testproject import people
from testproject.people import PASSWORD

Visitor = Callable[..., Page]
KeepPicture = Callable[[Page, str], None]

LIST = "/admin/django_redsess/onlinesession/"


def sign_in(page: Page, username: str, password: str) -> None:
    page.goto("/login/")
    page.get_by_label("Username").fill(username)
    page.get_by_label("Password").fill(password)
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Sign out")).to_be_visible()


def test_products_viewed_are_shown_newest_first(visitor: Visitor, keep_picture: KeepPicture) -> None:
    page = visitor()
    sign_in(page, "alice", PASSWORD)
    names = []
    for number in (0, 1, 2):
        page.goto("/")
        link = page.locator("main a[href^='/products/']").nth(number)
        page.goto(link.get_attribute("href") or "")
        names.append(page.get_by_role("heading", level=1).inner_text())
    page.goto("/")
    strip = page.get_by_role("region", name="Recently viewed").or_(page.locator("section", has_text="Recently viewed"))
    shown = strip.first.inner_text()
    assert sorted(names, key=shown.index) == names[::-1]
    keep_picture(page, "shop-home")


def test_what_a_guest_puts_into_the_basket_is_there_after_sign_in(visitor: Visitor) -> None:
    page = visitor()
    page.goto("/")
    page.goto(page.locator("main a[href^='/products/']").first.get_attribute("href") or "")
    page.get_by_role("button", name="Add to the basket").click()
    guest_cookie = {cookie["name"]: cookie["value"] for cookie in page.context.cookies()}["sessionid"]
    sign_in(page, "alice", PASSWORD)
    expect(page.get_by_role("link", name="Basket")).to_contain_text("1")
    # Whoever knew the guest's cookie does not have the signed-in session with it.
    assert {cookie["name"]: cookie["value"] for cookie in page.context.cookies()}["sessionid"] != guest_cookie


def test_the_content_is_reached_with_the_keyboard_alone(visitor: Visitor) -> None:
    page = visitor()
    page.goto("/")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("document.querySelector('main').contains(document.activeElement)")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize("path", ["/", "/products/{slug}/", "/basket/", "/login/"])
def test_pages_fit_their_window(visitor: Visitor, keep_picture: KeepPicture, path: str, width: int, dark: bool) -> None:
    people.bring_in_shoppers()
    page = visitor(width, dark)
    page.goto("/")
    slug = (page.locator("main a[href^='/products/']").first.get_attribute("href") or "").split("/")[2]
    path = path.format(slug=slug)
    page.goto(path)
    keep_picture(page, f"{path.strip('/').replace('/', '-').replace('?', '-') or 'home'}-{width}{'-dark' * dark}")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
