"""
A cluster under load: nodes die, give way, come, and give slots away; scripts are forgotten.

Each test sees what visitors were told, and what they had been promised. How many requests that were and how long they
took is printed (``-rP``).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from redis.crc import key_slot

from django_redsess.transport.keys import keyspace
from testproject.clusters import Cluster
from testproject.nodes import Node
from tests.oracle import disagreements
from tests.support.behind import have_partitions
from tests.support.cluster_load import Load
from tests.support.clusters import caches_of
from tests.support.running import wait_until

pytestmark = pytest.mark.slow
both_servers = pytest.mark.both_servers


@pytest.fixture
def load(own_cluster: Cluster, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Load]:
    """Visitors of a site whose sessions are in 16 partitions on a cluster. Afterwards all keys agree."""
    have_partitions(monkeypatch, 16)
    settings.CACHES = caches_of(own_cluster)
    load = Load()
    with load.running():
        yield load
    print(load)
    load.assert_sound()
    client: Any = own_cluster.client
    assert disagreements(client) == []


def slots_of(node: Node) -> list[int]:
    """Return the slots of partitions that ``node`` serves."""
    slots = [key_slot(partition.tag.encode()) for partition in keyspace().partitions]
    return [slot for slot in slots if any(first <= slot <= last for first, last in node.own.slots)]


def wait_promoted(cluster: Cluster, replica: Node) -> None:
    wait_until(lambda: "master" in replica.own.flags)
    cluster.wait_ok()


@both_servers
def test_a_primary_is_killed_that_has_told_all_to_its_replica(own_cluster: Cluster, load: Load) -> None:
    node = own_cluster.primaries[0]
    replica = own_cluster.replica_of(node)
    with load.held():
        node.ask("WAIT", 1, 5000)
        own_cluster.kill(node)
    wait_promoted(own_cluster, replica)
    load.go_on_for(500)
    with load.held():
        load.assert_nothing_lost()


@both_servers
def test_a_primary_is_killed_at_any_moment(own_cluster: Cluster, load: Load) -> None:
    # Replication does not wait for the replica: what the primary had just promised may be lost. All else stays.
    for node in own_cluster.primaries[:2]:
        replica = own_cluster.replica_of(node)
        own_cluster.kill(node)
        wait_promoted(own_cluster, replica)
        load.go_on_for(500)
        with load.held():
            load.assert_sound()


@both_servers
def test_a_replica_takes_over_as_planned(own_cluster: Cluster, load: Load) -> None:
    for node in own_cluster.primaries:
        own_cluster.promote(own_cluster.replica_of(node))
        load.go_on_for(200)
    with load.held():
        load.assert_nothing_lost()


@both_servers
def test_a_primary_is_frozen_and_thawed_after_its_replica_took_over(own_cluster: Cluster, load: Load) -> None:
    node = own_cluster.primaries[0]
    replica = own_cluster.replica_of(node)
    with load.held():
        node.ask("WAIT", 1, 5000)
        own_cluster.freeze(node)
    wait_promoted(own_cluster, replica)
    load.go_on_for(500)
    own_cluster.thaw(node)
    own_cluster.wait_ok()
    load.go_on_for(500)
    with load.held():
        load.assert_nothing_lost()


def test_slots_move_at_once(own_cluster: Cluster, load: Load) -> None:
    one, other, _ = own_cluster.primaries
    for source, target in ((one, other), (other, one)):
        first, second, *_ = slots_of(source)
        own_cluster.move_slots_atomic((first, first), (second, second), to=target)
        load.go_on_for(200)
    with load.held():
        load.assert_nothing_lost()
        assert load.refused == 0


@both_servers
def test_a_slot_moves_key_by_key(own_cluster: Cluster, load: Load) -> None:
    source, target, _ = own_cluster.primaries
    for slot in slots_of(source)[:2]:
        for _ in own_cluster.move_slot_classic(slot, target):
            load.go_on_for(20)
    with load.held():
        load.assert_nothing_lost()


@both_servers
def test_a_new_node_gets_slots(own_cluster: Cluster, load: Load, request: pytest.FixtureRequest) -> None:
    olds = own_cluster.primaries
    new = own_cluster.add_node()
    for node in olds:
        for slot in slots_of(node)[:1]:
            if "valkey" in request.node.name:
                own_cluster.move_slots_atomic((slot, slot), to=new)
            else:
                for _ in own_cluster.move_slot_classic(slot, new, keys_at_once=10):
                    load.go_on_for(20)
    assert len(slots_of(new)) == 3
    load.go_on_for(500)
    with load.held():
        load.assert_nothing_lost()


@both_servers
def test_scripts_are_forgotten(own_cluster: Cluster, load: Load) -> None:
    own_cluster.flush_scripts(own_cluster.primaries[0])
    load.go_on_for(200)
    for _ in range(50):
        for node in own_cluster.primaries:
            own_cluster.flush_scripts(node)
        load.go_on_for(10)
    with load.held():
        load.assert_nothing_lost()
        assert load.refused == 0
