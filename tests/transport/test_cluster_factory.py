"""The connection factory for clusters: what its options do, and that its alias is no cache."""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import django_redis
import pytest
from asgiref.sync import async_to_sync
from django.core.cache import caches, close_caches
from django.core.exceptions import ImproperlyConfigured
from django_redis import get_redis_connection
from redis.crc import key_slot

from django_redsess.backend import SessionStore
from django_redsess.exceptions import SessionStoreUnavailable
from django_redsess.transport.connections import pool, server_of
from django_redsess.transport.keys import keyspace
from testproject.clusters import Cluster
from testproject.servers import available, free_port
from tests.helpers.clusters import deaf, full_backlog, pools, proxies_of, use_cluster
from tests.helpers.pooled import give, take
from tests.helpers.running import wait_until

SECRET = "se:cr/et@#?%"
QUOTED = "se%3Acr%2Fet%40%23%3F%25"


def assert_works(new_session: Callable[..., SessionStore]) -> None:
    """Save and load sessions in both ways until each node has had one."""
    served = set[Any]()
    while not served or served != set(pool().nodes()):
        session = new_session(colour="blue")
        assert SessionStore(session.session_key)["colour"] == "blue"
        assert async_to_sync(SessionStore(session.session_key).aget)("colour") == "blue"
        served.add(server_of(keyspace().of_sid(session.sid)))


@pytest.fixture
def locked(own_cluster) -> Cluster:
    for node in own_cluster.nodes:
        node.client.execute_command("ACL", "SETUSER", "shop", "on", f">{SECRET}", "~*", "&*", "+@all")
        node.client.execute_command("ACL", "SETUSER", "default", "resetpass", f">{SECRET}2")
    return own_cluster


@pytest.mark.slow
@pytest.mark.parametrize("resp", [2, 3])
@pytest.mark.parametrize("where", ["url", "options", "query", "password only"])
def test_credentials(locked, settings, new_session, where: str, resp: int) -> None:
    port, options = locked.nodes[0].port, dict[str, Any](CONNECTION_POOL_KWARGS={"protocol": resp})
    url = f"redis://127.0.0.1:{port}"
    if where == "url":
        url = f"redis://shop:{QUOTED}@127.0.0.1:{port}/0"
    elif where == "query":
        url += f"?username=shop&password={QUOTED}"
    elif where == "options":
        if django_redis.VERSION < (6, 1):
            pytest.skip("this django-redis has no USERNAME")
        options |= {"USERNAME": "shop", "PASSWORD": SECRET}
    else:
        options |= {"PASSWORD": f"{SECRET}2"}
    use_cluster(settings, url, **options)
    assert_works(new_session)
    assert len(pools()) == 3


def test_options_of_the_url_hold_for_each_node(cluster, settings, new_session) -> None:
    use_cluster(settings, f"{cluster.urls[0]}?socket_timeout=7&client_name=shop")
    assert_works(new_session)
    assert {each.connection_kwargs["socket_timeout"] for each in pools().values()} == {7.0}
    for node in cluster.primaries:
        assert "shop" in {each["name"] for each in node.client.client_list()}


def test_a_maximum_of_connections_is_that_of_each_node(cluster, settings, new_session) -> None:
    kind, kwargs = "redis.BlockingConnectionPool", {"max_connections": 1, "timeout": 0.1}
    use_cluster(settings, cluster.urls, CONNECTION_POOL_CLASS=kind, CONNECTION_POOL_KWARGS=kwargs)
    assert_works(new_session)
    first, second, third = pool().nodes()
    taken = [take(first), take(second)]
    with pytest.raises(Exception, match="No connection available"):
        take(first)
    give(third, take(third))
    give(first, taken[0])
    give(second, taken[1])


def test_one_start_node_that_answers_is_enough(cluster, settings, new_session) -> None:
    nobody, answers = f"redis://127.0.0.1:{free_port()}", cluster.urls[2]
    with deaf() as silent, full_backlog() as dropping:
        use_cluster(settings, [nobody, silent, dropping, answers], timeout=1)
        assert_works(new_session)
    for location in ((nobody, answers), f"{nobody}, {answers}"):
        use_cluster(settings, location)
        assert_works(new_session)


@pytest.mark.parametrize(
    "url",
    [
        "unix:///tmp/redis.sock",
        f"redis://:{SECRET}@127.0.0.1:7000",
        f"redis://shop:{SECRET}0:7000",
        "redis://shop:se[cret@127.0.0.1:7000",
        "redis://shop:secret@:7000",
        "127.0.0.1:7000",
        "http://shop:secret@127.0.0.1",
    ],
)
def test_a_start_node_that_is_none_is_refused_without_its_password(settings, url: str) -> None:
    use_cluster(settings, ["redis://127.0.0.1:7000", url])
    with pytest.raises(ImproperlyConfigured) as refused:
        pool()
    assert str(refused.value) == "The address of a cluster's node is redis:// or rediss://, a host and a port."
    assert refused.value.__cause__ is None
    assert refused.value.__suppress_context__ or refused.value.__context__ is None


def test_start_nodes_are_found_where_a_setting_names_the_factory(cluster, settings, new_session) -> None:
    use_cluster(settings, [f"redis://127.0.0.1:{free_port()}?socket_timeout=5", cluster.urls[0]])
    settings.DJANGO_REDIS_CONNECTION_FACTORY = settings.CACHES["sessions"]["OPTIONS"].pop("CONNECTION_FACTORY")
    settings.CACHES = settings.CACHES
    assert_works(new_session)


table: dict[tuple[str, int], tuple[str, int]] = {}


@pytest.fixture
def remap() -> Iterator[dict[tuple[str, int], tuple[str, int]]]:
    yield table
    table.clear()


def remapped(address: tuple[str, int]) -> tuple[str, int]:
    return table[address]


NOWHERE = "nowhere.invalid"


def move_all_of(cluster: Cluster, tag: str) -> None:
    slot = key_slot(tag.encode())
    source = cluster.node_of(slot)
    target = next(node for node in cluster.primaries if node is not source)
    assert list(cluster.move_slot_classic(slot, target, keys_at_once=50))


@pytest.fixture
def unreachable(own_cluster) -> Cluster:
    for node in own_cluster.nodes:
        node.client.config_set("cluster-announce-hostname", NOWHERE)
        node.client.config_set("cluster-preferred-endpoint-type", "hostname")
    # Each must have heard of the others'.
    wait_until(
        lambda: all(
            node.cluster("SLOTS")[number][2][0] == NOWHERE.encode() for node in own_cluster.nodes for number in range(3)
        )
    )
    return own_cluster


@pytest.mark.slow
@pytest.mark.both_servers
@pytest.mark.parametrize("way", [remapped, f"{__name__}.remapped"], ids=["function", "path"])
def test_addresses_are_remapped_in_the_map_and_in_redirections(unreachable, remap, settings, new_session, way) -> None:
    with proxies_of(unreachable) as proxies:
        for node in unreachable.nodes:
            remap[NOWHERE, node.port] = "127.0.0.1", proxies[node.port].port
        use_cluster(settings, unreachable.urls[0], ADDRESS_REMAP=way)
        assert_works(new_session)
        through = {proxy.port for proxy in proxies.values() if proxy.accepted}
        assert {each.connection_kwargs["port"] for each in pool().nodes()} == through
        assert len(through) == 3
        session = new_session(colour="blue")
        move_all_of(unreachable, keyspace().of_sid(session.sid).tag)
        assert SessionStore(session.session_key)["colour"] == "blue"


@pytest.mark.slow
@pytest.mark.both_servers
@pytest.mark.parametrize("endpoint", ["unknown-endpoint", "hostname"])
def test_nodes_that_do_not_tell_their_host(own_cluster, settings, new_session, endpoint: str) -> None:
    """The map has a null in place of the host, or a question mark; a redirection has nothing, or a question mark."""
    for node in own_cluster.nodes:
        node.client.config_set("cluster-preferred-endpoint-type", endpoint)
    use_cluster(settings, own_cluster.urls[0].replace("127.0.0.1", "localhost"))
    assert_works(new_session)
    assert {each.connection_kwargs["host"] for each in pool().nodes()} == {"localhost"}
    session = new_session(colour="blue")
    move_all_of(own_cluster, keyspace().of_sid(session.sid).tag)
    assert SessionStore(session.session_key)["colour"] == "blue"
    assert {each.connection_kwargs["host"] for each in pool().nodes()} == {"localhost"}


def made_by_openssl(folder: Path) -> tuple[Path, Path]:
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"),
            *("-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", key, "-out", certificate),
        ],
        check=True,
        capture_output=True,
    )
    return certificate, key


TLS_BELOW = 12_000
"""How far below its other port a node listens for encrypted connections."""


@pytest.fixture
def encrypted(tmp_path) -> Iterator[tuple[Cluster, Path]]:
    """A cluster that is reached by TLS too, between its nodes by nothing else, and its certificate."""
    certificate, key = made_by_openssl(tmp_path)
    program = tmp_path / "server"
    # Each node needs another port.
    program.write_text(
        f'#!/bin/sh\nexec {available()["redis"]} "$@" --tls-port $(($2 - {TLS_BELOW}))'
        " --tls-cluster yes --tls-replication yes --tls-auth-clients no"
        f" --tls-cert-file {certificate} --tls-key-file {key} --tls-ca-cert-file {certificate}\n"
    )
    program.chmod(0o700)
    started = Cluster(program)
    yield started, certificate
    started.close()


@pytest.mark.slow
@pytest.mark.skipif("redis" not in available(), reason="the embedded server has no TLS")
def test_tls(encrypted, settings, new_session, caplog) -> None:
    cluster, certificate = encrypted
    url = f"rediss://localhost:{cluster.nodes[0].port - TLS_BELOW}"
    use_cluster(settings, url, CONNECTION_POOL_KWARGS={"ssl_ca_certs": str(certificate)})
    assert_works(new_session)
    ports = {node.port - TLS_BELOW for node in cluster.primaries}
    assert {each.connection_kwargs["port"] for each in pool().nodes()} == ports
    # A certificate that nobody vouches for is an outage.
    use_cluster(settings, url)
    with pytest.raises(SessionStoreUnavailable):
        SessionStore("k" * 32).load()
    assert "CERTIFICATE_VERIFY_FAILED" in caplog.text


OPERATIONS: dict[str, Callable[[Any], Any]] = {
    "clear": lambda cache: cache.clear(),
    "delete_pattern": lambda cache: cache.delete_pattern("*"),
    "get": lambda cache: cache.get("key"),
    "lock": lambda cache: cache.lock("key").acquire(),
    "set": lambda cache: cache.set("key", 1),
    "aset": lambda cache: async_to_sync(cache.aset)("key", 1),
    "a client": lambda cache: get_redis_connection("sessions").get("key"),
    "a client's pipeline": lambda cache: get_redis_connection("sessions").pipeline(),
    "a client's connection": lambda cache: get_redis_connection("sessions").connection_pool.get_connection(),
    "a client for reading": lambda cache: get_redis_connection("sessions", write=False).flushall(),
}


@pytest.mark.parametrize("ignore", [False, True], ids=["errors raised", "errors ignored"])
def test_a_cache_operation_says_that_it_does_not_work_here(cluster, settings, new_session, ignore: bool) -> None:
    use_cluster(settings, cluster.urls, IGNORE_EXCEPTIONS=ignore)
    session = new_session(colour="blue")
    before = set(cluster.client.keys())
    for name, operation in OPERATIONS.items():
        with pytest.raises(NotImplementedError, match="for sessions only") as refused:
            operation(caches["sessions"])
        assert refused, name
    assert set(cluster.client.keys()) == before
    assert SessionStore(session.session_key)["colour"] == "blue"


@pytest.mark.parametrize("close", [False, True])
def test_the_end_of_a_request_leaves_the_map(cluster, settings, new_session, close: bool) -> None:
    use_cluster(settings, cluster.urls)
    settings.DJANGO_REDIS_CLOSE_CONNECTION = close
    session = new_session(colour="blue")
    known = pool()
    caches["sessions"].client.get_client()
    close_caches()
    of_this_node = known.server_of_tag(keyspace().of_sid(session.sid).tag)
    assert of_this_node.idle[-1].is_clean or close
    assert pool() is known
    assert SessionStore(session.session_key)["colour"] == "blue"
