"""The list of sessions that refreshes itself, in a real browser."""

from collections.abc import Callable
from typing import Any

import pytest
import redis as redis_py
from playwright.sync_api import Page, Request, expect

from django_redsess import online
from testproject import people
from testproject.people import PASSWORD
from tests.helpers.browsing import LIST, Visitor, sign_in
from tests.helpers.store import now_of

pytestmark = pytest.mark.slow

HEADER = "x-session-passive"


@pytest.fixture
def admin(visitor: Visitor, settings: Any) -> Page:
    """An administrator who looks at a list of thirteen. The page's clock stands still until a test moves it on."""
    settings.REDSESS = {"IDLE_TIMEOUT": 900, "TOUCH_INTERVAL": 0}
    people.bring_in_shoppers()
    page = visitor()
    page.clock.install()
    sign_in(page, "admin", "admin")
    page.goto(LIST)
    return page


@pytest.fixture
def sent(admin: Page) -> list[Request]:
    """The requests by which the list was refreshed so far."""
    found: list[Request] = []
    admin.on("request", lambda request: found.append(request) if request.resource_type == "fetch" else None)
    return found


def box(page: Page) -> Any:
    return page.get_by_label("Refresh every 30 seconds")


def rows(page: Page) -> Any:
    return page.locator("#result_list input.action-select")


def pass_seconds(page: Page, seconds: int) -> None:
    page.clock.run_for(seconds * 1000)


def refresh(page: Page, do: Callable[[], None] = lambda: None, *, seconds: int = 31) -> None:
    """Let the next refresh come, and wait for its answer."""
    with page.expect_response(lambda response: response.request.resource_type == "fetch"):
        do()
        # Not much longer: the page would take its request for one without an answer.
        pass_seconds(page, seconds)


def hide(page: Page, hidden: bool) -> None:
    page.evaluate(
        """hidden => {
            Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
            document.dispatchEvent(new Event("visibilitychange"));
        }""",
        hidden,
    )


def test_it_is_off_until_somebody_ticks_the_box_and_is_remembered(admin: Page, sent: list[Request]) -> None:
    expect(box(admin)).not_to_be_checked()
    pass_seconds(admin, 120)
    assert sent == []
    box(admin).check()
    refresh(admin)
    admin.goto(LIST)
    expect(box(admin)).to_be_checked()
    box(admin).uncheck()
    pass_seconds(admin, 120)
    assert len(sent) == 1


def test_without_script_there_is_no_box(visitor: Visitor, admin: Page) -> None:
    plain = admin.context.browser.new_context(  # type: ignore[union-attr]
        java_script_enabled=False, storage_state=admin.context.storage_state(), base_url=admin.url.split("/admin")[0]
    )
    page = plain.new_page()
    page.goto(LIST)
    expect(page.get_by_role("link", name="Refresh", exact=True)).to_be_visible()
    expect(box(page)).to_be_hidden()
    plain.close()


def test_rows_and_their_number_are_those_of_now_and_can_be_chosen(visitor: Visitor, admin: Page) -> None:
    box(admin).check()
    expect(rows(admin)).to_have_count(13)
    shopper = visitor()
    sign_in(shopper, "alice", PASSWORD)
    refresh(admin)
    expect(rows(admin)).to_have_count(14)
    expect(admin.locator(".paginator")).to_contain_text("14 online sessions")
    expect(admin.locator(".action-counter")).to_have_text("0 of 14 selected")
    own = admin.locator("tr", has=admin.locator(".redsess-own")).locator("input")
    online.end(*(session.sid for session in online.sessions() if session.sid != own.get_attribute("value")))
    refresh(admin)
    expect(rows(admin)).to_have_count(1)
    rows(admin).first.check()
    expect(admin.locator(".action-counter")).to_have_text("1 of 1 selected")
    admin.locator("#action-toggle").uncheck()
    expect(rows(admin).first).not_to_be_checked()
    expect(admin.get_by_role("status")).to_have_text("")


def test_it_prolongs_nothing(admin: Page, sent: list[Request], redis: redis_py.Redis) -> None:
    sid = admin.locator("tr", has=admin.locator(".redsess-own")).locator("input").get_attribute("value") or ""
    due = int(now_of(redis).timestamp() * 1000) + 300_000
    redis.zadd("{redsess}:expire", {sid: due})
    box(admin).check()
    refresh(admin)
    refresh(admin)
    assert [request.headers[HEADER] for request in sent] == ["1", "1"]
    assert redis.zscore("{redsess}:expire", sid) == due
    admin.get_by_role("link", name="Refresh", exact=True).click()
    expect(rows(admin)).to_have_count(13)
    assert redis.zscore("{redsess}:expire", sid) > due


@pytest.mark.parametrize("how", ["hidden", "ticked", "focus", "dialog"])
def test_it_waits_while_the_page_is_hidden_or_somebody_works_in_the_list(
    admin: Page, sent: list[Request], how: str
) -> None:
    box(admin).check()
    match how:
        case "hidden":
            hide(admin, True)
        case "ticked":
            rows(admin).first.check()
            admin.evaluate("document.activeElement.blur()")
        case "focus":
            admin.locator("#result_list tbody a").first.focus()
        case "dialog":
            admin.evaluate("document.body.append(Object.assign(document.createElement('dialog'), { open: true }))")
    pass_seconds(admin, 120)
    assert sent == []
    admin.evaluate(
        "document.querySelectorAll('dialog').forEach(each => each.remove()); document.activeElement.blur();"
        "document.querySelectorAll('.action-select').forEach(each => each.checked = false)"
    )
    refresh(admin, lambda: hide(admin, False), seconds=2)
    assert len(sent) == 1


def test_it_goes_on_trying_in_an_outage(admin: Page) -> None:
    box(admin).check()
    admin.route("**" + LIST, lambda route: route.fulfill(status=503, body="<p>Not available</p>"))
    refresh(admin)
    expect(admin.get_by_role("status")).to_contain_text("can't be refreshed at the moment")
    expect(rows(admin)).to_have_count(13)
    admin.unroute_all()
    refresh(admin)
    expect(admin.get_by_role("status")).to_have_text("")
    expect(box(admin)).to_be_checked()


def test_it_stops_for_who_is_signed_out(admin: Page, sent: list[Request]) -> None:
    box(admin).check()
    online.end_all()
    refresh(admin)
    expect(admin.get_by_role("status")).to_contain_text("sign in again")
    expect(box(admin)).not_to_be_checked()
    answered = len(sent)
    pass_seconds(admin, 120)
    assert len(sent) == answered


def test_it_refreshes_the_list_of_django_unfold(demo_visitor: Callable[[str], Visitor]) -> None:
    visitor = demo_visitor("unfold")
    page = visitor()
    page.clock.install()
    sign_in(page, "admin", "admin")
    page.goto(LIST)
    before = rows(page).count()
    sign_in(visitor(), "lukas", PASSWORD)
    box(page).check()
    refresh(page)
    expect(rows(page)).to_have_count(before + 1)
    expect(page.locator("body")).to_contain_text(f"{before + 1} online sessions")
    rows(page).last.check()
    expect(page.locator(".action-counter")).to_have_text(f"1 of {before + 1} selected")
