"""
What a node's work besides requests costs: a fork, a full resynchronisation, and moving a partition to another node.

Nearly all figures are the server's own: ``latest_fork_usec``, ``rdb_last_cow_size``, bytes sent to replicas, and the
time that it spent in ``MIGRATE`` and ``RESTORE``, during which it serves nobody.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

import redis
from redis.crc import key_slot
from redis.exceptions import MovedError

from benchmarks.engines import ENGINES, OURS
from benchmarks.fill import fill
from benchmarks.operations import SEED, Ours
from benchmarks.traffic import load_at_random, pointed_at
from django_redsess.transport.keys import keyspace
from testproject.clusters import Cluster
from testproject.servers import Server

GIB = 2**30

KEYS_AT_ONCE = 100
"""How many small keys one MIGRATE moves."""

PATIENCE = 120
"""Seconds to wait for a command."""

PREFIX = "redsess"
"""The hash tag of a store with one partition."""


class Snapshot(NamedTuple):
    """
    A snapshot by a forked process.

    ``gib`` is the memory that the server used, ``fork_ms`` how long the fork kept it from serving, ``seconds`` how long
    the snapshot took. Meanwhile ``saves`` sessions were loaded and saved, and memory of ``copied`` bytes was copied.
    """

    gib: float
    fork_ms: float
    seconds: float
    saves: int
    copied: int


class Resynchronised(NamedTuple):
    """A full resynchronisation: how long until the replica was there, bytes sent to it, and the time of the fork."""

    seconds: float
    sent: int
    fork_ms: float


class Moved(NamedTuple):
    """
    A partition moved to another node.

    ``blocked_ms`` is the longest time that a node served nobody, ``seconds`` the time from the first to the last key.
    """

    how: str
    sessions: int
    blocked_ms: float
    seconds: float


class Store:
    """A server with ``count`` signed-in sessions. Each has viewed five items."""

    def __init__(self, server: Server, count: int) -> None:
        self.server = server
        self.client = patient(server)
        self.side = Ours(ENGINES[OURS])
        self.keys: list[str] = []
        self.rng = random.Random(SEED)
        fill(self.client, count, keys=self.keys)

    def snapshot(self, *, writing: bool) -> Snapshot:
        """Save a snapshot, while sessions are loaded and saved at random if ``writing``."""
        gib = self.client.info("memory")["used_memory"] / GIB
        start, saves = time.monotonic(), 0
        self.client.bgsave()
        while self.client.info("persistence")["rdb_bgsave_in_progress"]:
            for _ in range(10 * writing):
                load_at_random(self.side, self.keys, rng=self.rng, save=True)
                saves += 1
            time.sleep(0 if writing else 0.02)
        seconds = time.monotonic() - start
        return Snapshot(gib, fork_ms(self.client), seconds, saves, self.client.info("persistence")["rdb_last_cow_size"])

    def resynchronised(self) -> Resynchronised:
        """Give the server a replica, and wait until it has everything."""
        before, start = self._sent(), time.monotonic()
        with replica_of(self.server):
            return Resynchronised(time.monotonic() - start, self._sent() - before, fork_ms(self.client))

    def _sent(self) -> int:
        return int(self.client.info("stats")["total_net_repl_output_bytes"])


@contextmanager
def replica_of(server: Server) -> Iterator[Server]:
    """Start a replica of ``server``, and wait until it has everything."""
    patient(server).config_set("repl-diskless-sync-delay", 0)
    with closing(Server(server.binary, "--replicaof", "127.0.0.1", str(server.port))) as replica:
        while replica.client.info("replication")["master_link_status"] != "up":
            time.sleep(0.02)
        yield replica


def classic(binary: Path, sessions: int) -> Moved:
    """
    Move a partition with so many signed-in ``sessions`` by ``MIGRATE``, as a classic slot migration does.

    A large key blocks both nodes while the source packs it, and then while the target unpacks it: that is the CPU time
    of both. A busy machine takes longer, and so does a network.
    """
    with closing(Server(binary)) as source, closing(Server(binary)) as target, pointed_at(source):
        client = patient(source)
        fill(client, sessions, viewed=0)
        names, blocked = keyspace().partitions[0], 0.0
        start = time.monotonic()
        for name in (names.login, names.expire, names.recent, names.online_user):
            before = cpu_ms(source) + cpu_ms(target)
            client.migrate("127.0.0.1", target.port, name, 0, PATIENCE * 1000)
            blocked = max(blocked, cpu_ms(source) + cpu_ms(target) - before)
        small = list(client.scan_iter(count=10_000))
        for first in range(0, len(small), KEYS_AT_ONCE):
            client.migrate("127.0.0.1", target.port, small[first : first + KEYS_AT_ONCE], 0, PATIENCE * 1000)
        seconds = time.monotonic() - start
        assert (client.dbsize(), patient(target).hlen(names.login)) == (0, sessions)
    return Moved("classic", sessions, blocked, seconds)


def atomic(binary: Path, sessions: int) -> Moved:
    """Move a partition with so many signed-in ``sessions`` at once, as Valkey 9 can, while somebody writes to it."""
    with closing(Cluster(binary, primaries=2, replicas=0)) as cluster:
        source = cluster.node_of(PREFIX)
        (target,) = [node for node in cluster.primaries if node is not source]
        with pointed_at(source, PREFIX=PREFIX):
            fill(patient(source), sessions, viewed=0)
            name, slot = keyspace().partitions[0].login, key_slot(PREFIX.encode())
        with ThreadPoolExecutor(1) as thread:
            waiting = thread.submit(longest_wait, patient(source), name)
            start = time.monotonic()
            cluster.move_slots_atomic((slot, slot), to=target)
            seconds = time.monotonic() - start
            blocked = waiting.result() * 1000
        assert patient(target).hlen(name) == sessions
    return Moved("atomic", sessions, blocked, seconds)


def longest_wait(client: redis.Redis, name: str) -> float:
    """Write to the hash ``name`` again and again until its node gives it away. Return the longest wait in seconds."""
    longest = 0.0
    while True:
        start = time.perf_counter()
        try:
            client.hdel(name, "nobody's")
        except MovedError:
            return longest
        finally:
            longest = max(longest, time.perf_counter() - start)
        time.sleep(0.001)


def patient(server: Server) -> redis.Redis:
    """Return a client that waits for long commands."""
    return redis.Redis(port=server.port, socket_timeout=PATIENCE)


def cpu_ms(server: Server) -> float:
    """Return the CPU time that ``server`` has used so far."""
    info = patient(server).info("cpu")
    return float(info["used_cpu_user"] + info["used_cpu_sys"]) * 1000


def fork_ms(client: redis.Redis) -> float:
    """Return how long the server's last fork took."""
    return float(client.info("stats")["latest_fork_usec"] / 1000)
