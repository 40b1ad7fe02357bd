"""Outages: a server that is frozen, full or refuses to write, and how a process recovers."""

import logging
import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest
import redis as redis_py
from django_redis import get_redis_connection

from django_redsess import viewed
from django_redsess.backend import SessionStore
from testproject.servers import Server
from tests.helpers.running import wait_until
from tests.helpers.store import pool

PATIENCE = 5
"""Seconds that a test waits for the server, unless it is about outages: a busy machine is none."""

TIMEOUT = 0.5
"""Seconds, for connecting and for an answer: with one repetition no request takes longer than 1.5 s for it."""

BUDGET = 3
"""Seconds that a request may take in an outage: twice what is promised, for the sake of a slow machine."""

OURS = "EVALSHA"
"""What every command of ours contains, once the server knows the scripts."""


def caches(url: str, *, timeout: float = PATIENCE) -> dict[str, Any]:
    """Settings that keep the sessions on the server at ``url``, and wait ``timeout`` seconds for it."""
    return {
        "sessions": {
            "BACKEND": "django_redis.cache.RedisCache",
            "LOCATION": url,
            "OPTIONS": {"SOCKET_CONNECT_TIMEOUT": timeout, "SOCKET_TIMEOUT": timeout},
        }
    }


def lines_of(caplog: pytest.LogCaptureFixture, logger: str, level: int) -> list[str]:
    """The messages that ``logger`` wrote at ``level``."""
    return [record.getMessage() for record in caplog.records if (record.name, record.levelno) == (logger, level)]


def our_errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The errors that our logger wrote. Nobody else wrote one."""
    assert lines_of(caplog, "django.request", logging.ERROR) == []
    return lines_of(caplog, "django_redsess", logging.ERROR)


@contextmanager
def frozen(server: Server) -> Iterator[None]:
    """Stop the process of ``server``: the system still accepts connections for it, and nobody answers."""
    os.kill(server.process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(server.process.pid, signal.SIGCONT)


def end_outage() -> None:
    """Let the process notice that the server answers, by each kind of command. Log lines after that are the test's."""
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
    """Close the connections to the site's server. Each test has another address, and nobody else closes them."""
    pool().disconnect()
    get_redis_connection("sessions").connection_pool.disconnect()


@contextmanager
def configured(client: redis_py.Redis, option: str, value: int) -> Iterator[None]:
    client.config_set(option, value)
    try:
        yield
    finally:
        client.config_set(option, 0)


def full(redis: redis_py.Redis) -> AbstractContextManager[None]:
    """Let the server be out of memory."""
    return configured(redis, "maxmemory", 1)


def without_replicas(server: Server) -> AbstractContextManager[None]:
    return configured(server.client, "min-replicas-to-write", 1)


@contextmanager
def replica(server: Server) -> Iterator[None]:
    server.client.replicaof("127.0.0.1", 1)
    yield
    server.client.replicaof("no", "one")


@contextmanager
def without_disk(server: Server) -> Iterator[None]:
    shutil.rmtree(server.folder)
    server.client.config_set("save", "3600 1")
    server.client.bgsave()
    wait_until(lambda: server.client.info("persistence")["rdb_last_bgsave_status"] == "err")
    yield
    server.client.config_set("save", "")
