"""The server can't be reached: nobody is taken for signed out, and everybody gets a page that says so."""

import json
import logging
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest
from django.contrib.auth import SESSION_KEY
from django.core.management import CommandError, call_command
from django.test import Client

from django_redsess import online, viewed
from django_redsess.backend import SessionStore
from django_redsess.exceptions import SessionStoreUnavailable
from django_redsess.session import store
from tests.helpers.outages import BUDGET, TIMEOUT, caches, frozen, lines_of
from tests.helpers.store import keyspace, scripts, stored
from tests.helpers.visitors import Browser, assert_unavailable

pytestmark = pytest.mark.django_db

SESSION = "django_redsess.middleware.SessionMiddleware"
AUTH = "django.contrib.auth.middleware.AuthenticationMiddleware"

PLACES = {
    "a view": ("/who/", None),
    "an asynchronous view": ("/async/who/", None),
    "a view that takes errors for a no": ("/swallowed/", None),
    "a view that makes another error of it": ("/fails-by-it/", None),
    "a deferred template": ("/deferred/", None),
    "a condition in a template": ("/condition/", None),
    "LoginRequiredMiddleware": ("/plain/", (AUTH, "django.contrib.auth.middleware.LoginRequiredMiddleware")),
    "a middleware before the view": ("/plain/", (SESSION, "tests.helpers.site.middleware.ReadsOnTheWayIn")),
    "a middleware after the view": ("/plain/", (SESSION, "tests.helpers.site.middleware.ReadsOnTheWayOut")),
}


@pytest.fixture(params=PLACES)
def page(request, settings, site) -> str:
    """A page whose session is read in the place that the test is named after."""
    found, added = PLACES[request.param]
    if added:
        after, name = added
        at = settings.MIDDLEWARE.index(after) + 1
        settings.MIDDLEWARE = [*settings.MIDDLEWARE[:at], name, *settings.MIDDLEWARE[at:]]
    return found


@pytest.fixture(autouse=True)
def log(log, site) -> pytest.LogCaptureFixture:
    log.clear()
    return log


def assert_logged_once(log: pytest.LogCaptureFixture, *, outages: int = 1) -> None:
    lines = lines_of(log, "django_redsess", logging.ERROR)
    assert len(lines) == outages, lines
    assert all(line.startswith("Sessions can't be reached") for line in lines)
    assert lines_of(log, "django.request", logging.ERROR) == []


def test_refused_at_load_is_a_503_and_the_visitor_stays_signed_in(browser, alice, proxy, log, page: str) -> None:
    browser.sign_in(alice)
    cookie = browser.cookie
    proxy.refuse()
    for _ in range(3):
        assert_unavailable(browser.get(page))
        assert browser.seconds < BUDGET
    assert str(cookie) not in log.text
    proxy.restore()
    assert browser.get(page).status_code == 200
    assert browser.get("/who/").content == b"alice"
    assert browser.cookie == cookie
    assert_logged_once(log)
    assert len(lines_of(log, "django_redsess", logging.INFO)) == 1


def test_a_csrf_token_in_the_session_is_a_503_and_good_afterwards(browser, alice, proxy, log, settings) -> None:
    settings.CSRF_USE_SESSIONS = True
    browser.client.handler.enforce_csrf_checks = True
    browser.sign_in(alice)
    token = browser.get("/form/").content.decode().split('value="')[1].split('"')[0]
    form = {"csrfmiddlewaretoken": token, "colour": "blue"}
    proxy.refuse()
    assert_unavailable(browser.get("/form/"))
    assert_unavailable(browser.post("/form/", form))
    proxy.restore()
    assert browser.post("/form/", form).status_code == 200
    assert browser.get("/read/colour/").content == b"blue"
    assert_logged_once(log)


def test_a_streaming_answer_already_begun_breaks_off(site, alice, proxy) -> None:
    browser = Browser(Client())
    browser.sign_in(alice)
    proxy.refuse()
    response: Any = browser.get("/stream/_auth_user_id/")
    assert next(iter(response.streaming_content)) == b"begun, "
    with pytest.raises(SessionStoreUnavailable):
        list(response.streaming_content)


def test_who_needs_no_session_is_served(browser, alice, proxy) -> None:
    browser.sign_in(alice)
    proxy.refuse()
    response = browser.get("/plain/")
    assert (response.status_code, list(response.cookies)) == (200, [])
    browser.client.cookies.clear()
    assert browser.get("/who/").content == b"nobody"
    assert_unavailable(browser.post("/write/colour/blue/"))


def test_many_requests_at_once_write_one_line(site, alice, proxy, log) -> None:
    browsers = [Browser(Client()) for _ in range(8)]
    for browser in browsers:
        browser.sign_in(alice)
    proxy.refuse()
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda browser: browser.get("/user-id/").status_code, browsers))
    assert answers == [503] * 8
    assert_logged_once(log)


@pytest.mark.parametrize("at_save", [False, True], ids=["met at load", "met at save"])
def test_each_outage_is_logged_at_its_beginning_and_its_end(browser, alice, proxy, meanwhile, log, at_save) -> None:
    browser.sign_in(alice)
    for _ in range(2):
        meanwhile(proxy.refuse) if at_save else proxy.refuse()
        browser.post("/write/colour/red/")
        browser.get("/who/")
        proxy.restore()
        browser.get("/who/")
        browser.get("/who/")
    assert_logged_once(log, outages=2)
    assert len(lines_of(log, "django_redsess", logging.INFO)) == 2


def test_a_page_that_fails_itself_is_a_line_of_text(browser, alice, proxy, settings) -> None:
    browser.sign_in(alice)
    # Its style sheet has not been collected.
    storage = "django.contrib.staticfiles.storage.ManifestStaticFilesStorage"
    settings.STORAGES = {**settings.STORAGES, "staticfiles": {"BACKEND": storage}}
    proxy.refuse()
    response = browser.get(f"{browser.views}/who/")
    assert_unavailable(response)
    assert response.content == b"Sessions can't be reached."
    # Nor does it need templates of apps.
    settings.TEMPLATES = []
    assert_unavailable(browser.get(f"{browser.views}/who/"))


@pytest.mark.parametrize(
    ("path", "silent"),
    [
        *[("write/colour/red", silent) for silent in (False, True)],
        *[(path, False) for path in ("write-and-save/colour/red", "write-and-swallow/colour/red", "cycle", "sign-out")],
    ],
)
def test_an_outage_at_save_is_503_and_loses_nothing(browser, alice, proxy, redis, meanwhile, log, path, silent) -> None:
    browser.sign_in(alice, colour="blue")
    cookie, before = browser.cookie, redis.hgetall(keyspace().of_sid(browser.sid).login)
    meanwhile(proxy.silence if silent else proxy.refuse)
    # One that swallows the outage is a synchronous view only.
    assert_unavailable(browser.post(f"{'' if 'swallow' in path else browser.views}/{path}/"))
    assert browser.seconds < BUDGET
    assert_unavailable(browser.post(f"{browser.views}/sign-out/"))
    proxy.restore()
    assert redis.hgetall(keyspace().of_sid(browser.sid).login) == before
    assert browser.get("/read/colour/").content == b"blue"
    assert browser.get("/who/").content == b"alice"
    assert (browser.cookie, stored(redis)) == (cookie, 1)
    assert_logged_once(log)
    assert str(cookie) not in log.text
    assert browser.post(f"{browser.views}/sign-out/").status_code == 200
    assert browser.get("/who/").content == b"nobody"


def test_refused_at_the_first_save_gives_no_cookie(browser, proxy, redis, meanwhile) -> None:
    meanwhile(proxy.refuse)
    assert_unavailable(browser.post(f"{browser.views}/write/colour/red/"))
    proxy.restore()
    assert (browser.cookie, stored(redis)) == (None, 0)


@pytest.mark.parametrize(
    ("partitions", "half_way"),
    [(1, False), (4, True)],
    ids=["", "half way to another partition"],
    indirect=["partitions"],
)
def test_who_is_refused_at_sign_in_stays_a_guest(browser, alice, partitions, proxy, redis, meanwhile, half_way) -> None:
    browser.post("/write/colour/blue/")
    while half_way and keyspace().of_sid(browser.sid) == keyspace().of_user(str(alice.pk)):
        online.end(browser.sid)
        browser.client.cookies.clear()
        browser.post("/write/colour/blue/")
    cookie, before = browser.cookie, redis.hgetall(keyspace().of_sid(browser.sid).login)
    if half_way:
        proxy.before(scripts.ROTATE.digest, proxy.refuse)
    else:
        meanwhile(proxy.refuse)
    assert_unavailable(browser.post(f"{browser.views}/sign-in/alice/"))
    proxy.restore()
    assert redis.hgetall(keyspace().of_sid(browser.sid).login) == before
    assert browser.get("/read/colour/").content == b"blue"
    assert browser.get("/who/").content == b"nobody"
    assert browser.cookie == cookie
    if not half_way:
        assert (stored(redis), online.count()) == (1, 0)
    assert browser.post(f"{browser.views}/sign-in/alice/").status_code == 200
    assert browser.get("/who/").content == b"alice"
    assert browser.get("/read/colour/").content == b"blue"


def test_no_answer_is_a_503_in_time_and_a_request_waits_for_it_once(browser, alice, proxy, log) -> None:
    """Also where its template goes on as if nobody were signed in, and there would be more to ask the server."""
    browser.sign_in(alice)
    proxy.silence()
    for path in (f"{browser.views}/who/", "/who/"):
        assert_unavailable(browser.get(path))
        assert browser.seconds < BUDGET
    before = proxy.accepted
    assert_unavailable(browser.get("/items/for-somebody/lamp"))
    assert proxy.accepted == before + 1
    proxy.restore()
    assert browser.get("/who/").content == b"alice"
    assert_logged_once(log)


def test_a_frozen_server_is_a_503_in_time(alice, own_server, use_server, meanwhile, log) -> None:
    browser = Browser(Client())
    use_server(own_server, timeout=TIMEOUT)
    browser.sign_in(alice, colour="blue")
    with frozen(own_server):
        assert_unavailable(browser.get("/who/"))
        assert browser.seconds < BUDGET
    assert browser.get("/who/").content == b"alice"
    with ExitStack() as stack:
        meanwhile(lambda: stack.enter_context(frozen(own_server)))
        assert_unavailable(browser.post("/write/colour/red/"))
        assert browser.seconds < BUDGET
    # What was sent before the time was up, the server may still do.
    assert browser.get("/read/colour/").content in (b"blue", b"red")
    assert browser.get("/who/").content == b"alice"
    assert stored(own_server.client) == 1
    assert_logged_once(log, outages=2)


def test_clearsessions_says_that_it_could_not_reach_the_server(settings) -> None:
    settings.CACHES = caches("redis://127.0.0.1:1/0")
    with pytest.raises(CommandError, match="can't be reached"):
        call_command("clearsessions")


BROWSERS = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
SOON, LATER = "Please try again in a few seconds.", "Please try again later."


def ask(browser: Browser, accept: str = "", path: str = "/who/") -> Any:
    answer = browser.get(f"{browser.views}{path}", headers={"Accept": accept} if accept else {})
    assert_unavailable(answer)
    return answer


def test_programs_get_json_and_browsers_a_page(browser, alice, proxy) -> None:
    browser.sign_in(alice)
    proxy.refuse()
    for accept in ("", BROWSERS, "text/html, application/json;q=0.5"):
        answer = ask(browser, accept)
        assert (answer["Content-Type"].partition(";")[0], answer["Retry-After"]) == ("text/html", "5"), accept
        assert '<a class="redsess-button" href="">' in answer.text
        assert SOON in answer.text
    for accept in ("application/json", "*/*", "application/vnd.api+json", "text/html;q=0.1, */*"):
        answer = ask(browser, accept)
        assert (answer["Content-Type"], answer["Retry-After"]) == ("application/json", "5"), accept
        told = json.loads(answer.content)
        assert set(told) == {"type", "detail"}
        assert (told["type"].rpartition("#")[2], told["detail"].endswith(SOON)) == ("store-unavailable", True)


@pytest.mark.parametrize("debug", [False, True])
@pytest.mark.parametrize("path", ["/who/", "/swallowed/"])
def test_what_does_not_pass_by_itself_is_told_apart(browser, alice, proxy, settings, server, debug, path) -> None:
    settings.DEBUG = debug
    browser.sign_in(alice)
    proxy.refuse()
    passing = ask(browser, BROWSERS)
    assert ("be reached: " in passing.text, "CACHES[" in passing.text) == (debug, debug)
    settings.CACHES = caches(server.url.replace("://", "://nobody:hunter2@"))
    for accept in (BROWSERS, "*/*"):
        answer = ask(browser, accept, "/who/" if browser.views else path)
        assert (LATER in answer.text, SOON in answer.text, answer["Retry-After"]) == (True, False, "60")
        # The words are those of the server, and the password is nobody's business.
        assert ("refuses: " in answer.text, "LOCATION" in answer.text) == (debug, debug)
        assert "hunter2" not in answer.text


@pytest.mark.parametrize("through", [SessionStore.save, viewed.recent], ids=["save", "viewed"])
def test_an_object_that_outlives_an_outage_can_be_used_again(site, proxy, new_session, monkeypatch, through) -> None:
    """That of a socket: no request is answered, and it lives on for hours."""
    session = SessionStore(new_session("7", colour="blue").session_key)
    session["size"] = "L"
    proxy.refuse()
    with pytest.raises(SessionStoreUnavailable):
        session.save()
    proxy.restore()
    # Whoever made this object waits only once.
    with pytest.raises(SessionStoreUnavailable):
        through(session)
    monkeypatch.setattr(store, "OUTAGE_SECONDS", 0)
    through(session)
    session.save()
    found = SessionStore(session.session_key)
    assert (found["size"], found[SESSION_KEY]) == ("L", "7")
