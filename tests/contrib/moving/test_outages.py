"""An outage of the other store: 503, no cookie is touched, and the next request works."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis as redis_py
from django.contrib.sessions.backends.base import UpdateError
from django.contrib.sessions.backends.db import SessionStore as DatabaseSession
from django.contrib.sessions.models import Session
from django.db import DatabaseError, InterfaceError, OperationalError, connection, connections
from django.test import AsyncClient, Client

from django_redsess.contrib.moving import Row, SessionStore, Source
from django_redsess.contrib.moving.outages import ask_other_store, is_outage
from django_redsess.exceptions import SessionStoreUnavailable
from testproject.databases import programs
from tests.helpers.site import MIDDLEWARE

KEY = "0123456789abcdef" * 2


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [text for text in caplog.messages if "other store" in text]


@pytest.fixture
def website(moving: Any) -> Any:
    moving.ROOT_URLCONF, moving.MIDDLEWARE = "tests.helpers.site.urls", MIDDLEWARE
    return moving


def over_wsgi(key: str) -> Any:
    client = Client(raise_request_exception=False)
    client.cookies["sessionid"] = key
    return client.get("/who/")


def over_asgi(key: str) -> Any:
    client = AsyncClient(raise_request_exception=False)
    client.cookies["sessionid"] = key
    return asyncio.run(client.get("/async/who/"))


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("ask", [over_wsgi, over_asgi])
def test_a_request_gets_503_and_keeps_its_cookie(
    transactional_db, website, old_session, step, caplog, number: int, ask: Callable[[str], Any]
) -> None:
    caplog.set_level("INFO")
    key = old_session(basket=1).session_key
    Shaky.row, Shaky.error = Row({"basket": 1}), OperationalError("server closed the connection\nwith details")
    website.REDSESS = {**website.REDSESS, "MOVE_FROM": f"{__name__}.Shaky"}
    with step(number):
        for _ in range(2):
            answer = ask(key)
            assert answer.status_code == 503
            assert not answer.cookies
        Shaky.error = None
        assert ask(key).status_code == 200
    begun, over = told(caplog)
    assert begun == "Sessions of the other store can't be reached: OperationalError: server closed the connection"
    assert over.startswith("Sessions of the other store are reached again, after ")


class Shaky(Source):
    """A source of a site's own, whose server may be down."""

    engine = DatabaseSession
    row: Row
    error: Exception | None

    def read_row(self, key: str) -> Row | None:
        if self.error is not None:
            raise self.error
        return self.row

    def delete_row(self, key: str) -> None:
        self.read(key)

    def iter_rows(self, after: str = "") -> Iterator[tuple[str, Row | None]]:
        yield from ()


class OwnError(ConnectionError):
    """What a source of a site's own may raise."""


class ValkeyError(Exception):
    __module__ = "valkey.exceptions"


Lost = type("ConnectionError", (ValkeyError,), {"__module__": "valkey.exceptions"})

OUTAGES = [
    OperationalError("x"), InterfaceError("x"), redis_py.ConnectionError("x"), redis_py.TimeoutError("x"),
    redis_py.ResponseError("LOADING x"), OSError(5, "Input/output error", f"/tmp/sessionid{KEY}"), TimeoutError("x"),
    OwnError("x"), Lost("x"),
]  # fmt: skip
OTHERS = [DatabaseError("x"), UpdateError("x"), FileNotFoundError(2, "x"), ValueError("x"), ValkeyError("x"),
          redis_py.ResponseError("WRONGTYPE x")]  # fmt: skip


@pytest.mark.unit
@pytest.mark.parametrize("error", OUTAGES, ids=repr)
def test_an_outage_is_known(error: Exception, caplog) -> None:
    def fail() -> None:
        raise error

    with pytest.raises(SessionStoreUnavailable) as raised:
        ask_other_store(fail)
    assert isinstance(raised.value.__cause__, type(error))
    assert KEY not in f"{raised.value} {raised.value.cause} {raised.value.__cause__!r} {caplog.text}"
    ask_other_store(list)


@pytest.mark.unit
@pytest.mark.parametrize("error", OTHERS, ids=repr)
def test_other_errors_are_raised_as_they_are(error: Exception, caplog) -> None:
    def fail() -> None:
        raise error

    with pytest.raises(type(error)) as raised:
        ask_other_store(fail)
    assert raised.value is error
    assert told(caplog) == []
    assert not is_outage(None)


def test_a_save_there_in_an_outage_is_no_end(old_session, step) -> None:
    key = old_session(basket=1).session_key

    def fail(*args: Any) -> None:
        raise OperationalError("gone")

    with step(1):
        session = SessionStore(key)
        session["basket"] = 2
        with connection.execute_wrapper(fail), pytest.raises(SessionStoreUnavailable):
            session.save()
        assert SessionStore(key)["basket"] == 1
        again = SessionStore(key)
        again["basket"] = 3
        Session.objects.all().delete()
        with pytest.raises(UpdateError):
            again.save()


@pytest.mark.skipif(programs() is None, reason="no PostgreSQL, or no psycopg")
@pytest.mark.slow
@pytest.mark.parametrize("number", [1, 2])
def test_a_broken_connection_is_replaced(website, postgresql, step, number: int) -> None:
    old = DatabaseSession()
    old["basket"] = 1
    old.save()
    with connections["default"].cursor() as cursor, pytest.raises(OperationalError):
        cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")
    with step(number):
        with pytest.raises(SessionStoreUnavailable):
            SessionStore(old.session_key).load()
        # Nobody has told Django that a request is over.
        assert SessionStore(old.session_key)["basket"] == 1


CACHES = {
    "django-redis": {"BACKEND": "django_redis.cache.RedisCache", "OPTIONS": {"IGNORE_EXCEPTIONS": True}},
    "Django's Redis cache": {"BACKEND": "django.core.cache.backends.redis.RedisCache"},
    "django-valkey": {"BACKEND": "django_valkey.cache.ValkeyCache", "OPTIONS": {"IGNORE_EXCEPTIONS": True}},
}


@pytest.mark.parametrize("cache", [*CACHES])
@pytest.mark.parametrize("number", [1, 2])
def test_a_cache_that_is_down_signs_nobody_out(moving, step, proxy, redis, left_alone, cache: str, number: int) -> None:
    moving.CACHES = {**moving.CACHES, "before": {**CACHES[cache], "LOCATION": proxy.url}}
    named = {"SESSION_ENGINE": "django.contrib.sessions.backends.cache", "SESSION_CACHE_ALIAS": "before"}
    moving.REDSESS = {**moving.REDSESS, "MOVE_FROM": named}
    with step(1):
        old = SessionStore()
        old["basket"] = 1
        old.save()
    with step(number):
        proxy.refuse()
        session = SessionStore(old.session_key)
        with pytest.raises(SessionStoreUnavailable):
            session.load()
        assert session.session_key == old.session_key
        proxy.restore()
        assert SessionStore(old.session_key)["basket"] == 1
    redis.flushall()
