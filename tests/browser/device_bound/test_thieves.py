"""Copies of the cookies of a bound session, on another machine."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Page

from tests.browser.device_bound.serving import PROOF, REFRESH, REGISTER, Site, address, cookies_of, drop_proof
from tests.browser.device_bound.test_proofs import load

pytestmark = [pytest.mark.slow, pytest.mark.django_db]

SESSION = "sessionid"


def subset(page: Page, *names: str) -> dict[str, str]:
    return {name: cookies_of(page)[name] for name in names}


def test_a_copy_opens_nothing_without_a_fresh_proof(
    later_page: Page, site: Site, pass_time: Callable[[int], None]
) -> None:
    copies = [subset(later_page, SESSION, PROOF), subset(later_page, SESSION), subset(later_page, PROOF), {}]

    def answers() -> list[tuple[int, str]]:
        found = [site.ask("/who/", cookies) for cookies in copies]
        return [(each.status_code, each.text if each.ok else "") for each in found]

    # What we can't prevent: until it ends, the proof is as good as the session's cookie was.
    assert answers() == [(200, "alice"), (401, ""), (200, "nobody"), (200, "nobody")]
    pass_time(700)
    assert answers() == [(401, ""), (401, ""), (200, "nobody"), (200, "nobody")]


def test_a_copy_changes_nothing_and_its_owner_goes_on(later_page: Page, site: Site) -> None:
    stolen = subset(later_page, SESSION)
    token = cookies_of(later_page)["csrftoken"]
    for path in ("/logout/", "/account/password/", "/history/forget/", REFRESH, REGISTER):
        headers = {"Referer": address("/"), "X-CSRFToken": token}
        answer = site.ask(path, {**stolen, "csrftoken": token}, method="POST", headers=headers)
        assert answer.status_code in (400, 401, 403), path
        assert SESSION not in answer.cookies
        assert PROOF not in answer.cookies
    drop_proof(later_page)
    load(later_page)


def test_what_is_logged_holds_no_secret(later_page: Page, site: Site) -> None:
    stolen = subset(later_page, SESSION, PROOF)
    site.ask("/who/", {SESSION: stolen[SESSION]})
    assert "was refused: address 127.0.0.1" in site.said
    for value in stolen.values():
        assert value not in site.said
