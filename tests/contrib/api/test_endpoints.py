"""What holds for each URL: who may ask, CSRF, methods, errors, outages, and that a GET writes nothing."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth import BACKEND_SESSION_KEY
from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.models import User
from django.core.signals import got_request_exception
from django.test import Client
from django.utils import timezone

from django_redsess import online
from tests.helpers.accounts import PASSWORD, count, sid_of, sign_in
from tests.helpers.api import API, ask, description, get, status
from tests.helpers.outages import caches, close_connections, frozen
from tests.helpers.store import blocks, keyspace

pytestmark = pytest.mark.django_db

ALL = {
    "me/sessions": {"get", "delete"},
    "me/sessions/{sid}": {"get", "delete"},
    "me/reauthenticate": {"post"},
    "sessions": {"get"},
    "sessions/end": {"post"},
    "sessions/{sid}": {"get", "delete"},
    "users/{user}/sessions": {"get", "delete"},
    "users/{user}/block": {"get", "put", "delete"},
    "counts": {"get"},
    "sign-ins": {"get"},
}
METHODS = ("get", "post", "put", "patch", "delete")


def paths(client: Client, user: User) -> dict[str, set[str]]:
    return {path.format(sid=sid_of(client), user=user.pk): methods for path, methods in ALL.items()}


def test_every_url_is_tested_here() -> None:
    # The description is open to all: see test_openapi.py.
    described = {path: set(methods) for path, methods in description()["paths"].items()}
    assert described == {"/" + re.sub(r"{\w+}", "{id}", path): methods for path, methods in ALL.items()}


def test_nobody_gets_401_and_other_methods_405(alice, here) -> None:
    for path, methods in paths(here, alice).items():
        for method in METHODS:
            answer = ask(Client(), method, path)
            assert answer.status_code == (401 if method in methods else 405), (method, path)
            assert answer.json()["status"] == answer.status_code
            if method not in methods:
                assert methods == {name.lower() for name in answer["Allow"].split(", ")} - {"head"}
    assert count(alice) == 1


def test_a_site_that_asks_everybody_to_sign_in_does_not_redirect_programs(settings) -> None:
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, "django.contrib.auth.middleware.LoginRequiredMiddleware"]
    assert status(Client(), "get", "me/sessions") == 401
    assert status(Client(), "get", "nothing") == 404
    assert Client().get(API + "openapi.json").status_code == 200


def test_other_paths_are_404(here) -> None:
    for path in ("", "nothing", "me", "sessions/a/b", "me/sessions/"):
        if path:
            assert status(here, "get", path) == 404


def test_the_cookie_takes_a_csrf_token_to_change_something(alice, there, root) -> None:
    here = Client(enforce_csrf_checks=True)
    here.force_login(alice)
    for path, methods in paths(here, alice).items():
        for method in methods - {"get"}:
            assert status(here, method, path, {}) == 403
    assert count(alice) == 2
    assert get(here, "me/sessions")["sessions"]
    token = here.cookies["csrftoken"].value
    answer = here.delete(API + "me/sessions", headers={"X-CSRFToken": token})
    assert answer.json() == {"ended": 1, "may_return": False}
    # A form of another site has no such header, and its origin is named.
    refused = here.delete(API + "me/sessions", headers={"X-CSRFToken": token, "Origin": "https://example.com"})
    assert (refused.status_code, refused["Content-Type"]) == (403, "application/problem+json")


class ByToken:
    """Knows users by a header."""

    def __init__(self, get_response: Any) -> None:
        self.get_response = get_response

    def __call__(self, request: Any) -> Any:
        if name := request.headers.get("Authorization", "").removeprefix("Token "):
            request.user = User.objects.get(username=name)
        return self.get_response(request)


def test_whom_the_sites_middleware_knows_needs_no_csrf_token(settings, alice, here, there, root) -> None:
    after = "django.contrib.auth.middleware.AuthenticationMiddleware"
    at = settings.MIDDLEWARE.index(after) + 1
    settings.MIDDLEWARE = [*settings.MIDDLEWARE[:at], f"{__name__}.ByToken", *settings.MIDDLEWARE[at:]]
    program = Client(enforce_csrf_checks=True, headers={"Authorization": "Token alice"})
    assert not any(each["is_current"] for each in get(program, "me/sessions")["sessions"])
    assert status(program, "post", "me/reauthenticate", {"password": "any"}) == 204
    assert status(program, "delete", f"me/sessions/{sid_of(there)}") == 204
    assert status(program, "delete", "me/sessions") == 200
    assert count(alice) == 0
    assert "sessionid" not in program.cookies
    # A middleware may let somebody act as another user: then the cookie is what says who asks.
    both = Client(enforce_csrf_checks=True, headers={"Authorization": "Token alice"})
    for user in (alice, User.objects.get(username="root")):
        both.force_login(user)
        assert status(both, "delete", "me/sessions") == 403


@pytest.mark.parametrize(
    ("content", "kind", "expected"),
    [
        (b"{", "application/json", 422),
        (b"\xff", "application/json", 422),
        (b"[]", "application/json", 422),
        (b"[" * 100_000, "application/json", 422),
        (b'{"password": NaN}', "application/json", 422),
        (b'{"password": 1}', "application/json", 422),
        (b'{"password": "\\ud800"}', "application/json", 422),
        (b'{"password": "x", "other": 1}', "application/json", 422),
        (b"{}", "application/json", 422),
        (b'{"password": "x"}', "text/plain", 415),
        (b"password=x", "application/x-www-form-urlencoded", 415),
        (json.dumps({"password": "x" * 3_000_000}).encode(), "application/json", 413),
    ],
)
def test_a_bad_body_says_what_is_wrong(here, content, kind, expected) -> None:
    answer = here.post(API + "me/reauthenticate", content, content_type=kind)
    assert (answer.status_code, answer.json()["status"]) == (expected, expected)


@pytest.mark.parametrize(
    "query",
    [
        {"limit": "0"},
        {"limit": "101"},
        {"limit": "x"},
        {"limit": "²"},
        {"limit": ["1", "2"]},
        {"nothing": "1"},
        {"cursor": "x"},
        {"cursor": "é"},
        {"cursor": "W10"},
        {"cursor": "W1tdXQ"},
        {"guests": "false"},
        {"active": "2m"},
        {"order": "user"},
        {"order": "created_at", "guests": "true"},
        {"network": "nowhere"},
        {"guests": "only", "user": "1"},
        {"user": ""},
        {"q": "x" * 201},
        {"q": "x" * 200 + " "},
        {"q": "\0"},
        {"staff": "1"},
    ],
)
def test_a_bad_parameter_is_422_and_named(root, query) -> None:
    answer = ask(root, "get", "sessions", **query)
    assert answer.status_code == 422
    assert any(name in answer.json()["detail"] for name in query)


@pytest.mark.parametrize(
    ("method", "path", "request_body", "detail"),
    [
        ("get", "sessions?limit=0", None, "limit must be greater than or equal to 1."),
        ("get", "sign-ins?since=today", None, "since must be a date, such as 2031-04-01."),
        ("post", "sessions/end", {}, "ids is missing."),
        ("post", "sessions/end", {"ids": ["a"], "why": ""}, "There is no field 'why'."),
        ("get", "sessions/", None, "There is no such URL. None ends with a slash. /api/v1/openapi.json has all."),
        ("get", "people", None, "There is no such URL. /api/v1/openapi.json has all."),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(root, method, path, request_body, detail) -> None:
    answer = getattr(root, method)(f"/api/v1/{path}", request_body, content_type="application/json")
    assert answer.json()["detail"] == detail


def test_a_refusal_names_the_permission_that_is_missing(alice) -> None:
    answer = ask(sign_in(alice), "get", "sessions")
    assert "django_redsess.view_onlinesession" in answer.json()["detail"]


def test_too_many_parameters_are_422(root) -> None:
    for most in (1000, 1001):
        users = [str(number) for number in range(most)]
        assert status(root, "get", "sessions", user=users, limit=1) == 422


def test_a_get_writes_nothing(alice, here, root, redis) -> None:
    seen = {partition.recent.encode() for partition in keyspace().partitions}

    def stored() -> dict[bytes, Any]:
        # A request is seen, as any is, if a new minute has begun: then the time in this key is another one.
        return {key: set(redis.zrange(key, 0, -1)) if key in seen else redis.dump(key) for key in redis.keys()}

    before = stored()
    assert seen < set(before)
    for path, methods in paths(here, alice).items():
        if "get" in methods:
            for client in (here, root):
                answer = ask(client, "get", path)
                assert answer.status_code in (200, 403, 404)
                assert "sessionid" not in answer.cookies
                assert "messages" not in answer.cookies
    after = stored()
    changed = {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
    # A process writes down at its first use of a store what both agree on.
    assert changed <= {partition.meta.encode() for partition in keyspace().partitions}
    assert not LogEntry.objects.exists()


def test_an_outage_is_503_and_no_logout(alice, own_server, settings) -> None:
    settings.CACHES = {**settings.CACHES, **caches(own_server.url, timeout=0.3)}
    here, root = sign_in(alice), sign_in(User.objects.create_superuser("root"))
    failed: list[Any] = []
    got_request_exception.connect(lambda **kwargs: failed.append(kwargs), weak=False, dispatch_uid="api")
    try:
        with frozen(own_server):
            # Before the operation, all URLs are handled by the same code.
            for client, method, path in (
                (here, "get", "me/sessions"),
                (here, "delete", "me/sessions"),
                (here, "post", "me/reauthenticate"),
                (root, "get", "sessions"),
            ):
                answer = ask(client, method, path)
                assert answer.status_code == 503
                assert answer["Content-Type"] == "application/problem+json"
                assert answer.json()["type"].endswith("#store-unavailable")
                assert "sessionid" not in answer.cookies
    finally:
        got_request_exception.disconnect(dispatch_uid="api")
    assert not failed
    assert get(here, "me/sessions")["sessions"][0]["is_current"]
    close_connections()


@pytest.mark.parametrize(
    ("body", "kind", "expected"),
    [
        ("&".join(f"f{number}=1" for number in range(1001)), "application/x-www-form-urlencoded", 400),
        ("a=" + "x" * 3_000_000, "application/x-www-form-urlencoded", 413),
        ("x", "multipart/form-data", 400),
    ],
)
def test_a_form_that_django_refuses_is_a_problem_too(alice, body: str, kind: str, expected: int) -> None:
    here = Client(enforce_csrf_checks=True)
    here.force_login(alice)
    get(here, "me/sessions")
    for path in ("me/reauthenticate", "sessions/end"):
        answer = here.post(API + path, body, content_type=kind)
        assert (answer.status_code, answer["Content-Type"]) == (expected, "application/problem+json")
        assert answer.json()["status"] == expected


class Blocks(ModelBackend):
    """Has the user blocked while the password is checked: the sessions of a blocked user end a moment later."""

    def authenticate(self, request: Any, username: Any = None, password: Any = None, **kwargs: Any) -> Any:
        user = super().authenticate(request, username, password, **kwargs)
        until = timezone.now() + timedelta(hours=1)
        blocks.set_block(online.Block(str(user.pk), until, "Call us.", "")).run()
        return user


def test_a_user_who_is_blocked_meanwhile_is_told_so_by_a_problem(alice, here, settings) -> None:
    session = here.session
    session[BACKEND_SESSION_KEY] = f"{__name__}.Blocks"
    session.save()
    settings.AUTHENTICATION_BACKENDS = [f"{__name__}.Blocks"]
    answer = ask(here, "post", "me/reauthenticate", {"password": PASSWORD})
    assert (answer.status_code, answer["Content-Type"]) == (403, "application/problem+json")
    assert "Call us." in answer.json()["detail"]
    assert count(alice) == 0
