"""Sessions on a cluster: settings that lead to it, and which of its nodes has what."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from django.core.signals import setting_changed

from django_redsess.backend import SessionStore
from django_redsess.cluster import ClusterConnectionFactory
from django_redsess.transport.connections import pool
from django_redsess.transport.keys import keyspace, sid_of
from testproject.clusters import Cluster
from testproject.nodes import Node
from tests.helpers.clusters import caches_at
from tests.helpers.outages import PATIENCE
from tests.helpers.proxy import Proxy

PARTITIONS = 8
"""Enough for each of three nodes to have some."""


def use_cluster(settings: Any, location: str | Sequence[str], *, timeout: float = PATIENCE, **options: Any) -> None:
    """Keep the sessions on this cluster, with pools of connections that nobody has used before."""
    ClusterConnectionFactory._pools.clear()
    settings.REDSESS = {**settings.REDSESS, "PARTITIONS": PARTITIONS}
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
        started = {}
        for node in cluster.nodes:
            started[node.port] = proxy = Proxy(node.port)
            ended.callback(proxy.close)
        yield started


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
