"""redis-py without its private names: sessions take its public way, with the same results."""

import asyncio
import random
import runpy
from typing import Any

import pytest
import redis as redis_py
import redis._parsers
import redis.asyncio
from asgiref.sync import async_to_sync

from django_redsess.backend import SessionStore
from django_redsess.transport import connections, sending
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


def use_threads() -> Any:
    session = SessionStore()
    session["colour"] = "blue"
    session.save()
    changed = SessionStore(session.session_key)
    changed["size"] = 3
    changed.save()
    changed.cycle_key()
    changed["signed"] = True
    changed.save()
    found = dict(SessionStore(changed.session_key).items())
    changed.delete()
    return found, changed.exists(changed.session_key), dict(SessionStore(session.session_key).items())


async def use_loop() -> Any:
    session = SessionStore()
    await session.aset("colour", "blue")
    await session.asave()
    changed = SessionStore(session.session_key)
    await changed.aset("size", 3)
    await changed.asave()
    await changed.acycle_key()
    await changed.aset("signed", True)
    await changed.asave()
    found = dict(await SessionStore(changed.session_key).aitems())
    await changed.adelete()
    return found, await changed.aexists(changed.session_key), dict(await SessionStore(session.session_key).aitems())


SAME = {"colour": "blue", "size": 3, "signed": True}, False, {}


@pytest.mark.parametrize("use", [use_threads, async_to_sync(use_loop)], ids=["threads", "asyncio"])
@pytest.mark.parametrize("name", NAMES)
def test_a_connection_without_a_private_name_is_used(server, settings, monkeypatch, name: str, use) -> None:
    hiding = type("Hiding", (Without,), {"hidden": name})
    in_loop = type("Hiding", (hiding,), {"kind": redis.asyncio.Connection})
    monkeypatch.setattr(redis.asyncio.connection, "Hiding", in_loop, raising=False)
    settings.CACHES = caches(f"{server.url}?client_name=without-{random.getrandbits(60)}")
    settings.CACHES["sessions"]["OPTIONS"]["CONNECTION_POOL_KWARGS"] = {"connection_class": hiding}
    try:
        assert connections.pool().connection_class is hiding
        assert use() == SAME
        # The connections that are there, too.
        assert use() == SAME
    finally:
        connections.pool().disconnect()


def test_fakeredis_keeps_sessions_for_threads(settings) -> None:
    fakeredis = pytest.importorskip("fakeredis")
    settings.CACHES = caches(f"redis://fake-{random.getrandbits(60)}:6379/0")
    options = {"connection_class": fakeredis.FakeRedisConnection}
    settings.CACHES["sessions"]["OPTIONS"]["CONNECTION_POOL_KWARGS"] = options
    assert use_threads() == SAME


@pytest.mark.parametrize("name", PARSERS)
def test_redis_py_without_a_private_class_is_used(server, settings, monkeypatch, name: str) -> None:
    monkeypatch.delattr(redis._parsers, name)
    found = runpy.run_path(sending.__file__)
    assert [found[each] for each in PARSERS] == [None, None]
    for each in (*PARSERS, "NOT_ENOUGH_DATA"):
        monkeypatch.setattr(sending, each, None)
    settings.CACHES = caches(f"{server.url}?client_name=without-{random.getrandbits(60)}")
    try:
        assert use_threads() == SAME
        assert asyncio.run(use_loop()) == SAME
    finally:
        connections.pool().disconnect()
