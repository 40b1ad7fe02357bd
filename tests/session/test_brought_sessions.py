"""Sessions that no cookie of ours brought: by a header, a site's middleware, a subclass of ours, a view."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import redis as redis_py
from django.contrib.auth import SESSION_KEY
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.test import AsyncClient, Client
from django.urls import include, path
from django.utils.functional import SimpleLazyObject
from rest_framework.authentication import BaseAuthentication
from rest_framework.response import Response
from rest_framework.views import APIView

from django_redsess import online
from django_redsess.backend import SessionStore
from django_redsess.locking import one_at_a_time
from django_redsess.middleware import SessionMiddleware, passive
from django_redsess.transport import packing
from django_redsess.transport.keys import keyspace
from tests.helpers.site import AUTH, MIDDLEWARE, SESSION
from tests.helpers.store import fetch, make_older
from tests.helpers.visitors import Browser
from tests.session.visits import left

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("partitions")]

FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0"
HERE = __name__


def brought(request: HttpRequest) -> SessionStore:
    return SessionStore(request.headers["Authorization"].removeprefix("Bearer "))


class Subclass(SessionMiddleware):
    """Finds the session by itself, and does not call ours."""

    def process_request(self, request: HttpRequest) -> None:
        request.session = brought(request)


class ReadsCookie(SessionMiddleware):
    """Looks into the session of the cookie before it decides."""

    def process_request(self, request: HttpRequest) -> None:
        session = SessionStore(request.COOKIES["sessionid"])
        session.get("colour")
        request.session = session


class Sets:
    """A site's middleware below ours."""

    def __init__(self, get_response: Any) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> Any:
        request.session = brought(request)
        return self.get_response(request)


def hidden(request: HttpRequest) -> SessionStore:
    """The session whose key is in no header as it is, as in a signed token."""
    return SessionStore("".join(reversed(request.headers["X-Reversed"])))


class ReadsAndSets(Sets):
    def __call__(self, request: HttpRequest) -> Any:
        session = hidden(request)
        session.get("colour")
        request.session = session
        return self.get_response(request)


class SetsLazily(Sets):
    def __call__(self, request: HttpRequest) -> Any:
        request.session = SimpleLazyObject(lambda: hidden(request))
        return self.get_response(request)


def look(request: Any) -> str:
    if "writes" in request.GET:
        request.session["colour"] = "red"
    user = User.objects.filter(pk=request.session.get(SESSION_KEY)).first()
    return user.username if user else "nobody"


def view(request: HttpRequest) -> HttpResponse:
    return HttpResponse(look(request))


@contextmanager
def in_place(request: Any) -> Iterator[None]:
    """As allauth's API for apps does it: another session for the time of the view."""
    before, request.session = request.session, brought(request)
    try:
        yield
    finally:
        if request.session.modified:
            request.session.save()
        request.session = before


def view_in_place(request: HttpRequest) -> HttpResponse:
    with in_place(request):
        return HttpResponse(look(request))


@one_at_a_time()
def locked(request: HttpRequest) -> HttpResponse:
    """Whether this request has the lock of the session that the header names."""
    sid = str(brought(request).sid)
    [has_lock] = fetch("lock", packing.pack_command("EXISTS", keyspace().of_sid(sid).lock_of(sid)), 1)
    return HttpResponse(str(has_lock))


def view_locks_in_place(request: HttpRequest) -> HttpResponse:
    with in_place(request):
        return locked(request)


class SetsInRest(BaseAuthentication):
    """The request around Django's keeps what is written to it: so it is written to Django's."""

    def authenticate(self, request: Any) -> tuple[User, None] | None:
        request._request.session = brought(request)
        user = User.objects.filter(username=look(request._request)).first()
        return (user, None) if user else None


class KnowsInRest(BaseAuthentication):
    """As allauth's class does it: the session is for nobody but this class."""

    def authenticate(self, request: Any) -> tuple[User, SessionStore] | None:
        session = brought(request)
        user = User.objects.filter(pk=session.get(SESSION_KEY)).first()
        if "writes" in request.GET:
            session["colour"] = "red"
            session.save()
        return (user, session) if user else None


class ByRest(APIView):
    def get(self, request: Any) -> Response:
        return Response(request.user.username or "nobody")


urlpatterns = [
    path("view/", view),
    path("passive/view/", passive(lambda request: view(request))),
    path("in-place/", view_in_place),
    path("passive/in-place/", passive(lambda request: view_in_place(request))),
    path("locked/", locked),
    path("locks-in-place/", view_locks_in_place),
    path("sets-in-rest/", ByRest.as_view(authentication_classes=[SetsInRest])),
    path("passive/sets-in-rest/", passive(ByRest.as_view(authentication_classes=[SetsInRest]))),
    path("knows-in-rest/", ByRest.as_view(authentication_classes=[KnowsInRest])),
    path("passive/knows-in-rest/", passive(ByRest.as_view(authentication_classes=[KnowsInRest]))),
    path("", include("tests.helpers.site.urls")),
]

WAYS: dict[str, tuple[list[str], str]] = {
    "subclass": ([f"{HERE}.Subclass", AUTH], "view/"),
    "middleware": ([SESSION, f"{HERE}.Sets", AUTH], "view/"),
    "middleware that reads it first": ([SESSION, f"{HERE}.ReadsAndSets", AUTH], "view/"),
    "middleware, lazily": ([SESSION, f"{HERE}.SetsLazily", AUTH], "view/"),
    "view": (MIDDLEWARE, "in-place/"),
    "REST framework": (MIDDLEWARE, "sets-in-rest/"),
    "REST framework, aside": (MIDDLEWARE, "knows-in-rest/"),
}


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=[Client, AsyncClient], ids=["wsgi", "asgi"])
def visit(request: pytest.FixtureRequest, settings: Any, way: str, partitions: int) -> Callable[..., HttpResponse]:
    """Return a function that makes a request with this session, from 192.0.2.7 with Firefox."""
    middleware, url = WAYS[way]
    settings.MIDDLEWARE, settings.ROOT_URLCONF = list(middleware), HERE
    settings.REDSESS = {**settings.REDSESS, "IDLE_TIMEOUT": 60, "TOUCH_INTERVAL": 10, "TRUSTED_PROXY_COUNT": 1}
    browser = Browser(request.param())

    def make(key: str, query: str = "", *, passive: bool = False) -> HttpResponse:
        headers = {"Authorization": f"Bearer {key}", "User-Agent": FIREFOX, "X-Forwarded-For": "192.0.2.7"}
        if way in ("middleware, lazily", "middleware that reads it first"):
            headers = {**headers, "Authorization": "", "X-Reversed": "".join(reversed(key))}
        return browser.get(f"/{'passive/' if passive else ''}{url}{query}", headers=headers)

    return make


@pytest.fixture
def user() -> User:
    return User.objects.create_user("alice")


def seen(redis: redis_py.Redis, session: SessionStore) -> float:
    return float(redis.zscore(keyspace().of_sid(str(session.sid)).recent, session.sid))


def test_it_is_touched_once_and_gets_no_cookie(visit, redis, new_session, user, round_trips, way) -> None:
    session = new_session(str(user.pk), colour="blue")
    make_older(redis, session.sid, 50)
    before = seen(redis, session)
    visit(session.session_key)
    assert left(redis, session) > 55
    assert seen(redis, session) > before
    make_older(redis, session.sid, 15)
    round_trips()
    answer = visit(session.session_key)
    # What was read before the request had it is read again, to touch it. The other one moves the deadline.
    assert round_trips() == (3 if way == "middleware that reads it first" else 2)
    assert (answer.status_code, list(answer.cookies), answer.content.strip(b'"')) == (200, [], b"alice")
    visit(session.session_key)
    round_trips()
    visit(session.session_key)
    assert round_trips() == (2 if way == "middleware that reads it first" else 1)


def test_its_save_stores_address_and_browser(visit, new_session, user) -> None:
    session = new_session(str(user.pk), colour="blue")
    assert visit(session.session_key, "?writes").status_code == 200
    found = online.get(session.sid)
    assert found is not None
    assert (found.address, found.user_agent) == ("192.0.2.7", FIREFOX)
    assert SessionStore(session.session_key)["colour"] == "red"


def test_a_deadline_that_slides_sends_no_cookie_to_who_brought_none(visit, redis, new_session, user, settings) -> None:
    settings.REDSESS = {**settings.REDSESS, "IDLE_TIMEOUT": None, "SLIDING": True}
    session = new_session(str(user.pk), colour="blue")
    make_older(redis, session.sid, settings.SESSION_COOKIE_AGE // 2)
    assert list(visit(session.session_key).cookies) == []
    assert left(redis, session) > settings.SESSION_COOKIE_AGE * 0.9


@pytest.mark.parametrize("way", ["subclass", "middleware", "view"], indirect=True)
def test_its_requests_have_its_lock(visit, new_session, user, way, settings) -> None:
    session = new_session(str(user.pk), colour="blue")
    headers = {"Authorization": f"Bearer {session.session_key}"}
    url = "locks-in-place" if way == "view" else "locked"
    for kind in (Client, AsyncClient):
        assert Browser(kind()).get(f"/{url}/", headers=headers).content == b"1"


def test_a_passive_request_prolongs_nothing(visit, redis, new_session, user) -> None:
    session = new_session(str(user.pk), colour="blue")
    make_older(redis, session.sid, 50)
    before = seen(redis, session)
    assert visit(session.session_key, passive=True).status_code == 200
    assert seen(redis, session) > before
    assert left(redis, session) < 25


def test_one_that_is_over_is_not_brought_back(visit, new_session, user) -> None:
    session = new_session(str(user.pk), colour="blue")
    online.end(session.sid)
    answer = visit(session.session_key)
    assert (answer.status_code, answer.content.strip(b'"')) == (200, b"nobody")
    assert "sessionid" not in answer.cookies
    assert online.get(session.sid) is None


@pytest.mark.parametrize("kind", [Client, AsyncClient], ids=["wsgi", "asgi"])
def test_that_of_the_cookie_is_touched_though_a_subclass_has_read_it_before(
    redis, settings, new_session, user, kind: type[Client | AsyncClient]
) -> None:
    settings.MIDDLEWARE, settings.ROOT_URLCONF = [f"{HERE}.ReadsCookie", AUTH], HERE
    settings.REDSESS = {**settings.REDSESS, "IDLE_TIMEOUT": 60, "TOUCH_INTERVAL": 10}
    session = new_session(str(user.pk), colour="blue")
    make_older(redis, session.sid, 50)
    before = seen(redis, session)
    browser = Browser(kind())
    browser.cookie = str(session.session_key)
    assert browser.get("/view/").content == b"alice"
    assert seen(redis, session) > before
    assert left(redis, session) > 55


def test_a_session_of_somebody_else_that_a_view_reads_is_not_touched(redis, settings, new_session, user) -> None:
    settings.REDSESS = {**settings.REDSESS, "IDLE_TIMEOUT": 60, "TOUCH_INTERVAL": 10}
    session = new_session(str(user.pk), colour="blue")
    make_older(redis, session.sid, 50)
    before = seen(redis, session)

    def reads(request: HttpRequest) -> HttpResponse:
        return HttpResponse(SessionStore(session.session_key)["colour"])

    settings.ROOT_URLCONF = type("urls", (), {"urlpatterns": [path("reads/", reads)]})
    assert Client().get("/reads/").content == b"blue"
    assert seen(redis, session) == before
    assert left(redis, session) < 25
