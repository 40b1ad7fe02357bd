"""New connections and the role of their server; a master that is left."""

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from functools import partial
from typing import Any

import pytest
import redis as redis_py
from redis.exceptions import ReadOnlyError, ResponseError

from django_redsess.exceptions import SessionStoreUnavailable
from django_redsess.transport import connections
from django_redsess.transport.packing import pack_command
from testproject.servers import Server
from tests.helpers.outages import caches, lines_of
from tests.helpers.pooled import atake, give, take
from tests.helpers.running import wait_until
from tests.helpers.sentinels import behind_sentinel
from tests.helpers.store import afetch, fetch

PING = pack_command("PING")
PORT = pack_command("INFO", "server")
TOUCH = pack_command("ZADD", "{redsess}:recent", "XX", 1, "sid")

Ask = Callable[..., list[Any]]


@pytest.fixture(params=["threads", "tasks"])
def ask(request) -> Iterator[Ask]:
    if request.param == "threads":
        yield fetch
        return
    with asyncio.Runner() as loop:
        yield lambda *args: loop.run(afetch(*args))


class Site:
    """A site behind a sentinel. It names ``first``, until it is told of another master."""

    def __init__(self, sentinel: redis_py.Redis, name: str, first: Server) -> None:
        self.sentinel, self.name, self.first = sentinel, name, first

    def names(self, server: Server) -> None:
        """Let the sentinel name ``server``."""
        self.sentinel.sentinel_remove(self.name)
        self.sentinel.sentinel_monitor(self.name, "127.0.0.1", server.port, 1)


@pytest.fixture
def put(own_server, settings, tmp_path) -> Iterator[Callable[..., Site]]:
    """Return a function that puts the site behind a sentinel; ``options`` are for the pool."""
    with ExitStack() as ended:

        def put(first: Server = own_server, **options: Any) -> Site:
            settings.CACHES = ended.enter_context(behind_sentinel(first, tmp_path, timeout=2, **options))
            ended.callback(connections.pool().disconnect)
            (host, port), *_ = settings.CACHES["sessions"]["OPTIONS"]["SENTINELS"]
            sentinel = ended.enter_context(redis_py.Redis(host=host, port=port))
            return Site(sentinel, connections.pool().source.service_name, first)

        yield put


def demote(server: Server, master: Server) -> None:
    server.client.replicaof("127.0.0.1", master.port)
    wait_until(lambda: server.client.info("replication")["role"] == "slave")


def connections_to(server: Server) -> int:
    """Count the connections of redis-py that ``server`` ever had: not those of sentinels."""
    # Each sends two of these.
    return int(server.client.info("commandstats")["cmdstat_client|setinfo"]["calls"]) // 2


def port_of(ask: Ask) -> int:
    told = ask("info", PORT, 1)[0].decode()
    return int(told.partition("tcp_port:")[2].split()[0])


@pytest.mark.parametrize("protocol", [2, 3])
def test_a_replica_that_is_named_as_the_master_is_not_asked(put, server, ask, protocol: int, caplog) -> None:
    site = put(protocol=protocol)
    demote(site.first, server)
    looks = []
    for _ in range(2):
        before = connections_to(site.first)
        with pytest.raises(SessionStoreUnavailable) as raised:
            ask("ping", PING, 1)
        assert isinstance(raised.value.__cause__, ReadOnlyError)
        looks.append(connections_to(site.first) - before)
    # The repetition asks the sentinel again. In a known outage there is none.
    assert looks == [2, 1]
    [line] = lines_of(caplog, "django_redsess", logging.ERROR)
    assert f"ReadOnlyError: 127.0.0.1:{site.first.port} is a replica" in line
    site.names(server)
    assert ask("ping", PING, 1) == [b"PONG"]
    assert port_of(ask) == server.port


def test_a_server_that_does_not_tell_its_role_is_used(put, server, ask, monkeypatch) -> None:
    # With RESP3, redis-py needs HELLO itself.
    monkeypatch.setattr(redis_py, "Redis", partial(redis_py.Redis, protocol=2))
    with closing(Server(server.binary, "--rename-command", "HELLO", "")) as first:
        put(first, protocol=2)
        assert ask("ping", PING, 1) == [b"PONG"]


def test_the_address_of_a_replica_is_an_outage(own_server, server, settings, ask, caplog) -> None:
    demote(own_server, server)
    settings.CACHES = caches(own_server.url, timeout=2)
    for packed, replies in ((TOUCH, 1), (PING + TOUCH, 2)):
        with pytest.raises(SessionStoreUnavailable):
            ask("touch", packed, replies)
    [line] = lines_of(caplog, "django_redsess", logging.ERROR)
    assert "replica" in line
    own_server.client.replicaof("NO", "ONE")
    assert ask("touch", TOUCH, 1) == [0]
    connections.pool().disconnect()


def test_a_master_that_lost_its_replicas_is_left_for_the_one_that_is_named(put, server, ask) -> None:
    site = put()
    assert port_of(ask) == site.first.port
    site.first.client.config_set("min-replicas-to-write", 1)
    site.names(server)
    pong, refused = ask("touch", PING + TOUCH, 2)
    assert (pong, str(refused)[:10]) == (b"PONG", "NOREPLICAS")
    assert port_of(ask) == server.port


@pytest.mark.parametrize("later", [False, True], ids=["first reply", "later reply"])
def test_a_demoted_master_is_left_for_the_one_that_is_named(put, server, ask, later: bool) -> None:
    site = put()
    pooled_connections = [take(connections.pool()) for _ in range(3)]
    for pooled in pooled_connections:
        give(connections.pool(), pooled)
    assert port_of(ask) == site.first.port
    site.names(server)
    demote(site.first, server)
    replies = ask("touch", PING + TOUCH, 2) if later else ask("touch", TOUCH + PING, 2)
    assert replies in ([b"PONG", 0], [0, b"PONG"])
    assert [port_of(ask) for _ in range(3)] == [server.port] * 3


def test_a_closed_connection_asks_the_sentinels_again(put, server) -> None:
    site = put()
    assert port_of(fetch) == site.first.port
    site.names(server)
    connections.pool().close_idle()
    assert port_of(fetch) == server.port


def test_a_master_whose_replicas_are_down_goes_on_answering(put, ask) -> None:
    site = put()
    site.first.client.config_set("min-replicas-to-write", 1)
    before = connections_to(site.first)
    for _ in range(20):
        pong, refused = ask("touch", PING + TOUCH, 2)
        assert (pong, type(refused)) == (b"PONG", ResponseError)
    # Not a new connection for each request.
    assert connections_to(site.first) - before < 10


def test_a_connection_of_a_loop_is_not_kept_when_another_master_was_found(put, server) -> None:
    site = put()

    async def meet() -> None:
        pool = await connections.loop_pool(connections.pool())
        first, second = await atake(pool), await atake(pool)
        site.names(server)
        await pool.discard(first)
        assert await afetch("ping", PING, 1) == [b"PONG"]
        give(pool, second)
        ports = [await afetch("info", PORT, 1) for _ in range(2)]
        assert all(f"tcp_port:{server.port}\r".encode() in told for [told] in ports)
        both = [await atake(pool), await atake(pool)]
        assert {each.connection.port for each in both} == {server.port}
        for each in both:
            give(pool, each)

    asyncio.run(meet())
