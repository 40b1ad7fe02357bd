"""A slot that moves key by key (``CLUSTER SETSLOT``, ``MIGRATE``), and everything that can be done meanwhile."""

from collections.abc import Iterator
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth import SESSION_KEY

from django_redsess import viewed
from django_redsess.backend import SessionStore
from django_redsess.exceptions import SessionStoreUnavailable
from django_redsess.transport import packing
from django_redsess.transport.connections import Pause
from django_redsess.transport.scripts import Script
from testproject.clusters import Cluster
from tests.helpers.clusters import HalfMoved, cluster_caches
from tests.helpers.every_operation import request
from tests.helpers.oracle import disagreements
from tests.helpers.slot_operations import OPERATIONS, World, reads_of
from tests.helpers.store import (
    attempts,
    drive,
    faults,
    have_agreed,
    have_partitions,
    keyspace,
    operations,
    reading,
    scripts,
    stored,
)

pytestmark = pytest.mark.both_servers

GO_ON = (
    *("add_guest", "read_guest", "read_ended", "change_guest", "change_address_of_guest", "change_user"),
    *("change_address_of_user", "prolong", "count_a_view"),
)
"""What works meanwhile, where all its keys are on one of the nodes."""


@pytest.fixture(scope="module")
def kept_nodes() -> Iterator[dict[Path, Cluster]]:
    started: dict[Path, Cluster] = {}
    yield started
    for each in started.values():
        each.close()


@pytest.fixture
def nodes(server, kept_nodes, settings, monkeypatch) -> Iterator[Cluster]:
    """A cluster of two nodes, which has the sessions."""
    if server.binary not in kept_nodes:
        # A hash of long values would be a hash table, which the server may write in another order each time.
        options = ("--cluster-node-timeout", "15000", "--hash-max-listpack-value", "1024")
        kept_nodes[server.binary] = Cluster(server.binary, *options, primaries=2, replicas=0)
    nodes = kept_nodes[server.binary]
    settings.CACHES = cluster_caches(nodes)
    # Nothing moves while an operation waits.
    monkeypatch.setattr(attempts, "MOVING_SECONDS", 0.01)
    monkeypatch.setattr(attempts, "Pause", lambda seconds, *until: Pause(seconds if until else 0.005, *until))
    yield nodes
    nodes.client.flushall()


def subsets(names: list[bytes]) -> Iterator[list[bytes]]:
    """Name the keys that have moved first: none, each alone, all but one, all."""
    yield []
    for name in names:
        yield [name]
        yield [other for other in names if other != name]
    yield names


def each_half_moved_world(nodes: Cluster) -> Iterator[tuple[HalfMoved, World]]:
    number = 0
    while True:
        nodes.client.flushall()
        slot = HalfMoved(nodes, keyspace().partitions[0].tag)
        if not number:
            # A node that lacks a script is asked for the agreement again, which may write.
            for node, script in product((slot.source, slot.target), scripts.all_scripts()):
                node.client.script_load(script.text)
        world = World(slot.source.client)
        moved = dict(enumerate(subsets(sorted(slot.source.client.keys())))).get(number)
        if moved is None:
            return
        slot.begin(moved)
        yield slot, world
        assert disagreements(slot.target.client) == []
        assert faults() == []
        number += 1


@pytest.mark.slow
@pytest.mark.parametrize("work", OPERATIONS, ids=lambda work: work.__name__)
def test_an_operation_works_wholly_or_changes_nothing(nodes, work) -> None:
    worked = 0
    for slot, world in each_half_moved_world(nodes):
        before, doing = slot.content(), work(world)
        try:
            next(doing)
        except SessionStoreUnavailable:
            assert slot.content() == before
            slot.end()
            # Nothing stands in the way of another attempt.
            doing = work(world)
            next(doing)
        else:
            worked += 1
            slot.end()
        assert next(doing, "done") == "done"
    assert worked or work.__name__ not in GO_ON


@pytest.mark.slow
def test_what_only_reads_reads_all_or_is_refused(nodes) -> None:
    worked = set[str]()
    for slot, world in each_half_moved_world(nodes):
        before, found = slot.content(), dict[str, Any]()
        for name, read in reads_of(world).items():
            with suppress(SessionStoreUnavailable):
                found[name] = read()
        assert slot.content() == before
        slot.end()
        assert {name: read() for name, read in reads_of(world).items() if name in found} == found
        worked |= found.keys()
    assert "popular" in worked


def test_a_read_whose_deadline_can_not_be_moved_works(nodes, settings) -> None:
    have_agreed()
    partition = keyspace().partitions[0]
    slot = HalfMoved(nodes, partition.tag)
    world = World(slot.source.client)
    slot.begin([partition.recent.encode()])
    settings.REDSESS = {**settings.REDSESS, "IDLE_TIMEOUT": 100}
    before = slot.content()
    for session in (world.user, world.quiet_user):
        assert request(session.session_key or "", {})["data"]["colour"] == "blue"
    assert slot.content() == before
    slot.end()
    due = drive(reading.read_session(world.user.sid or "")).due
    request(world.user.session_key or "", {})
    assert drive(reading.read_session(world.user.sid or "")).due < due


@pytest.mark.parametrize("moving", ["here", "home", "here, but later"])
def test_a_sign_in_across_partitions_leaves_nothing_behind(nodes, monkeypatch, moving: str) -> None:
    have_partitions(monkeypatch, 2)
    nodes.client.flushall()
    session = SessionStore()
    session["colour"] = "blue"
    session.save()
    viewed.record(session, "lamp")
    here, user = keyspace().of_sid(session.sid or ""), "7"
    while (home := keyspace().of_user(user)) == here:
        user += "7"
    session.cycle_key()
    session[SESSION_KEY] = user
    key = session.stored_key or session.pending.rotates_from
    slot = HalfMoved(nodes, (home if moving == "home" else here).tag)
    rotate = operations.rotate

    def begin_and_rotate(*args: Any, **more: Any) -> Any:
        slot.begin([])
        return rotate(*args, **more)

    if "later" in moving:
        # When the session is in both partitions.
        monkeypatch.setattr(operations, "rotate", begin_and_rotate)
    else:
        slot.begin([])
    with pytest.raises(SessionStoreUnavailable):
        session.save()
    slot.end()
    assert stored(nodes.client) == 1
    assert SessionStore(key)["colour"] == "blue"
    assert faults() == []


def test_every_script_is_among_the_operations(redis, monkeypatch) -> None:
    sent = set[str]()
    pack = packing.pack_script_call

    def script_call(script: Script, *args: Any, **more: Any) -> bytes:
        sent.add(script.name)
        return pack(script, *args, **more)

    monkeypatch.setattr(packing, "pack_script_call", script_call)
    for work in OPERATIONS:
        redis.flushall()
        assert list(work(World(redis))) == [None]
    for read in reads_of(World(redis)).values():
        read()
    # One reads rules of the server only. The others are templates: the operations send one as the task "save", and the
    # other goes with a read where there is a guard. While a slot moves, its session is read, and touched later.
    assert {script.name for script in scripts.all_scripts()} - sent == {"acl", "save_fast", "touch_proven"}
