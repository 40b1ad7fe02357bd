"""Times in the time zone of the browser, from the first page on."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Browser, Page, expect

from testproject.people import PASSWORD
from tests.helpers.browsing import LIST, sign_in
from tests.helpers.demo import Demo

pytestmark = pytest.mark.slow

OWN = "/account/sessions/"
ZONE = "Pacific/Chatham"


def visit(browser: Browser, demo: Demo, name: str, password: str, *, script: str = "") -> tuple[Page, list[str]]:
    """Sign in with a browser in that zone. Return a page, and the URLs that it loads from now on."""
    context = browser.new_context(base_url=demo.url, timezone_id=ZONE)
    context.add_init_script(script)
    page, loaded = context.new_page(), list[str]()
    sign_in(page, name, password)
    page.on(
        "response", lambda response: loaded.append(response.url) if response.request.is_navigation_request() else None
    )
    return page, loaded


@pytest.mark.parametrize(("name", "password", "path"), [("elif", PASSWORD, OWN), ("admin", "admin", LIST + "numbers/")])
def test_the_first_page_has_the_zone_of_the_browser(
    browser: Browser, demo_with: Callable[[str], Demo], name: str, password: str, path: str
) -> None:
    # Its policy allows files of the site only.
    demo = demo_with("plain")
    page, loaded = visit(browser, demo, name, password)
    page.goto(path)
    expect(page.get_by_text(ZONE)).to_be_visible()
    [cookie] = [each for each in page.context.cookies() if each["name"] == "redsess_time_zone"]
    assert (cookie["value"], cookie["path"], cookie["sameSite"]) == (ZONE, "/", "Lax")
    assert len(loaded) == 2
    page.reload()
    assert len(loaded) == 3
    page.context.close()


def test_a_site_that_deletes_the_cookie_each_time_has_each_page_loaded_once_more_at_most(
    browser: Browser, demo_with: Callable[[str], Demo]
) -> None:
    delete = "document.cookie = 'redsess_time_zone=; path=/; max-age=0'"
    page, loaded = visit(browser, demo_with("plain"), "elif", PASSWORD, script=delete)
    page.goto(OWN)
    for _ in range(2):
        page.reload()
        expect(page.get_by_text("Times are in the time zone")).to_be_visible()
    assert len(loaded) == 4
    page.context.close()


def test_without_scripts_times_are_in_the_zone_of_the_site(browser: Browser, demo_with: Callable[[str], Demo]) -> None:
    context = browser.new_context(base_url=demo_with("plain").url, timezone_id=ZONE, java_script_enabled=False)
    page = context.new_page()
    sign_in(page, "elif", PASSWORD)
    page.goto(OWN)
    expect(page.get_by_text("Times are in the time zone UTC.")).to_be_visible()
    context.close()
