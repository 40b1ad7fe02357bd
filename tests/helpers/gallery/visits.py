"""What people do to see a page of the gallery. Pages are found by their URLs and forms: words may change."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any, NamedTuple

import redis
from django.contrib.auth.models import User
from django.test import override_settings
from playwright.sync_api import Browser, Error, Page

from django_redsess.backend import SessionStore
from django_redsess.contrib.history import mails
from django_redsess.contrib.history.models import SignIn
from django_redsess.contrib.history.receivers import row_of_beginning
from testproject.people import FIREFOX_WINDOWS, PASSWORD
from tests.helpers.browsing import LIST, sign_in, visiting
from tests.helpers.demo import Demo
from tests.helpers.store import make_older

OWN, SIGN_INS, USERS = "/account/sessions/", "/admin/redsess_history/signin/", "/admin/auth/user/"
BUTTONS = "button[type=submit], button:not([type]), input[type=submit]"
END = "#result_list a[href*='sid=']"
"""The link in a row that asks whether to end its session."""

PASSWORDS = {"admin": "admin", "sam": "support"}
"""Of the staff. Everybody else has the shoppers'."""


class Visit(NamedTuple):
    """Somebody on a page of a demo, in a language."""

    page: Page
    demo: Demo
    language: str


@contextmanager
def somebody(browser: Browser, demo: Demo, who: str, language: str) -> Iterator[Visit]:
    """Give a page on which ``who`` is signed in, and sign out at the end: no session stays that others would see."""
    with visiting(browser, demo.url) as open_page:
        page = open_page()
        page.set_default_timeout(30_000)
        if who:
            sign_in(page, who, PASSWORDS.get(who, PASSWORD))
        page.set_extra_http_headers({"Accept-Language": language})
        yield Visit(page, demo, language)
        with suppress(Error):
            page.goto("/")
            page.get_by_role("button", name="Sign out").click(timeout=5000)


def follow(selector: str, on: str) -> Callable[[Visit], object]:
    """Return what goes from the page ``on`` to where the first link with ``selector`` leads."""

    def show(visit: Visit) -> None:
        visit.page.goto(on)
        visit.page.goto(visit.page.locator(selector).first.get_attribute("href") or "")

    return show


def of_user(name: str, page: str = "change/") -> Callable[[Visit], object]:
    """Return what goes to a page of the user in the admin."""

    def show(visit: Visit) -> None:
        follow(f"#result_list a[href*='{USERS}']", f"{USERS}?q={name}")(visit)
        visit.page.goto(re.sub(r"change/.*", page, visit.page.url))

    return show


def press(page: Page, within: str, button: str = BUTTONS) -> None:
    with page.expect_navigation():
        page.locator(within).first.locator(button).first.click()


def end_last(visit: Visit) -> None:
    """End the session of somebody that is the last in the list."""
    visit.page.goto(LIST)
    links = visit.page.locator(END)
    visit.page.goto(links.last.get_attribute("href") or "")
    press(visit.page, ".redsess-confirm")


def block(visit: Visit) -> None:
    # The question has these buttons even if the picture before has ended all sessions of the user.
    visit.page.goto(LIST + "confirm/?q=hugo")
    visit.page.locator("[name=message]").fill("Please call us about your account.")
    visit.page.locator("[name=note]").fill("Case 4711: asked for the order number, called back at noon")
    press(visit.page, ".redsess-confirm", "button[name=block]")


def after_block(show: Callable[[Visit], object]) -> Callable[[Visit], object]:
    """Return what blocks a user and then does what ``show`` does."""

    def show_after(visit: Visit) -> None:
        block(visit)
        show(visit)

    return show_after


def another_device(visit: Visit, name: str) -> None:
    """Sign in with another browser."""
    context = visit.page.context.browser.new_context(base_url=visit.demo.url, user_agent=FIREFOX_WINDOWS)
    sign_in(context.new_page(), name, PASSWORDS.get(name, PASSWORD))
    context.close()


def forget_the_password(visit: Visit) -> None:
    """Let the visitor's session be so old that it is asked for the password."""
    [key] = (each["value"] for each in visit.page.context.cookies() if each["name"] == "sessionid")
    with redis.Redis.from_url(visit.demo.redis_url) as client:
        make_older(client, SessionStore(key).sid, 400)


def ask_admin(visit: Visit) -> None:
    another_device(visit, "admin")
    forget_the_password(visit)
    visit.page.goto(LIST + "?q=admin")
    # Its own session has no link, or one that asks about itself: the other one is newer.
    visit.page.goto(visit.page.locator(END).first.get_attribute("href") or "")
    press(visit.page, ".redsess-confirm")


def list_own(visit: Visit) -> None:
    """Go to the shopper's list. It has another device: one more sign-in might end the session of this browser."""
    visit.page.goto(OWN)
    if not visit.page.locator("form[action$='/end/']").count():
        another_device(visit, "elif")
        visit.page.goto(OWN)


def give_password(page: Page, password: str = PASSWORD) -> None:
    """Give the password, if the page asks for it."""
    field = page.locator("input[type=password]")
    if field.count():
        field.fill(password)
        with page.expect_navigation():
            page.keyboard.press("Enter")


def ask_shopper(visit: Visit) -> None:
    list_own(visit)
    forget_the_password(visit)
    visit.page.locator("a[href$='/not-me/']").first.click()
    visit.page.locator("input[type=password]").wait_for()


def refuse_password(visit: Visit) -> None:
    ask_shopper(visit)
    give_password(visit.page, "not the password")


def ask_about_device(visit: Visit) -> None:
    list_own(visit)
    visit.page.goto(visit.page.locator("a[href$='/not-me/']").first.get_attribute("href") or "")


def end_stranger(visit: Visit) -> None:
    ask_about_device(visit)
    press(visit.page, "form.redsess-question")
    give_password(visit.page)


def ask_about_others(visit: Visit) -> None:
    list_own(visit)
    visit.page.goto(f"{OWN}end-others/")


def end_own(visit: Visit) -> None:
    list_own(visit)
    press(visit.page, "form[action$='/end/']")
    give_password(visit.page)


def end_others(visit: Visit) -> None:
    ask_about_others(visit)
    press(visit.page, "form.redsess-question")
    give_password(visit.page)


def be_refused(visit: Visit) -> None:
    """Sign in as somebody who has been blocked."""
    with somebody(visit.page.context.browser, visit.demo, "admin", "en") as admin:
        block(admin)
    visit.page.goto("/login/")
    visit.page.locator("[name=username]").fill("hugo")
    visit.page.locator("[name=password]").fill(PASSWORD)
    with visit.page.expect_navigation():
        visit.page.keyboard.press("Enter")


def be_offline(visit: Visit) -> None:
    """Look at a page while the server of the sessions does not answer."""
    with redis.Redis.from_url(visit.demo.redis_url) as client:
        client.client_pause(4000)
        visit.page.goto(OWN)
        client.ping()


def unfold(visit: Visit) -> None:
    visit.page.goto("/api/v1/")
    visit.page.locator(".opblock-summary-control").first.click()


def read_mail(visit: Visit) -> None:
    _read_mail(visit, mails._new_device)


def read_mail_of_copy(visit: Visit) -> None:
    _read_mail(visit, mails._unproven)


def _read_mail(visit: Visit, topic_of: Callable[[SignIn], Any]) -> None:
    ours = {"HISTORY_SITE_URL": "https://shop.example"}
    with override_settings(LANGUAGE_CODE=visit.language, REDSESS=ours):
        user, at = User(pk=1, username="elif"), datetime.now(UTC)
        row = row_of_beginning(1, at, "203.0.113.9", FIREFOX_WINDOWS)
        row.unproven_at, row.unproven_refused = at, True
        row.unproven_address, row.unproven_user_agent = row.address, row.user_agent
        mail = mails._message(user, row, topic_of(row), "elif@shop.example")
    visit.page.set_content(mail.alternatives[0][0])
