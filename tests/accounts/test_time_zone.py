"""In which time zone users read times on their own pages."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from datetime import timezone as offset
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from django_redsess import online
from tests.helpers.accounts import PASSWORD, sid_of, sign_in
from tests.helpers.visitors import cookie_header

pytestmark = pytest.mark.django_db

LIST = "/account/sessions/"

COOKIE, SCRIPT = "redsess_time_zone", "django_redsess/zone.js"


def in_kolkata(user: User) -> str | None:
    return "Asia/Kolkata" if user.username == "alice" else None


def in_kolkata_as_tzinfo(user: User) -> ZoneInfo:
    return ZoneInfo("Asia/Kolkata")


def at_an_offset(user: User) -> offset:
    return offset(timedelta(hours=5, minutes=30))


def nowhere(user: User) -> str:
    return "Mars/Olympus"


def a_path(user: User) -> str:
    return "../../etc/passwd"


def a_number(user: User) -> int:
    return 5


def fails(user: User) -> str:
    raise LookupError(user)


def activating(get_response: Callable[..., Any]) -> Callable[..., Any]:
    """Activate the zone of the browser, as sites do."""

    def middleware(request: Any) -> Any:
        with timezone.override("Pacific/Chatham"):
            return get_response(request)

    return middleware


def use(settings: Any, function: Callable[..., object] | None) -> None:
    settings.REDSESS = {**settings.REDSESS, "USER_TIME_ZONE": function and f"{__name__}.{function.__name__}"}


@pytest.mark.parametrize("function", [in_kolkata, in_kolkata_as_tzinfo, at_an_offset])
def test_times_are_in_the_zone_that_the_sites_function_says(alice, settings, function) -> None:
    use(settings, function)
    page = sign_in(alice).get(LIST).text
    assert "+05:30" in page
    assert "+00:00" not in page


def test_without_a_zone_of_the_user_times_are_in_that_of_the_site(alice, bob, settings) -> None:
    settings.TIME_ZONE = "Asia/Tokyo"
    use(settings, None)
    assert "Times are in the time zone Asia/Tokyo." in sign_in(alice).get(LIST).text
    use(settings, in_kolkata)
    assert "Times are in the time zone Asia/Tokyo." in sign_in(bob).get(LIST).text
    assert "Times are in the time zone Asia/Kolkata." in sign_in(alice).get(LIST).text


@pytest.mark.parametrize("function", [None, in_kolkata])
def test_a_zone_that_middleware_has_activated_wins(alice, settings, function) -> None:
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, f"{__name__}.activating"]
    use(settings, function)
    assert "Times are in the time zone Pacific/Chatham." in sign_in(alice).get(LIST).text


@pytest.mark.parametrize("function", [None, in_kolkata])
def test_a_zone_that_middleware_has_activated_wins_over_the_browser(alice, settings, function) -> None:
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, f"{__name__}.activating"]
    use(settings, function)
    browser = sign_in(alice)
    browser.cookies[COOKIE] = "Asia/Tokyo"
    page = browser.get(LIST).text
    assert "Times are in the time zone Pacific/Chatham." in page
    assert SCRIPT not in page


def test_without_a_zone_of_the_site_the_browser_says_it(alice, bob, settings) -> None:
    browser, other = sign_in(alice), sign_in(bob)
    assert SCRIPT in browser.get(LIST).text
    for each in (browser, other):
        each.cookies[COOKIE] = "Asia/Tokyo"
    page = browser.get(LIST).text
    assert "+09:00" in page
    assert "+00:00" not in page
    assert "Times are in the time zone Asia/Tokyo." in page
    # No other page of the site is in it, and nothing stays for the next request.
    assert timezone.get_current_timezone_name() == "UTC"
    use(settings, in_kolkata)
    page = browser.get(LIST).text
    assert "Times are in the time zone Asia/Kolkata." in page
    assert SCRIPT not in page
    # The function knows no zone of bob.
    assert "Times are in the time zone Asia/Tokyo." in other.get(LIST).text


@pytest.mark.parametrize(
    "value",
    [
        "",
        "Mars/Olympus",
        "Europe",
        "../../etc/passwd",
        "/etc/localtime",
        "localtime",
        "right/UTC",
        "posixrules",
        "A" * 65,
        "Europe/Paris\n",
        "Europe/Paris/",
        "tzdata.zi",
        "Asia/Tokyo\x00",
        "Ásia",
        "<script>",
        "+0900",
        "Europe//Paris",
    ],
)
def test_a_cookie_without_a_zone_changes_nothing(alice, settings, value) -> None:
    settings.TIME_ZONE = "America/Lima"
    browser = sign_in(alice)
    key = browser.cookies["sessionid"].value
    page = browser.get(LIST, headers={"cookie": f"sessionid={key}; {cookie_header(COOKIE, value)}"})
    assert page.status_code == 200
    assert "Times are in the time zone America/Lima." in page.text


@pytest.mark.parametrize(
    ("name", "shown"),
    [("Etc/GMT+5", "-05"), *((name,) * 2 for name in ("America/Argentina/Ushuaia", "America/Port-au-Prince", "UTC"))],
)
def test_every_kind_of_name_is_a_zone(alice, settings, name, shown) -> None:
    settings.TIME_ZONE = "Asia/Tokyo"
    browser = sign_in(alice)
    browser.cookies[COOKIE] = name
    assert f"Times are in the time zone {shown}." in browser.get(LIST).text


def test_who_is_blocked_reads_until_when_in_the_zone_of_the_browser(alice, settings) -> None:
    settings.TIME_ZONE = "Asia/Tokyo"
    online.block(alice, until=timezone.now() + timedelta(hours=1))
    browser = Client()
    for value, shown in (("", "JST"), ("Asia/Kolkata", "IST"), ("../Asia/Kolkata", "JST")):
        browser.cookies[COOKIE] = value
        page = browser.post("/sign-in-by-form/", {"username": "alice", "password": PASSWORD}).text
        assert re.search(r"sign in until [^<]* (\w+)\.", page)[1] == shown  # type: ignore[index]


def test_the_page_is_not_loaded_again_where_a_message_would_be_lost(alice) -> None:
    browser, there = sign_in(alice), sign_in(alice)
    assert 'data-reloads="true"' in browser.get(LIST).text
    page = browser.post(f"{LIST}{sid_of(there)}/end/", follow=True).text
    assert "Signed out" in page
    assert 'data-reloads=""' in page
    assert 'data-reloads="true"' in browser.get(LIST).text


@pytest.mark.parametrize("function", [nowhere, a_path, a_number, fails])
def test_a_function_that_fails_is_logged_once_and_times_are_in_the_zone_of_the_site(
    alice, settings, caplog, function
) -> None:
    use(settings, function)
    browser = sign_in(alice)
    for _ in range(2):
        assert "Times are in the time zone UTC." in browser.get(LIST).text
    [logged] = [record for record in caplog.records if "USER_TIME_ZONE" in record.getMessage()]
    assert logged.levelname == "ERROR"
