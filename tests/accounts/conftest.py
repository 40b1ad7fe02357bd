"""What the tests of accounts share: a site, its users, and what becomes of their sessions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from django_redsess.signals import Ended, session_ended
from testproject import servers
from tests import accounts_site
from tests.support.accounts import (
    PASSWORD,
    sign_in,
)


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
