"""Real clusters for tests and the demo, made by commands: no program of the server's is needed for that."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import redis
from redis.crc import key_slot

from testproject.nodes import Node

SLOTS = 16_384
WAIT_SECONDS = 60
"""A cluster starts in two to four seconds. On a machine with much other work it takes longer."""


class Client(redis.RedisCluster):
    """
    A client that knows nothing of django-redsess, to look at what is stored.

    redis-py asks one node for all keys, or those that were primaries when it last looked. This one asks all that are.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        super().__init__("127.0.0.1", cluster.nodes[0].port)

    def keys(self, *_: Any, **__: Any) -> list[Any]:
        return [name for node in self._cluster.primaries for name in node.client.keys("*")]

    def time(self, *_: Any, **__: Any) -> Any:
        return self._cluster.primaries[0].client.time()

    def flushall(self, *_: Any, **__: Any) -> bool:
        for node in self._cluster.primaries:
            node.client.flushall()
        return True


class Cluster:
    """
    A cluster of ``primaries`` nodes with the same number of slots, and ``replicas`` replicas of each.

    ``options`` are added to the command line of every node, and win over those in testproject/nodes.py.
    ``environments`` are added to the environment of single nodes, by their number: the primaries come first, then the
    first replica of each. No node keeps its data on disk: a primary that was killed starts empty.
    """

    def __init__(
        self,
        binary: Path,
        *options: str,
        primaries: int = 3,
        replicas: int = 1,
        environments: Mapping[int, Mapping[str, str]] | None = None,
    ) -> None:
        self.binary, self.options = binary, options
        self.nodes: list[Node] = []
        with ExitStack() as on_error:
            on_error.callback(self._close_nodes)
            for number in range(primaries * (1 + replicas)):
                self.nodes.append(Node(binary, *options, environment=(environments or {}).get(number)))
            self._join(primaries)
            self.client = Client(self)
            on_error.pop_all()

    def _join(self, primaries: int) -> None:
        ends = [SLOTS * number // primaries for number in range(primaries + 1)]
        for number, node in enumerate(self.nodes):
            # Two nodes with the same epoch would first have to agree on who is to change it.
            node.cluster("SET-CONFIG-EPOCH", number + 1)
            if number < primaries:
                node.cluster("ADDSLOTSRANGE", ends[number], ends[number + 1] - 1)
            # Each meets each: hearing of one another takes seconds.
            for other in self.nodes[:number]:
                node.meet(other)
        self._wait(self._strangers)
        for number, node in enumerate(self.nodes[primaries:]):
            node.cluster("REPLICATE", self.nodes[number % primaries].id)
        self.wait_ok()

    @property
    def running(self) -> list[Node]:
        """The nodes that were not killed or frozen."""
        return [node for node in self.nodes if node.is_running]

    @property
    def primaries(self) -> list[Node]:
        """The running nodes that take themselves for primaries; without slots too."""
        return [node for node in self.running if "master" in node.own.flags]

    @property
    def urls(self) -> list[str]:
        return [node.url for node in self.nodes]

    def node_of(self, slot: int | str) -> Node:
        """Return the primary that serves ``slot``; of a text, that of a key with this name or hash tag."""
        number = slot if isinstance(slot, int) else key_slot(slot.encode())
        for node in self.primaries:
            if any(first <= number <= last for first, last in node.own.slots):
                return node
        raise LookupError(f"no running primary serves slot {number}")

    def replica_of(self, node: Node) -> Node:
        """Return a running replica of ``node``."""
        for each in self.running:
            if each.own.primary == node.id:
                return each
        raise LookupError(f"the node on port {node.port} has no running replica")

    def wait_ok(self) -> None:
        """
        Wait until the cluster works, and all running nodes agree.

        Each says so itself, and knows which running node serves each slot and whose replica each is. Replicas are
        connected. Where a primary without a replica is gone, this fails.
        """
        self._wait(self._unready)

    def kill(self, node: Node) -> None:
        node.stop()
        node.frozen = False

    def freeze(self, node: Node) -> None:
        """Stop its process: connections stay open, and nothing is answered."""
        node.process.send_signal(signal.SIGSTOP)
        node.frozen = True

    def thaw(self, node: Node) -> None:
        """Let a frozen node go on. It may take itself for a primary for a moment, though a replica took over."""
        node.process.send_signal(signal.SIGCONT)
        node.frozen = False

    def restart(self, node: Node) -> None:
        """Start a node that was killed. A primary starts empty: see that its replica took over before."""
        node.start()
        self.wait_ok()

    def promote(self, replica: Node) -> None:
        """Have ``replica`` take the place of its primary as planned (``CLUSTER FAILOVER``): nothing is lost."""
        replica.cluster("FAILOVER")
        self._wait_for_promotion(replica)

    def add_node(self) -> Node:
        """Return a new primary without slots, known to all."""
        node = Node(self.binary, *self.options)
        self.nodes.append(node)
        for other in self.running[:-1]:
            node.meet(other)
        self._wait(self._strangers)
        self.wait_ok()
        return node

    def move_slot_classic(self, slot: int, to: Node, *, keys_at_once: int = 1) -> Iterator[int]:
        """
        Move a slot key by key; yield how many keys have moved, from none to all, so that the caller can look.

        The slot has moved when this ends, and not before: go through all of it.
        """
        source, moved = self.node_of(slot), 0
        to.cluster("SETSLOT", slot, "IMPORTING", source.id)
        source.cluster("SETSLOT", slot, "MIGRATING", to.id)
        yield moved
        while names := source.cluster("GETKEYSINSLOT", slot, keys_at_once):
            # Without REPLACE: a key that both have is an error (BUSYKEY).
            source.ask("MIGRATE", "127.0.0.1", to.port, "", 0, 20_000, "KEYS", *names)
            moved += len(names)
            yield moved
        # The target first: if the source gave the slot away before, nobody would have it.
        others = [node for node in self.primaries if node not in (to, source)]
        for node in (to, source, *others):
            node.cluster("SETSLOT", slot, "NODE", to.id)
        self.wait_ok()

    def move_slots_atomic(self, *ranges: tuple[int, int], to: Node) -> None:
        """Move ranges of slots (first, last) that one node serves, as Valkey 9 can: in one step."""
        source = self.node_of(ranges[0][0])
        ends = [end for both in ranges for end in both]
        source.cluster("MIGRATESLOTS", "SLOTSRANGE", *ends, "NODE", to.id)
        self._wait(lambda: _unfinished_migrations(source))
        self.wait_ok()

    def flush_scripts(self, node: Node) -> None:
        """Let ``node`` forget all scripts."""
        node.client.script_flush()

    def close(self) -> None:
        self.client.close()
        self._close_nodes()

    def _close_nodes(self) -> None:
        for node in self.nodes:
            node.close()

    def _wait_for_promotion(self, replica: Node) -> None:
        self._wait(lambda: "" if "master" in replica.own.flags else f"port {replica.port} is still a replica")
        self.wait_ok()

    def _wait(self, wrong: Callable[[], str]) -> None:
        """Wait until ``wrong`` returns no text; it may ask a node that is just starting."""
        deadline = time.monotonic() + WAIT_SECONDS
        while True:
            try:
                text = wrong()
            except redis.RedisError as error:
                text = repr(error)
            if not text:
                return
            if time.monotonic() > deadline:
                raise TimeoutError(text)
            time.sleep(0.05)

    def _strangers(self) -> str:
        """Say which running nodes do not know each other yet."""
        ids = {node.id for node in self.running}
        for node in self.running:
            if missing := ids - {each.id for each in node.known().values() if each.is_alive}:
                return f"port {node.port} does not know {missing}"
        return ""

    def _unready(self) -> str:
        """Say what keeps the running nodes from working together."""
        ids = {node.id for node in self.running}
        opinions = set()
        for node in self.running:
            if b"cluster_state:ok" not in node.cluster("INFO"):
                return f"port {node.port} says that the cluster does not work"
            known = [each for each in node.known().values() if each.id in ids]
            if not all(each.is_alive for each in known):
                return f"port {node.port} takes a running node for dead"
            opinions.add(frozenset((each.id, each.primary, each.slots) for each in known))
            if node.client.info("replication").get("master_link_status", "up") != "up":
                return f"port {node.port} is not connected with its primary"
        if len(opinions) > 1:
            return "the nodes do not agree"
        served = sum(last - first + 1 for _, _, slots in opinions.pop() for first, last in slots)
        return "" if served == SLOTS else f"{SLOTS - served} slots are served by nobody"


def _unfinished_migrations(source: Node) -> str:
    """Say which slot migrations from ``source`` go on; raise where the last one failed."""
    listed = [_as_dict(each) for each in source.cluster("GETSLOTMIGRATIONS")]
    last = next(each for each in listed if each[b"operation"] == b"EXPORT")
    state = last[b"state"].decode()
    if state in ("failed", "cancelled"):
        raise RuntimeError(f"the slots did not move: {last[b'message'].decode()}")
    return "" if state == "success" else f"slot migration: {state}"


def _as_dict(reply: Any) -> dict[bytes, Any]:
    return reply if isinstance(reply, dict) else dict(zip(reply[::2], reply[1::2], strict=True))
