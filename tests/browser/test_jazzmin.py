"""The pages of the admin with the looks of django-jazzmin fit their window, and can be read."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.helpers.browsing import LIST, MOST_VIEWED, KeepPicture, Visitor, pages_of_admin, sign_in

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
def test_pages_fit_with_django_jazzmin(
    jazzmin_visitor: Visitor, keep_picture: KeepPicture, width: int, dark: bool
) -> None:
    page = jazzmin_visitor(width, dark)
    sign_in(page, "admin", "admin")
    for path, name in (*pages_of_admin(page), (MOST_VIEWED + "confirm/", "reset")):
        page.goto(path)
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), path
        keep_picture(page, f"jazzmin-{name}-{width}{'-dark' * dark}")


def test_a_session_is_found_by_a_filter_and_ended(jazzmin_visitor: Visitor) -> None:
    page = jazzmin_visitor()
    sign_in(page, "admin", "admin")
    page.goto(LIST + "?q=chiara")
    choose_filter(page, "active", "5m")
    page.wait_for_url("**active=5m**")
    expect(page.locator(".field-user")).to_have_count(1)
    page.locator("#result_list tbody input[type=checkbox]").first.check()
    page.locator("select[name=action]").select_option(label="End selected sessions", force=True)
    page.get_by_role("button", name="Go").click()
    page.get_by_role("button", name="Yes, end it").click()
    expect(page.get_by_text("The session of chiara was ended: ")).to_be_visible()


def choose_filter(page: Page, name: str, value: str) -> None:
    """Choose an option. The theme hides its select behind one of its own, which is no part of this test."""
    page.locator(f"select[data-name={name}]").select_option(value=value, force=True)
    page.get_by_role("button", name="Search").click()
