"""A process that is forked at any moment meets no lock that a thread of its parent had."""

import asyncio
import os
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import redis as redis_py
from redis.sentinel import Sentinel, SentinelConnectionPool

import django_redsess
from django_redsess import forks
from django_redsess.backend import SessionStore
from django_redsess.exceptions import SessionStoreUnavailable
from django_redsess.transport import connections, pools
from django_redsess.transport.keys import keyspace
from tests.helpers.backends import BACKENDS, entry
from tests.helpers.outages import PATIENCE
from tests.helpers.pooled import give, take
from tests.helpers.running import in_child


@contextmanager
def a_thread_in(hold: Callable[[], Any]) -> Iterator[None]:
    """Return a context in which another thread is within the context that ``hold`` returns."""
    entered, leave = threading.Event(), threading.Event()

    def stay() -> None:
        with hold():
            entered.set()
            leave.wait()

    thread = threading.Thread(target=stay)
    thread.start()
    entered.wait()
    try:
        yield
    finally:
        leave.set()
        thread.join()


class Slow(redis_py.Connection):
    """A connection that takes its time to be made in any thread but the main one. Its pool is locked meanwhile."""

    making = threading.Event()
    leave = threading.Event()

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        if threading.current_thread() is not threading.main_thread():
            self.making.set()
            self.leave.wait()


@pytest.fixture(params=["django-redis", "Django"])
def session_key(request, server, settings) -> Iterator[str]:
    """The key of a session that is stored where connections are slow."""
    url = f"{server.url}?client_name=forked-{os.urandom(4).hex()}"
    settings.CACHES = {"sessions": entry(request.param, url, seconds=PATIENCE, connection_class=Slow)}
    settings.REDSESS = {**settings.REDSESS, "ASYNC_CONNECTION_CLASS": "redis.asyncio.connection.Connection"}
    session = SessionStore()
    session["colour"] = "blue"
    session.save()
    assert session.session_key
    yield session.session_key
    connections.pool().disconnect()


def test_a_child_of_a_parent_that_is_making_connections(session_key: str) -> None:
    pool = connections.pool()
    taken = take(pool)

    def make() -> None:
        give(pool, take(pool))

    thread = threading.Thread(target=make)
    thread.start()
    Slow.making.wait()
    try:

        def work() -> object:
            # All that a process does with a pool: a request, an outage, the end of a test.
            found = [SessionStore(session_key)["colour"], asyncio.run(SessionStore(session_key).aget("colour"))]
            connections.pool().disconnect()
            return [*found, SessionStore(session_key)["colour"]]

        assert in_child(work) == "['blue', 'blue', 'blue']"
    finally:
        Slow.leave.set()
        thread.join()
        Slow.making.clear()
        Slow.leave.clear()
    give(pool, taken)
    assert SessionStore(session_key)["colour"] == "blue"


def test_a_child_of_a_parent_that_has_all_locks_of_ours(new_session) -> None:
    session_key = new_session().session_key

    def all_of_them() -> ExitStack:
        stack = ExitStack()
        for each in forks.resettables():
            if isinstance(each, forks.Lock):
                stack.enter_context(each)
        return stack

    def work() -> object:
        assert SessionStore(session_key).exists(session_key)
        assert asyncio.run(SessionStore(session_key).aexists(session_key))
        connections.server_of(keyspace().partitions[0]).outages.out_of_reach.note_failure("read", ValueError())
        for each in forks.resettables():
            if isinstance(each, forks.Lock):
                with each:
                    pass
        return "free"

    with a_thread_in(all_of_them):
        assert in_child(work) == "free"


def test_every_lock_of_the_package_is_one_that_is_free_in_a_child() -> None:
    folder = Path(django_redsess.__file__).parent
    texts = {path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8") for path in folder.rglob("*.py")}
    kinds = r"\b(R?Lock|Condition|Semaphore|BoundedSemaphore|Barrier)\(\)?"
    found = {path for path, text in texts.items() if re.search(rf"(threading\.|(?<![.\w])){kinds}", text)}
    # One thread that waits has a lock of its own there: it is not in the child, and nobody else knows that lock.
    assert found == {"forks.py", "transport/pools.py"}
    assert texts["transport/pools.py"].count("threading.Lock()") == 1


@pytest.mark.unit
def test_a_child_asks_sentinels_on_connections_of_its_own() -> None:
    manager = Sentinel([("localhost", 1), ("localhost", 2)], min_other_sentinels=1, sentinel_kwargs={"db": 0})
    pool = pools.make_session_pool(SentinelConnectionPool("name", manager, socket_timeout=1))

    def known() -> list[Any]:
        told_by = pool.source.sentinel_manager
        assert (type(told_by), told_by.min_other_sentinels) == (Sentinel, 1)
        ports = [each.connection_pool.connection_kwargs["port"] for each in told_by.sentinels]
        assert ports == [1, 2]
        return [pool.source, told_by, *(each.connection_pool for each in told_by.sentinels)]

    before = [manager, *(each.connection_pool for each in manager.sentinels), *known()]
    pool.reset()
    assert not {id(each) for each in before} & {id(each) for each in known()}


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_children_of_a_parent_whose_threads_open_connections(server, settings, backend: str) -> None:
    url = f"{server.url}?client_name=forked-{os.urandom(4).hex()}"
    settings.CACHES = {"sessions": entry(backend, url, seconds=PATIENCE)}
    session = SessionStore()
    session["colour"] = "blue"
    session.save()
    over = threading.Event()

    def open_and_close() -> None:
        while not over.is_set():
            with suppress(SessionStoreUnavailable):
                SessionStore(session.session_key).load()
            connections.pool().close_idle()

    threads = [threading.Thread(target=open_and_close) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        said = [in_child(lambda: SessionStore(session.session_key)["colour"]) for _ in range(40)]
    finally:
        over.set()
        for thread in threads:
            thread.join()
        connections.pool().disconnect()
    assert said == ["blue"] * 40
