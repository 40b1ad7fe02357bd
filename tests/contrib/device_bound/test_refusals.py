"""What a request that is refused gets: a page that goes on by itself, one that says what to do, or JSON."""

import json
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import lxml.html
import pytest
from django.conf import settings as django_settings
from django.core.handlers.wsgi import WSGIHandler
from django.http import HttpRequest, HttpResponse
from django.test import RequestFactory
from django.urls import clear_script_prefix, re_path

from django_redsess.backend import SessionStore
from django_redsess.contrib.device_bound import guard
from tests.helpers.site import urls as site_urls
from tests.helpers.site import views

NAVIGATES = {"accept": "text/html,*/*;q=0.8", "sec_fetch_mode": "navigate", "sec_fetch_dest": "document"}
FROM_US = {**NAVIGATES, "sec_fetch_site": "same-origin"}
FROM_ELSEWHERE = {**NAVIGATES, "sec_fetch_site": "cross-site"}
SKIPPED = {**FROM_US, "secure_session_skipped": 'unreachable;session_identifier="sessionid"'}

urlpatterns = [*site_urls.urlpatterns, re_path("", views.who)]


class Page:
    """A page, as a browser reads it."""

    def __init__(self, response: HttpResponse, *, is_finished: bool = True) -> None:
        assert response.status_code == 401
        assert ("no-store" in response.get("Cache-Control", "")) == is_finished
        assert "Cookie" in response["Vary"]
        assert response["Content-Type"] == "text/html; charset=utf-8"
        self.root = lxml.html.fromstring(response.content.decode())
        self.text = " ".join(self.root.text_content().split())
        self.links = {link.text: str(link.get("href")) for link in self.root.iter("a")}
        metas = self.root.xpath("//head/meta[@http-equiv='refresh']/@content")
        self.refresh = metas[0] if metas else None
        assert not self.root.xpath("//script | //style | //*[@style] | //*[@onclick]")
        assert self.root.xpath("string(//h1)") == self.root.xpath("string(//title)") != ""


@pytest.fixture
def lost(device: Any) -> Any:
    """A browser that has lost its proof, and sends each request as it is."""
    device.proof = None
    return device


def test_who_comes_from_another_site_goes_on_by_itself_once(lost) -> None:
    page = Page(lost.send("get", "/held/who/", **FROM_ELSEWHERE))
    assert page.refresh == "0; url=/held/who/"
    assert page.links == {"Go on": "/held/who/"}
    assert "Then the page opens by itself." in page.text
    assert Page(lost.send("get", "/held/who/", **FROM_US)).refresh is None
    # The browser proves itself before it sends the request of the page.
    assert lost.get("/held/who/", **FROM_US).content == b"1"


def test_who_has_a_proof_that_is_too_old_goes_on_by_itself_once(device, later) -> None:
    """A browser whose clock is late still has it, and does not ask for another one."""
    later(700)
    page = Page(device.send("get", "/held/who/", **FROM_US))
    assert page.refresh == "0; url=/held/who/"
    device.proof = None
    assert Page(device.send("get", "/held/who/", **FROM_US)).refresh is None


ADDRESSES = [
    ("/plain/", "a=1&b=2", "/plain/?a=1&b=2"),
    ("/plain/", "next=//evil.example/;url=//evil.example/", "/plain/?next=//evil.example/;url=//evil.example/"),
    ('/"><script>alert(1)</script>/', "", "/%22%3E%3Cscript%3Ealert(1)%3C/script%3E/"),
    ("//evil.example/", "", "/%2Fevil.example/"),
    ("/\\evil.example/", "", "/%5Cevil.example/"),
    ("/'quoted'/", "'", "/'quoted'/?'"),
    ("/\xe9\u4e2d/", "", "/%C3%A9%E4%B8%AD/"),
    ("/javascript:alert(1)", "", "/javascript:alert(1)"),
]


@pytest.mark.unit
@pytest.mark.parametrize(("where", "query", "named"), ADDRESSES)
def test_a_page_goes_on_to_its_own_address_and_to_no_other(device_bound, where: str, query: str, named: str) -> None:
    request = HttpRequest()
    request.method, request.path, request.path_info, request.META["QUERY_STRING"] = "GET", where, where, query
    page = Page(guard.refused_response(guard.GO_ON, False, request), is_finished=False)
    assert page.refresh == f"0; url={named}"
    assert page.links == {"Go on": named}


@pytest.mark.parametrize("site", ["same-origin", "same-site", "none", None])
def test_who_does_not_come_from_another_site_reads_what_to_do(lost, site: str | None) -> None:
    page = Page(lost.send("get", "/held/who/?a=1&b=2", **NAVIGATES, **({"sec_fetch_site": site} if site else {})))
    assert page.refresh is None
    assert page.text.startswith("Please sign in again")
    assert "This browser could not prove that it runs there." in page.text
    assert "If that does not help, sign in again." in page.text
    assert page.links["Try again"] == "/held/who/?a=1&b=2"
    assert parse_qs(urlsplit(page.links["Sign in again"]).query) == {"next": ["/held/who/?a=1&b=2"]}
    assert urlsplit(page.links["Sign in again"]).path == "/login/"
    assert "not saved" not in page.text


@pytest.mark.parametrize("method", ["post", "head", "get"])
def test_only_a_navigation_goes_on_by_itself(lost, method: str) -> None:
    headers = FROM_ELSEWHERE if method != "get" else {**FROM_ELSEWHERE, "sec_fetch_mode": "no-cors"}
    response = lost.send(method, "/held/who/", **headers)
    assert (response.status_code, b"refresh" in response.content) == (401, False)


def test_who_has_sent_a_form_reads_that_it_was_not_saved(lost) -> None:
    page = Page(lost.send("post", "/held/write/colour/blue/", {"a": "b"}, **FROM_US))
    assert "What you just sent was not saved." in page.text
    assert page.links == {"Sign in again": "/login/"}


@pytest.mark.parametrize(
    "word", ["unreachable", "server_error", "quota_exceeded", "a_new_word", "x" * 9000, '";<b>', "é"]
)
def test_a_browser_that_could_not_prove_itself_tries_again(lost, word: str) -> None:
    response = lost.send("get", "/held/who/?a=1", **{**SKIPPED, "secure_session_skipped": word})
    page = Page(response)
    assert page.refresh == "5; url=/held/who/?a=1"
    assert response["Retry-After"] == "5"
    assert page.text.startswith("Not available for the moment")
    assert "Your browser could not reach this site" in page.text
    assert "This page tries again every five seconds. You are still signed in." in page.text
    assert set(page.links) == {"Try again"}


def test_a_browser_that_could_not_prove_itself_gets_in_when_it_can(lost) -> None:
    assert Page(lost.send("get", "/held/who/", **SKIPPED)).refresh
    assert lost.get("/held/who/", **FROM_US).content == b"1"


@pytest.mark.parametrize("headers", [{"accept": "application/json"}, {"accept": "*/*", "sec_fetch_mode": "cors"}])
def test_programs_get_json(lost, headers: dict[str, str]) -> None:
    response = lost.send("get", "/held/who/", **headers)
    assert (response.status_code, response["Content-Type"]) == (401, "application/json")
    assert "no-store" in response["Cache-Control"]
    found = json.loads(response.content)
    assert found["detail"].endswith("If that does not help, sign in again.")
    assert found["type"].endswith("#device-not-proven")


def test_a_marked_view_sends_problem_details(lost) -> None:
    response = lost.send("get", "/locks/hasty/problem/", **FROM_US)
    assert (response.status_code, response["Content-Type"]) == (401, "application/problem+json")
    found = json.loads(response.content)
    assert (found["status"], found["type"].rpartition("#")[2]) == (401, "device-not-proven")


SIGN_IN_PATHS = ["/login/", "/login/?next=/held/who/", "/admin/login/", "/callback/of/provider/"]


@pytest.mark.parametrize("path", SIGN_IN_PATHS)
def test_a_browser_that_has_lost_its_key_can_sign_in_again(lost, settings, path: str) -> None:
    settings.REDSESS = {**settings.REDSESS, "DEVICE_BOUND_OPEN_PATHS": ["/callback/"]}
    response = lost.send("get", path, **FROM_US)
    assert (response.status_code, [*response.cookies]) in [(200, ["csrftoken"]), (404, [])]


@pytest.mark.parametrize("path", ["/login/", "/admin/login/"])
def test_who_comes_to_sign_in_from_another_site_goes_on_first(lost, path: str) -> None:
    assert Page(lost.send("get", path, **FROM_ELSEWHERE)).refresh == f"0; url={path}"


@pytest.mark.parametrize("path", ["/login/no/", "/admin/", "/admin/login/x/", "/shop/login/", "/callback"])
def test_other_paths_do_not_go_on_as_nobody(lost, path: str, settings) -> None:
    settings.ROOT_URLCONF = __name__
    settings.REDSESS = {**settings.REDSESS, "DEVICE_BOUND_OPEN_PATHS": ["/callback/"]}
    assert Page(lost.send("get", path, **FROM_US)).refresh is None


@pytest.mark.parametrize("login_url", ["login", "/login/", "https://testserver/login/"])
def test_the_sign_in_page_is_where_the_setting_says(lost, settings, login_url: str) -> None:
    settings.LOGIN_URL = login_url
    assert lost.send("get", "/login/", **FROM_US).status_code == 200
    assert urlsplit(Page(lost.send("get", "/held/who/", **FROM_US)).links["Sign in again"]).path == "/login/"


def test_a_sign_in_page_on_another_site_is_none_of_ours(lost, settings) -> None:
    settings.LOGIN_URL = "https://id.example/held/who/"
    page = Page(lost.send("get", "/held/who/", **FROM_US))
    assert page.links["Sign in again"] == "https://id.example/held/who/?next=https%3A//testserver/held/who/"


@pytest.mark.parametrize("login_url", ["no_such_name", "/no/such/page/"])
def test_without_a_sign_in_page_there_is_no_link_to_it(lost, settings, login_url: str) -> None:
    settings.LOGIN_URL = login_url
    assert set(Page(lost.send("get", "/held/who/", **FROM_US)).links) == {"Try again"}


@pytest.mark.django_db
def test_pages_of_the_admin_lead_to_its_own_sign_in(lost) -> None:
    page = Page(lost.send("get", "/admin/auth/user/?q=a", **FROM_US))
    assert page.links["Sign in again"] == "/admin/login/?next=/admin/auth/user/%3Fq%3Da"


@pytest.fixture
def ask_below(lost) -> Iterator[Callable[[str], HttpResponse]]:
    """Return a function that asks for a page of the site below ``/shop``, as a web server does."""
    names = {f"HTTP_{name.upper()}": value for name, value in FROM_US.items()}
    cookie = f"{django_settings.SESSION_COOKIE_NAME}={lost.cookie}"

    def ask(where: str) -> HttpResponse:
        environ = RequestFactory().get(where, SCRIPT_NAME="/shop", HTTP_COOKIE=cookie, **names).environ
        return WSGIHandler()(environ, lambda *args: None)

    yield ask
    clear_script_prefix()


@pytest.mark.django_db
def test_a_site_below_a_path_has_its_sign_in_page_there(ask_below, settings) -> None:
    settings.LOGIN_URL = "login"
    assert ask_below("/login/").status_code == 200
    assert ask_below("/admin/login/").status_code == 200
    page = Page(ask_below("/held/who/"))
    assert page.links == {"Try again": "/shop/held/who/", "Sign in again": "/shop/login/?next=/shop/held/who/"}
    settings.LOGIN_URL = "/login/"
    # This is the address of another site.
    assert Page(ask_below("/login/")).links == {"Try again": "/shop/login/"}


def test_a_new_session_begins_at_the_sign_in_of_a_browser_without_its_key(lost, settings) -> None:
    settings.REDSESS = {**settings.REDSESS, "DEVICE_BOUND_OPEN_PATHS": ["/held/sign-in/"]}
    before = lost.cookie
    assert lost.send("get", "/held/sign-in/2/", **FROM_US).status_code == 200
    assert lost.cookie != before
    assert lost.send("get", "/held/who/").content == b"2"
    # The old one lives on, for a browser that has its key.
    assert SessionStore(before)["_auth_user_id"] == "1"


def test_a_page_that_fails_is_a_line(lost, settings) -> None:
    settings.TEMPLATES = [{"BACKEND": "django.template.backends.django.DjangoTemplates"}]
    response = lost.send("get", "/held/who/", **FROM_US)
    assert (response.status_code, response["Content-Type"]) == (401, "text/plain; charset=utf-8")
    assert "This browser could not prove" in response.content.decode()
