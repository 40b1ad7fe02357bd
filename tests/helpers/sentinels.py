"""Replicas that take the place of their master, and the sentinels that have them do so."""

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import redis as redis_py

from testproject.servers import Server, free_port
from tests.helpers.outages import PATIENCE
from tests.helpers.proxy import Proxy
from tests.helpers.running import wait_until


class Replicated:
    """A server, and a replica that is connected to it by way of a proxy."""

    def __init__(self, binary: Path) -> None:
        with ExitStack() as on_error:
            self.server = on_error.enter_context(closing(Server(binary, "--repl-diskless-sync-delay", "0")))
            self._link = on_error.enter_context(closing(Proxy(self.server.port)))
            through = f"127.0.0.1 {self._link.port}"
            self.replica = on_error.enter_context(closing(Server(binary, "--replicaof", through)))
            self.link()
            self._closing = on_error.pop_all()

    @property
    def _replicas(self) -> int:
        return int(self.server.client.info("replication")["connected_slaves"])

    def cut(self) -> None:
        """Cut the link: the replica gets nothing from now on."""
        self._link.refuse()
        wait_until(lambda: not self._replicas)

    def link(self) -> None:
        """Link the replica again, and wait until it has all."""
        self._link.restore()
        wait_until(lambda: self.replica.client.info("replication")["master_link_status"] == "up")
        # Its first acknowledgement may take a second.
        with self.server.client.pipeline(transaction=False) as together:
            together.publish("linked", "").execute_command("WAIT", 1, 10_000)
            assert together.execute()[-1] == 1

    def fail_over(self) -> str:
        """Kill the server, have the replica take its place, and return its URL."""
        self.server.stop()
        self.replica.client.replicaof("NO", "ONE")
        return self.replica.url

    def close(self) -> None:
        self._closing.close()


@contextmanager
def behind_sentinel(
    server: Server, folder: Path, *, port: int = 0, timeout: float = PATIENCE, **pool: Any
) -> Iterator[dict[str, Any]]:
    """
    Start a sentinel that names ``port`` as where ``server`` is (its own, unless said otherwise), and give ``CACHES``.

    ``pool`` is for the pool of connections.
    """
    at = free_port()
    # django-redis finds a pool by its URL: another name for each server.
    with _sentinel(server, folder, at, f"sentinel monitor shop-{at} 127.0.0.1 {port or server.port} 1"):
        yield caches(f"shop-{at}", [at], timeout=timeout, **pool)


def caches(name: str, ports: list[int], *, timeout: float = PATIENCE, **pool: Any) -> dict[str, Any]:
    """Settings that keep the sessions on the master that the sentinels at ``ports`` know as ``name``."""
    return {
        "sessions": {
            "BACKEND": "django_redis.cache.RedisCache",
            "LOCATION": f"redis://{name}/0",
            "OPTIONS": {
                "CLIENT_CLASS": "django_redis.client.SentinelClient",
                "CONNECTION_FACTORY": "django_redis.pool.SentinelConnectionFactory",
                "SENTINELS": [("127.0.0.1", port) for port in ports],
                "SOCKET_CONNECT_TIMEOUT": timeout,
                "SOCKET_TIMEOUT": timeout,
                "CONNECTION_POOL_KWARGS": pool,
            },
        }
    }


class Watched:
    """A master and its ``servers``, the replicas among them, with the ``ports`` of the sentinels that watch them."""

    def __init__(self, servers: list[Server], ports: list[int]) -> None:
        self.servers, self.ports = servers, ports
        self.name = f"shop-{ports[0]}"
        self._sentinels = [redis_py.Redis(port=port, decode_responses=True) for port in ports]

    def start(self, patience_ms: int) -> None:
        """
        Make replicas of all servers but the first, and have the sentinels find them and each other.

        The sentinels act when the master has not answered for ``patience_ms``.
        """
        master, *replicas = self.servers
        for replica in replicas:
            replica.client.replicaof("127.0.0.1", master.port)
        for sentinel in self._sentinels:
            sentinel.sentinel_monitor(self.name, "127.0.0.1", master.port, len(self.ports) // 2 + 1)
            for option, milliseconds in (("down-after-milliseconds", patience_ms), ("failover-timeout", 5_000)):
                sentinel.sentinel_set(self.name, option, milliseconds)
        for sentinel in self._sentinels:
            wait_until(lambda sentinel=sentinel: self._knows_all(sentinel))
        wait_until(self.in_place)

    def set(self, option: str, value: int | str) -> None:
        """Set an option of all servers."""
        for server in self.servers:
            server.client.config_set(option, value)

    def master(self) -> Server:
        """Return the server that every sentinel names as the master. Wait until they are of one mind."""
        found = set[int]()

        def agree() -> bool:
            found.clear()
            # As redis-py asks. GET-MASTER-ADDR-BY-NAME names the new one before all replicas follow it.
            found.update(each.sentinel_master(self.name)["port"] for each in self._sentinels)
            return len(found) == 1

        wait_until(agree)
        return next(server for server in self.servers if server.port in found)

    def fail_over(self) -> None:
        """Have a sentinel make a replica the master, though the master is well."""
        self._sentinels[0].sentinel_failover(self.name)

    def pause_writes(self) -> None:
        """Let the master take no writes for a while. Return when the replicas have all."""
        self.master().client.execute_command("CLIENT", "PAUSE", 15_000, "WRITE")
        wait_until(self.in_sync)

    def in_place(self) -> bool:
        """Tell whether each server that runs is the master that is named, or follows it."""
        running = [each for each in self.servers if each.process.poll() is None]
        try:
            told = {each.port: each.client.info("replication") for each in running}
        except redis_py.ConnectionError:
            # Sentinels close the connections of a master that they demote.
            return False
        return told.pop(self.master().port)["role"] == "master" and all(
            each["role"] == "slave" and each["master_link_status"] == "up" for each in told.values()
        )

    def in_sync(self) -> bool:
        """Tell whether all servers have the same. Nobody may write meanwhile."""
        told = [each.client.info("replication") for each in self.servers]
        return len({each.get("slave_repl_offset", each["master_repl_offset"]) for each in told}) == 1

    def caches(self, **options: Any) -> dict[str, Any]:
        return caches(self.name, self.ports, **options)

    def close(self) -> None:
        for sentinel in self._sentinels:
            sentinel.close()

    def _knows_all(self, sentinel: redis_py.Redis) -> bool:
        state = sentinel.sentinel_master(self.name)
        found = (state["num-slaves"], state["num-other-sentinels"])
        return found == (len(self.servers) - 1, len(self.ports) - 1) and all(
            # Else it is no good replica for a failover.
            replica["master-link-status"] == "ok"
            for replica in sentinel.sentinel_slaves(self.name)
        )


@contextmanager
def watched(
    binary: Path,
    folder: Path,
    *options: str,
    replicas: int = 1,
    sentinels: int = 1,
    patience_ms: int = 1000,
    environment: Mapping[str, str] | None = None,
) -> Iterator[Watched]:
    """
    Start a master, replicas and sentinels, each a process of its own.

    ``options`` and ``environment`` are those of the servers. The sentinels act after ``patience_ms``.
    """
    with ExitStack() as ended:
        # Replicas begin to copy at once.
        options = ("--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1", *options)
        servers = [
            ended.enter_context(closing(Server(binary, *options, environment=environment))) for _ in range(1 + replicas)
        ]
        ports = [free_port() for _ in range(sentinels)]
        for port in ports:
            ended.enter_context(_sentinel(servers[0], folder, port))
        found = ended.enter_context(closing(Watched(servers, ports)))
        found.start(patience_ms)
        yield found


@contextmanager
def _sentinel(server: Server, folder: Path, port: int, watches: str = "") -> Iterator[None]:
    config = folder / f"sentinel-{port}.conf"
    config.write_text(f"port {port}\nbind 127.0.0.1\n{watches}\n")
    process = subprocess.Popen([server.binary, config, "--sentinel"], stdout=subprocess.DEVNULL, cwd=folder)
    try:
        wait_until(lambda: _answers(port))
        yield
    finally:
        process.kill()
        process.wait()


def _answers(port: int) -> bool:
    # Not by redis-py's own retries: an older one does not repeat a connection that is refused.
    try:
        with redis_py.Redis(port=port, socket_timeout=5) as sentinel:
            return bool(sentinel.ping())
    except redis_py.ConnectionError:
        return False
