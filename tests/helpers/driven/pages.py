"""Pages as a browser gets them: what they say, where they lead, and that none shows a cookie."""

import os
from typing import Any

import redis
from django.http import HttpResponse
from django.test import Client

from tests.helpers.admin_pages import Page
from tests.helpers.oracle import disagreements
from tests.helpers.store import faults


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
    assert Browser.cookies_had


def text_of(response: HttpResponse) -> str:
    """Return what a page says, without its markup."""
    assert response.status_code == 200, response.status_code
    return Page(response).text


def confirmed(browser: Client, question: HttpResponse, address: str, **changes: str) -> HttpResponse:
    """Send the form of a confirmation page to ``address``; return the page after it."""
    return browser.post(address, {**Page(question).fields, **changes}, follow=True)


def links(response: HttpResponse, beginning: str) -> list[str]:
    """Return where the links of a page lead that begin so."""
    return [href for _, href in Page(response).all_links if href.startswith(beginning)]


def link(response: HttpResponse, text: str) -> str:
    """Return where the only link of that text leads."""
    [href] = {href for shown, href in Page(response).all_links if shown == text}
    return href
