"""What the tests of failures share. The docstring of each fixture says what it does (``pytest --fixtures``)."""

import itertools
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import AsyncClient, Client

from django_redsess.signals import EndedSession, sessions_ended
from testproject import servers
from tests.helpers.child import Child
from tests.helpers.outages import OURS, TIMEOUT, caches, close_connections, end_outage
from tests.helpers.running import run_python
from tests.helpers.site import MIDDLEWARE, MIDDLEWARE_WITH_CSRF, TEMPLATES, VIEWED_VIEWS, people
from tests.helpers.store import have_agreed
from tests.helpers.visitors import Browser


@pytest.fixture
def site(request, proxy, settings) -> Iterator[None]:
    """The site of tests/helpers/site in place of the shop, its sessions behind the proxy."""
    if "partitions" in request.fixturenames:
        # Before the store is used for the first time: afterwards their number is fixed.
        request.getfixturevalue("partitions")
    settings.ROOT_URLCONF = "tests.helpers.site.urls"
    settings.MIDDLEWARE = MIDDLEWARE_WITH_CSRF
    settings.LOGIN_URL = "/sign-in/nobody/"
    settings.TEMPLATES = TEMPLATES
    settings.REDSESS = {"VIEWED_VIEWS": VIEWED_VIEWS}
    settings.CACHES = caches(proxy.url, timeout=TIMEOUT)
    end_outage()
    yield
    proxy.restore()
    close_connections()
    settings.CACHES = caches(proxy.url, timeout=TIMEOUT)
    end_outage()
    close_connections()


@pytest.fixture(params=[Client, AsyncClient], ids=["wsgi", "asgi"])
def browser(request, site) -> Browser:
    """A visitor of the site, over WSGI and over ASGI."""
    return Browser(request.param())


@pytest.fixture
def log(caplog) -> pytest.LogCaptureFixture:
    """What the loggers wrote, ours from its informational lines on."""
    caplog.set_level(logging.INFO, logger="django_redsess")
    return caplog


@pytest.fixture
def alice(db) -> User:
    user: User = User.objects.create_user("alice")
    return user


@pytest.fixture
def sign_ins_site(settings, partitions: int, users_in_no_table) -> None:
    """The site of tests/helpers/site in place of the shop, for users who are in no table, without a proxy."""
    settings.ROOT_URLCONF = "tests.helpers.site.urls"
    settings.MIDDLEWARE = MIDDLEWARE
    people.passwords.clear()


@pytest.fixture
def each_loss(browser, proxy, redis, known_scripts) -> Callable[..., Iterator[Any]]:
    """
    Return a function to loop over: in each round, on an empty store, one more reply of the request is the lost one.

    ``start`` is called before each, without losses. It goes on until a round had no such reply.
    """

    def rounds(start: Callable[[], Any], *, hang: bool = False) -> Iterator[Any]:
        for number in itertools.count():
            for name in redis.keys():
                if not name.endswith(b":meta"):
                    redis.delete(name)
            browser.client.cookies.clear()
            # Otherwise the first reply would be that of the agreement, and the last one of the request is never lost.
            have_agreed()
            given = start()
            before = proxy.lost
            proxy.lose_reply(OURS, skip=number, hang=hang)
            yield given
            proxy.restore()
            if proxy.lost == before:
                # At least the first was lost, else this has shown nothing.
                assert number > 0
                return

    return rounds


@pytest.fixture
def told() -> Iterator[list[str]]:
    """The sids of the sessions whose end was told in this process."""
    sids: list[str] = []

    def receive(sessions: list[EndedSession], **named: Any) -> None:
        sids.extend(each.sid for each in sessions)

    sessions_ended.connect(receive)
    yield sids
    sessions_ended.disconnect(receive)


@pytest.fixture(scope="session")
def child(server) -> Iterator[Child]:
    """A process of its own, whose sessions are on ``server``, and which may be killed between two commands."""
    started = Child(server)
    yield started
    started.close()


@pytest.fixture
def durable_server(server) -> Iterator[servers.Server]:
    """A server of the same kind that this test alone uses, and that remembers what it has acknowledged."""
    yield from servers.serving(server.binary, "--appendonly", "yes", "--appendfsync", "always")


@pytest.fixture
def greenlets(settings) -> Callable[..., list[int]]:
    """Return a function that runs tests/failures/greenlets.py, and returns the numbers that it prints."""

    def run(url: str, *pool: str) -> list[int]:
        printed = run_python("-m", "tests.failures.greenlets", url, settings.SECRET_KEY, *pool, quiet=True)
        return list(map(int, printed.split()))

    return run


@pytest.fixture
def use_server(site, settings) -> Callable[..., None]:
    """Return a function that moves the site's sessions to another server, without a proxy."""

    def use(server: servers.Server, **options: float) -> None:
        settings.CACHES = caches(server.url, **options)
        end_outage()

    return use
