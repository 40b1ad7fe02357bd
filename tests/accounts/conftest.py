"""What the tests of accounts share: a site, its users, and what becomes of their sessions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import unquote

import pytest
from django.contrib.auth.models import User
from django.http import HttpResponse
from django.test import Client

from django_redsess import online
from django_redsess.backend import SessionStore
from django_redsess.signals import Ended, session_ended
from tests import accounts_site, servers

PASSWORD = "the first password"

DEACTIVATED, DELETED = "Your account was deactivated.", "Your account was deleted."
PASSWORD_CHANGED = "Your password was changed."


@pytest.fixture(scope="session")
def server() -> Iterator[servers.Server]:
    """One kind of server is enough: what is asked here is what is done with it, and not how it does that."""
    yield from servers.serving(next(iter(servers.available().values())))


@pytest.fixture(autouse=True)
def site(request: pytest.FixtureRequest, settings: Any) -> Any:
    """The site of accounts_site.py, in place of the shop; the settings, to change more of them."""
    if "partitions" in request.fixturenames:
        # Before anybody signs in: afterwards their number is fixed.
        request.getfixturevalue("partitions")
    settings.ROOT_URLCONF = "tests.accounts_site"
    return settings


@pytest.fixture
def alice() -> User:
    user: User = User.objects.create_user("alice", password=PASSWORD)
    return user


@pytest.fixture
def bob() -> User:
    user: User = User.objects.create_user("bob", password=PASSWORD)
    return user


@pytest.fixture
def admin() -> Client:
    """A browser in which an administrator is signed in."""
    return sign_in(User.objects.create_superuser("admin", password=PASSWORD))


@pytest.fixture
def told() -> Iterator[list[Ended]]:
    """The ends that were told, in order."""
    heard: list[Ended] = []

    def receive(signal: Any, sender: Any, **named: Any) -> None:
        heard.append(Ended(**named))

    session_ended.connect(receive)
    yield heard
    session_ended.disconnect(receive)


@pytest.fixture
def meanwhile() -> Iterator[Callable[[Callable[[], object]], None]]:
    """Give a function that says what happens, once, while a view is under way."""
    yield accounts_site.meanwhile.does
    accounts_site.meanwhile.does(None)


def sign_in(user: User) -> Client:
    browser = Client()
    browser.force_login(user)
    return browser


def count(user: User | int) -> int:
    """How many sessions a user has, who may be deleted by now."""
    return online.count(user_ids=[str(user if isinstance(user, int) else user.pk)])


def sid_of(browser: Client) -> str:
    return SessionStore(browser.cookies["sessionid"].value).sid or ""


def name_in(browser: Client) -> str:
    """Who is signed in here."""
    return browser.get("/who/").content.decode().split("|")[0]


def told_to(browser: Client) -> tuple[str, str]:
    """What the header of the next answer says: the reason, and the text."""
    reason, _, text = browser.get("/who/").headers.get("X-Session-Ended", "").partition("; text*=UTF-8''")
    return reason, unquote(text)


def is_gone(response: HttpResponse) -> bool:
    """Whether the answer takes the session cookie away."""
    cookie = response.cookies.get("sessionid")
    return cookie is not None and cookie.value == "" and cookie["max-age"] == 0
