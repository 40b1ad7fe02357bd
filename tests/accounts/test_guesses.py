"""Who has a copy of a cookie may guess five passwords, whatever engine saves the session meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.models import User
from django.contrib.sessions.backends.db import SessionStore as DatabaseSession
from django.db import connection
from django.http import HttpRequest, HttpResponse
from django.test import Client
from django.urls import include, path

from django_redsess.contrib.moving.session_store import BEGAN_KEY
from tests.helpers.accounts import PASSWORD, sid_of, sign_in
from tests.helpers.store import make_older

END_OTHERS, SAVES, NEW_KEY = "/account/sessions/end-others/", "/saves/", "/new-key/"
WRONG, RIGHT = {"password": "not the password"}, {"password": PASSWORD}
THREADS = 40


def saves(request: HttpRequest) -> HttpResponse:
    request.session["saved"] = request.GET["number"]
    return HttpResponse()


def new_key(request: HttpRequest) -> HttpResponse:
    request.session.cycle_key()
    return HttpResponse()


urlpatterns = [path("saves/", saves), path("new-key/", new_key), path("", include("testproject.urls"))]


class Counting(ModelBackend):
    """Counts whom it was asked about."""

    asked: list[str] = []

    def authenticate(self, request: Any, username: Any = None, password: Any = None, **kwargs: Any) -> Any:
        self.asked.append(username)
        return super().authenticate(request, username, password, **kwargs)


@pytest.fixture(params=["backend", "step 1", "step 2"])
def here(request: pytest.FixtureRequest, store_settings: Any, partitions: int, alice: User, redis: Any) -> Client:
    """A browser in which Alice signed in more than five minutes ago, with this engine."""
    Counting.asked = []
    store_settings.ROOT_URLCONF = __name__
    store_settings.AUTHENTICATION_BACKENDS = [f"{__name__}.Counting"]
    if request.param == "backend":
        browser = sign_in(alice)
        make_older(redis, sid_of(browser), 301)
        return browser
    moving = {"MOVE_FROM": "django.contrib.sessions.backends.db", "MOVES": False}
    store_settings.SESSION_ENGINE = "django_redsess.contrib.moving"
    store_settings.REDSESS = {**store_settings.REDSESS, **moving}
    browser = sign_in(alice)
    there = DatabaseSession(browser.cookies["sessionid"].value)
    there[BEGAN_KEY] -= 301_000
    there.save()
    store_settings.REDSESS = {**store_settings.REDSESS, "MOVES": request.param == "step 2"}
    return browser


@contextmanager
def a_connection_of_this_thread() -> Iterator[None]:
    """Close it at the end. Django's close() leaves a database in memory open."""
    try:
        yield
    finally:
        if connection.connection is not None:
            connection.connection.close()
            connection.connection = None


@pytest.mark.on_cluster
@pytest.mark.parametrize("guesses", [24, pytest.param(400, marks=pytest.mark.slow)])
@pytest.mark.django_db(transaction=True)
def test_of_many_guesses_beside_saves_five_reach_the_sites_backends(here, settings, guesses: int) -> None:
    django_saves = "MOVE_FROM" in settings.REDSESS
    cookie = here.cookies["sessionid"].value

    def guess(number: int) -> int:
        thief = Client(raise_request_exception=False)
        thief.cookies["sessionid"] = cookie
        with a_connection_of_this_thread():
            thief.get(SAVES, {"number": number})
            return thief.post(END_OTHERS, WRONG).status_code

    with ThreadPoolExecutor(THREADS) as threads:
        statuses = list(threads.map(guess, range(guesses)))
    assert Counting.asked == ["alice"] * 5
    # A database in memory refuses what meets another thread's write: with 503 where the session was asked for.
    assert set(statuses) <= ({200, 429, 500, 503} if django_saves else {200, 429})


@pytest.mark.django_db
def test_a_new_key_of_the_session_brings_no_new_guesses(here) -> None:
    statuses = list[int]()
    for _ in range(7):
        statuses.append(here.post(END_OTHERS, WRONG).status_code)
        here.get(NEW_KEY)
    assert statuses == [200, 200, 200, 200, 429, 429, 429]
    assert len(Counting.asked) == 5
