"""The guide "Sessions by a header" does what it says, in a site with the views that it has."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import redis as redis_py
from django.contrib.auth.models import User
from django.http import HttpResponse
from django.test import Client

from django_redsess import online
from django_redsess.backend import SessionStore
from tests.helpers.site import MIDDLEWARE
from tests.helpers.store import make_older
from tests.project.docs.projects import import_guide

pytestmark = pytest.mark.django_db(transaction=True)

FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0"


@pytest.fixture(autouse=True)
def shop(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The site of the guide."""
    settings.INSTALLED_APPS = [*settings.INSTALLED_APPS, "rest_framework"]
    settings.MIDDLEWARE, settings.ROOT_URLCONF = MIDDLEWARE, "shop.urls"
    settings.REDSESS = {**settings.REDSESS, "IDLE_TIMEOUT": 600}
    import_guide("by-header.rst", ("by_header", "urls"), monkeypatch)


@pytest.fixture
def bob() -> User:
    return User.objects.create_user("bob", password="correct-horse")


def app(key: str = "") -> Client:
    """An app that keeps no cookies."""
    return Client(headers={"User-Agent": FIREFOX, **({"Authorization": f"Bearer {key}"} if key else {})})


def signs_in() -> HttpResponse:
    return app().post("/app/sign-in/", {"username": "bob", "password": "correct-horse"}, REMOTE_ADDR="192.0.2.7")


def test_an_app_signs_in_and_its_session_lives_as_long_as_it_is_used(bob: User, redis: redis_py.Redis) -> None:
    answer = signs_in()
    assert (answer.status_code, answer["Cache-Control"]) == (200, "no-store")
    key = answer.json()["key"]
    [session] = online.of_user(bob)
    assert (session.address, session.user_agent) == ("192.0.2.7", FIREFOX)
    for _ in range(3):
        make_older(redis, session.sid, 500)
        me = app(key).get("/app/me/")
        assert (me.status_code, me.json(), list(me.cookies)) == (200, {"name": "bob"}, [])
    make_older(redis, session.sid, 700)
    assert app(key).get("/app/me/").status_code == 401


def test_who_has_no_key_or_a_wrong_one_is_nobody(bob: User) -> None:
    assert app().get("/app/me/").json() == {"name": ""}
    for wrong in ("x" * 32, "not a key", "x"):
        assert app(wrong).get("/app/me/").status_code == 401
    assert app().post("/app/sign-in/", {"username": "bob", "password": "wrong"}).status_code == 403
    assert online.count() == online.count(guests="only") == 0


def test_a_block_refuses_it_and_an_end_ends_it(bob: User) -> None:
    key = signs_in().json()["key"]
    assert online.end(SessionStore(key).sid or "")
    assert app(key).get("/app/me/").status_code == 401
    online.block(bob, until=datetime.now(UTC) + timedelta(hours=1), message="Please call us.")
    refused = signs_in()
    assert (refused.status_code, "Please call us." in refused.json()["detail"]) == (403, True)
