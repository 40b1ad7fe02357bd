"""The lock of a session: who has it, what it lets wait, when it is given back, and what is left."""

import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.http import HttpRequest, HttpResponse
from django.test import AsyncClient, Client, RequestFactory
from django.urls import resolve, reverse

from django_redsess import online
from django_redsess.backend import SessionStore
from django_redsess.locking import one_at_a_time
from tests.helpers.proving import HeaderGuard
from tests.helpers.running import wait_until
from tests.helpers.serving import Answer, Site, serving
from tests.helpers.site import AUTH, SESSION
from tests.helpers.store import binding, keyspace, sid_of
from tests.helpers.visitors import Browser

SITE = "tests.helpers.site.middleware"

LOCKED = [
    *("count", "twice/count", "async/count", "async/twice/count"),
    *("class/count", "method/count", "decorated-class/count", "async/class/count"),
    *("rest/count", "rest-twice/count", "passive/count", "included/count", "in/async/count"),
]


@pytest.fixture
def cookie(new_session) -> str:
    return str(new_session(number=0).session_key)


@pytest.fixture(params=[Client, AsyncClient], ids=["wsgi", "asgi"])
def browser(request, site_settings) -> Browser:
    return Browser(request.param())


def waiting(redis) -> int:
    return sum(redis.zcard(name) for name in redis.keys("*:lock:waiting:*"))


@pytest.fixture
def ask_in_line(site, redis) -> Callable[..., Future[Answer]]:
    """Return a function that asks, and returns once the request stands in line."""

    def ask(path: str, cookie: str, other_site: Site | None = None) -> Future[Answer]:
        before = waiting(redis)
        answer = (other_site or site).ask_meanwhile(path, cookie)
        wait_until(lambda: waiting(redis) == before + 1)
        return answer

    return ask


@pytest.mark.parametrize("path", LOCKED)
def test_a_request_waits_for_the_one_before_and_reads_what_that_wrote(site, ask_in_line, cookie, path, locks) -> None:
    let_on = site.ask_held("/locks/count/", cookie)
    second = ask_in_line(f"/locks/{path}/", cookie)
    assert (let_on().text, second.result(20).text) == ("0", "1")
    assert (SessionStore(cookie)["number"], locks()) == (2, [])


def test_a_request_with_the_lock_does_not_hold_up_views_without_nor_other_sessions(site, cookie, new_session) -> None:
    let_on = site.ask_held("/locks/count/", cookie)
    assert site.ask("/held/write/colour/blue/", cookie).status == 200
    assert site.ask("/locks/count/", new_session(number=7).session_key).text == "7"
    assert let_on().text == "0"
    assert dict(SessionStore(cookie).items()) == {"number": 1, "colour": "blue"}


def test_requests_go_in_the_order_in_which_they_came(site, ask_in_line, cookie) -> None:
    let_on = site.ask_held("/locks/count/", cookie)
    answers = [ask_in_line("/locks/count/", cookie) for _ in range(12)]
    let_on()
    assert [answer.result(20).text for answer in answers] == [str(number) for number in range(1, 13)]


@pytest.mark.parametrize("way", ["", "async/"])
def test_who_waits_for_too_long_gets_a_409(site, cookie, locks, way: str) -> None:
    let_on = site.ask_held("/locks/count/", cookie)
    began = time.monotonic()
    answer = site.ask(f"/locks/{way}hasty/count/", cookie)
    assert (answer.status, answer.cookie, time.monotonic() - began > 0.1) == (409, None, True)
    assert [name.rpartition(":")[0] for name in locks()] == ["{redsess}:lock"]
    assert (let_on().text, SessionStore(cookie)["number"], locks()) == ("0", 1, [])


@pytest.mark.parametrize(
    ("path", "accept", "kind"),
    [
        ("hasty/count", "text/html", "text/plain; charset=utf-8"),
        ("hasty/count", "*/*", "application/json"),
        ("hasty/problem", "text/html", "application/problem+json"),
    ],
)
def test_a_409_says_when_to_come_back_and_is_not_kept(
    browser, redis, cookie, path: str, accept: str, kind: str
) -> None:
    redis.set(keyspace().of_sid(sid_of(cookie)).lock_of(sid_of(cookie)), "another's", px=20_000)
    browser.cookie = cookie
    response = browser.get(f"/locks/{path}/", headers={"Accept": accept, "Accept-Language": "de"})
    assert (response.status_code, response["Retry-After"]) == (409, "5")
    assert (response["Cache-Control"], response["Content-Type"]) == ("no-store", kind)
    assert "request of yours" in response.text


@pytest.mark.parametrize("way", ["", "async/"])
def test_a_site_may_answer_for_itself_and_may_not_wait_at_all(site, cookie, way: str) -> None:
    let_on = site.ask_held("/locks/count/", cookie)
    answer = site.ask(f"/locks/{way}at-once/count/", cookie)
    assert (answer.status, answer.text) == (423, "busy")
    let_on()
    assert site.ask(f"/locks/{way}at-once/count/", cookie).text == "1"


def test_one_that_takes_too_long_loses_the_lock_and_not_what_it_writes(site, cookie, locks) -> None:
    let_on = site.ask_held("/locks/brief/count/", cookie)
    # It has the lock now, and keeps it while the first one ends.
    second = site.ask_held("/locks/count/", cookie)
    assert site.ask("/held/write/colour/blue/", cookie).status == 200
    assert let_on().text == "0"
    assert [name.rpartition(":")[0] for name in locks()] == ["{redsess}:lock"]
    assert (second().text, locks()) == ("0", [])
    assert dict(SessionStore(cookie).items()) == {"number": 1, "colour": "blue"}


@pytest.mark.parametrize(
    ("path", "status", "number"),
    [("fails", 500, 0), ("answers-500", 500, 0), ("ends", 400, None), ("signs-out", 200, None)],
)
def test_the_lock_is_given_back_whatever_the_answer_is(browser, cookie, locks, path, status, number) -> None:
    browser.cookie = cookie
    assert browser.get(f"/locks/{path}/").status_code == status
    assert (SessionStore(cookie).get("number"), locks()) == (number, [])


def test_a_session_that_gets_a_new_key_lets_late_requests_go_on(site, ask_in_line, new_session, locks) -> None:
    cookie = new_session("7", number=0).session_key
    let_on = site.ask_held("/locks/cycles/", cookie)
    late = ask_in_line("/locks/count/", cookie)
    new = let_on().cookie
    assert (late.result(20).status, late.result().cookie) == (400, None)
    assert (site.ask("/locks/count/", new).text, locks()) == ("1", [])


@pytest.mark.parametrize("has_guard", [False, True])
@pytest.mark.parametrize("path", ["count", "async/count"])
def test_who_is_signed_out_while_a_request_waits_goes_on_as_nobody(
    site, ask_in_line, new_session, monkeypatch, path: str, has_guard: bool
) -> None:
    monkeypatch.setattr(binding, "guard", HeaderGuard() if has_guard else None)
    cookie = new_session("7", number=0).session_key
    let_on = site.ask_held("/locks/signs-out/", cookie)
    late = ask_in_line(f"/locks/{path}/", cookie)
    let_on()
    assert (late.result(20).status, late.result().text) == (200, "0")


def test_a_session_that_ends_meanwhile_lets_the_next_one_go_on(site, ask_in_line, cookie, locks) -> None:
    let_on = site.ask_held("/locks/count/", cookie)
    late = ask_in_line("/locks/count/", cookie)
    online.end(SessionStore(cookie).sid)
    # A guest's session that is gone leaves no note: the late one begins another.
    late_answer = late.result(20)
    assert (let_on().status, late_answer.status, late_answer.text) == (400, 200, "0")
    assert late_answer.cookie not in (None, cookie)
    assert locks() == []


def test_who_brings_no_session_or_an_unknown_one_has_no_lock(browser, locks, redis) -> None:
    browser.cookie = "k" * 32
    assert browser.get("/locks/holds/").content == b"False"
    browser.client.cookies.clear()
    assert browser.get("/locks/holds/").content == b"False"
    assert browser.get("/locks/count/").content == b"0"
    assert browser.get("/locks/count/").content == b"1"
    assert browser.get("/locks/holds/").content == b"True"
    assert locks() == []


@pytest.mark.parametrize("way", ["", "async/"])
def test_what_was_read_before_the_lock_was_had_is_read_again(site, ask_in_line, new_session, settings, way) -> None:
    cookie = new_session("7", number=0).session_key
    settings.MIDDLEWARE = [SESSION, AUTH, f"{SITE}.ReadsOnTheWayIn"]
    with serving() as site_that_reads:
        let_on = site_that_reads.ask_held("/locks/count/", cookie)
        second = ask_in_line(f"/locks/{way}count/", cookie, site_that_reads)
        assert (let_on().text, second.result(20).text) == ("0", "1")
    assert SessionStore(cookie)["number"] == 2


def test_what_was_changed_before_the_lock_was_had_is_merged(site, ask_in_line, cookie, settings) -> None:
    settings.MIDDLEWARE = [SESSION, f"{SITE}.WritesOnTheWayIn"]
    with serving() as site_that_writes:
        let_on = site_that_writes.ask_held("/locks/count/", cookie)
        second = ask_in_line("/locks/count/", cookie, site_that_writes)
        assert (let_on().text, second.result(20).text) == ("0", "1")
    assert dict(SessionStore(cookie).items()) == {"number": 2, "seen": 0}


@pytest.mark.parametrize("middleware", ["ReadsOnTheWayIn", "WritesOnTheWayIn"])
def test_who_was_signed_in_before_the_lock_was_had_and_is_no_more_gets_a_400(
    ask_in_line, new_session, settings, site, middleware, locks
) -> None:
    cookie = new_session("7", number=0).session_key
    settings.MIDDLEWARE = [SESSION, AUTH, f"{SITE}.{middleware}"]
    with serving() as site_that_reads:
        let_on = site_that_reads.ask_held("/locks/signs-out/", cookie)
        late = ask_in_line("/locks/count/", cookie, site_that_reads)
        assert (let_on().status, late.result(20).status) == (200, 400)
    assert locks() == []


@pytest.mark.parametrize("cookie", ["short", "Ä" * 32, "k k" * 10, "K-" * 16])
def test_what_can_be_no_key_has_no_lock(browser, sent, cookie: str) -> None:
    browser.cookie = cookie
    assert (browser.get("/locks/holds/").content, sent) == (b"False", [])


def test_names_and_arguments_of_included_views_stay(site_settings) -> None:
    assert reverse("paid:count") == "/locks/included/count/"
    found = resolve("/locks/included/count/")
    assert (found.app_names, found.namespaces, found.func.__name__) == (["shop"], ["paid"], "count")
    assert resolve("/locks/in/async/count/").kwargs == {"shop": 1}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"wait": -1}, "wait must be a number of seconds, 0 or more; it is -1."),
        ({"wait": float("inf")}, "wait must be a number of seconds, 0 or more; it is inf."),
        ({"hold": 0}, "hold must be above 0 seconds; it is 0."),
        ({"hold": -0.5}, "hold must be a number of seconds, 0 or more; it is -0.5."),
        ({"hold": "30"}, "hold must be a number of seconds; it is '30'."),
        ({"wait": True}, "wait must be a number of seconds; it is True."),
        ({"wait": None}, "wait must be a number of seconds; it is None."),
        ({"otherwise": 409}, "otherwise must be a view; it is 409."),
    ],
)
def test_a_wrong_argument_is_refused_where_the_view_is_decorated(given: dict[str, Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError)) as caught:
        one_at_a_time(**given)
    assert str(caught.value) == message


@pytest.mark.parametrize("given", [SessionStore, [], "shop.pay"])
def test_what_is_no_view_is_refused(given: Any) -> None:
    with pytest.raises(TypeError, match="decorates a view, a method or what include"):
        one_at_a_time()(given)


def test_without_our_middleware_it_is_an_error_that_says_so(cookie) -> None:
    @one_at_a_time()
    def view(request: HttpRequest) -> HttpResponse:
        return HttpResponse()

    request = RequestFactory().get("/")
    with pytest.raises(ImproperlyConfigured, match="SessionMiddleware"):
        view(request)
    request.session = SessionStore(cookie)
    request.COOKIES["sessionid"] = cookie
    with pytest.raises(ImproperlyConfigured, match="SessionMiddleware"):
        view(request)
    request.COOKIES.clear()
    assert view(request).status_code == 200
