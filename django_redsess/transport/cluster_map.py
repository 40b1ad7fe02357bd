"""The nodes of a cluster: which of them serves which partition, and a pool of connections for each.

The map is made of the reply to ``CLUSTER SLOTS``. redis-py has a map, too. But there all threads wait while one asks
for the map, and each node that does not answer costs all of them a time-out.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

from django.db import connections
from redis.crc import REDIS_CLUSTER_HASH_SLOTS, key_slot
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.utils import str_if_bytes

from django_redsess import forks
from django_redsess.clock import monotonic
from django_redsess.transport.causes import words_of
from django_redsess.transport.outages import Outages
from django_redsess.transport.pools import Clock, Pool, TouchedSessions, make_session_pool

Address = tuple[str, int]
"""Host and port."""

Owners = list[Address | None]
"""For each hash slot, where its node is."""

FRESH_SECONDS = 0.1
"""The map is not asked for again within this time."""

THREAD = "redsess-cluster-map"
"""The name of the thread that asks for the map."""

TIMEOUT_SECONDS = 0.5
"""The time-out that the README recommends. The map has it if the alias has none."""


class Cluster:
    """
    Stands for the pool of an alias whose server is a cluster.

    ``start`` are the addresses of some nodes: one that answers is enough. ``make_pool`` makes the pool of a node.
    ``remap`` changes addresses that the nodes tell and that can't be reached from here.
    """

    def __init__(
        self,
        start: Sequence[Address],
        make_pool: Callable[[Address], Any],
        remap: Callable[[Address], Address] | None = None,
    ) -> None:
        self.start, self._make_pool, self._remap = start, make_pool, remap
        self._pools: dict[Address, Pool] = {}
        # A change makes a new list and a new dictionary, so that readers need no lock.
        self._owners: Owners = [None] * REDIS_CLUSTER_HASH_SLOTS
        self._of_tag: dict[str, Pool] = {}
        self._moving: set[int] = set()
        # Typed as Any, because it stands for a Pool.
        self._nowhere: Any = _UnknownNode(self)
        self._lock = forks.Lock()
        self.reset()
        forks.reset_in_child(self)

    def reset(self) -> None:
        """Forget the thread that asks for the map: after a fork, it is in the parent only."""
        self._asked: Future[None] | None = None
        self._asked_at = 0.0

    def server_of_tag(self, tag: str) -> Pool:
        """Return the pool of the node that serves the partition with this ``tag``."""
        return self._of_tag.get(tag) or self._look_up(tag)

    def nodes(self) -> list[Pool]:
        """
        Return the pools of all nodes that serve slots.

        The first call asks for the map. Raises redis-py's ConnectionError if no node tells it.
        """
        if not any(self._owners):
            self.refresh().result()
        found = [self._pool(address) for address in sorted(set(filter(None, self._owners)))]
        return found or self._nowhere.acquire()

    def any_node(self) -> Pool:
        """Return the pool of one of the nodes, without connecting. All have the same options."""
        return self.start_nodes()[0]

    def start_nodes(self) -> list[Pool]:
        """Return the pools of the nodes that LOCATION names, without connecting."""
        return [self._pool(address) for address in self.start]

    @property
    def patience_seconds(self) -> float:
        """How long a node may take to connect, and to tell the map. Then the next node is asked."""
        return (self.any_node().connection_kwargs.get("socket_timeout") or TIMEOUT_SECONDS) / 2

    def refresh(self, lost: Pool | None = None) -> Future[None]:
        """
        Ask for the map in a thread, unless one is asking. The future is done when the map is there, or no node answers.

        If no node answers, the map stays as it is. The node with the pool ``lost`` is asked after the others.
        """
        with self._lock:
            asked = self._asked
            if asked and (not asked.done() or monotonic() < self._asked_at + FRESH_SECONDS):
                return asked
            asked = Future()
            try:
                threading.Thread(target=self._fetch_map, args=(asked, lost), daemon=True, name=THREAD).start()
            except RuntimeError as error:
                self._nowhere.why = f" ({error})"
                asked.set_result(None)
            else:
                # Not before: after an interruption, nobody must wait for a thread that was never started.
                self._asked = asked
        return asked

    def moved(self, slot: int, to: Address, by: Pool) -> None:
        """Note that ``slot`` has moved ``to`` another node, as the node with the pool ``by`` told."""
        owners = self._owners.copy()
        owners[slot] = self._reached_at(to, by)
        self._use_map(owners)
        # Others may have moved along.
        self.refresh()

    def is_moving(self, slot: int) -> bool:
        """Note that the cluster moves ``slot``. Tell whether that was noted before."""
        was_noted = slot in self._moving
        self._moving.add(slot)
        return was_noted

    def at(self, address: Address, by: Pool) -> Pool:
        """Return the pool of the node at ``address``, as the node with the pool ``by`` told it."""
        return self._pool(self._reached_at(address, by))

    def get_connection(self, *args: Any, **kwargs: Any) -> Any:
        """Raise NotImplementedError: only a cache would ask for a connection to any node."""
        raise NotImplementedError("The connections of this alias are for sessions only.")

    def invalidate(self) -> None:
        """Have all asked again that was learned from the nodes."""
        for pool in list(self._pools.values()):
            pool.invalidate()

    def disconnect(self, *args: Any, **kwargs: Any) -> None:
        """Close the connections to all nodes."""
        for pool in list(self._pools.values()):
            pool.disconnect()

    def _look_up(self, tag: str) -> Pool:
        of_tag, address = self._of_tag, self._owners[key_slot(tag.encode())]
        if address is None:
            return self._nowhere  # type: ignore[no-any-return]
        found = of_tag[tag] = self._pool(address)
        return found

    def _pool(self, address: Address) -> Pool:
        with self._lock:
            found = self._pools.get(address)
            if found is None:
                found = self._pools[address] = make_session_pool(
                    self._make_pool(address), cluster=self, node=format_address(address)
                )
        return found

    def _reached_at(self, told: Address, by: Pool) -> Address:
        host, port = told
        # A node that does not know its own address leaves out the host: the host is that of the node that was asked.
        # "?" stands for a missing name.
        address = (by.connection_kwargs["host"] if host in ("", "?") else host, port)
        return self._remap(address) if self._remap else address

    def _use_map(self, owners: Owners) -> None:
        self._moving = {slot for slot in self._moving if owners[slot] == self._owners[slot]}
        # In this order: a look-up of a tag meanwhile writes to the old dictionary, which nobody reads again.
        self._owners, self._of_tag = owners, {}
        if None not in owners:
            self._nowhere.outages.finish("are reached again")
        for address in set(self._pools).difference(owners):
            gone = self._pools[address]
            gone.outages.finish("are served by another node")
            if address not in self.start:
                del self._pools[address]
                gone.close_idle()

    def _fetch_map(self, asked: Future[None], lost: Pool | None) -> None:
        # Nodes that may be out of reach are asked last.
        known = [address for address in set(self._owners) if address]
        random.shuffle(known)
        known.sort(key=lambda address: (node := self._pool(address)) is lost or bool(node.outages.under_way))
        try:
            for address in dict.fromkeys((*known, *self.start)):
                owners = self._fetch_map_from(address)
                if owners:
                    self._nowhere.why = ""
                    self._use_map(owners)
                    break
        finally:
            self._asked_at = monotonic()
            asked.set_result(None)
            # ADDRESS_REMAP, or a provider of passwords, may have asked a database. Nobody else closes this connection.
            connections.close_all()

    def _fetch_map_from(self, address: Address) -> Owners:
        """Return the map as the node at ``address`` tells it, empty if it tells none."""
        pool = self._pool(address)
        patience = self.patience_seconds
        timeouts = {
            name: min(pool.connection_kwargs.get(name) or patience, patience)
            for name in ("socket_timeout", "socket_connect_timeout")
        }
        # Not a connection of the pool: requests that wait for the node may have taken all of them.
        connection = pool.make_separate_connection(**timeouts)
        try:
            connection.connect()
            connection.send_command("CLUSTER", "SLOTS")
            return self._owners_in(connection.read_response(), pool)
        except Exception as error:
            # Not only redis-py's errors: the host may be no name, and the site's function may fail.
            self._nowhere.why = f" ({format_address(address)}: {words_of(error)})"
            return []
        finally:
            connection.disconnect()

    def _owners_in(self, ranges: Any, pool: Pool) -> Owners:
        """Return the map in the reply to ``CLUSTER SLOTS`` of the node with this ``pool``, empty if it has no slots."""
        owners: Owners = [None] * REDIS_CLUSTER_HASH_SLOTS
        for first, last, (host, port, *_), *_ in ranges:
            owners[first : last + 1] = [self._reached_at((str_if_bytes(host or ""), port), pool)] * (last + 1 - first)
        return owners if ranges else []


class _UnknownNode:
    """Stands for the pool of an unknown node."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.clock, self.outages, self.touched = cluster, Clock(), Outages(), TouchedSessions()
        self.agreed = set[str]()
        self.connection_kwargs, self.is_behind_sentinel, self.address = dict[str, Any](), False, None
        self.why = ""

    def invalidate(self) -> None:
        pass

    def invalidate_reads(self) -> None:
        pass

    def acquire(self) -> Any:
        raise RedisConnectionError(f"No node of the cluster is known to serve them{self.why}.")


def format_address(address: Address) -> str:
    """Return ``address`` as text."""
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
