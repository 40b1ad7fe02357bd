"""Sentinel names another master: planned, and because the master was killed."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from math import inf
from typing import Any

import pytest
from django.test import Client

from django_redsess import online
from django_redsess.backend import SessionStore
from django_redsess.transport import connections
from tests.helpers.failovers import Outcome, Writers
from tests.helpers.outages import BUDGET, PATIENCE, TIMEOUT, caches, close_connections, end_outage
from tests.helpers.pooled import give, take
from tests.helpers.running import wait_until
from tests.helpers.sentinels import Watched, watched
from tests.helpers.site import MIDDLEWARE
from tests.helpers.store import faults, pool
from tests.helpers.visitors import Browser

pytestmark = pytest.mark.slow


@pytest.fixture
def watch(server, settings, tmp_path) -> Iterator[Callable[..., Watched]]:
    """Return a function that has the site on a master with so many replicas, behind sentinels."""
    with ExitStack() as ended:

        def watch(*, minimum: int = 0, timeout: float = TIMEOUT, **counts: int) -> Watched:
            found = ended.enter_context(watched(server.binary, tmp_path, **counts))
            found.set("min-replicas-max-lag", 2)
            found.set("min-replicas-to-write", minimum)
            settings.CACHES = found.caches(timeout=timeout)
            ended.callback(close_connections)
            end_outage()
            return found

        yield watch


def written_while(site: Watched, happens: Callable[[], None]) -> Outcome:
    """Let visitors write while it ``happens`` and until all of them are served again, and compare."""
    writers, before = Writers(4), site.master()
    with writers.busy():
        wait_until(lambda: writers.written > 200)
        happens()
        # Longer where the sentinels have to vote twice.
        wait_until(lambda: site.master() is not before, seconds=60)
        # Sentinels demote the old master some ten seconds later.
        wait_until(site.in_place, seconds=60)
        served = writers.written
        wait_until(lambda: writers.written > served + 200, seconds=60)
    assert writers.errors == []
    outcome = writers.outcome(site.master().client)
    print(outcome)  # The figures of docs/howto/sentinel.rst are from here.
    assert faults() == []
    end_outage()
    return outcome


def test_a_planned_failover_loses_nothing_when_writes_are_paused_before(watch) -> None:
    site = watch(replicas=2, sentinels=3, minimum=1)

    def fail_over() -> None:
        site.pause_writes()
        site.fail_over()

    outcome = written_while(site, fail_over)
    assert (outcome.lost, outcome.undone) == (0, 0)
    assert outcome.refused > 0
    assert outcome.longest < BUDGET


def test_a_planned_failover_loses_nothing_once_the_master_refuses_for_want_of_its_replica(watch) -> None:
    site = watch(replicas=1, minimum=1)
    outcome = written_while(site, site.fail_over)
    # What was acknowledged at the moment of the failover may be lost.
    assert (outcome.lost_later, outcome.refused > 0) == (0, True)
    assert outcome.longest < BUDGET


def test_a_planned_failover_of_a_master_that_needs_no_replica_may_lose_and_is_no_error(watch) -> None:
    site = watch(replicas=1)
    assert written_while(site, site.fail_over).longest < BUDGET


@pytest.mark.both_servers
def test_a_killed_master_loses_nothing_that_its_replicas_have(watch) -> None:
    site = watch(replicas=2, sentinels=3, minimum=1)
    master = site.master()

    def kill() -> None:
        # Else it may have told a visitor what it has not yet told a replica.
        site.pause_writes()
        master.stop()

    outcome = written_while(site, kill)
    assert site.master() is not master
    assert (outcome.lost, outcome.undone) == (0, 0)
    assert outcome.refused > 0
    assert outcome.longest < BUDGET


@pytest.mark.both_servers
def test_a_session_that_was_ended_is_not_read_from_a_demoted_master(watch, settings, new_session) -> None:
    settings.ROOT_URLCONF, settings.MIDDLEWARE = "tests.helpers.site.urls", MIDDLEWARE
    site = watch(replicas=1, timeout=PATIENCE)
    behind, old = settings.CACHES, site.master()
    ended, other = new_session("7", colour="blue"), new_session("8", colour="red")
    pool, visitor = connections.pool(), Browser(Client())
    for connection in [take(pool) for _ in range(3)]:
        give(pool, connection)
    wait_until(site.in_sync)
    site.fail_over()
    wait_until(lambda: site.master() is not old)
    # Sentinels demote it some ten seconds later. It has still the data that it had, and hears of no changes.
    old.client.replicaof("127.0.0.1", 1)
    settings.CACHES = caches(site.master().url)
    assert online.end(ended.sid)
    close_connections()
    settings.CACHES = behind
    for session, colour in ((ended, b""), (other, b"red")):
        visitor.cookie = session.session_key or ""
        assert visitor.get("/read/colour/").content == colour
    assert visitor.post("/write/colour/green/").status_code == 200
    assert visitor.get("/read/colour/").content == b"green"


def key_of_a_session_at_the_new_master(site: Watched, settings: Any, new_session: Callable[..., SessionStore]) -> str:
    """Replace the master by plan, and begin a session at the new one. The old one is a master that still reads."""
    behind, old = settings.CACHES, site.master()
    site.pause_writes()
    site.fail_over()
    wait_until(lambda: site.master() is not old)
    wait_until(lambda: old.client.info("replication")["connected_slaves"] == 0)
    site.master().client.config_set("min-replicas-to-write", 0)
    settings.CACHES = caches(site.master().url)
    key = new_session("8", colour="red").session_key
    settings.CACHES = behind
    assert old.client.info("replication")["role"] == "master"
    return key or ""


@pytest.mark.parametrize(
    ("way", "just_looked"), [("/read/colour/", False), ("/read/colour/", True), ("/async/read/colour/", False)]
)
def test_a_session_that_began_at_the_new_master_is_found_by_a_process_that_asks_the_old_one(
    watch, settings, new_session, way: str, just_looked: bool
) -> None:
    settings.ROOT_URLCONF, settings.MIDDLEWARE = "tests.helpers.site.urls", MIDDLEWARE
    site, visitor = watch(replicas=1, minimum=1, timeout=PATIENCE), Browser(Client())
    visitor.cookie = new_session("7", colour="blue").session_key or ""
    assert visitor.get(way).content == b"blue"
    visitor.cookie = key_of_a_session_at_the_new_master(site, settings, new_session)
    if just_looked:
        # The sentinels were asked, and this connection was opened, a moment before they knew of the new master.
        pool().next_look_at = inf
        for each in pool().idle:
            each.opened_at = inf
    assert visitor.get(way).content == b"red"


def test_an_event_loop_leaves_the_old_master_as_soon_as_a_thread_has_met_the_new_one(
    watch, settings, new_session
) -> None:
    settings.ROOT_URLCONF, settings.MIDDLEWARE = "tests.helpers.site.urls", MIDDLEWARE
    site, visitor = watch(replicas=1, minimum=1, timeout=PATIENCE), Browser(Client())

    async def read(key: str) -> Any:
        return await SessionStore(key).aget("colour")

    with asyncio.Runner() as loop:
        assert loop.run(read(new_session("7", colour="blue").session_key)) == "blue"
        visitor.cookie = key_of_a_session_at_the_new_master(site, settings, new_session)
        # The request of a thread notes that the session was seen. What the event loop does is a read, and not refused.
        assert visitor.get("/read/colour/").content == b"red"
        assert loop.run(read(visitor.cookie)) == "red"
