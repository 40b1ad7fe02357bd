from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from django_redsess import viewed
from testproject import people
from testproject.servers import Server
from tests.helpers.behind import have_views
from tests.helpers.browsing import KeepPicture, Visitor, sign_in

pytestmark = pytest.mark.slow

LIST = "/admin/django_redsess/popularitem/"


@pytest.fixture
def admin(visitor: Visitor) -> Page:
    """An administrator who looks at what a dozen shoppers viewed most."""
    people.bring_in_shoppers()
    page = visitor()
    sign_in(page, "admin", "admin")
    page.goto(LIST)
    return page


def items(page: Page) -> list[str]:
    """Return what the items of the list are called, from the top."""
    return page.locator(".field-name a").all_inner_texts()


def choose(page: Page, name: str) -> None:
    """Tick an item, and choose to reset it."""
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name=name, exact=True))
    row.get_by_role("checkbox").check()
    page.get_by_label("Action:").select_option(label="Reset views of selected items")
    page.get_by_role("button", name="Run").or_(page.get_by_role("button", name="Go")).click()


def test_the_list_shows_products_the_most_viewed_first(admin: Page, keep_picture: KeepPicture) -> None:
    expect(admin.get_by_role("heading", name="Most viewed items", exact=True)).to_be_visible()
    keep_picture(admin, "most-viewed")
    views = [int(text) for text in admin.locator(".field-viewed").all_inner_texts()]
    assert len(views) > 10
    assert views == sorted(views, reverse=True)
    expect(admin.get_by_text(f"{sum(views)} views of {len(views)} items")).to_be_visible()
    # The most viewed has the longest bar, and none is longer than what it is a share of.
    widths = [path.bounding_box()["width"] for path in admin.locator(".redsess-share path:last-child").all()]
    assert widths == sorted(widths, reverse=True)
    assert 0 < widths[-1] < widths[0] == admin.locator(".redsess-share svg").first.bounding_box()["width"]
    first = items(admin)[0]
    admin.get_by_role("link", name=first, exact=True).click()
    expect(admin.locator("#id_name")).to_have_value(first)


def test_an_item_is_found_by_its_id(admin: Page, keep_picture: KeepPicture) -> None:
    admin.locator("#searchbar").fill(" slow-heron ")
    admin.keyboard.press("Enter")
    expect(admin.locator(".field-name")).to_have_count(1)
    assert items(admin) == ["Slow Heron"]
    keep_picture(admin, "most-viewed-found")
    admin.locator("#searchbar").fill("heron")
    admin.keyboard.press("Enter")
    expect(admin.locator(".field-name")).to_have_count(0)
    keep_picture(admin, "most-viewed-not-found")


def test_an_item_is_reset_after_a_question(admin: Page, keep_picture: KeepPicture) -> None:
    name = items(admin)[0]
    choose(admin, name)
    expect(admin.get_by_text("of 1 item? It begins at 0 again.")).to_be_visible()
    expect(admin.get_by_role("listitem").filter(has_text=name)).to_be_visible()
    keep_picture(admin, "most-viewed-reset")
    admin.get_by_role("link", name="No, take me back").click()
    expect(admin.locator(".field-name a").first).to_have_text(name)
    choose(admin, name)
    admin.get_by_role("button", name="Yes, reset it").click()
    expect(admin.get_by_text("1 item was reset")).to_be_visible()
    assert name not in items(admin)
    keep_picture(admin, "most-viewed-was-reset")


def test_all_are_reset_after_a_question(admin: Page, keep_picture: KeepPicture) -> None:
    admin.get_by_role("link", name="Reset all").click()
    expect(admin.get_by_text("all there are? They begin at 0 again.")).to_be_visible()
    keep_picture(admin, "most-viewed-reset-all")
    admin.get_by_role("button", name="Yes, reset all").click()
    expect(admin.get_by_text("All items were reset")).to_be_visible()
    expect(admin.get_by_text("Nothing has been viewed yet.")).to_be_visible()
    keep_picture(admin, "most-viewed-empty")


def test_an_item_is_reset_with_the_keyboard_alone(admin: Page) -> None:
    name = items(admin)[0]
    row = admin.get_by_role("row").filter(has=admin.get_by_role("link", name=name, exact=True))
    row.get_by_role("checkbox").focus()
    admin.keyboard.press("Space")
    admin.get_by_label("Action:").focus()
    admin.keyboard.press("R")
    admin.keyboard.press("Tab")
    admin.keyboard.press("Enter")
    button = admin.get_by_role("button", name="Yes, reset it")
    expect(button).to_be_visible()
    for _ in range(40):
        if button.evaluate("button => button === document.activeElement"):
            break
        admin.keyboard.press("Tab")
    admin.keyboard.press("Enter")
    expect(admin.get_by_text("1 item was reset")).to_be_visible()
    assert name not in items(admin)


STRANGE = ["<b>bold</b>", "a\0b", "line\nbreak", "cr\r", " blanks ", "_5F", "a/b", "..", "\u202eevil", "漢" * 21]


def test_items_of_any_text_are_reset(visitor: Visitor, server: Server, keep_picture: KeepPicture) -> None:
    have_views(server.client, {item: number + 1 for number, item in enumerate(STRANGE)})
    page = visitor()
    sign_in(page, "admin", "admin")
    page.goto(LIST)
    keep_picture(page, "most-viewed-strange")
    page.get_by_label("Action:").select_option(label="Reset views of selected items")
    for box in page.locator("#result_list tbody input[type=checkbox]").all():
        box.check()
    page.get_by_role("button", name="Run").or_(page.get_by_role("button", name="Go")).click()
    keep_picture(page, "most-viewed-reset-strange")
    page.get_by_role("button", name="Yes, reset them").click()
    expect(page.get_by_text("10 items were reset (55 views).")).to_be_visible()
    assert viewed.total().items == 0


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
def test_pages_fit_their_window(
    visitor: Visitor, server: Server, keep_picture: KeepPicture, width: int, dark: bool
) -> None:
    people.bring_in_shoppers()
    have_views(server.client, {"slow-heron": 123_456, "x" * 64: 700, "marmalade": 5000})
    page = visitor(width, dark)
    sign_in(page, "admin", "admin")
    look_around(page, keep_picture, f"{width}{'-dark' * dark}")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
def test_pages_fit_with_django_unfold(
    unfold_visitor: Visitor, keep_picture: KeepPicture, width: int, dark: bool
) -> None:
    page = unfold_visitor(width, dark)
    sign_in(page, "admin", "admin")
    look_around(page, keep_picture, f"unfold-{width}{'-dark' * dark}")


def look_around(page: Page, keep_picture: KeepPicture, name: str) -> None:
    """Open each page, and see that it is there, and no wider than the window."""
    for path, shown, picture in (
        (LIST, "views of", "list"),
        (LIST + "?q=nothing", "0 most viewed items", "not-found"),
        (LIST + "confirm/", "Do you want to reset", "confirm"),
    ):
        response = page.goto(path)
        assert response is not None
        assert response.ok
        expect(page.locator("body")).to_contain_text(shown)
        keep_picture(page, f"most-viewed-{picture}-{name}")
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), path
