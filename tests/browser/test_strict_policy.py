"""No page needs more than its own files: a strict Content-Security-Policy forbids nothing that it has."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import redis
from playwright.sync_api import Browser, Page, expect

from tests.helpers.browsing import LIST, KeepPicture, sign_in, visiting
from tests.helpers.demo import Demo, running

pytestmark = pytest.mark.slow

LISTEN = """
window.refused = [];
document.addEventListener("securitypolicyviolation", event => window.refused.push(
    [event.violatedDirective, event.blockedURI, event.sourceFile, event.sample].join(" ")))
"""


@pytest.fixture
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    with running(
        tmp_path_factory.mktemp("strict"), DJANGO_SETTINGS_MODULE="tests.helpers.site.settings.strict"
    ) as demo:
        yield demo


@pytest.fixture
def strict_visitor(browser: Browser, strict: Demo) -> Iterator[Callable[..., Page]]:
    """Do as ``visitor`` does, for the demo with the policy."""
    with visiting(browser, strict.url) as open_page:
        yield open_page


def refused(page: Page) -> list[str]:
    """What the policy has forbidden on the page so far."""
    found: list[str] = page.evaluate("window.refused")
    return found


def test_nothing_of_a_page_is_refused(
    strict: Demo, strict_visitor: Callable[..., Page], keep_picture: KeepPicture
) -> None:
    page = strict_visitor()
    page.context.add_init_script(LISTEN)
    sign_in(page, "admin", "admin")
    page.goto(LIST)
    session = page.locator(".field-user a").last.get_attribute("href") or ""
    page.goto(session)
    user = page.locator("a[href*='/auth/user/'][href$='/change/']").first.get_attribute("href") or ""
    most_viewed = "/admin/django_redsess/popularitem/"
    for path, shown in (
        (LIST, "As of"),
        (LIST + "numbers/", "Online in the last 24 hours"),
        (LIST + "?who=everyone", "online sessions"),
        (session, "Viewed items"),
        (LIST + "confirm/", "Do you want to end"),
        (most_viewed, "views of"),
        (most_viewed + "confirm/", "Do you want to reset"),
        (user, "End all of them"),
        ("/account/sessions/", "Your sessions"),
    ):
        response = page.goto(path)
        assert response is not None
        assert response.headers["content-security-policy"] == "default-src 'self'; style-src 'self'"
        expect(page.locator("body")).to_contain_text(shown)
        assert refused(page) == [], path
        keep_picture(page, f"strict-{path.strip('/').replace('/', '-').partition('?')[0]}")
    assert page.evaluate("getComputedStyle(document.body).maxWidth") != "none"

    redis.Redis.from_url(strict.redis_url).shutdown(nosave=True)
    response = page.goto("/account/sessions/")
    assert response is not None
    assert response.status == 503
    expect(page.get_by_role("heading", name="Not available for the moment")).to_be_visible()
    assert refused(page) == []
    keep_picture(page, "strict-503")
    # Something that the policy forbids is noticed.
    page.evaluate("document.body.insertAdjacentHTML('beforeend', '<p style=\"color: red\">')")
    assert refused(page)
