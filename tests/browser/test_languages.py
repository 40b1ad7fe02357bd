"""The pages in each language: they fit their window, and begin at its right side where that is how one reads."""

from __future__ import annotations

import pytest
from django.utils import translation

from django_redsess import cleaning
from testproject import people
from tests.helpers.browsing import LIST, KeepPicture, Visitor, pages_of_admin, sign_in
from tests.helpers.texts import LANGUAGES

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("language", LANGUAGES)
def test_pages_fit_in_each_language(visitor: Visitor, keep_picture: KeepPicture, language: str) -> None:
    people.bring_in_shoppers()
    cleaning.sample()
    page = visitor()
    sign_in(page, "admin", "admin")
    page.set_extra_http_headers({"Accept-Language": translation.to_language(language)})
    for path, name in (*pages_of_admin(page), ("/account/sessions/", "own")):
        page.goto(path)
        keep_picture(page, f"{language}-{name}")
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), path
        tables = page.locator(".results").evaluate_all("all => all.every(one => one.scrollWidth <= one.clientWidth)")
        assert tables, path
        if name != "own":  # It has the shop's frame, which is English.
            direction = page.evaluate("getComputedStyle(document.querySelector('#content')).direction")
            assert direction == ("rtl" if language == "ar" else "ltr")


def test_keys_of_data_are_read_from_left_to_right(visitor: Visitor) -> None:
    people.bring_in_shoppers()
    page = visitor()
    sign_in(page, "admin", "admin")
    page.set_extra_http_headers({"Accept-Language": "ar"})
    page.goto(LIST)
    page.goto(page.locator("#result_list a[href*='onlinesession'][href*='/change/']").last.get_attribute("href") or "")
    page.locator("details").evaluate_all("all => all.forEach(one => { one.open = true })")
    underscore, letter = page.get_by_text("_auth_user_id", exact=True).evaluate(
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
