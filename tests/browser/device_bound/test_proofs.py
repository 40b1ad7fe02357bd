"""A browser whose session is bound to its device, and which proves it before its requests."""

import re
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect

from testproject.people import PASSWORD
from tests.browser.device_bound.serving import (
    IDP,
    PROOF,
    REFRESH,
    REGISTER,
    SHOP,
    SUBDOMAIN,
    Site,
    address,
    cookies_of,
    drop_proof,
    is_bound,
)
from tests.helpers.browsing import sign_in
from tests.helpers.proxy import Proxy
from tests.helpers.running import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.django_db]


def shows(page: Page, text: str) -> None:
    expect(page.locator("main")).to_have_text(text)


def leave_for(page: Page, path: str) -> None:
    """Let the page go elsewhere, and do not wait until it is there."""
    page.evaluate("path => { setTimeout(() => location.assign(path)) }", path)


def test_a_sign_in_is_bound_though_its_answer_is_a_redirect(page: Page, site: Site) -> None:
    shows(page, "alice")
    sent = list[tuple[str, str, int]]()

    def answered() -> bool:
        sent.extend((each.path, each.method, each.status) for each in site.requests())
        return ("/me/", "GET", 200) in sent

    # The browser may have bound the session before its page was answered.
    wait_until(answered)
    assert ("/login/", "POST", 302) in sent
    assert sent.count((REGISTER, "POST", 200)) == 1
    [proof] = [each for each in page.context.cookies() if each["name"] == PROOF]  # type: ignore[typeddict-item]
    assert proof["secure"]
    assert proof["httpOnly"]
    # A proof that is there is enough.
    assert ("/me/", "GET", 200) in sent
    assert REFRESH not in {path for path, _, _ in sent}


def load(page: Page) -> None:
    page.goto("/me/")
    shows(page, "alice")


def send_form(page: Page) -> None:
    page.get_by_role("button", name="Add").first.click()
    expect(page).to_have_url(re.compile("/basket/$"))


def fetch(page: Page) -> None:
    assert page.evaluate("fetch('/who/').then(answer => answer.text())") == "alice"


def fetch_several(page: Page) -> None:
    six = "Promise.all([1, 2, 3, 4, 5, 6].map(() => fetch('/who/').then(answer => answer.text())))"
    assert page.evaluate(six) == ["alice"] * 6


def open_socket(page: Page) -> None:
    said = page.evaluate(
        """new Promise((resolve, reject) => {
            const socket = new WebSocket(`wss://${location.host}/greeting/`);
            socket.onmessage = event => resolve(event.data);
            socket.onclose = () => reject("closed");
        })"""
    )
    assert said == '{"user": "alice"}'


def download(page: Page) -> None:
    with page.expect_download() as saved:
        leave_for(page, "/download/")
    assert saved.value.path().read_text() == "invoice of alice"


@pytest.mark.parametrize("do", [load, send_form, fetch, fetch_several, open_socket, download])
def test_what_the_page_does_waits_for_one_proof(page: Page, site: Site, do: Callable[[Page], None]) -> None:
    page.goto("/")
    page.locator("main a[href^='/products/']").first.click()
    expect(page.get_by_role("button", name="Add").first).to_be_visible()
    drop_proof(page)
    site.requests()
    do(page)
    assert is_bound(page)
    sent = site.requests()
    assert [(each.jws, each.status) for each in sent if each.path == REFRESH] == [(False, 403), (True, 200)]
    assert {each.status for each in sent if each.path != REFRESH} <= {101, 200, 302}


def test_a_link_on_another_site_opens_the_page(later_page: Page, site: Site, elsewhere: Callable[[str], str]) -> None:
    later_page.goto(elsewhere("/me/"))
    drop_proof(later_page)
    site.requests()
    later_page.get_by_role("link", name="There").click()
    shows(later_page, "alice")
    assert [each.status for each in site.requests() if each.path == "/me/"] == [401, 200]


def test_a_link_on_another_site_starts_a_download(later_page: Page, elsewhere: Callable[[str], str]) -> None:
    later_page.goto(elsewhere("/download/"))
    drop_proof(later_page)
    with later_page.expect_download() as saved:
        later_page.get_by_role("link", name="There").click()
    assert saved.value.path().read_text() == "invoice of alice"


def test_a_code_of_an_identity_provider_is_used_once(
    later_page: Page, site: Site, elsewhere: Callable[[str], str]
) -> None:
    later_page.goto(f"/to-idp/?idp={quote(elsewhere('/callback/?code=7'))}")
    drop_proof(later_page)
    site.requests()
    later_page.get_by_role("link", name="There").click()
    shows(later_page, "alice came back with 7")
    assert [each.status for each in site.requests() if each.path == "/callback/"] == [401, 200]


def test_a_chain_of_redirects_over_an_identity_provider_comes_back(page: Page, site: Site) -> None:
    drop_proof(page)
    provider = address(f"/idp/authorize/?to={quote(address('/callback/?code=8'))}", host=IDP)
    leave_for(page, f"/to-idp/?idp={quote(provider)}")
    shows(page, "alice came back with 8")


def test_two_tabs_share_one_proof(page: Page, site: Site) -> None:
    other = page.context.new_page()
    other.goto("/me/")
    drop_proof(page)
    site.requests()
    with site.holding_challenges() as asked:
        leave_for(page, "/me/?tab=1")
        wait_until(asked)
        leave_for(other, "/me/?tab=2")
    for tab, number in ((page, 1), (other, 2)):
        expect(tab).to_have_url(address(f"/me/?tab={number}"))
        shows(tab, "alice")
    assert [(each.jws, each.status) for each in site.requests() if each.path == REFRESH] == [(False, 403), (True, 200)]


def test_a_proof_for_one_process_is_taken_by_the_next(page: Page, site: Site) -> None:
    drop_proof(page)
    with site.holding_challenges() as asked:
        leave_for(page, "/me/")
        wait_until(asked)
        site.replace()
    shows(page, "alice")
    assert is_bound(page)


def test_an_outage_is_an_outage_and_the_binding_outlasts_it(page: Page, site: Site, outage: Proxy) -> None:
    drop_proof(page)
    site.requests()
    outage.refuse()
    answer = page.goto("/me/")
    assert answer is not None
    assert answer.status == 503
    sent = site.requests()
    assert {each.status for each in sent} == {503}
    assert [each.skipped.partition(";")[0] for each in sent if each.path == "/me/"] == ["server_error"]
    outage.restore()
    wait_until(lambda: page.goto("/me/").status == 200)  # type: ignore[union-attr]
    shows(page, "alice")
    assert is_bound(page)


def test_a_page_whose_refresh_failed_tries_again_by_itself(later_page: Page, site: Site) -> None:
    drop_proof(later_page)
    with site.failing_refreshes():
        answer = later_page.goto("/me/")
        assert answer is not None
        assert answer.status == 401
    # After five seconds.
    expect(later_page.locator("main")).to_have_text("alice", timeout=30_000)
    assert is_bound(later_page)


def test_a_proof_that_is_over_by_the_stores_clock_is_replaced(
    page: Page, site: Site, pass_time: Callable[[int], None]
) -> None:
    """A browser refreshes by its own clock, which may be late."""
    pass_time(700)
    page.goto("/me/")
    shows(page, "alice")


@pytest.mark.parametrize("cookie_path", ["/", "/below/"])
def test_a_site_below_a_path_binds_there(
    kept_sites: Callable[..., Site], site: Site, visitor: Callable[..., Page], cookie_path: str
) -> None:
    below = site if cookie_path == "/" else kept_sites(COOKIE_PATH=cookie_path)
    page = visitor(below)
    sign_in_below(page)
    wait_until(lambda: is_bound(page))
    drop_proof(page)
    page.goto("/below/me/")
    shows(page, "alice")
    sent = [(each.path, each.status) for each in below.requests() if each.path.endswith((REGISTER, REFRESH))]
    assert sent == [(f"/below{path}", status) for path, status in ((REGISTER, 200), (REFRESH, 403), (REFRESH, 200))]


def sign_in_below(page: Page) -> None:
    page.goto("/below/login/")
    page.get_by_label("Username").fill("alice")
    page.get_by_label("Password").fill(PASSWORD)
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Sign out")).to_be_visible()


def test_a_sign_in_on_a_subdomain_binds_on_the_whole_domain(
    kept_sites: Callable[..., Site], site: Site, visitor: Callable[..., Page]
) -> None:
    wide = kept_sites(COOKIE_DOMAIN=SHOP)
    page = visitor(wide, host=SUBDOMAIN)
    sign_in(page, "alice", PASSWORD)
    wait_until(lambda: is_bound(page))
    for host in (SUBDOMAIN, SHOP):
        drop_proof(page, f".{SHOP}")
        page.goto(address("/me/", host=host))
        shows(page, "alice")
    assert [each.host for each in wide.requests() if each.path == REFRESH and each.jws] != []


def test_a_browser_that_is_started_again_has_its_key(
    start_browser: Callable[[], Page], pass_time: Callable[[int], None]
) -> None:
    page = start_browser()
    sign_in(page, "alice", PASSWORD)
    wait_until(lambda: is_bound(page))
    pass_time(20)
    page = start_browser()
    drop_proof(page)
    load(page)
    assert is_bound(page)


def test_a_browser_without_the_feature_goes_on_as_before(site: Site, visitor: Callable[..., Page]) -> None:
    page = visitor(site, binds=False)
    sign_in(page, "alice", PASSWORD)
    load(page)
    assert not is_bound(page)
    assert {each.path for each in site.requests()}.isdisjoint({REGISTER, REFRESH})


def test_who_signs_in_as_somebody_else_is_bound_anew(later_page: Page, site: Site) -> None:
    site.requests()
    sign_in(later_page, "bob", PASSWORD)
    wait_until(lambda: REGISTER in {each.path for each in site.requests()})
    later_page.goto("/me/")
    drop_proof(later_page)
    later_page.goto("/me/")
    shows(later_page, "bob")
    assert (REFRESH, 200) in {(each.path, each.status) for each in site.requests()}


def test_a_browser_that_lost_its_key_signs_in_again(
    later_page: Page, site: Site, visitor: Callable[..., Page], keep_picture: Any
) -> None:
    other = visitor(site)
    other.context.add_cookies([{"name": "sessionid", "value": cookies_of(later_page)["sessionid"], "url": address()}])
    answer = other.goto("/me/")
    assert answer is not None
    assert answer.status == 401
    keep_picture(other, "device-bound-not-proven")
    other.get_by_role("link", name="Sign in").first.click()
    other.get_by_label("Username").fill("alice")
    other.get_by_label("Password").fill(PASSWORD)
    other.keyboard.press("Enter")
    wait_until(lambda: is_bound(other))
    drop_proof(other)
    load(other)
    load(later_page)
