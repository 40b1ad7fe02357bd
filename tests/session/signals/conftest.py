"""What the tests of the signal share: who is told, and the visitors of the site."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import AsyncClient, Client

from django_redsess.session import eviction
from django_redsess.signals import EndedSession, session_ended
from tests.helpers.ends import Told
from tests.helpers.visitors import Browser


@pytest.fixture(autouse=True)
def cleans_along_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new session takes along what is due or too many, be it one."""
    monkeypatch.setattr(eviction, "ALONG_MIN", 1)


@pytest.fixture
def connect() -> Iterator[Callable[[Callable[..., Any]], None]]:
    """Return a function that connects a receiver until the test is over."""
    receivers = []

    def connect_until_the_end(receiver: Callable[..., Any]) -> None:
        # The signal holds receivers weakly; here they live as long as they are connected.
        receivers.append(receiver)
        session_ended.connect(receiver)

    yield connect_until_the_end
    for receiver in receivers:
        session_ended.disconnect(receiver)


@pytest.fixture
def told(connect) -> Told:
    """The ends that were told, in order."""
    heard: Told = []

    def receive(signal, sender, **named) -> None:
        heard.append(EndedSession(**named))

    connect(receive)
    return heard


@pytest.fixture
def site(settings) -> None:
    """The site of tests/helpers/site, in place of the shop."""
    settings.ROOT_URLCONF = "tests.helpers.site.urls"


@pytest.fixture(params=[Client, AsyncClient], ids=["wsgi", "asgi"])
def browser(request, site) -> Browser:
    """A visitor, over WSGI and over ASGI."""
    return Browser(request.param())


@pytest.fixture
def alice(db) -> User:
    return User.objects.create_user("alice", password="secret")
