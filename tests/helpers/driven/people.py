"""A site with some people on it, two browsers each, and what an administrator and the people see there."""

from __future__ import annotations

import html
import os
import re
from collections.abc import Iterable
from typing import Any
from uuid import UUID

import redis
from django.conf import settings
from django.contrib.admin.utils import quote
from django.contrib.auth import get_user_model
from django.http import HttpResponse
from django.test import Client
from django.urls import reverse

from django_redsess import online
from django_redsess.signals import Reason, session_ended
from django_redsess.transport.keys import sid_of
from tests.helpers.behind import faults
from tests.helpers.markup import hidden, text_of
from tests.helpers.oracle import disagreements

LIST = "/admin/django_redsess/onlinesession/"
USERS = "/admin/user_models/user/"
ACCOUNT = "/account/sessions/"

STRANGE_NAME = 'Zoë "O\'Neil" <i>&amp;'

KEYS = {
    # By user name. One is the beginning of others, some are those of pages, and one is as long as can be.
    "text": {
        "admin": "admin/?#&=%2F+_3A{*}[\\:login",
        "helper": "helper",
        "alice": "a",
        "bob": "a:b",
        "carol": "a ",
        STRANGE_NAME: "a:b c/ü\"'€_5F&user=%2F+#?",
        "dave": "add",
        "erin": "é" * 127 + "e",
    },
    "uuid": {
        "admin": UUID("a0000000-0000-4000-8000-000000000001"),
        "helper": UUID("00000000-0000-4000-8000-000000000002"),
        "alice": UUID("00000000-0000-4000-8000-000000000003"),
        "bob": UUID("00000000-0000-0000-0000-000000000004"),
        STRANGE_NAME: UUID("ffffffff-ffff-4fff-bfff-ffffffffffff"),
    },
}

STAFF = ("admin", "helper")

BROWSERS = ("by client", "by form")
"""How the two browsers of each sign in, which is how they are called."""


class Browser(Client):
    """A client that remembers every cookie that any had, and every page of the admin that any got."""

    cookies_had: set[str] = set()
    pages: list[str] = []

    def request(self, **request: Any) -> HttpResponse:
        self._note_cookies()
        response = super().request(**request)
        self._note_cookies()
        if response.request["PATH_INFO"].startswith("/admin/"):
            self.pages.append(response.headers.get("Location", "") + response.content.decode())
        return response

    def _note_cookies(self) -> None:
        self.cookies_had.update(morsel.value for morsel in self.cookies.values() if morsel.value)


def check() -> None:
    """See that all keys agree, and that no page of the admin had a cookie of anybody."""
    client = redis.from_url(os.environ["REDIS_URL"])
    assert not disagreements(client), disagreements(client)
    assert not faults(), faults()
    shown = [page for page in Browser.pages if any(cookie in page for cookie in Browser.cookies_had)]
    assert not shown, f"{len(shown)} pages show a cookie"
    assert Browser.pages


class Site:
    """The people and their browsers. ``told`` are the user ids and reasons that the signal brought."""

    def __init__(self) -> None:
        self.redis = redis.from_url(os.environ["REDIS_URL"])
        self.told: list[tuple[Any, Reason]] = []
        session_ended.connect(self._note_end)
        self.users: dict[str, Any] = {}
        self._followed: set[tuple[str, str]] = set()
        for name, key in KEYS[settings.USER_KEY].items():
            rights = {"is_staff": name in STAFF, "is_superuser": name == "admin"}
            self.users[name] = get_user_model().objects.create_user(name, id=key, password=name, **rights)
        self.browsers = {(name, how): Browser() for name in self.people for how in BROWSERS}
        self.admin = Browser()
        assert self.admin.login(username="admin", password="admin")
        self.sign_in()

    @property
    def people(self) -> list[str]:
        """The user names of those who are not of the staff."""
        return [name for name in self.users if name not in STAFF]

    def key(self, name: str) -> str:
        return str(self.users[name].pk)

    def page_of(self, name: str, view: str = "change") -> str:
        """Return where the admin's page of a user is, or another ``view`` of it."""
        return reverse(f"admin:user_models_user_{view}", args=[quote(self.key(name))])

    def sid(self, name: str, how: str) -> str:
        return sid_of(self.browsers[name, how].cookies["sessionid"].value)

    def sids(self, name: str) -> set[str]:
        return {self.sid(name, how) for how in BROWSERS}

    @property
    def admin_sid(self) -> str:
        return sid_of(self.admin.cookies["sessionid"].value)

    def sign_in(self) -> None:
        """See that each of the people is signed in with both browsers."""
        for (name, how), browser in self.browsers.items():
            if ACCOUNT not in browser.get("/").text:
                self._sign_in(browser, name, how)

    def _sign_in(self, browser: Browser, name: str, how: str) -> None:
        if how == "by client":
            assert browser.login(username=name, password=name)
            return
        # As a guest with a session, which keeps what is in it.
        browser.post("/basket/marmalade/add/", {"quantity": 1})
        page = browser.post("/login/", {"username": name, "password": name}, follow=True)
        assert f"Signed in as {name}" in text_of(page)
        assert "Marmalade" in text_of(browser.get("/basket/"))

    def signed_in(self) -> set[tuple[str, str]]:
        """Tell who sees their own sessions, and with which browser."""
        return {of for of, browser in self.browsers.items() if browser.get(ACCOUNT).status_code == 200}

    def confirm(self, question: HttpResponse, count: int, reason: str = "", browser: Browser | None = None) -> str:
        """Answer the admin's question, which must be about so many sessions; return what the page after it says."""
        text = text_of(question)
        assert re.search(rf"end {count} session{'' if count == 1 else 's'}( of [^?]*)?[?]", text), text
        answer = {**hidden(question), "message": reason}
        return text_of((browser or self.admin).post(LIST + "end/", answer, follow=True))

    def listed(self, query: str | dict[str, Any]) -> list[str]:
        """
        Return whose sessions the admin's list has, sorted.

        See that each name leads to the page of a session, and that one to the page of its user.
        """
        page = self.admin.get(LIST + query) if isinstance(query, str) else self.admin.get(LIST, query)
        found = re.findall(rf'<a href="({LIST}[^"]+/change/)[^"]*">\s*<bdi>([^<]*)</bdi>', page.text)
        assert f"{len(found)} online session" in text_of(page)
        names = [html.unescape(name) for _, name in found]
        for href, name in {(html.unescape(href), html.unescape(name)) for href, name in found} - self._followed:
            [of_user] = {each for each in links(self.admin.get(href), USERS) if each.endswith("/change/")}
            assert f"Change user {name}" in text_of(self.admin.get(of_user))
            self._followed.add((href, name))
        return sorted(names)

    def check(self) -> None:
        check()
        assert len(Browser.cookies_had) > len(self.browsers)

    def _note_end(self, sender: Any, user_id: str, reason: Reason, **_: Any) -> None:
        self.told.append((user_id, reason))


def links(response: HttpResponse, beginning: str) -> list[str]:
    """Return where the links of a page lead that begin so."""
    return [html.unescape(link) for link in re.findall(rf'href="({re.escape(beginning)}[^"]*)"', response.text)]


def link(response: HttpResponse, text: str) -> str:
    """Return where the only link of that text leads."""
    found = re.findall(r'<a\b[^>]*href="([^"]*)"[^>]*>(.*?)</a>', response.text, re.DOTALL)
    [href] = {href for href, shown in found if html.unescape(re.sub("<[^>]*>", "", shown)).strip() == text}
    return html.unescape(href)


def twice(names: Iterable[str]) -> list[str]:
    """Name everybody two times, sorted: once for each browser."""
    return sorted([*names] * 2)


def sids(sessions: Iterable[online.Session]) -> set[str]:
    return {session.sid for session in sessions}
