"""Whom users can ask who are blocked, or whose session somebody has ended: the setting ``SUPPORT_CONTACT``."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from html import unescape
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.checks import run_checks
from django.test import Client
from django.utils import timezone
from django.utils.translation import gettext_lazy

from django_redsess import accounts, online
from tests.accounts.test_blocked_users import TEMPLATES_OF_APP
from tests.helpers.accounts import PASSWORD, sid_of, sign_in

pytestmark = pytest.mark.django_db

ADDRESS = "support@shop.example"


@pytest.fixture
def contact(site: Any) -> Callable[[object], None]:
    def set_contact(value: object) -> None:
        site.REDSESS = {**site.REDSESS, "SUPPORT_CONTACT": value}

    set_contact(ADDRESS)
    return set_contact


def in_language(user: User, language: str) -> Client:
    browser = Client(headers={"accept-language": language})
    browser.force_login(user)
    return browser


def answers_to_blocked(user: User) -> list[Any]:
    """By a form, by a view of the site as a page, and as JSON."""
    online.block(user, until=timezone.now() + timedelta(hours=1), message="Your account is locked.")
    browser = Client(headers={"accept": "text/html"})
    form = browser.post("/sign-in-by-form/", {"username": "alice", "password": PASSWORD})
    page = browser.get("/sign-in/alice/")
    return [form, page, browser.get("/sign-in/alice/", headers={"accept": "application/json"})]


def text_of(answer: Any) -> str:
    return unescape(answer.content.decode())


def test_who_is_blocked_reads_whom_to_ask_wherever_the_block_is_told(contact, alice) -> None:
    for answer in answers_to_blocked(alice):
        assert "Your account is locked. Questions? " in text_of(answer)
        assert ADDRESS in text_of(answer)
    contact("")
    for answer in answers_to_blocked(alice):
        assert "Your account is locked." in text_of(answer)
        assert "Questions" not in text_of(answer)


def test_the_page_has_a_link_to_an_address_and_no_markup_of_a_text(site, contact, alice) -> None:
    site.ROOT_URLCONF = "tests.accounts.test_blocked_users"
    site.TEMPLATES = [TEMPLATES_OF_APP]
    online.block(alice, until=timezone.now() + timedelta(hours=1))
    browser = Client(headers={"accept": "text/html"})
    assert f'Questions? <bdi><a href="mailto:{ADDRESS}">{ADDRESS}</a></bdi>' in browser.get("/sign-in/alice/").text
    contact("Call <b>us</b>:\r\n555 0123")
    assert "Questions? <bdi>Call &lt;b&gt;us&lt;/b&gt;: 555 0123</bdi>" in browser.get("/sign-in/alice/").text


def told(browser: Client) -> str:
    return text_of(browser.get("/who-and-messages/"))


def test_whose_session_somebody_has_ended_reads_it_there_and_elsewhere(contact, alice) -> None:
    browser, other = sign_in(alice), sign_in(alice)
    online.end(sid_of(browser), message="We move.")
    assert told(browser) == f"nobody|Your session was ended. We move. Questions? {ADDRESS}"
    assert told(other) == f"alice|One of your sessions was ended. We move. Questions? {ADDRESS}"
    # Programs get the message, and ask nobody.
    online.end(sid_of(other), message="We move.")
    assert ADDRESS not in other.get("/who-and-messages/")["X-Session-Ended"]


def test_who_ends_the_own_session_need_not_ask(contact, alice) -> None:
    browser, other = sign_in(alice), sign_in(alice)
    browser.post(f"/account/sessions/{sid_of(other)}/end/")
    shown = told(other)
    assert shown.startswith("nobody|Your session was ended. You signed this device out")
    assert "Questions" not in shown


def test_a_changed_account_counts_as_somebodys_doing_and_an_expiry_does_not(site, contact, alice) -> None:
    browser = sign_in(alice)
    accounts.logout_everywhere(alice, message="Your account was merged.")
    assert told(browser) == f"nobody|Your session was ended. Your account was merged. Questions? {ADDRESS}"
    site.REDSESS = {**site.REDSESS, "MAX_SESSIONS_PER_USER": 1}
    replaced = sign_in(alice)
    sign_in(alice)
    assert told(replaced).endswith("limit of 1 device.")


def test_a_lazy_text_is_in_the_language_of_its_reader(site, contact, alice) -> None:
    contact(gettext_lazy("Unknown device"))
    site.MIDDLEWARE = [*site.MIDDLEWARE, "django.middleware.locale.LocaleMiddleware"]
    online.block(alice, until=timezone.now() + timedelta(hours=1))
    assert "? Unbekanntes Gerät" in text_of(Client(headers={"accept-language": "de"}).get("/sign-in/alice/"))


ISOLATED = "\u2068{}\u2069"


def test_foreign_words_are_isolated_where_people_read_them_from_right_to_left(site, contact, alice) -> None:
    site.MIDDLEWARE = [*site.MIDDLEWARE, "django.middleware.locale.LocaleMiddleware"]
    phone, words = "Call us: 555 0123.", "Your account is locked."
    contact(phone)
    reader = in_language(alice, "ar")
    online.end(sid_of(reader), message=words)
    header = reader.get("/who-and-messages/")["X-Session-Ended"]
    assert f"{header};".endswith("%20is%20locked.;")
    site.ROOT_URLCONF = "tests.accounts.test_blocked_users"
    site.TEMPLATES = [TEMPLATES_OF_APP]
    online.block(alice, until=timezone.now() + timedelta(hours=1), message=words)
    visitor = Client(headers={"accept": "text/html", "accept-language": "ar"})
    page = visitor.get("/sign-in/alice/").text
    assert f"<bdi>{words}</bdi> " in page
    assert f"<bdi>{phone}</bdi></p>" in page
    program = visitor.get("/sign-in/alice/", headers={"accept": "application/json"}).json()["detail"]
    assert words in program
    assert not {"\u2068", "\u2069"} & set(program)


def test_django_messages_and_errors_of_forms_isolate_foreign_words_by_marks(site, contact, alice) -> None:
    site.MIDDLEWARE = [*site.MIDDLEWARE, "django.middleware.locale.LocaleMiddleware"]
    phone, words = "Call us: 555 0123.", "Your account is locked."
    contact(phone)
    for language, isolated in (("ar", ISOLATED), ("de", "{}")):
        reader, other = (in_language(alice, language) for _ in range(2))
        online.end(sid_of(reader), message=words)
        for browser in (reader, other):
            assert isolated.format(words) in told(browser)
        online.block(alice, until=timezone.now() + timedelta(hours=1), message=words)
        form = Client(headers={"accept-language": language}).post(
            "/sign-in-by-form/", {"username": "alice", "password": PASSWORD}
        )
        assert isolated.format(words) in text_of(form)
        assert isolated.format(phone) in text_of(form)
        online.unblock(alice)


def test_in_a_language_without_our_texts_a_refusal_is_in_one_language(site, contact, alice) -> None:
    site.MIDDLEWARE = [*site.MIDDLEWARE, "django.middleware.locale.LocaleMiddleware"]
    online.block(alice, until=datetime(2100, 5, 1, tzinfo=UTC))
    for language, whole in (("de", "1. Mai 2100"), ("nl", "May 1, 2100")):
        site.LANGUAGE_CODE = language
        for accept in ("text/html", "application/json"):
            answer = Client(headers={"accept": accept, "accept-language": "nl"}).get("/sign-in/alice/")
            assert whole in text_of(answer)


def test_a_wrong_value_is_named_by_the_check(site, contact) -> None:
    for value in (None, 7, ["a"], " ", "x" * 201, b"a@b.example"):
        contact(value)
        [error] = [each for each in run_checks() if each.id == "django_redsess.E003"]
        assert "REDSESS['SUPPORT_CONTACT']" in error.msg
    for value in ("", "x" * 200, gettext_lazy("Users")):
        contact(value)
        assert not [each for each in run_checks() if each.id == "django_redsess.E003"]
