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
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis as redis_py
from django.contrib.auth.models import User
from django.test import AsyncClient, Client

from django_redsess import scripts
from testproject import servers
from tests.faults import site as site_module
from tests.faults import site_concurrency
from tests.support.outages import OURS, caches, close_connections, end_outage
from tests.support.proxy import Proxy
from tests.support.visitors import Browser

one_kind_of_server = pytest.mark.parametrize("server", [*servers.available()][:1], indirect=True)
"""For a test in which the server has no part, or that takes its time."""

MIDDLEWARE = [
    "django_redsess.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django_redsess.middleware.ViewedItemsMiddleware",
]


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
