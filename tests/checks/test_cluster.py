"""What is found wrong with a cluster, and with its nodes."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from testproject import servers
from testproject.clusters import SLOTS, Cluster
from testproject.nodes import Node
from tests.helpers import clocks
from tests.helpers.checks import TIMEOUTS, found, messages
from tests.helpers.clusters import FACTORY, PARTITIONS
from tests.helpers.running import wait_until

both_servers = pytest.mark.both_servers


@pytest.fixture
def set_cluster(settings, set_cache) -> Callable[..., None]:
    """Return a function that makes the site one whose sessions are in this cluster, as the docs have it."""

    def change(cluster: Cluster, *, user: str = "", partitions: int = PARTITIONS, timeout: float = 5) -> None:
        settings.REDSESS = {"PARTITIONS": partitions}
        urls = [url.replace("//", f"//{user}") for url in cluster.urls]
        set_cache(urls, CONNECTION_FACTORY=FACTORY, SOCKET_TIMEOUT=timeout, SOCKET_CONNECT_TIMEOUT=timeout)

    return change


@pytest.fixture
def set_config(cluster) -> Iterator[Callable[[Node, str, str], None]]:
    """Return a function that changes a setting of a node until the test is over."""
    changed: list[tuple[Node, str, str]] = []

    def change(node: Node, name: str, value: str) -> None:
        changed.append((node, name, node.client.config_get(name)[name]))
        node.client.config_set(name, value)

    yield change
    for node, name, before in changed:
        node.client.config_set(name, before)


@pytest.fixture
def set_user(cluster) -> Iterator[Callable[..., None]]:
    """Return a function that gives the user "site" of some nodes these rules."""

    def change(*rules: str, nodes: list[Node] | None = None) -> None:
        for node in nodes or cluster.nodes:
            node.ask("ACL", "SETUSER", "site", "reset", "on", ">any", *rules)

    yield change
    for node in cluster.nodes:
        node.ask("ACL", "DELUSER", "site")


def named(node: Node) -> str:
    return f"127.0.0.1:{node.port}"


@both_servers
def test_a_cluster_as_the_docs_have_it_is_fine(cluster, set_cluster) -> None:
    set_cluster(cluster)
    assert messages() == []


@both_servers
def test_a_node_of_a_cluster_without_the_factory_is_warned_of(cluster, set_cache) -> None:
    for node in (cluster.primaries[0], cluster.replica_of(cluster.primaries[0])):
        for database in (0, 1):
            set_cache(f"redis://127.0.0.1:{node.port}/{database}")
            assert found() == ["W026"]


@both_servers
def test_the_factory_without_a_cluster_is_warned_of(server, set_cache) -> None:
    set_cache(["redis://127.0.0.1:1/0", server.url], CONNECTION_FACTORY=FACTORY)
    assert found() == ["W027"]


@pytest.mark.parametrize(
    ("options", "number"),
    [
        ({"SOCKET_TIMEOUT": None}, "W010"),
        ({"CONNECTION_POOL_KWARGS": {"retry_on_timeout": True}}, "W011"),
        ({"CONNECTION_POOL_CLASS": "redis.BlockingConnectionPool"}, "W020"),
        ({"CONNECTION_POOL_KWARGS": {"tiemout": 1}}, "E004"),
        ({"ADDRESS_REMAP": "no.such.function"}, "E004"),
        # That it is down is no fault of the settings.
        ({}, ""),
    ],
)
def test_options_of_a_cluster_are_checked_as_those_of_a_server(set_cache, options: dict[str, Any], number: str) -> None:
    set_cache([f"redis://127.0.0.1:{servers.free_port()}/0"], CONNECTION_FACTORY=FACTORY, **options)
    assert set(found()) - {"I049"} == {number} - {""}


def test_a_default_cache_that_is_for_sessions_only_is_warned_of(settings, set_cache) -> None:
    url = f"redis://127.0.0.1:{servers.free_port()}/0"
    set_cache([url], alias="default", CONNECTION_FACTORY=FACTORY, **TIMEOUTS)
    settings.SESSION_CACHE_ALIAS = "default"
    settings.CACHES = {"default": settings.CACHES["default"]}
    assert found() == ["I049", "W009"]


def test_another_database_than_the_cluster_has_is_warned_of(server, set_cache) -> None:
    set_cache([f"redis://127.0.0.1:{servers.free_port()}/3"], CONNECTION_FACTORY=FACTORY)
    assert found() == ["I049", "W028"]
    # Valkey 9 may have several.
    node = Node(server.binary, "--cluster-databases", "4")
    try:
        node.cluster("ADDSLOTSRANGE", 0, SLOTS - 1)
        wait_until(lambda: b"cluster_state:ok" in node.cluster("INFO"))
        for database, complaints in ((3, []), (4, ["W028"])):
            set_cache([f"redis://127.0.0.1:{node.port}/{database}"], CONNECTION_FACTORY=FACTORY)
            assert found() == complaints
    finally:
        node.close()


def test_fewer_partitions_than_primaries_are_warned_of(cluster, set_cluster) -> None:
    for partitions in (1, 2, 4):
        set_cluster(cluster, partitions=partitions)
        assert ("W029" in found()) == (partitions < 3)


@both_servers
def test_nodes_that_stop_all_sessions_when_one_is_missing_are_warned_of(cluster, set_cluster, set_config) -> None:
    wrong = cluster.nodes[1], cluster.nodes[4]
    for node in wrong:
        set_config(node, "cluster-require-full-coverage", "yes")
    set_cluster(cluster)
    told = [node in wrong for node in cluster.nodes]
    # While a replica seems to be gone, the others do not name it.
    wait_until(lambda: [named(node) in each.msg for each in messages() for node in cluster.nodes] == told)
    assert found() == ["W030"]


@both_servers
@pytest.mark.parametrize("number", [0, 5], ids=["a primary", "a replica"])
def test_a_node_with_another_setting_is_warned_of(cluster, set_cluster, set_config, number: int) -> None:
    other = cluster.nodes[number]
    set_config(other, "maxmemory-policy", "allkeys-lru")
    set_cluster(cluster)
    wait_until(lambda: found() == ["W008", "W031"])
    evicting, differs = messages()
    assert evicting.msg.endswith(f" Nodes: {named(other)}.")
    assert f"differ in maxmemory-policy: allkeys-lru on {named(other)}; noeviction on " in differs.msg


@both_servers
def test_what_the_user_may_not_ask_is_not_known_and_no_error(cluster, set_cluster, set_config, set_user) -> None:
    set_config(cluster.nodes[0], "maxmemory-policy", "allkeys-lru")
    set_config(cluster.nodes[0], "cluster-require-full-coverage", "yes")
    set_user("~*", "+@all", "-config", "-info", "-role")
    set_cluster(cluster, user="site:any@")
    assert messages() == []


@both_servers
def test_a_node_where_the_user_lacks_a_command_is_named(cluster, set_cluster, set_user) -> None:
    set_user("~*", "+@all")
    replica = cluster.replica_of(cluster.primaries[0])
    set_user("~*", "+@all", "-zadd", "-asking", nodes=[replica])
    set_cluster(cluster, user="site:any@")
    [warning] = messages()
    assert warning.id == "django_redsess.W023"
    assert "can't run ASKING, ZADD on" in warning.msg
    assert warning.msg.endswith(f" Nodes: {named(replica)}.")


def test_a_node_that_does_not_know_the_user_is_named(cluster, set_cluster, set_user) -> None:
    stranger = cluster.replica_of(cluster.primaries[0])
    set_user("~*", "+@all", nodes=[node for node in cluster.nodes if node is not stranger])
    set_cluster(cluster, user="site:any@")
    [warning] = messages()
    assert warning.id == "django_redsess.W050"
    assert warning.msg.endswith(f" Nodes: {named(stranger)}.")


def test_a_user_who_may_do_what_the_hint_says_is_not_complained_about(cluster, set_cluster, set_user) -> None:
    set_user("~*", "+cluster|slots")
    set_cluster(cluster, user="site:any@")
    [warning] = messages()
    rules = warning.hint.partition("ACL SETUSER … ")[2].partition(". ")[0].split()
    assert "+blpop" not in rules
    set_user(*rules)
    assert messages() == []


@both_servers
def test_a_user_who_may_not_ask_where_sessions_are_is_warned_of(cluster, set_cluster, set_user) -> None:
    set_user("~*", "+@all", "-cluster")
    set_cluster(cluster, user="site:any@")
    [warning] = messages()
    assert warning.id == "django_redsess.W023"
    assert "+cluster|slots" in warning.hint


@pytest.mark.slow
def test_a_replica_whose_clock_is_another_is_warned_of(server, set_cluster, tmp_path) -> None:
    ahead = clocks.stepped(tmp_path / "clock", 3600)
    cluster = Cluster(server.binary, environments={3: ahead})
    try:
        for node in cluster.nodes:
            node.client.config_set("cluster-node-timeout", 15_000)
        set_cluster(cluster)
        # While a replica seems to be gone, the others do not name it.
        wait_until(lambda: found() == ["W032"])
        [warning] = messages()
        assert f"seconds apart: {named(cluster.nodes[3])} is ahead of" in warning.msg
    finally:
        cluster.close()


@pytest.mark.slow
def test_nodes_that_do_not_answer_are_named(own_cluster, set_cluster) -> None:
    own_cluster.primaries[0].client.config_set("maxmemory-policy", "allkeys-lru")
    dead, frozen = own_cluster.nodes[4], own_cluster.nodes[5]
    own_cluster.kill(dead)
    own_cluster.freeze(frozen)
    set_cluster(own_cluster, timeout=0.5)
    assert sorted(found()) == ["I049", "I049", "W008", "W031"]
    own_cluster.thaw(frozen)
