from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from testproject import people
from testproject.people import PASSWORD
from testproject.shop.models import Product
from tests.helpers.browsing import KeepPicture, Visitor, go_to, sign_in

pytestmark = pytest.mark.slow


def test_a_shopper_finds_a_popular_product_and_clears_the_history_with_the_keyboard_alone(
    visitor: Visitor, keep_picture: KeepPicture
) -> None:
    people.bring_in_shoppers()
    page = visitor()
    sign_in(page, "alice", PASSWORD)
    for slug in ("rock-pool", "blue-hour", "paper-moon"):
        page.goto(f"/products/{slug}/")
    page.goto("/")
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
    keep_picture(page, "shop-history-cleared")


def test_a_picture_in_a_strip_leads_to_its_product_though_a_button_is_beside(visitor: Visitor) -> None:
    page = visitor(360)
    sign_in(page, "alice", PASSWORD)
    page.goto("/products/rock-pool/")
    page.goto("/basket/")
    strip = page.get_by_role("region", name="Recently viewed")
    strip.locator("li").click(position={"x": 20, "y": 20})
    expect(page).to_have_url(re.compile("/products/rock-pool/$"))
    page.goto("/basket/")
    strip.get_by_role("button", name="Forget Rock Pool").click()
    expect(page).to_have_url(re.compile("/basket/$"))
    expect(strip).to_contain_text("Nothing here yet.")


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


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [320, 768, 1280])
def test_pages_of_who_has_viewed_much_fit_their_window(
    visitor: Visitor, keep_picture: KeepPicture, width: int, dark: bool
) -> None:
    people.bring_in_shoppers()
    Product.objects.create(slug="long", name="Donaudampfschifffahrtsgesellschaftskapitänsmützenabzeichen")
    page = visitor(width, dark)
    sign_in(page, "admin", "admin")
    for slug in ("night-ferry", "paper-moon", "tide-table", "long", "red-admiral", "string-of-pearls"):
        page.goto(f"/products/{slug}/")
    for name, path in (
        ("home", "/"),
        ("product", "/products/rock-pool/"),
        ("popular", "/popular/"),
        ("basket", "/basket/"),
    ):
        page.goto(path)
        expect(page.get_by_role("region", name="Recently viewed").get_by_role("listitem")).to_have_count(6)
        keep_picture(page, f"viewed-{name}-{width}{'-dark' * dark}")
        assert page.evaluate("document.documentElement.scrollWidth") <= width, path
