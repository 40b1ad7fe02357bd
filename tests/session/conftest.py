"""What several tests of sessions share: receivers of ends, a proxy before the server, a check of what is left."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.dispatch import Signal

from django_redsess.signals import sessions_ended
from tests.helpers.online import Told
from tests.helpers.outages import close_connections
from tests.helpers.proxy import Proxy
from tests.helpers.store import faults


@pytest.fixture
def alice(db) -> User:
    user: User = User.objects.create_user("alice", password="secret")
    return user


@pytest.fixture
def nothing_to_repair(request, redis) -> Iterator[None]:
    """Whatever a test did: ``cleansessions --check`` finds nothing afterwards."""
    if "partitions" in request.fixturenames:
        # They must still be as many when this looks.
        request.getfixturevalue("partitions")
    yield
    assert faults() == []


@pytest.fixture
def connect() -> Iterator[Callable[..., None]]:
    """Return a function that connects a receiver until the test is over: to ``sessions_ended``, or other signals."""
    # A signal holds receivers weakly; here they live as long as they are connected.
    connected: list[tuple[Signal, Callable[..., Any]]] = []

    def connect_until_the_end(receiver: Callable[..., Any], *signals: Signal) -> None:
        for signal in signals or (sessions_ended,):
            connected.append((signal, receiver))
            signal.connect(receiver)

    yield connect_until_the_end
    for signal, receiver in connected:
        signal.disconnect(receiver)


@pytest.fixture
def told(connect) -> Told:
    """The ends that were told, in order."""
    heard: Told = []
    connect(lambda sessions, **named: heard.extend(sessions))
    return heard


@pytest.fixture
def proxy(server, settings) -> Iterator[Proxy]:
    """A proxy before the server, to be used from ``settings.CACHES = caches(proxy.url)`` on."""
    proxy, direct = Proxy(server.port), settings.CACHES
    yield proxy
    close_connections()
    proxy.close()
    settings.CACHES = direct
