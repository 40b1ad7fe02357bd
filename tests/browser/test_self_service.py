from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from playwright.sync_api import expect

from testproject import people
from testproject.people import PASSWORD
from tests.helpers.browsing import KeepPicture, Visitor, go_to, sign_in
from tests.helpers.shop import use_our_templates

pytestmark = pytest.mark.slow

LIST = "/account/sessions/"


def sign_in_elsewhere(username: str) -> None:
    for address, user_agent in (
        ("198.51.100.23", people.SAFARI_IPHONE),
        ("2001:db8:90:1200:ffff:1234:5678:1f", people.FIREFOX_LINUX),
        ("192.0.2.66", people.EDGE_WINDOWS),
        ("", 300 * "x"),
    ):
        browser = Client(headers={"user-agent": user_agent}, REMOTE_ADDR=address)
        browser.post(reverse("login"), {"username": username, "password": PASSWORD})


def test_all_other_sessions_are_ended_with_the_keyboard_alone(visitor: Visitor) -> None:
    here, there = visitor(), visitor()
    for page in (here, there):
        sign_in(page, "alice", PASSWORD)
    sign_in_elsewhere("alice")
    here.goto(LIST)
    here.get_by_role("link", name="Skip to the content").focus()
    here.keyboard.press("Enter")
    # The sessions come first, each with its own button.
    here.keyboard.press("Tab")
    expect(here.get_by_role("button", name="End the session").first).to_be_focused()
    go_to(here, here.get_by_role("button", name="End all other sessions"))
    expect(here.get_by_role("status")).to_contain_text("5 other sessions were ended.")
    there.goto(LIST)
    expect(there.get_by_role("button", name="Sign in")).to_be_visible()


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize("look", ["shop", "plain"])
def test_the_list_fits_its_window(
    visitor: Visitor, keep_picture: KeepPicture, settings: Any, look: str, width: int, dark: bool
) -> None:
    page = visitor(width, dark)
    sign_in(page, "alice", PASSWORD)
    sign_in_elsewhere("alice")
    if look == "plain":
        use_our_templates(settings)
    page.goto(LIST)
    expect(page.get_by_role("heading", level=2)).to_have_count(5)
    keep_picture(page, f"self-service-{look}-{width}{'-dark' * dark}")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
