import re
from itertools import pairwise
from typing import Any

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Locator, Page, expect

from django_redsess import cleaning, viewed
from testproject import people
from testproject.servers import Server
from tests.helpers.browsing import LIST, MOST_VIEWED, KeepPicture, Visitor, go_to, pages_of_admin, sign_in
from tests.helpers.store import have_views

pytestmark = pytest.mark.slow


@pytest.fixture
def admin(visitor: Visitor) -> Page:
    """An administrator who looks at a shop with a dozen shoppers."""
    people.bring_in_shoppers()
    cleaning.take_sample()
    page = visitor()
    sign_in(page, "admin", "admin")
    page.goto(LIST)
    return page


def row_of(page: Page, name: str) -> Locator:
    """Return the row of this user's session."""
    return page.get_by_role("row").filter(has=page.locator("bdi", has_text=re.compile(f"^{name}$")))


def test_a_session_is_ended_with_the_keyboard_alone(admin: Page) -> None:
    row_of(admin, "hugo").get_by_role("checkbox").focus()
    admin.keyboard.press("Space")
    admin.get_by_label("Action:").focus()
    admin.keyboard.press("E")
    admin.keyboard.press("Tab")
    admin.keyboard.press("Enter")
    expect(admin.get_by_text("Do you want to end 1 session?")).to_be_visible()
    admin.get_by_label("Reason").focus()
    admin.keyboard.press("ArrowDown")
    blocks = [f"End, and block for {time}" for time in ("an hour", "a day", "a week")]
    fields = [admin.get_by_label("Message to the user"), admin.get_by_label("Internal note")]
    ways = [admin.get_by_role("button", name="Yes, end it"), admin.get_by_role("link", name="No, take me back")]
    others = [admin.get_by_role("button", name=name) for name in (*blocks, "Deactivate the account…")]
    for reached in (*fields, *ways, *others):
        admin.keyboard.press("Tab")
        expect(reached).to_be_focused()
    # Enter in a field presses the button that neither blocks nor deactivates.
    admin.get_by_label("Message to the user").focus()
    admin.keyboard.press("Enter")
    expect(admin.get_by_text("The session of hugo was ended: ")).to_be_visible()
    assert User.objects.get(username="hugo").is_active


def test_a_user_who_is_not_signed_in_is_blocked_and_let_in_with_the_keyboard_alone(admin: Page) -> None:
    User.objects.create_user("otto")
    admin.goto(f"{LIST}?q=otto")
    link = admin.get_by_role("link", name="Block the user")
    expect(link).to_have_accessible_description("otto is not signed in.")
    for reached, said in (
        (link, "You can block otto for a time."),
        (admin.get_by_role("button", name="Block for a day"), "otto can’t sign in until"),
        (admin.get_by_role("button", name="Lift the block of otto"), "otto can sign in again."),
    ):
        reached.focus()
        admin.keyboard.press("Enter")
        expect(admin.get_by_text(said)).to_be_visible()
    expect(link).to_be_visible()


STRANGE = ["<b>bold</b>", "a\0b", "line\nbreak", "cr\r", " blanks ", "_5F", "a/b", "..", "\u202eevil", "漢" * 21]


def test_items_of_any_text_are_reset_with_the_keyboard(visitor: Visitor, server: Server) -> None:
    have_views(server.client, {item: number + 1 for number, item in enumerate(STRANGE)})
    page = visitor()
    sign_in(page, "admin", "admin")
    page.goto(MOST_VIEWED)
    page.get_by_label("Action:").select_option(label="Reset views of selected items")
    for box in page.locator("#result_list tbody input[type=checkbox]").all():
        box.check()
    page.get_by_role("button", name="Run").or_(page.get_by_role("button", name="Go")).click()
    go_to(page, page.get_by_role("button", name="Yes, reset them"))
    expect(page.get_by_text("10 items were reset (55 views).")).to_be_visible()
    assert viewed.total().items == 0


PROBLEMS = """
[...document.querySelectorAll("#result_list :is(a, input), .redsess-about a, .redsess-end-all a")]
    .filter(each => each.checkVisibility())
    .filter(each => each.offsetHeight < 24 || each.getBoundingClientRect().right > innerWidth)
    .map(each => each.outerHTML)
"""


@pytest.mark.parametrize("language", ["en", "de", "ar"])
def test_on_a_phone_each_row_is_a_card(admin: Page, settings: Any, keep_picture: KeepPicture, language: str) -> None:
    settings.LANGUAGE_CODE = language
    admin.goto(LIST)
    for width in (320, 390, 767):
        admin.set_viewport_size({"width": width, "height": 800})
        keep_picture(admin, f"admin-cards-{width}-{language}")
        assert admin.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        assert admin.locator(".results").evaluate("results => results.scrollWidth <= results.clientWidth")
        assert admin.evaluate(PROBLEMS) == []
        card = admin.locator("#result_list tbody tr").last
        expect(card.locator(".field-signed_in .redsess-label")).to_be_visible()
        expect(card.locator(".field-seen .redsess-label").first).to_be_visible()
        # Each part is below the other, and the card is narrower than the window.
        tops = [card.locator(f".field-{name}").bounding_box() for name in ("user", "client", "signed_in", "seen")]
        assert all(upper and lower and upper["y"] < lower["y"] for upper, lower in pairwise(tops))


def test_rows_tell_apart_what_they_are_about_and_show_the_focus(admin: Page) -> None:
    expect(admin.get_by_role("rowheader", name="jun Safari 26 on iPhone, 203.0.113.201")).to_have_count(1)
    expect(admin.get_by_role("checkbox", name="jun: Safari 26 on iPhone, 203.0.113.201")).to_have_count(1)
    end = admin.get_by_role("link", name="End the session of jun: Safari 26 on iPhone, 203.0.113.201")
    row = row_of(admin, "jun")
    for link in (row.locator(".field-user a"), row.locator(".field-client a"), end):
        before = link.evaluate("link => getComputedStyle(link).outlineStyle")
        link.focus()
        admin.keyboard.press("Shift+Tab")
        admin.keyboard.press("Tab")
        expect(link).to_be_focused()
        assert (before, link.evaluate("link => getComputedStyle(link).outlineStyle")) == ("none", "auto")


def test_keys_of_data_are_read_from_left_to_right(admin: Page) -> None:
    admin.set_extra_http_headers({"Accept-Language": "ar"})
    [session] = [path for path, name in pages_of_admin(admin) if name == "session"]
    admin.goto(session)
    admin.locator("details").evaluate_all("all => all.forEach(one => { one.open = true })")
    underscore, letter = admin.get_by_text("_auth_user_id", exact=True).evaluate(
        """cell => {
            const text = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT).nextNode(), range = new Range()
            return [0, 1].map(at => {
                range.setStart(text, at)
                range.setEnd(text, at + 1)
                return range.getBoundingClientRect().x
            })
        }"""
    )
    assert underscore < letter
