"""Django's tests of session engines and of the session middleware, on ours. Run by ``__main__.py``."""

from collections.abc import Iterator
from unittest import mock

import pytest
from django.test import SimpleTestCase, override_settings
from sessions_tests import tests as django_tests

from django_redsess.backend import SessionStore
from django_redsess.middleware import SessionMiddleware
from testproject import servers
from tests.helpers import oracle
from tests.helpers.outages import caches


@pytest.fixture(scope="session", autouse=True)
def server() -> Iterator[servers.Server]:
    """A server of its own for the whole run."""
    started = servers.Server(next(iter(servers.available().values())))
    with override_settings(CACHES=caches(started.url)):
        yield started
    started.close()


@pytest.fixture(autouse=True)
def empty_store(server: servers.Server) -> Iterator[None]:
    """Compare all keys after each test (tests/helpers/oracle.py), and empty the store."""
    with oracle.emptied(server.client):
        yield


class EngineTests(django_tests.SessionTestsMixin, SimpleTestCase):
    # A SimpleTestCase forbids the database.
    backend = SessionStore


@override_settings(USE_TZ=False)
class EngineWithoutTimeZoneTests(EngineTests):
    pass


@override_settings(REDSESS={"PARTITIONS": 4})
class EngineWithFourPartitionsTests(EngineTests):
    pass


class MiddlewareTests(django_tests.SessionMiddlewareTests):
    # What it stores is looked for in the database.
    test_empty_session_saved = None

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.enterClassContext(mock.patch.object(django_tests, "SessionMiddleware", SessionMiddleware))


@override_settings(REDSESS={"PARTITIONS": 4})
class MiddlewareWithFourPartitionsTests(MiddlewareTests):
    pass
