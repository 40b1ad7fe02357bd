"""
What the tests of faults share.

``site``: the small site of site.py, whose sessions are on ``server`` behind ``proxy``. ``browser``: a visitor of it,
over WSGI and over ASGI. ``alice``: a user. ``meanwhile``: say what happens between a view's reading and changing.
``each_loss``: go through the replies that can be lost. ``sign_ins_site``: the site of site_sign_ins.py instead.
``own_server``: a server that the test may stop, freeze (``frozen``) and start again; ``durable_server``: one that has
its data then. ``use_server``: have the site on it.
"""

from __future__ import annotations

import itertools
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import redis as redis_py
from asgiref.sync import async_to_sync
from django.conf import settings as django_settings
from django.contrib.auth.models import User
from django.http import HttpResponse
from django.test import AsyncClient, Client
from django_redis import get_redis_connection

from django_redsess import scripts, viewed
from django_redsess.backend import SessionStore
from tests import servers
from tests.faults import site as site_module
from tests.faults import site_concurrency
from tests.faults.proxy import Proxy

TIMEOUT = 0.5
"""Seconds, for connecting and for an answer: with one repetition no request takes longer than 1.5 s for it."""

BUDGET = 3
"""Seconds that a request may take in an outage: twice what is promised, for the sake of a slow machine."""

OURS = "EVALSHA"
"""What every command of ours contains, once the server knows the scripts."""

one_kind_of_server = pytest.mark.parametrize("server", [*servers.available()][:1], indirect=True)
"""For a test in which the server has no part, or that takes its time."""

MIDDLEWARE = [
    "django_redsess.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django_redsess.middleware.ViewedItemsMiddleware",
]


class Browser:
    """A visitor: keeps cookies, gets an answer to whatever happens, and notes how long the last one took."""

    def __init__(self, client: Client | AsyncClient) -> None:
        self.client = client
        self.client.raise_request_exception = False
        self.seconds = 0.0

    def get(self, path: str, **options: Any) -> HttpResponse:
        return self._ask(self.client.get, path, **options)

    def post(self, path: str, data: dict[str, str] | None = None, **options: Any) -> HttpResponse:
        return self._ask(self.client.post, path, data or {}, **options)

    def sign_in(self, user: User, **data: Any) -> None:
        """Sign in without a request, and put ``data`` into the session."""
        self.client.force_login(user)
        if data:
            session = SessionStore(self.cookie)
            session.update(data)
            session.save()

    @property
    def views(self) -> str:
        """What the paths of the views begin with that suit the way the site is served."""
        return "/async" if isinstance(self.client, AsyncClient) else ""

    @property
    def cookie(self) -> str | None:
        """The session key that this visitor sends, if any."""
        morsel = self.client.cookies.get(django_settings.SESSION_COOKIE_NAME)
        return morsel.value if morsel else None

    @cookie.setter
    def cookie(self, session_key: str) -> None:
        self.client.cookies[django_settings.SESSION_COOKIE_NAME] = session_key

    @property
    def sid(self) -> str | None:
        return SessionStore(self.cookie).sid

    def _ask(self, method: Callable[..., Any], *args: Any, **options: Any) -> HttpResponse:
        started = time.monotonic()
        method = async_to_sync(method) if isinstance(self.client, AsyncClient) else method
        response: HttpResponse = method(*args, **options)
        self.seconds = time.monotonic() - started
        return response


def caches(url: str) -> dict[str, Any]:
    """Settings that keep the sessions on the server at ``url``."""
    return {
        "sessions": {
            "BACKEND": "django_redis.cache.RedisCache",
            "LOCATION": url,
            "OPTIONS": {"SOCKET_CONNECT_TIMEOUT": TIMEOUT, "SOCKET_TIMEOUT": TIMEOUT},
        }
    }


def assert_unavailable(response: HttpResponse) -> None:
    """An answer that says the sessions can't be reached, and takes nothing from the visitor."""
    assert response.status_code == 503
    assert list(response.cookies) == []
    assert "no-store" in response["Cache-Control"]
    request: Any = response.asgi_request if hasattr(response, "asgi_request") else response.wsgi_request
    assert ("Retry-After" in response) == (request.method in ("GET", "HEAD", "OPTIONS"))


def lines_of(caplog: pytest.LogCaptureFixture, logger: str, level: int) -> list[str]:
    """The messages that ``logger`` wrote at ``level``."""
    return [record.getMessage() for record in caplog.records if (record.name, record.levelno) == (logger, level)]


@contextmanager
def frozen(server: servers.Server) -> Iterator[None]:
    """Let ``server`` do nothing: the system still accepts connections for it, and nobody answers."""
    os.kill(server.process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(server.process.pid, signal.SIGCONT)


def end_outage() -> None:
    """See that the process knows of no outage, whatever it met it with: a test's log lines are then its own."""
    session = SessionStore()
    session["colour"] = "blue"
    session.save()
    session = SessionStore(session.session_key)
    session["colour"] = "red"
    session.save()
    session.cycle_key()
    session.save()
    viewed.record(session, "nothing")
    session.delete()


def close_connections() -> None:
    """Close those to where the site's sessions are now: nobody else would, and every test has an address of its own."""
    get_redis_connection("sessions").connection_pool.disconnect()


@pytest.fixture
def proxy(server: servers.Server) -> Iterator[Proxy]:
    """A way to the server that can be cut."""
    started = Proxy(server.port)
    yield started
    started.close()


@pytest.fixture
def site(request: pytest.FixtureRequest, proxy: Proxy, settings: Any) -> Iterator[None]:
    """The site of site.py in place of the shop, its sessions behind the proxy."""
    if "partitions" in request.fixturenames:
        # Before the store is used for the first time: afterwards their number is fixed.
        request.getfixturevalue("partitions")
    settings.ROOT_URLCONF = "tests.faults.site"
    settings.MIDDLEWARE = MIDDLEWARE
    settings.LOGIN_URL = "/sign-in/nobody/"
    settings.TEMPLATES = [
        {
            "BACKEND": "django.template.backends.django.DjangoTemplates",
            "APP_DIRS": True,
            "OPTIONS": {
                "context_processors": [
                    "django.template.context_processors.request",
                    "django.contrib.auth.context_processors.auth",
                ]
            },
        }
    ]
    views = ("item", "item-for-somebody", "item-and-write", "item-and-cycle")
    settings.REDSESS = {"VIEWED_VIEWS": dict.fromkeys(views, "slug")}
    settings.CACHES = caches(proxy.url)
    end_outage()
    yield
    proxy.restore()
    close_connections()
    settings.CACHES = caches(proxy.url)
    end_outage()
    close_connections()


@pytest.fixture(params=[Client, AsyncClient], ids=["wsgi", "asgi"])
def browser(request: pytest.FixtureRequest, site: None) -> Browser:
    """A visitor of the site, over WSGI and over ASGI."""
    return Browser(request.param())


@pytest.fixture
def alice(db: None) -> User:
    user: User = User.objects.create_user("alice")
    return user


@pytest.fixture
def meanwhile() -> Iterator[Callable[[Callable[[], object]], None]]:
    """Give a function that says what happens, once, between a view's reading the session and changing it."""
    yield site_module.meanwhile.does
    site_module.meanwhile.does(None)


@pytest.fixture
def sign_ins_site(settings: Any, partitions: int, users_in_no_table: None) -> None:
    """The site of site_sign_ins.py in place of the shop, without a proxy."""
    settings.ROOT_URLCONF = "tests.faults.site_sign_ins"
    settings.MIDDLEWARE = site_concurrency.MIDDLEWARE
    site_concurrency.passwords.clear()


@pytest.fixture
def known_scripts(redis: redis_py.Redis) -> None:
    """Else the first reply to each is that it is not known: nothing is lost with that one."""
    for script in vars(scripts).values():
        if isinstance(script, scripts.Script):
            redis.script_load(script.text)


@pytest.fixture
def each_loss(
    browser: Browser, proxy: Proxy, redis: redis_py.Redis, known_scripts: None
) -> Callable[..., Iterator[Any]]:
    """
    Return a function to loop over: in each round, on an empty store, one more reply of the request is the lost one.

    ``start`` is called before each round, without losses, and the round is given what it returns. It goes on until a
    round had no such reply.
    """

    def rounds(start: Callable[[], Any], *, hang: bool = False) -> Iterator[Any]:
        for number in itertools.count():
            for name in redis.keys():
                if not name.endswith(b":meta"):
                    redis.delete(name)
            browser.client.cookies.clear()
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
def durable_server(server: servers.Server) -> Iterator[servers.Server]:
    """A server of the same kind that this test alone uses, and that remembers what it has acknowledged."""
    yield from servers.serving(server.binary, "--appendonly", "yes", "--appendfsync", "always")


@pytest.fixture
def own_server(server: servers.Server) -> Iterator[servers.Server]:
    """A server of the same kind that this test alone uses, and may stop and start."""
    yield from servers.serving(server.binary)


@pytest.fixture
def use_server(site: None, settings: Any) -> Callable[[servers.Server], None]:
    """Return a function that moves the site's sessions to another server, without a proxy."""

    def use(server: servers.Server) -> None:
        settings.CACHES = caches(server.url)
        end_outage()

    return use
