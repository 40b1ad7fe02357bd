"""No page needs more than its own files: a strict Content-Security-Policy forbids nothing that it has."""

from collections.abc import Callable

import pytest
import redis
from playwright.sync_api import Page, expect

from tests.helpers.browsing import LIST, MOST_VIEWED, Visitor, pages_of_admin, sign_in
from tests.helpers.demo import Demo

pytestmark = pytest.mark.slow

LISTEN = """
window.refused = [];
document.addEventListener("securitypolicyviolation", event => window.refused.push(
    [event.violatedDirective, event.blockedURI, event.sourceFile, event.sample].join(" ")))
"""


def refused(page: Page) -> list[str]:
    """What the policy has forbidden on the page so far."""
    found: list[str] = page.evaluate("window.refused")
    return found


def test_nothing_of_a_page_is_refused(demo_with: Callable[[str], Demo], demo_visitor: Callable[[str], Visitor]) -> None:
    page = demo_visitor("strict")()
    page.context.add_init_script(LISTEN)
    sign_in(page, "admin", "admin")
    paths = [path for path, _ in pages_of_admin(page)]
    for path in (*paths, LIST + "numbers/", MOST_VIEWED + "confirm/", "/api/v1/", "/account/sessions/"):
        response = page.goto(path)
        assert response is not None
        assert response.headers["content-security-policy"] == "default-src 'self'; style-src 'self'"
        assert response.ok, path
        assert refused(page) == [], path
    assert page.evaluate("getComputedStyle(document.body).maxWidth") != "none"

    redis.Redis.from_url(demo_with("strict").redis_url).shutdown(nosave=True)
    response = page.goto("/account/sessions/")
    assert response is not None
    assert response.status == 503
    expect(page.get_by_role("heading", name="Not available for the moment")).to_be_visible()
    assert refused(page) == []
    # Something that the policy forbids is noticed.
    page.evaluate("document.body.insertAdjacentHTML('beforeend', '<p style=\"color: red\">')")
    assert refused(page)
