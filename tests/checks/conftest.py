"""What the tests of the system checks share: a good site, and how its cache is changed."""

import socket
from collections.abc import Iterator
from typing import Any

import pytest
from django_redis.pool import ConnectionFactory

from django_redsess.cluster import ClusterConnectionFactory
from tests.helpers.checks import TIMEOUTS, SetCache


@pytest.fixture(autouse=True)
def pools(monkeypatch) -> Iterator[None]:
    """Give each test pools of its own: django-redis tells them apart by the URL, not by the options."""
    made: dict[str, Any] = {}
    for factory in (ConnectionFactory, ClusterConnectionFactory):
        monkeypatch.setattr(factory, "_pools", made)
    yield
    for pool in made.values():
        pool.disconnect()


@pytest.fixture(autouse=True)
def set_cache(settings, server, pools) -> SetCache:
    """Make a site that is as the README has it; return a function that changes an entry of its CACHES."""
    settings.SESSION_CACHE_ALIAS = "sessions"

    def change(location: object = server.url, *, alias: str = "sessions", backend: str = "", **options: Any) -> None:
        entry = {
            "BACKEND": backend or "django_redis.cache.RedisCache",
            "LOCATION": location,
            "OPTIONS": options if alias != "sessions" else {**TIMEOUTS, **options},
        }
        settings.CACHES = {**settings.CACHES, alias: entry}

    settings.CACHES = {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}
    change()
    return change


@pytest.fixture
def silent() -> Iterator[socket.socket]:
    """A port that takes connections, and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(0.1)
        yield listening
