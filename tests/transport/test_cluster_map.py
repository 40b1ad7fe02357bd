"""The map of a cluster: one thread asks for it, everybody else goes on, and nothing of a node stays that has left."""

import asyncio
import gc
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from unittest.mock import Mock

import pytest
import redis.asyncio
from django.db import connection, connections

from django_redsess.backend import SessionStore
from django_redsess.exceptions import SessionStoreUnavailable
from django_redsess.transport import attempts
from django_redsess.transport.cluster_map import FRESH_SECONDS, THREAD
from django_redsess.transport.cluster_map import Cluster as Map
from django_redsess.transport.connections import pool
from django_redsess.transport.pools import LoopPool, Pool
from testproject.servers import free_port
from tests.helpers.clusters import begin_anew, deaf, node_of, session_on_each, use_cluster
from tests.helpers.running import in_child, wait_until


def asking() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name == THREAD]


@pytest.fixture
def slow(cluster, settings, new_session) -> Iterator[str]:
    """Let the map take a second to come: the first node that is asked never answers. Give a session's key."""
    use_cluster(settings, cluster.urls)
    key = str(new_session(colour="blue").session_key)
    with deaf() as silent:
        use_cluster(settings, [silent, cluster.urls[0]], timeout=2)
        yield key
        # Else its thread would find the settings of the next test.
        wait_until(lambda: not asking())


def test_many_threads_wait_for_one_that_asks(slow) -> None:
    most = 0
    with ThreadPoolExecutor(20) as threads:
        found = [threads.submit(SessionStore(slow).load) for _ in range(20)]
        while not all(each.done() for each in found):
            most = max(most, len(asking()))
            time.sleep(0.01)
    assert [each.result() for each in found] == [{"colour": "blue"}] * 20
    assert most == 1


def test_everybody_goes_on_with_the_map_as_it_was(slow) -> None:
    assert SessionStore(slow)["colour"] == "blue"
    known = pool()
    # One that has just come is not asked for again.
    time.sleep(2 * FRESH_SECONDS)
    # Else the node that is asked first would be one that answers.
    known._owners, owners = [None] * len(known._owners), known._owners
    asked = known.refresh()
    known._owners = owners
    for _ in range(20):
        assert SessionStore(slow)["colour"] == "blue"
    assert not asked.done()
    asked.result(20)


def test_the_map_is_asked_for_again_after_a_thread_could_not_be_started(slow, monkeypatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", Mock(side_effect=RuntimeError("can't start new thread")))
        with pytest.raises(SessionStoreUnavailable):
            SessionStore(slow).load()
    wait_until(lambda: loads(slow))


def loads(key: str) -> bool:
    try:
        return SessionStore(key).load() == {"colour": "blue"}
    except SessionStoreUnavailable:
        return False


def test_a_task_that_is_cancelled_takes_the_map_from_nobody(slow) -> None:
    async def visit() -> None:
        tasks = [asyncio.create_task(SessionStore(slow).aload()) for _ in range(10)]
        await asyncio.sleep(0.1)
        assert len(asking()) == 1
        for task in tasks[::2]:
            task.cancel()
        answers = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(each) for each in answers[::2]] == [asyncio.CancelledError] * 5
        assert answers[1::2] == [{"colour": "blue"}] * 5

    asyncio.run(visit())


def test_a_loop_that_ends_before_the_map_is_there(slow, caplog) -> None:
    async def visit() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await SessionStore(slow).aload()

    asyncio.run(visit())
    assert len(asking()) == 1
    wait_until(lambda: not asking())
    assert caplog.records == []
    assert SessionStore(slow)["colour"] == "blue"


def test_a_child_asks_for_the_map_itself(slow) -> None:
    pool().refresh()
    assert len(asking()) == 1

    def work() -> str:
        assert asking() == []
        return SessionStore(slow)["colour"]

    assert in_child(work) == "blue"


def test_a_child_that_is_born_while_the_map_is_changed(slow) -> None:
    with pool()._lock:
        assert in_child(lambda: SessionStore(slow)["colour"]) == "blue"


def test_a_child_has_connections_of_its_own(cluster, settings, new_session) -> None:
    use_cluster(settings, cluster.urls)
    session_on_each(cluster, new_session)

    def numbers() -> list[int]:
        return [attempts.ask_server(node, "CLIENT", "ID") for node in pool().nodes()]

    before = numbers()
    there = in_child(numbers)
    # Each node numbers its own.
    assert [one for one, other in zip(before, eval(there), strict=True) if one == other] == []
    assert numbers() == before


@pytest.mark.slow
def test_nothing_stays_of_nodes_that_come_and_go(own_cluster, settings, new_session) -> None:
    """The clients of event loops, too; and those of the nodes that stay are not touched."""
    start = own_cluster.primaries[0]
    use_cluster(settings, start.url)
    sessions = session_on_each(own_cluster, new_session, colour="blue")
    staying, other, going = sessions[start], *[key for node, key in sessions.items() if node is not start]

    async def read(key: str) -> None:
        assert await SessionStore(key).aget("colour") == "blue"
        assert await asyncio.to_thread(lambda: SessionStore(key)["colour"]) == "blue"

    async def visit() -> None:
        for key in (staying, other, going):
            await read(key)
        kept = {node: connections_of(node) for node in (start, node_of(own_cluster, other))}
        first = count()
        for _ in range(4):
            await asyncio.to_thread(lambda: own_cluster.promote(own_cluster.replica_of(node_of(own_cluster, going))))
            for key in (staying, other, going):
                await read(key)
        async with asyncio.timeout(20):
            # A node that has not heard of it may tell an older map once more.
            while count() != first:
                pool().refresh()
                await asyncio.sleep(0.05)
        assert {node: connections_of(node) for node in kept} == kept

    def connections_of(node: Any) -> int:
        # Those that the map is asked for, and those of this test, are others.
        return sum(each["cmd"] not in ("client|list", "cluster|slots") for each in node.client.client_list("normal"))

    def count() -> dict[type, int]:
        gc.collect()
        kinds = (Pool, LoopPool, redis.asyncio.ConnectionPool, Map)
        there = gc.get_objects()
        return {kind: sum(issubclass(type(each), kind) for each in there) for kind in kinds}

    asyncio.run(visit())


def test_what_keeps_the_map_away_is_an_outage_and_named_in_the_log(cluster, settings, caplog) -> None:
    def fail(address: Any) -> Any:
        raise LookupError("no such container")

    for location, options, words in (
        (cluster.urls[0], {"ADDRESS_REMAP": fail}, "no such container"),
        (f"redis://{'a' * 70}..invalid:{free_port()}", {}, "No node of the cluster"),
    ):
        use_cluster(settings, location, **options)
        with pytest.raises(SessionStoreUnavailable):
            SessionStore("k" * 32).load()
        assert words in caplog.text
        begin_anew()


def test_its_thread_closes_the_database_that_the_sites_function_asks(
    cluster, settings, tmp_path, monkeypatch, django_db_blocker, new_session
) -> None:
    entry = {**connection.settings_dict, "ENGINE": "django.db.backends.sqlite3", "NAME": str(tmp_path / "nodes")}
    monkeypatch.setitem(connections.databases, "nodes", {**entry, "OPTIONS": {}})
    opened = []

    def ask_database(address: Any) -> Any:
        connections["nodes"].ensure_connection()
        opened.append((threading.current_thread().name, connections["nodes"]))
        return address

    with django_db_blocker.unblock():
        use_cluster(settings, cluster.urls[0], ADDRESS_REMAP=ask_database)
        new_session()
        wait_until(lambda: not asking())
    in_thread = [each for name, each in opened if name == THREAD]
    assert in_thread
    assert [each.connection for each in in_thread] == [None] * len(in_thread)
