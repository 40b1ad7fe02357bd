"""Ending sessions in the admin with a browser: clicks, keyboard, phones, themes."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Page, expect

from testproject import people
from tests.browser.test_contrast import DARK, too_weak
from tests.helpers.browsing import LIST, KeepPicture, Visitor, sign_in

pytestmark = pytest.mark.slow


def question(page: Page, search: str) -> None:
    """Go from a search to the page of its first session, and from there to the question."""
    page.goto(f"{LIST}?q={search}")
    href = page.locator("#result_list tbody a[href*='/onlinesession/']").first.get_attribute("href") or ""
    page.goto(href)
    page.get_by_role("link", name="End this session").click()
    expect(page.get_by_text("Do you want to end 1 session?")).to_be_visible()


@pytest.fixture
def admin(visitor: Visitor) -> Page:
    people.bring_in_shoppers()
    page = visitor()
    sign_in(page, "admin", "admin")
    return page


def test_a_reason_is_chosen_with_the_keyboard(admin: Page, visitor: Visitor) -> None:
    question(admin, "kavya")
    admin.get_by_label("Reason").focus()
    admin.keyboard.press("ArrowDown")
    admin.keyboard.press("Tab")
    expect(admin.get_by_label("Message")).to_be_focused()
    admin.keyboard.press("Tab")
    expect(admin.get_by_role("button", name="Yes, end it")).to_be_focused()
    admin.keyboard.press("Tab")
    expect(admin.get_by_role("button", name="End, and deactivate the account")).to_be_focused()
    admin.keyboard.press("Tab")
    expect(admin.get_by_role("link", name="No, take me back")).to_be_focused()
    admin.get_by_label("Message").focus()
    admin.keyboard.press("Enter")
    expect(admin.get_by_text("The session of kavya was ended: ")).to_be_visible()
    assert User.objects.get(username="kavya").is_active


@DARK
@pytest.mark.parametrize("language", ["en", "de", "ar"])
@pytest.mark.parametrize("width", [390, 1280])
def test_the_question_fits_and_can_be_read(
    visitor: Visitor, settings: Any, keep_picture: KeepPicture, width: int, language: str, dark: bool
) -> None:
    people.bring_in_shoppers()
    page = visitor(width, dark)
    sign_in(page, "admin", "admin")
    settings.LANGUAGE_CODE = language
    kavya = User.objects.get(username="kavya").pk
    for name, query in (("everyone", ""), ("one", f"?user={kavya}")):
        page.goto(f"{LIST}confirm/{query}")
        keep_picture(page, f"end-{name}-{language}-{width}{'-dark' * dark}")
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        table = page.locator(".redsess-confirm .redsess-scroll")
        assert table.evaluate("table => table.scrollWidth <= table.clientWidth")
        assert too_weak(page, ".redsess-confirm") == []
    # The harmful button is not what the keyboard reaches first.
    assert page.evaluate("document.activeElement === document.body")


@DARK
def test_the_question_works_with_django_unfold(unfold_visitor: Visitor, keep_picture: KeepPicture, dark: bool) -> None:
    page = unfold_visitor(390 if dark else 1280, dark)
    sign_in(page, "admin", "admin")
    page.goto(f"{LIST}confirm/?q={'daniel' if dark else 'elif'}")
    keep_picture(page, f"end-unfold{'-dark' * dark}")
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    page.get_by_role("button", name="End, and deactivate the account").click()
    expect(page.get_by_text("was deactivated.")).to_be_visible()
