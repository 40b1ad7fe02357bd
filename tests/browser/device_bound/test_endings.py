"""How bound sessions end in the browser that has them open."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from django_redsess import online
from testproject.people import PASSWORD
from tests.browser.device_bound.serving import REFRESH, Site, address, drop_proof, is_bound
from tests.browser.device_bound.test_proofs import shows
from tests.helpers.browsing import sign_in
from tests.helpers.running import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.django_db]


def assert_forgotten(page: Page, site: Site) -> None:
    """The browser has forgotten the binding: it asks for no proof any more."""
    site.requests()
    page.goto("/me/")
    shows(page, "nobody")
    assert REFRESH not in {each.path for each in site.requests()}


def test_a_sign_out_ends_the_binding(page: Page, site: Site) -> None:
    page.goto("/")
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("link", name="Sign in")).to_be_visible()
    if is_bound(page):
        drop_proof(page)
        page.goto("/me/")
        shows(page, "nobody")
    assert_forgotten(page, site)
    sign_in(page, "alice", PASSWORD)
    wait_until(lambda: is_bound(page))


@pytest.mark.parametrize("proven", [True, False], ids=["proven", "proof over"])
def test_who_is_ended_meanwhile_is_told_so(page: Page, site: Site, proven: bool) -> None:
    page.goto("/")
    [session] = online.sessions()
    online.end(session.sid, message="We have closed for today.")
    if not proven:
        drop_proof(page)
    page.goto("/")
    expect(page.get_by_text("We have closed for today.")).to_be_visible()
    if proven and is_bound(page):
        drop_proof(page)
        page.goto("/me/")
        shows(page, "nobody")
    assert_forgotten(page, site)


def test_a_new_password_keeps_the_own_binding_and_ends_the_others(site: Site, visitor: Callable[..., Page]) -> None:
    own, other = visitor(site), visitor(site)
    for page in (own, other):
        sign_in(page, "carol", PASSWORD)
        wait_until(lambda page=page: is_bound(page))
    new = "another one of some length"
    own.goto("/account/password/")
    for label, text in {"Old password": PASSWORD, "New password": new, "New password confirmation": new}.items():
        own.get_by_label(label, exact=True).or_(own.get_by_label(f"{label}:", exact=True)).fill(text)
    drop_proof(own)
    own.keyboard.press("Enter")
    expect(own).to_have_url(address("/account/password/done/"))
    drop_proof(own)
    own.goto("/me/")
    shows(own, "carol")
    drop_proof(other)
    other.goto("/me/")
    shows(other, "nobody")


def test_who_must_bind_and_does_not_is_told_so(
    site: Site,
    visitor: Callable[..., Page],
    pass_time: Callable[[int], None],
    keep_picture: Callable[[Page, str], None],
) -> None:
    bound, unbound = visitor(site), visitor(site, binds=False)
    for page in (bound, unbound):
        sign_in(page, "admin", "admin")
    wait_until(lambda: is_bound(bound))
    pass_time(70)
    for page, status in ((bound, 200), (unbound, 401)):
        answer = page.goto("/admin/")
        assert answer is not None
        assert answer.status == status
    keep_picture(unbound, "device-bound-required")
