"""The map of a cluster, as it is made of what nodes tell."""

import pytest
import redis

from django_redsess import cluster as door
from django_redsess.transport.cluster_map import Address, Cluster, format_address

pytestmark = pytest.mark.unit

FIRST = ("10.0.0.1", 7001)


def make_pool(address: Address) -> redis.ConnectionPool:
    """Return a pool of redis-py. It connects to nothing before it is used."""
    return redis.ConnectionPool(host=address[0], port=address[1])


@pytest.mark.parametrize("host", [None, b"", b"?"])
def test_a_host_that_is_not_told_is_that_of_the_node_that_was_asked(host: bytes | None) -> None:
    cluster = Cluster([FIRST], make_pool)
    # What redis-py makes of a reply to CLUSTER SLOTS: a range has a primary and a replica.
    reply = [[0, 16_383, [host, 7002, b"id", []], [b"10.0.0.9", 7009]]]
    assert set(cluster._owners_in(reply, cluster.any_node())) == {("10.0.0.1", 7002)}
    # A node without slots tells no map.
    assert cluster._owners_in([], cluster.any_node()) == []


@pytest.mark.parametrize(
    ("url", "address", "shown"),
    [
        ("redis://10.0.0.1:7001", FIRST, "10.0.0.1:7001"),
        (" rediss://user:pass%40word@10.0.0.1:7001/0?protocol=3", FIRST, "10.0.0.1:7001"),
        ("redis://shop.example", ("shop.example", 6379), "shop.example:6379"),
        ("redis://[::1]:7001", ("::1", 7001), "[::1]:7001"),
    ],
)
def test_the_address_in_a_url_and_in_a_message(url: str, address: Address, shown: str) -> None:
    assert door._address(url) == address
    assert format_address(address) == shown
