"""Which of Django's signals is a sign-in: one row and one device for it, and for a token nothing at all."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth import login
from django.contrib.auth.models import User
from django.contrib.auth.signals import user_logged_in, user_logged_out
from django.http import HttpRequest, HttpResponse
from django.test import AsyncClient, Client
from django.urls import include, path
from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from django_redsess import online
from django_redsess.backend import SessionStore
from django_redsess.contrib.history.models import SignIn
from django_redsess.responses import sign_out_request
from tests.helpers.store import make_older
from tests.helpers.visitors import Browser, name_in

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("history")]

BACKEND = "django.contrib.auth.backends.ModelBackend"


def signs_in(request: Any, user: User) -> None:
    login(request, user, BACKEND)


def by_token(request: Any, user: User) -> None:
    """As packages of tokens do it: nothing is written into the session."""
    user_logged_in.send(sender=User, request=request, user=user)


def twice(request: Any, user: User) -> None:
    login(request, user, BACKEND)
    by_token(request, user)


def after_reading(request: Any, user: User) -> None:
    request.session.get("colour")
    by_token(request, user)


def after_writing(request: Any, user: User) -> None:
    request.session["colour"] = "blue"
    by_token(request, user)


def token_goes(request: Any, user: User) -> None:
    request.session.get("colour")
    user_logged_out.send(sender=User, request=request, user=user)
    request.session.flush()


WAYS: dict[str, Callable[[Any, User], None]] = {
    each.__name__: each for each in (signs_in, by_token, twice, after_reading, after_writing, token_goes)
}


class ByRest(APIView):
    def post(self, request: Any, way: str, name: str) -> Response:
        WAYS[way](request, User.objects.get(username=name))
        return Response("done")


def by_django(request: HttpRequest, way: str, name: str) -> HttpResponse:
    WAYS[way](request, User.objects.get(username=name))
    return HttpResponse("done")


def for_app(request: HttpRequest, name: str) -> HttpResponse:
    """As allauth's API for apps signs in: the session's key is in the answer, and no cookie is."""
    before, request.session = request.session, SessionStore()
    login(request, User.objects.get(username=name), BACKEND)
    request.session.save()
    request.session = before
    return HttpResponse("done")


urlpatterns = [
    path("app/<name>/", for_app),
    path("rest/<way>/<name>/", ByRest.as_view()),
    path("django/<way>/<name>/", by_django),
    path("", include("tests.helpers.site.urls")),
]


@pytest.fixture(autouse=True)
def users() -> dict[str, User]:
    return {name: User.objects.create_user(name, f"{name}@shop.example") for name in ("carol", "dora")}


@pytest.fixture(params=["end_oldest", "end_least_recent", "refuse"])
def policy(request, settings) -> str:
    settings.REDSESS = {**settings.REDSESS, "MAX_SESSIONS_PER_USER": 2, "SESSION_LIMIT_POLICY": request.param}
    return str(request.param)


@pytest.fixture(params=["rest", "django"])
def asked(request, settings) -> str:
    """Whose request the view has: Django REST framework's, or Django's."""
    settings.ROOT_URLCONF = __name__
    settings.INSTALLED_APPS = [*settings.INSTALLED_APPS, "rest_framework"]
    return str(request.param)


@pytest.fixture(params=[Client, AsyncClient], ids=["wsgi", "asgi"])
def browser(request, asked) -> Browser:
    return Browser(request.param())


class KnowsTokens:
    """A middleware that knows the user of a token, whoever is signed in with the session's cookie."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if name := request.headers.get("X-Token"):
            request.user = User.objects.get(username=name)
        return self.get_response(request)


def block(user: User) -> None:
    online.block(user, until=timezone.now() + timedelta(hours=1), message="Call us.")


def names_listed() -> list[str]:
    return sorted(User.objects.get(pk=each.user_id).username for each in online.sessions())


def test_a_device_is_known_again_whatever_request_the_view_has(browser, asked) -> None:
    for _ in range(2):
        assert browser.post(f"/{asked}/signs_in/carol/").status_code == 200
        browser.post("/logout/")
    assert Browser(Client()).post(f"/{asked}/signs_in/carol/").status_code == 200
    rows = SignIn.objects.order_by("login_ms")
    assert [bool(row.device_cookie) for row in rows] == [True] * 3
    assert [row.is_new_device for row in rows] == [False, False, True]
    assert rows[0].device_cookie == rows[1].device_cookie


def test_an_app_without_cookies_is_no_new_device_at_each_sign_in(browser, users) -> None:
    for version in (145, 146):
        answer = browser.post("/app/carol/", headers={"User-Agent": f"Mozilla/5.0 (X11; Linux) Firefox/{version}.0"})
        assert (answer.status_code, set(answer.cookies) - {"csrftoken"}) == (200, set())
    rows = SignIn.objects.order_by("login_ms")
    assert [(row.device_cookie, row.is_new_device, bool(row.user_agent)) for row in rows] == [("", False, True)] * 2
    browser.post("/app/carol/", headers={"User-Agent": "Mozilla/5.0 (Windows NT 10.0) Firefox/146.0"})
    assert SignIn.objects.latest("login_ms").is_new_device


def test_a_refused_sign_in_leaves_nobody_in_either_request(users) -> None:
    async def auser() -> User:
        return users["dora"]

    for wraps in (lambda own: own, Request):
        own: Any = HttpRequest()
        own.user, own.auser = users["dora"], auser
        sign_out_request(wraps(own))
        assert own.user.is_anonymous
        assert async_to_sync(own.auser)().is_anonymous


def test_two_signals_of_one_sign_in_are_one_sign_in(browser, asked, policy, users) -> None:
    for _ in range(2):
        assert browser.post(f"/{asked}/twice/carol/").status_code == 200
    assert names_listed() == ["carol"]
    # Who signs in again has a second row.
    assert SignIn.objects.filter(user=users["carol"]).count() == 2
    assert SignIn.objects.filter(ended_at=None).count() == 1


@pytest.mark.parametrize("way", ["by_token", "after_reading"])
def test_a_token_begins_no_session(browser, asked, policy, way: str) -> None:
    answer = browser.post(f"/{asked}/{way}/carol/")
    assert (answer.status_code, list(answer.cookies)) == (200, [])
    assert online.count(guests="only") == online.count() == SignIn.objects.count() == 0


@pytest.mark.parametrize("way", ["by_token", "after_reading", "after_writing"])
@pytest.mark.parametrize("name", ["carol", "dora"])
def test_a_token_changes_nobodys_session(browser, asked, policy, users, way: str, name: str) -> None:
    assert browser.post(f"/{asked}/signs_in/dora/").status_code == 200
    before = browser.cookie
    for _ in range(2):
        answer = browser.post(f"/{asked}/{way}/{name}/")
        assert answer.status_code == 200
        if way != "after_writing":
            assert list(answer.cookies) == []
    same_key = browser.cookie == before
    assert same_key
    assert name_in(browser) == "dora"
    row = SignIn.objects.get()
    assert (row.user, row.ended_at) == (users["dora"], None)


@pytest.mark.parametrize("way", ["by_token", "after_reading", "after_writing"])
@pytest.mark.parametrize("owner", ["", "dora"])
def test_a_blocked_user_gets_no_token_and_whose_browser_it_is_stays(
    browser, asked, policy, users, way: str, owner: str
) -> None:
    if owner:
        browser.post(f"/{asked}/signs_in/{owner}/")
    block(users["carol"])
    answer = browser.post(f"/{asked}/{way}/carol/")
    assert answer.status_code == 403
    assert "Call us." in answer.content.decode()
    assert name_in(browser) == (owner or "nobody")
    assert names_listed() == ([owner] if owner else [])
    assert SignIn.objects.filter(ended_at=None).count() == len(names_listed())


def test_a_blocked_user_who_signs_in_is_refused_and_the_session_ends(browser, asked, policy, users) -> None:
    browser.post(f"/{asked}/signs_in/dora/")
    block(users["carol"])
    assert browser.post(f"/{asked}/signs_in/carol/").status_code == 403
    assert name_in(browser) == "nobody"
    assert names_listed() == []


@pytest.mark.parametrize(("name", "reason"), [("dora", "logout"), ("carol", "invalidated")])
def test_a_sign_out_is_that_of_the_sessions_user(browser, asked, users, name: str, reason: str) -> None:
    browser.post(f"/{asked}/signs_in/dora/")
    assert browser.post(f"/{asked}/token_goes/{name}/").status_code == 200
    assert SignIn.objects.get().reason == reason


def test_a_password_that_the_user_of_a_token_gives_is_not_noted_in_the_session_of_another(
    browser, users, settings, redis
) -> None:
    for user in users.values():
        user.set_password("correct-horse")
        user.save()
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, f"{__name__}.KnowsTokens"]
    browser.post("/django/signs_in/dora/")
    make_older(redis, browser.sid, 301)
    before = browser.cookie
    url, headers = "/account/sessions/end-others/", {"X-Token": "carol"}
    assert browser.post(url, headers=headers).status_code == 200
    assert browser.post(url, {"password": "correct-horse"}, headers=headers).status_code == 302
    same_key = browser.cookie == before
    assert same_key
    assert name_in(browser) == "dora"
    # Dora has given no password.
    assert browser.post(url).status_code != 302
