"""redis-py without its private names: sessions take its public way, with the same results."""

import asyncio
import random
import runpy
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import redis as redis_py
import redis._parsers
import redis.asyncio
from asgiref.sync import async_to_sync

from django_redsess.backend import SessionStore
from django_redsess.transport import connections, sources
from tests.helpers.both import Ask, twins
from tests.helpers.outages import caches

NAMES = ["_sock", "_parser", "_reader", "_writer", "_re_auth_token", "_should_reconnect"]
PARSERS = ["_HiredisParser", "_AsyncHiredisParser"]


class Without:
    """A connection that has no private attribute ``hidden`` for anybody but itself."""

    kind: Any = redis_py.Connection
    hidden = ""

    def __init__(self, **options: Any) -> None:
        self.__dict__["real"] = self.kind(**options)

    def __getattr__(self, name: str) -> Any:
        if name == self.hidden:
            raise AttributeError(name)
        return getattr(self.real, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.real, name, value)


async def use(ask: Ask) -> Any:
    session = SessionStore()
    await ask(session, "update", {"colour": "blue"})
    await ask(session, "save")
    changed = SessionStore(session.session_key)
    await ask(changed, "update", {"size": 3})
    await ask(changed, "save")
    await ask(changed, "cycle_key")
    await ask(changed, "update", {"signed": True})
    await ask(changed, "save")
    found = dict(await ask(SessionStore(changed.session_key), "items"))
    await ask(changed, "delete")
    before = dict(await ask(SessionStore(session.session_key), "items"))
    return found, await ask(changed, "exists", changed.session_key), before


use_threads, use_loop = twins(use)


SAME = {"colour": "blue", "size": 3, "signed": True}, False, {}


@pytest.fixture
def own_pool(server, settings) -> Iterator[None]:
    settings.CACHES = caches(f"{server.url}?client_name=without-{random.getrandbits(60)}")
    yield
    connections.pool().disconnect()


@pytest.mark.parametrize("use", [use_threads, async_to_sync(use_loop)], ids=["threads", "asyncio"])
@pytest.mark.parametrize("name", NAMES)
def test_a_connection_without_a_private_name_is_used(own_pool, settings, monkeypatch, name: str, use) -> None:
    hiding = type("Hiding", (Without,), {"hidden": name})
    in_loop = type("Hiding", (hiding,), {"kind": redis.asyncio.Connection})
    monkeypatch.setattr(sys.modules[__name__], "InLoop", in_loop, raising=False)
    settings.REDSESS = {**settings.REDSESS, "ASYNC_CONNECTION_CLASS": f"{__name__}.InLoop"}
    settings.CACHES["sessions"]["OPTIONS"]["CONNECTION_POOL_KWARGS"] = {"connection_class": hiding}
    assert connections.pool().connection_class is hiding
    assert use() == SAME
    # The connections that are there, too.
    assert use() == SAME


def test_fakeredis_keeps_sessions_for_threads(settings) -> None:
    fakeredis = pytest.importorskip("fakeredis")
    settings.CACHES = caches(f"redis://fake-{random.getrandbits(60)}:6379/0")
    options = {"connection_class": fakeredis.FakeRedisConnection}
    settings.CACHES["sessions"]["OPTIONS"]["CONNECTION_POOL_KWARGS"] = options
    assert use_threads() == SAME


@pytest.mark.parametrize("name", PARSERS)
def test_redis_py_without_a_private_class_is_used(own_pool, monkeypatch, name: str) -> None:
    monkeypatch.delattr(redis._parsers, name)
    found = runpy.run_path(sources.__file__)
    assert [found[each] for each in PARSERS] == [None, None]
    for each in (*PARSERS, "NOT_ENOUGH_DATA"):
        monkeypatch.setattr(sources, each, None)
    assert use_threads() == asyncio.run(use_loop()) == SAME
