"""The web server names another user within a session: every list says so, and names nobody twice."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from django.test import Client

from django_redsess import viewed
from django_redsess.backend import SessionStore
from tests.helpers.same_session import items_of, listed, sign_in
from tests.helpers.site.views import MODEL_BACKEND
from tests.helpers.visitors import Browser

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("partitions")]

REMOTE_BACKEND = "django.contrib.auth.backends.RemoteUserBackend"
AUTH = "django.contrib.auth.middleware.AuthenticationMiddleware"


def remote(browser: Browser, name: str = "") -> str:
    """Have the web server say who it is; return who the site takes it for."""
    if not name:
        return browser.get("/who/").content.decode()
    if browser.views:
        return browser.get("/who/", headers={"remote-user": name}).content.decode()
    return browser.get("/who/", REMOTE_USER=name).content.decode()


@pytest.fixture(params=["RemoteUserMiddleware", "PersistentRemoteUserMiddleware"])
def middleware(request: pytest.FixtureRequest, site: Any) -> str:
    """One of Django's two, in the site."""
    at = site.MIDDLEWARE.index(AUTH) + 1
    added = f"django.contrib.auth.middleware.{request.param}"
    site.MIDDLEWARE = [*site.MIDDLEWARE[:at], added, *site.MIDDLEWARE[at:]]
    site.AUTHENTICATION_BACKENDS = [REMOTE_BACKEND, MODEL_BACKEND]
    name: str = request.param
    return name


def test_the_web_server_may_name_another_user_who_gets_nothing_that_was_viewed(
    browser, middleware, redis, limit
) -> None:
    # The first one has signed in with a password.
    sign_in(browser, "carol")
    for before, name in itertools.pairwise(("carol", "alice", "alice", "bob", "bob", "carol", "alice", "bob")):
        viewed.record(SessionStore(browser.cookie), f"of {before}")
        assert remote(browser, name) == name
        assert (listed(redis), items_of(browser)) == ([name], [f"of {name}"] if name == before else [])


def test_whom_the_web_server_no_longer_names_is_signed_out_unless_that_persists(
    browser, middleware, redis, limit
) -> None:
    persists = middleware.startswith("Persistent")
    remote(browser, "alice")
    assert remote(browser) == ("alice" if persists else "nobody")
    assert listed(redis) == ["alice"] * persists
    assert remote(browser, "bob") == "bob"
    assert listed(redis) == ["bob"]


def test_a_user_whom_the_web_server_names_in_two_browsers(middleware, redis, limit) -> None:
    browsers = [Browser(Client()), Browser(Client())]
    for _ in range(2):
        for browser in browsers:
            assert remote(browser, "alice") == "alice"
    assert listed(redis) == ["alice"] * (1 if limit else 2)
