"""Answers that caches share among visitors: none of them has a cookie of a session, unless the site itself made one."""

import pytest

from django_redsess import online, viewed
from django_redsess.backend import SessionStore
from tests.helpers.store import make_older, stored
from tests.helpers.visitors import Browser

SHARED = [
    *("public, max-age=60", "s-maxage=60", "max-age=60, S-MaxAge = 60", "Public", "max-age=60", "max-age=0, no-cache"),
    *('private="X-Colour", max-age=60', "no-store, must-understand, max-age=60"),
    *("Expires: Wed, 21 Oct 2099 07:28:00 GMT", "CDN-Cache-Control: max-age=60", "Surrogate-Control: max-age=60"),
    # What is said to caches in front of the site overrides what is said to all.
    *("private | CDN-Cache-Control: max-age=60", "no-store | Cloudflare-CDN-Cache-Control: max-age=60"),
]
OWN = [
    *("", "private, max-age=60", "no-store", "max-age=60, no-store", "no-cache"),
    *("private | Expires: Wed, 21 Oct 2099 07:28:00 GMT", "CDN-Cache-Control: no-store"),
]
FEW = ["public, max-age=60", "max-age=60", "private | CDN-Cache-Control: max-age=60"]


@pytest.fixture
def says(site, settings) -> None:
    """Guests who view something get a session, and answers say who may keep them."""
    settings.MIDDLEWARE = [
        settings.MIDDLEWARE[0],
        "django.middleware.http.ConditionalGetMiddleware",
        "tests.helpers.site.middleware.Says",
        *settings.MIDDLEWARE[1:],
    ]
    settings.REDSESS = {**settings.REDSESS, "VIEWED_GUESTS": True, "SLIDING": True, "TOUCH_INTERVAL": 0}


pytestmark = pytest.mark.usefixtures("says")


def records(browser: Browser) -> str:
    return "/items/arecords/lamp" if browser.views else "/items/records/lamp"


@pytest.mark.parametrize("by", ["middleware", "view"])
def test_a_guest_who_views_something_gets_a_session_only_with_an_answer_of_its_own(browser, redis, by) -> None:
    for said in (*SHARED, *OWN):
        browser.client.cookies.clear()
        before = stored(redis)
        answer = browser.get("/items/plain/lamp" if by == "middleware" else records(browser), headers={"X-Says": said})
        assert answer.status_code == 200
        assert (list(answer.cookies), stored(redis) - before) == (([], 0) if said in SHARED else (["sessionid"], 1)), (
            said
        )
        if said in OWN:
            assert "Cookie" in answer["Vary"], said
            assert [item for item, _ in viewed.recent(SessionStore(browser.cookie))] == ["lamp"]


def test_a_sliding_session_slides_and_its_cookie_goes_with_own_answers(browser, alice, redis, settings) -> None:
    for said in (*SHARED, *OWN):
        browser.sign_in(alice, colour="blue")
        make_older(redis, browser.sid, settings.SESSION_COOKIE_AGE // 2)
        before = online.get(browser.sid).expires_at
        answer = browser.get(f"{browser.views}/who/", headers={"X-Says": said})
        assert answer.content == b"alice"
        assert (list(answer.cookies) == []) == (said in SHARED), said
        assert online.get(browser.sid).expires_at > before, said


@pytest.mark.parametrize("said", FEW)
def test_nothing_else_of_a_session_goes_with_it(browser, alice, settings, new_session, said: str) -> None:
    settings.SESSION_SAVE_EVERY_REQUEST = True
    browser.sign_in(alice, colour="blue")
    answers = [
        browser.get(f"{browser.views}/who/", headers={"X-Says": said}),
        # What the view changes is saved; the browser has that cookie.
        browser.get(f"{browser.views}/write/colour/red/", headers={"X-Says": said}),
        browser.client.head("/who/", headers={"X-Says": said}) if not browser.views else None,
    ]
    assert SessionStore(browser.cookie)["colour"] == "red"
    # Nor that a cookie is to be deleted, or why.
    online.end(browser.sid, message="Bye.")
    answers.append(browser.get(f"{browser.views}/read/colour/", headers={"X-Says": said}))
    for answer in filter(None, answers):
        assert answer.status_code == 200
        assert list(answer.cookies) == []
        assert "X-Session-Ended" not in answer
    answer = browser.get(f"{browser.views}/read/colour/")
    assert answer["X-Session-Ended"].startswith("kicked")
    assert answer.cookies["sessionid"]["max-age"] == 0


def test_a_message_of_an_end_begins_no_session_and_what_the_site_writes_does(browser, alice, redis, settings) -> None:
    settings.MESSAGE_STORAGE = "django.contrib.messages.storage.session.SessionStorage"
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, "django.contrib.messages.middleware.MessageMiddleware"]
    browser.sign_in(alice, colour="blue")
    online.end(browser.sid, message="Bye.")
    answer = browser.get(f"{browser.views}/read/colour/", headers={"X-Says": "public"})
    assert (answer.status_code, list(answer.cookies), stored(redis)) == (200, [], 0)
    # The next answer that is the visitor's own has it.
    assert browser.get(f"{browser.views}/read/colour/")["X-Session-Ended"].startswith("kicked")
    assert "_messages" in SessionStore(browser.cookie)
    browser.client.cookies.clear()
    answer = browser.get(f"{browser.views}/write/colour/red/", headers={"X-Says": "public"})
    assert "Cookie" in answer["Vary"]
    assert SessionStore(browser.cookie)["colour"] == "red"


def test_what_says_that_nothing_has_changed_brings_no_cookie(browser, alice, redis, settings) -> None:
    browser.sign_in(alice, colour="blue")
    tag = browser.get("/read/colour/", headers={"X-Says": "public"})["ETag"]
    make_older(redis, browser.sid, settings.SESSION_COOKIE_AGE // 2)
    answer = browser.get("/read/colour/", headers={"If-None-Match": tag})
    assert (answer.status_code, list(answer.cookies)) == (304, [])


@pytest.mark.parametrize("place", [0, 1], ids=["above", "below"])
def test_beside_djangos_cache_no_cookie_goes_with_what_others_may_get(browser, settings, request, place: int) -> None:
    cache = {"BACKEND": "django.core.cache.backends.locmem.LocMemCache", "LOCATION": request.node.name}
    settings.CACHES = {**settings.CACHES, "pages": cache}
    settings.CACHE_MIDDLEWARE_ALIAS = "pages"
    caching = ["django.middleware.cache.UpdateCacheMiddleware"], ["django.middleware.cache.FetchFromCacheMiddleware"]
    settings.MIDDLEWARE = [*settings.MIDDLEWARE[:place], *caching[0], *settings.MIDDLEWARE[place:], *caching[1]]
    visitors = [browser, Browser(type(browser.client)()), Browser(type(browser.client)())]
    answers = [visitor.get("/items/plain/lamp") for visitor in visitors for _ in range(2)]
    cookies = [answer.cookies["sessionid"].value for answer in answers if answer.cookies]
    assert len(cookies) == len(set(cookies)) == (0 if place else 3)
    assert [answer for answer in answers if answer.cookies and answer.has_header("Expires")] == []


@pytest.mark.parametrize("said", FEW)
def test_the_cookie_of_an_unknown_session_is_deleted_by_an_answer_of_its_own_only(browser, said: str) -> None:
    browser.cookie = "a" * 32
    # A shared cache would delete the cookies of all who get that answer.
    assert list(browser.get(f"{browser.views}/read/colour/", headers={"X-Says": said}).cookies) == []
    assert browser.get(f"{browser.views}/read/colour/").cookies["sessionid"]["max-age"] == 0
