"""Connections: what is an outage, what is a bug, and what is said about it."""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import redis as redis_py
from django_redis import get_redis_connection
from redis.exceptions import ResponseError

from django_redsess.backend import SessionStore, SessionStoreUnavailable
from testproject.servers import Server, free_port
from tests.support.sentinels import behind_sentinel

pytestmark = pytest.mark.both_servers


@contextmanager
def replica_that_lost_its_primary(client: redis_py.Redis) -> Iterator[None]:
    client.config_set("replica-serve-stale-data", "no")
    client.replicaof("127.0.0.1", free_port())
    yield
    client.replicaof("NO", "ONE")
    client.config_set("replica-serve-stale-data", "yes")


@contextmanager
def full(client: redis_py.Redis) -> Iterator[None]:
    client.config_set("maxmemory", 1)
    yield
    client.config_set("maxmemory", 0)


def test_a_replica_that_lost_its_primary_is_an_outage(redis, new_session) -> None:
    session = SessionStore(new_session(colour="blue").session_key)
    with replica_that_lost_its_primary(redis), pytest.raises(SessionStoreUnavailable):
        session.load()
    assert SessionStore(session.session_key)["colour"] == "blue"


def test_a_server_of_another_cluster_is_an_outage(server: Server, settings) -> None:
    member = Server(server.binary, "--cluster-enabled", "yes", "--cluster-port", str(free_port()))
    settings.CACHES = {"sessions": {**settings.CACHES["sessions"], "LOCATION": member.url}}
    try:
        with pytest.raises(SessionStoreUnavailable):
            SessionStore("k" * 32).load()
    finally:
        member.close()


def test_an_exhausted_pool_is_an_outage(server: Server, settings, new_session) -> None:
    key = new_session(colour="blue").session_key
    options = {**settings.CACHES["sessions"]["OPTIONS"], "CONNECTION_POOL_KWARGS": {"max_connections": 1}}
    settings.CACHES = {
        "sessions": {**settings.CACHES["sessions"], "LOCATION": f"{server.url}?client_name=one", "OPTIONS": options}
    }
    pool = get_redis_connection("sessions").connection_pool
    taken = pool.get_connection()
    with pytest.raises(SessionStoreUnavailable):
        SessionStore(key).load()
    pool.release(taken)
    assert SessionStore(key)["colour"] == "blue"


def test_an_error_of_ours_is_none(redis, new_session) -> None:
    redis.set("{redsess}:login", "not a hash")
    with pytest.raises(ResponseError, match="WRONGTYPE"):
        new_session(colour="blue")
    redis.delete("{redsess}:login")


def test_an_outage_is_logged_when_it_begins_and_when_it_is_over(redis, new_session, caplog) -> None:
    session = new_session(colour="blue")
    caplog.set_level(logging.INFO, logger="django_redsess")
    with full(redis):
        for _ in range(3):
            with pytest.raises(SessionStoreUnavailable):
                SessionStore(session.session_key).save()
            # It still reads: that is no end of the outage.
            assert SessionStore(session.session_key)["colour"] == "blue"
    for _ in range(3):
        SessionStore(session.session_key).save()
    begins, is_over = caplog.records
    assert begins.levelname == "ERROR"
    assert begins.getMessage().startswith("Sessions can't be reached: OutOfMemoryError: ")
    assert is_over.levelname == "INFO"
    assert session.session_key not in caplog.text


def test_a_session_that_met_an_outage_asks_no_more(redis, new_session, commands) -> None:
    session = SessionStore(new_session(colour="blue").session_key)
    with full(redis), pytest.raises(SessionStoreUnavailable):
        session.save()
    commands()
    for use in (session.save, session.load, session.flush, session.cycle_key):
        with pytest.raises(SessionStoreUnavailable):
            use()
    assert "evalsha" not in commands()


def test_a_primary_is_found_through_sentinel(server: Server, settings, tmp_path) -> None:
    with behind_sentinel(server, tmp_path, timeout=2) as settings.CACHES:
        session = SessionStore()
        session["colour"] = "blue"
        session.save()

        async def change() -> None:
            awaited = SessionStore(session.session_key)
            assert await awaited.aget("colour") == "blue"
            await awaited.aset("colour", "red")
            await awaited.asave()

        asyncio.run(change())
        assert SessionStore(session.session_key)["colour"] == "red"
        assert server.client.keys()
