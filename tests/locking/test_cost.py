"""What a lock costs: round trips of a request with it, and nothing for a view without."""

from typing import Any

import pytest
from django.test import AsyncClient, Client

from django_redsess.backend import SessionStore
from django_redsess.session.lock import SessionLock
from tests.helpers.site import SESSION
from tests.helpers.store import drive
from tests.helpers.visitors import Browser

SITE = "tests.helpers.site.middleware"


@pytest.fixture(params=[Client, AsyncClient], ids=["wsgi", "asgi"])
def browser(request, site_settings, new_session) -> Browser:
    browser = Browser(request.param())
    browser.cookie = new_session(number=0).session_key
    return browser


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("unlocked/count", ["read", "save_fast"]),
        ("count", ["lock", "read", "save_fast", "unlock"]),
        ("twice/count", ["lock", "read", "save_fast", "unlock"]),
        ("holds", ["lock", "unlock"]),
        ("signs-out", ["lock", "read", "end_sids", "unlock"]),
    ],
)
def test_a_lock_takes_two_round_trips(browser, sent, path: str, expected: list[str]) -> None:
    browser.get("/locks/holds/")
    sent.clear()
    browser.get(f"/locks/{path}/")
    assert sent == expected


@pytest.mark.parametrize(
    ("middleware", "expected"),
    [
        ("ReadsOnTheWayIn", ["read", "lock", "read", "save_fast", "unlock"]),
        ("WritesOnTheWayIn", ["read", "lock", "save_fast", "save_fast", "unlock"]),
    ],
)
def test_a_session_that_was_read_before_takes_one_more(
    browser, sent, settings, middleware: str, expected: list[str]
) -> None:
    settings.MIDDLEWARE = [SESSION, f"{SITE}.{middleware}"]
    browser.client.handler.load_middleware(is_async=isinstance(browser.client, AsyncClient))
    browser.get("/locks/count/")
    sent.clear()
    browser.get("/locks/count/")
    assert sent == expected


def test_who_brings_an_unknown_session_is_asked_about_once(browser, sent, settings) -> None:
    settings.MIDDLEWARE = [SESSION, f"{SITE}.WritesOnTheWayIn"]
    browser.client.handler.load_middleware(is_async=isinstance(browser.client, AsyncClient))
    browser.cookie = "k" * 32
    assert browser.get("/locks/count/").content == b"0"
    assert sent == ["read", "note", "lock", "create_fast"]


def test_a_lock_sends_nothing_else(browser, commands) -> None:
    browser.get("/locks/count/")
    commands()
    browser.get("/locks/count/")
    sent: dict[str, Any] = commands()
    assert sent["evalsha"] == 3
    browser.get("/locks/unlocked/count/")
    sent = commands()
    assert (sent["evalsha"], sent.get("hexists", 0), sent.get("zrem", 0)) == (1, 0, 0)


def test_who_waits_asks_two_hundred_times_a_second_at_most_and_leaves_with_the_last_question(
    browser, sent, new_session
) -> None:
    session = SessionStore(browser.cookie)
    drive(SessionLock(session, session.sid or "", 30).taking(0))
    sent.clear()
    assert browser.get(f"/locks{browser.views}/hasty/count/").status_code == 409
    assert set(sent) == {"lock"}
    assert 2 <= len(sent) <= 22
