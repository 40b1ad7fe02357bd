"""What the 503 says: to browsers and to programs, of what passes and of what lasts, and to developers only why."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.contrib.auth.models import User

from testproject.servers import Server
from tests.helpers.outages import caches
from tests.helpers.proxy import Proxy
from tests.helpers.visitors import Browser, assert_unavailable

BROWSERS = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
SOON, LATER = "Please try again in a few seconds.", "Please try again later."


def ask(browser: Browser, accept: str = "", path: str = "/who/") -> Any:
    answer = browser.get(f"{browser.views}{path}", headers={"Accept": accept} if accept else {})
    assert_unavailable(answer)
    return answer


@pytest.fixture
def signed_in(browser: Browser, alice: User) -> Browser:
    browser.sign_in(alice)
    return browser


@pytest.mark.parametrize(
    ("accept", "is_json"),
    [
        *(("", False), (BROWSERS, False), ("text/html, application/json;q=0.5", False)),
        *(
            ("application/json", True),
            ("*/*", True),
            ("application/vnd.api+json", True),
            ("text/html;q=0.1, */*", True),
        ),
        ("application/json, text/plain, */*", True),
    ],
)
def test_programs_get_json_and_browsers_a_page(signed_in: Browser, proxy: Proxy, accept: str, is_json: bool) -> None:
    proxy.refuse()
    answer = ask(signed_in, accept)
    if is_json:
        assert answer["Content-Type"] == "application/json"
        assert list(json.loads(answer.content)) == ["detail"]
        assert json.loads(answer.content)["detail"].endswith(SOON)
    else:
        assert answer["Content-Type"].startswith("text/html")
        assert '<a href="">' in answer.text
        assert SOON in answer.text
    assert answer["Retry-After"] == "5"


@pytest.mark.parametrize("debug", [False, True])
@pytest.mark.parametrize("path", ["/who/", "/swallowed/"])
def test_what_does_not_pass_by_itself_is_not_called_a_matter_of_seconds(
    signed_in: Browser, settings: Any, server: Server, debug: bool, path: str
) -> None:
    settings.DEBUG = debug
    settings.CACHES = caches(server.url.replace("://", "://nobody:hunter2@"))
    page, data = (ask(signed_in, accept, path if not signed_in.views else "/who/") for accept in (BROWSERS, "*/*"))
    for answer in (page, data):
        assert (LATER in answer.text, SOON in answer.text, answer["Retry-After"]) == (True, False, "60")
        # The words are those of the server, and the password is nobody's business.
        assert ("refuses: " in answer.text, "LOCATION" in answer.text) == (debug, debug)
        assert "hunter2" not in answer.text


@pytest.mark.parametrize("debug", [False, True])
def test_developers_read_why_the_server_is_out_of_reach(
    signed_in: Browser, settings: Any, proxy: Proxy, debug: bool
) -> None:
    settings.DEBUG = debug
    proxy.refuse()
    answer = ask(signed_in, BROWSERS)
    assert ("be reached: " in answer.text) == debug
    assert ("CACHES[" in answer.text) == debug
