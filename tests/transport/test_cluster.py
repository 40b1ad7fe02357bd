"""The map of a cluster, as it is made of what nodes tell."""

from __future__ import annotations

from typing import Any

import pytest
import redis
from redis.crc import key_slot

from django_redsess import cluster as door
from django_redsess.transport.cluster_map import Address, Cluster, named

pytestmark = pytest.mark.unit

FIRST, SECOND, THIRD = ("10.0.0.1", 7001), ("10.0.0.2", 7002), ("10.0.0.3", 7003)
LAST = 16_383


def make_pool(address: Address) -> redis.ConnectionPool:
    """Return a pool of redis-py. It connects to nothing before it is used."""
    return redis.ConnectionPool(host=address[0], port=address[1])


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    made = Cluster([FIRST], make_pool)
    # It would connect.
    monkeypatch.setattr(made, "refresh", lambda lost=None: None)
    return made


def reply(*ranges: tuple[int, int, bytes | None, int]) -> list[Any]:
    """Return what redis-py makes of a reply to CLUSTER SLOTS: each range has a primary and a replica."""
    return [[first, last, [host, port, b"id", []], [b"10.0.0.9", 7009]] for first, last, host, port in ranges]


def take(cluster: Cluster, *ranges: tuple[int, int, bytes | None, int]) -> None:
    cluster._take(cluster._owners_in(reply(*ranges), cluster.any_node()))


def addresses(cluster: Cluster) -> list[Address]:
    """Return where the nodes are that serve slots."""
    return [(each.connection_kwargs["host"], each.connection_kwargs["port"]) for each in cluster.nodes()]


@pytest.mark.parametrize("host", [None, b"", b"?"])
def test_a_host_that_is_not_told_is_that_of_the_node_that_was_asked(cluster: Cluster, host: bytes | None) -> None:
    take(cluster, (0, LAST, host, 7002))
    assert addresses(cluster) == [("10.0.0.1", 7002)]


@pytest.mark.parametrize("host", ["", "?"])
def test_a_redirection_without_a_host_leads_to_that_of_the_node_that_told_it(cluster: Cluster, host: str) -> None:
    take(cluster, (0, LAST, b"10.0.0.2", 7002))
    cluster.moved(key_slot(b"shop"), (host, 7003), cluster.of("other"))
    assert addresses(cluster) == [SECOND, ("10.0.0.2", 7003)]
    assert cluster.of("shop").connection_kwargs["port"] == 7003
    assert cluster.of("other").connection_kwargs["port"] == 7002


def test_a_node_without_slots_tells_no_map(cluster: Cluster) -> None:
    assert cluster._owners_in([], cluster.any_node()) == []


@pytest.mark.parametrize("kind", [redis.ConnectionPool, redis.BlockingConnectionPool])
def test_the_pool_of_a_node_that_has_left_is_dropped_and_that_of_a_start_node_kept(cluster: Cluster, kind: Any) -> None:
    cluster._make_pool = lambda address: kind(host=address[0], port=address[1])
    take(cluster, (0, 99, b"10.0.0.1", 7001), (100, LAST, b"10.0.0.2", 7002))
    first, second = cluster.nodes()
    take(cluster, (0, LAST, b"10.0.0.3", 7003))
    assert addresses(cluster) == [THIRD]
    take(cluster, (0, 99, b"10.0.0.1", 7001), (100, LAST, b"10.0.0.2", 7002))
    again = cluster.nodes()
    assert again[0] is first
    assert again[1] is not second


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("redis://10.0.0.1:7001", FIRST),
        (" rediss://user:pass%40word@10.0.0.1:7001/0?protocol=3", FIRST),
        ("redis://shop.example", ("shop.example", 6379)),
        ("redis://[::1]:7001", ("::1", 7001)),
    ],
)
def test_the_address_in_a_url(url: str, address: Address) -> None:
    assert door._address(url) == address


def test_an_address_as_text() -> None:
    assert [named(FIRST), named(("::1", 7001))] == ["10.0.0.1:7001", "[::1]:7001"]
