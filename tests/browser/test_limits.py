from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from testproject.people import PASSWORD
from tests.helpers.browsing import LIST, KeepPicture, Visitor, go_to, sign_in
from tests.helpers.shop import AskedNobody

pytestmark = pytest.mark.slow

ELSEWHERE = "Your session was ended, because you signed in elsewhere."
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


def expect_to_stay(*pages: Page) -> None:
    """See that the next click in each of these browsers is one of who is signed in, and nothing is told."""
    for page in pages:
        page.get_by_role("link", name="Basket").click()
        expect(page).to_have_url(re.compile("/basket/$"))
        expect(page.get_by_role("button", name="Sign out")).to_be_visible()
        expect(page.get_by_role("status")).to_have_count(0)


def expect_told(text: str, *pages: Page) -> None:
    """See that the next click in each of these browsers tells its user so, who is signed out, and the next does not."""
    for page in pages:
        page.get_by_role("link", name="Basket").click()
        expect(page.get_by_role("status")).to_have_text(text)
        expect(page.get_by_role("link", name="Sign in")).to_be_visible()
        page.get_by_role("link", name="Kites", exact=True).click()
        expect(page.get_by_role("status")).to_have_count(0)


def expect_refused(page: Page) -> None:
    expect(page.get_by_role("alert")).to_have_text(REFUSED)
    expect(page.get_by_role("alert")).to_be_in_viewport(ratio=1)
    expect(page.get_by_label("Username")).to_have_value("alice")
    expect(page.get_by_label("Password")).to_have_value("")


def test_a_fourth_sign_in_ends_the_first_session_and_its_user_reads_why(
    visitor: Visitor, settings: Any, keep_picture: KeepPicture
) -> None:
    have_limit(settings, 3)
    first, *others = signed_in(visitor, 4)
    first.get_by_role("link", name="Your sessions").click()
    expect(first.get_by_role("status")).to_have_text(ELSEWHERE)
    expect(first.get_by_role("button", name="Sign in")).to_be_visible()
    keep_picture(first, "limits-replaced")
    expect_to_stay(*others)
    others[0].get_by_role("link", name="Your sessions").click()
    expect(others[0].locator("main").get_by_role("heading", level=2)).to_have_count(3)
    keep_picture(others[0], "limits-three-sessions")


def test_who_was_replaced_signs_in_again_and_replaces_the_next(visitor: Visitor, settings: Any) -> None:
    have_limit(settings, 3)
    first, second, third, fourth = signed_in(visitor, 4)
    sign_in(first, "alice", PASSWORD)
    expect_told(ELSEWHERE, second)
    expect_to_stay(first, third, fourth)


def test_the_session_not_used_for_longest_is_ended_where_the_policy_says_so(visitor: Visitor, settings: Any) -> None:
    have_limit(settings, 2, "end_least_recent")
    settings.REDSESS = {**settings.REDSESS, "TOUCH_INTERVAL": 0}
    first, second = signed_in(visitor, 2)
    expect_to_stay(first)
    [third] = signed_in(visitor, 1)
    expect_told(ELSEWHERE, second)
    expect_to_stay(first, third)


def test_a_user_with_one_device_is_signed_in_on_the_latest_only(visitor: Visitor, settings: Any) -> None:
    have_limit(settings, 1)
    laptop, phone = visitor(), visitor(360)
    sign_in(laptop, "alice", PASSWORD)
    sign_in(phone, "alice", PASSWORD)
    expect_told(ELSEWHERE, laptop)
    phone.get_by_role("link", name="Your sessions").click()
    expect(phone.get_by_text("You are signed in on this device only.")).to_be_visible()
    sign_in(laptop, "alice", PASSWORD)
    expect_told(ELSEWHERE, phone)
    expect_to_stay(laptop)


def test_a_limit_is_each_users_own(visitor: Visitor, settings: Any) -> None:
    have_limit(settings, 1)
    [alice], [admin] = signed_in(visitor, 1), signed_in(visitor, 1, "admin", "admin")
    expect_to_stay(alice, admin)


def test_a_refused_user_signs_in_after_signing_out_elsewhere(
    visitor: Visitor, refusing: None, keep_picture: KeepPicture
) -> None:
    first, *others = signed_in(visitor, 3)
    fourth = visitor()
    send_form(fourth)
    expect_refused(fourth)
    expect(fourth).to_have_title(re.compile("^Error: Sign in"))
    keep_picture(fourth, "limits-refused")
    expect_to_stay(first, *others)

    first.get_by_role("button", name="Sign out").click()
    expect(first.get_by_role("link", name="Sign in")).to_be_visible()
    fourth.get_by_label("Password").fill(PASSWORD)
    fourth.get_by_role("button", name="Sign in").click()
    expect(fourth.get_by_text("Signed in as alice")).to_be_visible()
    expect_to_stay(fourth, *others)


def test_a_refused_guest_keeps_the_basket_and_takes_it_along_in_the_end(visitor: Visitor, refusing: None) -> None:
    first, *_ = signed_in(visitor, 3)
    guest = visitor()
    guest.goto("/products/rock-pool/")
    guest.get_by_role("button", name="Add to the basket").click()
    send_form(guest)
    expect_refused(guest)
    expect(guest.get_by_role("link", name="Basket")).to_contain_text("1")

    first.get_by_role("link", name="Your sessions").click()
    first.locator("main").get_by_role("button", name="End the session").last.click()
    expect(first.get_by_role("status")).to_contain_text("The session was ended")
    send_form(guest)
    expect(guest.get_by_role("button", name="Sign out")).to_be_visible()
    guest.get_by_role("link", name="Basket").click()
    expect(guest.locator("main").get_by_role("link", name="Rock Pool").first).to_be_visible()


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


def test_an_administrator_ends_one_of_three_sessions_and_the_fourth_can_sign_in(
    visitor: Visitor, refusing: None
) -> None:
    first, *others = signed_in(visitor, 3)
    fourth = visitor()
    send_form(fourth)
    expect_refused(fourth)

    [admin] = signed_in(visitor, 1, "admin", "admin")
    admin.goto(LIST + "?q=alice")
    rows = admin.get_by_role("row").filter(has=admin.get_by_role("link", name="alice"))
    expect(rows).to_have_count(3)
    # The newest sign-in is on top.
    rows.last.get_by_role("checkbox").check()
    admin.get_by_label("Action:").select_option(label="End selected sessions")
    admin.get_by_role("button", name="Run").or_(admin.get_by_role("button", name="Go")).click()
    admin.get_by_role("button", name="Yes, end it").click()
    expect(admin.get_by_text("The session of alice was ended: ")).to_be_visible()

    fourth.get_by_label("Password").fill(PASSWORD)
    fourth.get_by_role("button", name="Sign in").click()
    expect(fourth.get_by_role("button", name="Sign out")).to_be_visible()
    expect_told("Your session was ended.", first)
    expect_to_stay(fourth, *others)


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


def test_a_changed_password_ends_the_other_sessions_and_they_read_it(visitor: Visitor, settings: Any) -> None:
    have_limit(settings, 3)
    here, *others = signed_in(visitor, 3, "admin", "admin")
    here.get_by_role("link", name="Admin").click()
    here.get_by_role("link", name="Change password").click()
    here.get_by_label("Old password").fill("admin")
    here.get_by_label("New password:", exact=True).fill("another one")
    here.get_by_label("New password confirmation").fill("another one")
    here.get_by_role("button", name="Change my password").click()
    expect(here.get_by_text("Your password was changed.")).to_be_visible()
    here.goto("/")
    expect_to_stay(here)
    expect_told("Your session was ended. Your password was changed.", *others)


def test_a_deactivated_user_is_signed_out_everywhere_and_reads_it(
    visitor: Visitor, settings: Any, keep_picture: KeepPicture
) -> None:
    have_limit(settings, 3)
    pages = signed_in(visitor, 3)
    [admin] = signed_in(visitor, 1, "admin", "admin")
    admin.goto("/admin/auth/user/")
    admin.get_by_role("link", name="alice", exact=True).click()
    admin.get_by_label("Active", exact=True).uncheck()
    admin.get_by_role("button", name="Save", exact=True).click()
    expect(admin.get_by_text("was changed successfully")).to_be_visible()
    expect_told("Your session was ended. Your account was deactivated.", *pages)
    send_form(pages[0])
    expect(pages[0].get_by_role("alert")).to_contain_text("Please enter a correct username and password.")
    keep_picture(pages[0], "limits-deactivated")
    admin.goto(LIST)
    expect(admin.get_by_role("link", name="alice", exact=True)).to_have_count(0)
    admin.goto("/")
    expect_to_stay(admin)
