"""The clusters of the tests themselves: they are what they say, and change as they are told."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis as redis_py
from redis.crc import key_slot

from testproject.clusters import SLOTS, Cluster
from testproject.nodes import Node
from testproject.servers import Server
from tests.helpers import clocks
from tests.helpers.running import wait_until

both_servers = pytest.mark.both_servers

KEYS = 20


def fill(cluster: Cluster) -> int:
    """Store some keys in one slot, and return that."""
    for number in range(KEYS):
        cluster.client.set(f"{{shop}}:{number}", number)
    return key_slot(b"shop")


def all_keys(cluster: Cluster) -> set[bytes]:
    names = cluster.client.keys()
    assert len(names) == len(set(names))
    return set(names)


def slots_of(node: Node) -> int:
    return sum(last - first + 1 for first, last in node.own.slots)


def replicated(node: Node) -> int:
    """Return how many keys the replica has."""
    return int(node.client.dbsize())


@pytest.fixture
def emptied(cluster: Cluster) -> Iterator[Cluster]:
    """The shared cluster, for what the oracle would not know."""
    yield cluster
    cluster.client.flushall()


@both_servers
def test_three_primaries_have_a_replica_each_and_a_third_of_the_slots(cluster: Cluster) -> None:
    assert len(cluster.nodes) == len(set(cluster.urls)) == 6
    assert len(cluster.primaries) == 3
    assert sum(map(slots_of, cluster.primaries)) == SLOTS
    assert {slots_of(node) for node in cluster.primaries} == {SLOTS // 3, SLOTS // 3 + 1}
    replicas = [cluster.replica_of(node) for node in cluster.primaries]
    assert sorted(node.port for node in (*replicas, *cluster.primaries)) == sorted(node.port for node in cluster.nodes)


@both_servers
def test_each_key_is_on_the_primary_of_its_slot_and_on_its_replica(emptied: Cluster) -> None:
    slot = fill(emptied)
    node = emptied.node_of("shop")
    assert node is emptied.node_of(slot) is emptied.node_of("{shop}:1")
    assert len(all_keys(emptied)) == node.client.dbsize() == KEYS
    wait_until(lambda: replicated(emptied.replica_of(node)) == KEYS)


@both_servers
def test_scripts_are_flushed_on_one_node(cluster: Cluster) -> None:
    first, second, _ = cluster.primaries
    digests = {node.client.script_load("return 1") for node in (first, second)}
    cluster.flush_scripts(first)
    assert [node.client.script_exists(*digests) for node in (first, second)] == [[False], [True]]


@both_servers
@pytest.mark.slow
def test_a_replica_takes_over_as_planned_and_after_a_kill(own_cluster: Cluster) -> None:
    fill(own_cluster)
    first = own_cluster.node_of("shop")
    second = own_cluster.replica_of(first)
    own_cluster.promote(second)
    assert (own_cluster.node_of("shop"), own_cluster.replica_of(second)) == (second, first)
    assert own_cluster.kill_and_promote(second) is own_cluster.node_of("shop") is first
    assert second not in own_cluster.running
    with pytest.raises(LookupError):
        own_cluster.replica_of(first)
    own_cluster.restart(second)
    assert own_cluster.replica_of(first) is second
    assert len(all_keys(own_cluster)) == replicated(second) == KEYS


@both_servers
@pytest.mark.slow
def test_a_replica_takes_over_from_a_frozen_primary(own_cluster: Cluster) -> None:
    fill(own_cluster)
    first = own_cluster.node_of("shop")
    second = own_cluster.replica_of(first)
    own_cluster.freeze(first)
    wait_until(lambda: "master" in second.own.flags)
    own_cluster.wait_ok()
    assert own_cluster.node_of("shop") is second
    own_cluster.thaw(first)
    own_cluster.wait_ok()
    assert own_cluster.replica_of(second) is first
    assert len(all_keys(own_cluster)) == KEYS


@both_servers
@pytest.mark.slow
def test_a_slot_moves_key_by_key_to_a_new_node(own_cluster: Cluster) -> None:
    slot = fill(own_cluster)
    source, new = own_cluster.node_of(slot), own_cluster.add_node()
    assert (slots_of(new), len(own_cluster.primaries)) == (0, 4)
    seen = []
    for moved in own_cluster.move_slot_classic(slot, new, keys_at_once=8):
        seen.append((moved, source.client.dbsize(), new.client.dbsize()))
        with pytest.raises(redis_py.ResponseError, match=f"^(ASK )?{slot} 127.0.0.1:{new.port}"):
            source.client.get("{shop}:none")
    assert seen == [(0, 20, 0), (8, 12, 8), (16, 4, 16), (20, 0, 20)]
    assert (own_cluster.node_of(slot), slots_of(new)) == (new, 1)
    assert len(all_keys(own_cluster)) == KEYS


@pytest.mark.slow
def test_slots_move_at_once(own_cluster: Cluster) -> None:
    slot = fill(own_cluster)
    source, target, _ = sorted(own_cluster.primaries, key=lambda node: node is not own_cluster.node_of(slot))
    first, last = source.own.slots[0]
    own_cluster.move_slots_atomic((first, first + 9), (slot, last), to=target)
    assert (source.client.dbsize(), target.client.dbsize()) == (0, KEYS)
    assert own_cluster.node_of(slot) is own_cluster.node_of(first + 9) is target
    assert own_cluster.node_of(first + 10) is source


@pytest.mark.slow
def test_a_node_can_have_a_clock_of_its_own(server: Server, tmp_path: Path) -> None:
    ahead = clocks.stepped(tmp_path / "clock", 3600)
    cluster = Cluster(server.binary, "--cluster-require-full-coverage", "yes", environments={1: ahead})
    try:
        hours = [round((node.client.time()[0] - time.time()) / 3600) for node in cluster.nodes]
        assert hours == [0, 1, 0, 0, 0, 0]
        assert {*cluster.nodes[0].client.config_get("cluster-require-full-coverage").values()} == {"yes"}
    finally:
        cluster.close()
