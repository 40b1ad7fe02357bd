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
