"""The scripts of the guide to the JSON API, in a page of the site; and the page that describes the API."""

import re
from typing import Any

import pytest
import redis as redis_py
from django.contrib.auth.models import User
from playwright.sync_api import expect

from django_redsess import online
from tests.helpers.browsing import KeepPicture, Visitor, go_to, sign_in
from tests.helpers.store import make_older
from tests.project.docs.pages import DOCS, blocks

pytestmark = pytest.mark.slow

SCRIPTS = "".join(block.text for block in blocks(DOCS / "howto" / "json.rst") if block.language == "javascript")


def test_the_scripts_of_the_guide_list_sessions_page_by_page_and_end_them(
    visitor: Visitor, redis: redis_py.Redis
) -> None:
    pages = [visitor() for _ in range(3)]
    for page in pages:
        sign_in(page, "admin", "admin")
    here, user = pages[0], User.objects.get(username="admin")
    own = here.evaluate(f"async () => {{ {SCRIPTS} return (await call('me/sessions')).sessions }}")
    listed = here.evaluate(
        f"async () => {{ {SCRIPTS} const all = []; "
        "for await (const session of sessions({ limit: 2, order: 'created_at' })) all.push(session.id); return all }"
    )
    assert listed == [session.sid for session in reversed(online.of_user(user))]
    for sid in listed:
        make_older(redis, sid, 301)
    asked: list[Any] = []
    here.expose_function("ask", lambda: asked.append(1) or "admin")
    assert here.evaluate(f"async () => {{ {SCRIPTS} return await endOthers(ask) }}") == {
        "ended": 2,
        "may_return": False,
    }
    assert (asked, len(online.of_user(user))) == ([1], 1)
    assert sorted(session["id"] for session in own) == sorted(listed)
    wrong = here.evaluate(
        f"async () => {{ {SCRIPTS} try {{ await call('sessions?limit=0') }} "
        "catch (problem) { return [problem.status, problem.message] } }"
    )
    assert wrong == [422, "limit must be greater than or equal to 1."]


@pytest.mark.parametrize("width", [360, 1280])
def test_the_page_of_the_api_is_read_by_keyboard_and_fits(
    visitor: Visitor, keep_picture: KeepPicture, width: int
) -> None:
    page = visitor(width)
    page.goto("/api/v1/")
    text = page.get_by_text("Without parameters, all sessions that are signed in")
    expect(text).not_to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    go_to(page, page.locator('[id$="-listSessions"] button').first)
    expect(text).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    keep_picture(page, f"api-{width}")


def test_the_page_of_the_api_sends_requests_and_is_dark_where_the_browser_is(visitor: Visitor) -> None:
    page = visitor()
    page.goto("/api/v1/")
    page.get_by_role("link", name="Sign in").click()
    page.get_by_label("Username").fill("admin")
    page.get_by_label("Password").fill("admin")
    page.keyboard.press("Enter")
    expect(page.get_by_text("Signed in as admin.")).to_be_visible()
    color = "getComputedStyle(document.documentElement).backgroundColor"
    light = page.evaluate(color)
    page.emulate_media(color_scheme="dark")
    assert page.evaluate(color) != light
    operation = page.locator('[id$="-endOwnSessions"]')
    operation.get_by_role("button").first.click()
    operation.get_by_role("button", name="Try it out").click()
    operation.get_by_role("button", name="Execute").click()
    # With the CSRF token, else it would be 403.
    expect(operation.locator(".live-responses-table .response-col_status").last).to_contain_text("200")
    page.get_by_role("link", name="Administration").click()
    expect(page).to_have_title(re.compile("Site administration"))
