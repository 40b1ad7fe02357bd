"""A site whose sessions are in a cluster, which of its nodes has what, and a hash slot that is half moved."""

import socket
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from typing import Any

from django.core.signals import setting_changed
from redis.crc import key_slot

from django_redsess.backend import SessionStore
from django_redsess.cluster import ClusterConnectionFactory
from testproject.clusters import Cluster
from testproject.nodes import Node
from tests.helpers.outages import PATIENCE, caches
from tests.helpers.proxy import Proxy
from tests.helpers.running import wait_until
from tests.helpers.store import keyspace, pool, sid_of

FACTORY = "django_redsess.cluster.ClusterConnectionFactory"
PARTITIONS = 64


def caches_at(location: str | Sequence[str], *, timeout: float = PATIENCE, **options: Any) -> dict[str, Any]:
    """Settings that keep the sessions on the cluster of which ``location`` names some nodes."""
    entry = caches("", timeout=timeout)["sessions"]
    more = {"CONNECTION_FACTORY": FACTORY, **options}
    return {"sessions": {**entry, "LOCATION": location, "OPTIONS": {**entry["OPTIONS"], **more}}}


def cluster_caches(cluster: Cluster) -> dict[str, Any]:
    """Settings that keep the sessions on ``cluster``."""
    return caches_at(cluster.urls)


FEW_PARTITIONS = 8
"""Enough for each of three nodes to have some."""


def use_cluster(settings: Any, location: str | Sequence[str], *, timeout: float = PATIENCE, **options: Any) -> None:
    """Keep the sessions on this cluster, with pools of connections that nobody has used before."""
    ClusterConnectionFactory._pools.clear()
    settings.REDSESS = {**settings.REDSESS, "PARTITIONS": FEW_PARTITIONS}
    settings.CACHES = caches_at(location, timeout=timeout, **options)


def begin_anew() -> None:
    """Let this process know as little of the cluster as one that has just started."""
    ClusterConnectionFactory._pools.clear()
    setting_changed.send(sender=None, setting="CACHES", value=None, enter=False)


def node_of(cluster: Cluster, key: str | None) -> Node:
    """Return the node that has the session with this key."""
    return cluster.node_of(keyspace().of_sid(sid_of(str(key))).tag)


def session_on_each(cluster: Cluster, new_session: Callable[..., SessionStore], **data: Any) -> dict[Node, str]:
    """Save one session on each primary; return their keys."""
    found: dict[Node, str] = {}
    while len(found) < len(cluster.primaries):
        session = new_session(**data)
        if found.setdefault(node_of(cluster, session.session_key), str(session.session_key)) != session.session_key:
            session.delete()
    return found


def pools() -> dict[str, Any]:
    """Return the pools of all nodes that this process knows, by their addresses."""
    return {f"{host}:{port}": each for (host, port), each in pool()._pools.items()}


@contextmanager
def proxies_of(cluster: Cluster) -> Iterator[dict[int, Proxy]]:
    """Start a proxy for each node; give them by the ports of the nodes."""
    with ExitStack() as ended:
        yield {node.port: ended.enter_context(closing(Proxy(node.port))) for node in cluster.nodes}


@contextmanager
def deaf() -> Iterator[str]:
    """Give the URL of a socket that is listened on, and where nobody ever answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"redis://127.0.0.1:{listener.getsockname()[1]}"


@contextmanager
def full_backlog() -> Iterator[str]:
    """Give the URL of a socket to which nobody can connect any more: what is sent there gets no answer at all."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener, ExitStack() as ended:
        for _ in range(4):
            client = ended.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(listener.getsockname())
        yield f"redis://127.0.0.1:{listener.getsockname()[1]}"


class HalfMoved:
    """
    The slot of the keys with the hash tag ``tag``. It moves from its node to ``target``, the ``moved`` keys first.

    :meth:`end` moves the others. ``MIGRATE`` fails with BUSYKEY where both nodes have a key of one name.
    """

    def __init__(self, cluster: Cluster, tag: str) -> None:
        self.cluster, self.slot = cluster, key_slot(tag.encode())
        for node in cluster.primaries:
            # A test that failed may have left it half moved.
            node.cluster("SETSLOT", self.slot, "STABLE")
        self.source = cluster.node_of(self.slot)
        self.target = next(node for node in cluster.primaries if node is not self.source)

    def begin(self, moved: Iterable[bytes]) -> None:
        self.target.cluster("SETSLOT", self.slot, "IMPORTING", self.source.id)
        self.source.cluster("SETSLOT", self.slot, "MIGRATING", self.target.id)
        self._move(moved)

    def end(self) -> None:
        """Move what is left, and give the slot to the target."""
        self._move(self.source.cluster("GETKEYSINSLOT", self.slot, 1000))
        others = [node for node in self.cluster.primaries if node not in (self.source, self.target)]
        for node in (self.target, self.source, *others):
            node.cluster("SETSLOT", self.slot, "NODE", self.target.id)
        # Else a message that is under way may undo the next move.
        wait_until(lambda: self._epoch(self.target) == self._epoch(self.source))

    def content(self) -> dict[tuple[int, bytes], bytes]:
        """Return all keys of the slot on both nodes, by port and name, as the servers write them to disk."""
        return {
            (node.port, name): value for node in (self.source, self.target) for name, value in self._dump(node).items()
        }

    def _epoch(self, told_by: Node) -> bytes:
        (line,) = (line for line in told_by.cluster("NODES").splitlines() if line.startswith(self.target.id.encode()))
        return bytes(line.split()[6])

    def _move(self, names: Iterable[bytes]) -> None:
        if names := list(names):
            self.source.ask("MIGRATE", "127.0.0.1", self.target.port, "", 0, 20_000, "KEYS", *names)

    def _dump(self, node: Node) -> dict[bytes, bytes]:
        names = node.cluster("GETKEYSINSLOT", self.slot, 1000)
        pipeline = node.client.pipeline(transaction=False)
        for name in names:
            # Before each: it holds for the next command only.
            pipeline.execute_command("ASKING")
            pipeline.dump(name)
        return dict(zip(names, pipeline.execute()[1::2], strict=True))
