"""Which of Django's signals is a sign-in: one row and one device for it, and for a token nothing at all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth import login
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.test import AsyncClient, Client
from django.urls import include, path
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from django_redsess.contrib.history.models import SignIn
from django_redsess.responses import sign_out_request
from tests.helpers.visitors import Browser

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("history")]

BACKEND = "django.contrib.auth.backends.ModelBackend"


def signs_in(request: Any, user: User) -> None:
    login(request, user, BACKEND)


WAYS: dict[str, Callable[[Any, User], None]] = {each.__name__: each for each in (signs_in,)}


class ByRest(APIView):
    def post(self, request: Any, way: str, name: str) -> Response:
        WAYS[way](request, User.objects.get(username=name))
        return Response("done")


def by_django(request: HttpRequest, way: str, name: str) -> HttpResponse:
    WAYS[way](request, User.objects.get(username=name))
    return HttpResponse("done")


urlpatterns = [
    path("rest/<way>/<name>/", ByRest.as_view()),
    path("django/<way>/<name>/", by_django),
    path("", include("tests.helpers.site.urls")),
]


@pytest.fixture(autouse=True)
def users() -> dict[str, User]:
    return {name: User.objects.create_user(name, f"{name}@shop.example") for name in ("carol", "dora")}


@pytest.fixture(params=["rest", "django"])
def asked(request, settings) -> str:
    """Whose request the view has: Django REST framework's, or Django's."""
    settings.ROOT_URLCONF = __name__
    settings.INSTALLED_APPS = [*settings.INSTALLED_APPS, "rest_framework"]
    return str(request.param)


@pytest.fixture(params=[Client, AsyncClient], ids=["wsgi", "asgi"])
def browser(request, asked) -> Browser:
    return Browser(request.param())


def test_a_device_is_known_again_whatever_request_the_view_has(browser, asked) -> None:
    for _ in range(2):
        assert browser.post(f"/{asked}/signs_in/carol/").status_code == 200
        browser.post("/logout/")
    assert Browser(Client()).post(f"/{asked}/signs_in/carol/").status_code == 200
    rows = SignIn.objects.order_by("login_ms")
    assert [bool(row.device) for row in rows] == [True] * 3
    assert [row.is_new_device for row in rows] == [False, False, True]
    assert rows[0].device == rows[1].device


def test_a_refused_sign_in_leaves_nobody_in_either_request(users) -> None:
    async def auser() -> User:
        return users["dora"]

    for wraps in (lambda own: own, Request):
        own: Any = HttpRequest()
        own.user, own.auser = users["dora"], auser
        sign_out_request(wraps(own))
        assert own.user.is_anonymous
        assert async_to_sync(own.auser)().is_anonymous
