"""
Pools that give out a connection quickly.

redis-py's own get and release take forty calls of Python: they poll the socket each time, and report events and
metrics. So the pool of the cache alias gets a lean way for sessions; the cache goes on with get and release. Both share
the connections and their maximum. What redis-py does to the pool (new credentials, maintenance, another master) holds
for both.
"""

from __future__ import annotations

from os import getpid
from time import monotonic
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import redis
import redis.asyncio
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.retry import Retry

from django_redsess.transport.clock import Clock
from django_redsess.transport.greeting import greet
from django_redsess.transport.outage import UNREACHABLE, Outages

if TYPE_CHECKING:
    from redis.connection import ConnectionPool as _Pool
else:
    _Pool = object

FRESH_SECONDS = 1
"""A connection that was unused for longer is polled before it is used: the server may have closed it."""


class Shared(_Pool):
    """
    What sessions use of the alias's pool, or of the pool of a cluster's node. The cache does not use it.

    ``clock`` is the clock of the server, ``outages`` what is known of its outages. ``cluster`` is None for the only
    server.
    """

    clock: Clock
    outages: Outages
    cluster: Any

    def of(self, tag: str) -> Shared:
        """Return the pool of the server that has the partition with this ``tag``."""
        return self

    def nodes(self) -> list[Shared]:
        """Return the pools of all servers that have partitions."""
        return [self]

    def any_node(self) -> Shared:
        """Return the pool of one of the servers, without connecting. All have the same options."""
        return self

    def alone(self, **options: Any) -> Any:
        """Return a connection that is not of the pool, and is not open yet. It repeats nothing by itself."""
        no_repeats = {"retry": Retry(NoBackoff(), 0), "retry_on_error": [], "retry_on_timeout": False}
        return self.connection_class(**{**self.connection_kwargs, **no_repeats, **options})

    def take(self) -> Any:
        """Return a connection that is ready."""
        return self.get_connection()

    def give(self, connection: Any) -> None:
        """Give back what :meth:`take` returned."""
        self.release(connection)

    def lose_idle(self) -> None:
        """Close the idle connections, after one was lost, or led to a server that is no master any more."""


class _Lean(Shared):
    def get_connection(self, *args: Any, **kwargs: Any) -> Any:
        connection: Any = super().get_connection(*args, **kwargs)
        # The cache may release it with a reply unread.
        connection.fresh_until = 0.0
        return connection

    def reset(self) -> None:
        super().reset()
        self.hold_weakly()

    def hold_weakly(self) -> None:
        # The exception of a signal may leave a connection neither in use nor given back. It takes a place until it is
        # garbage collected.
        self._in_use_connections: Any = WeakSet(self._in_use_connections)

    def take(self) -> Any:
        if self.pid != getpid():
            self._checkpid()
        connection: Any = None
        try:
            with self._lock:
                if self._available_connections:
                    connection = self._available_connections.pop()
                else:
                    self._created_connections = len(list(self._in_use_connections))
                    connection = self.make_connection()
                self._in_use_connections.add(connection)
            fresh = connection._sock is not None and getattr(connection, "fresh_until", 0.0) > monotonic()
            if not fresh or self.outages.under_way:
                self._make_ready(connection)
            return connection
        except BaseException:
            if connection is not None:
                connection.disconnect()
                self.release(connection)
            raise

    def give(self, connection: Any) -> None:
        if not self._keeps(connection):
            return
        with self._lock:
            try:
                self._in_use_connections.remove(connection)
            except KeyError:
                return
            self._available_connections.append(connection)

    def lose_idle(self) -> None:
        self.disconnect(inuse_connections=False)

    def _make_ready(self, connection: Any) -> None:
        # Also called in an outage: nothing is repeated then, and each idle connection may be lost.
        if connection._sock is not None:
            try:
                # Unread data may be a message of the server, or a reply to somebody else.
                if not connection.can_read():
                    return
            except (*UNREACHABLE, OSError):
                pass
            connection.disconnect()
        # Sending would reconnect too, but behind Sentinel to the old address.
        connection.connect()

    def _keeps(self, connection: Any) -> bool:
        """Tell whether the connection can be used again. If it can't, release() has dealt with it."""
        if connection.pid != getpid():
            # It was taken before a fork, and belongs to the parent.
            return False
        if (
            connection._sock is None
            or connection._re_auth_token is not None
            or getattr(connection, "_should_reconnect", False)
            or not self.owns_connection(connection)
        ):
            self.release(connection)
            return False
        connection.fresh_until = monotonic() + FRESH_SECONDS
        return True


class _LeanBlocking(_Lean):
    # redis-py's queue holds the idle connections, and None for each that may still be made.
    pool: Any
    timeout: float | None

    def hold_weakly(self) -> None:
        self._connections: Any = _Living(self._connections)

    def take(self) -> Any:
        if self.pid != getpid():
            self._checkpid()
        if getattr(self, "_in_maintenance", False):
            return self.get_connection()
        connection: Any = None
        try:
            with self.pool.mutex:
                places = self.pool.queue
                if not places:
                    # Connections that were garbage collected have left their places.
                    places.extend([None] * (self.max_connections - len(list(self._connections))))
                if not places and not self.pool.not_empty.wait_for(lambda: places, self.timeout):
                    raise RedisConnectionError("No connection available.")
                connection = places.pop() or self.make_connection()
            fresh = connection._sock is not None and getattr(connection, "fresh_until", 0.0) > monotonic()
            if not fresh or self.outages.under_way:
                self._make_ready(connection)
            return connection
        except BaseException:
            if connection is not None:
                connection.disconnect()
                self.release(connection)
            raise

    def give(self, connection: Any) -> None:
        if not self._keeps(connection):
            return
        # Not by the queue's own put(): the exception of a signal could leave its lock locked.
        with self.pool.mutex:
            if len(self.pool.queue) < self.max_connections:
                self.pool.queue.append(connection)
                self.pool.not_empty.notify()

    def lose_idle(self) -> None:
        with self.pool.mutex:
            for connection in filter(None, self.pool.queue):
                connection.disconnect()


class _Living(WeakSet[Any]):
    append = WeakSet.add


_WAYS: dict[Any, Any] = {
    (redis.ConnectionPool.get_connection, redis.ConnectionPool.release): _Lean,
    (redis.BlockingConnectionPool.get_connection, redis.BlockingConnectionPool.release): _LeanBlocking,
}
"""The lean class, by get and release of the alias's own pool class. A pool that has others, or redis-py's client-side
cache, is used as it is."""


def share(pool: Any, *, cluster: Any = None, node: str = "") -> None:
    """Let sessions use the pool of the alias, beside the cache; or the pool of a ``node`` of a cluster."""
    pool.connection_kwargs.setdefault("redis_connect_func", greet)
    pool.clock, pool.outages, pool.cluster = Clock(), Outages(node and f"node {node}"), cluster
    own: Any = type(pool)
    plain = getattr(pool, "cache", None) is None
    way = _WAYS.get((own.get_connection, own.release), Shared) if plain else Shared
    pool.__class__ = type(own)(own.__name__, (way, own), {"__module__": __name__})
    if isinstance(pool, _Lean):
        with pool._lock:
            pool.hold_weakly()


class LoopPool(redis.asyncio.BlockingConnectionPool):
    """Lets tasks wait for a connection. Only sessions use it, so no idle connection has an unread reply."""

    _waiting = 0

    async def take(self) -> Any:
        """Return a connection that is ready."""
        idle: list[Any] = self._available_connections
        # Tasks that wait come first. The event loop has noticed which connections the server closed.
        if idle and not self._waiting and idle[-1]._reader and not idle[-1]._reader.at_eof():
            connection = idle.pop()
            self._in_use_connections.add(connection)
            return connection
        self._waiting += 1
        try:
            return await self.get_connection()  # type: ignore[no-untyped-call]
        finally:
            self._waiting -= 1

    async def give(self, connection: Any) -> None:
        """Give back what :meth:`take` returned."""
        if (
            self._waiting
            or connection._reader is None
            or connection._re_auth_token is not None
            or getattr(connection, "_should_reconnect", False)
        ):
            await self.release(connection)
        else:
            self._in_use_connections.remove(connection)
            self._available_connections.append(connection)

    async def lose_idle(self) -> None:
        """Close the idle connections."""
        await self.disconnect(inuse_connections=False)


class SentinelLoopPool(redis.asyncio.sentinel.SentinelConnectionPool, LoopPool):
    """Does the same behind Sentinel, which tells the address."""

    async def give(self, connection: Any) -> None:
        """Give back what :meth:`take` returned. Close it if another task has found another master."""
        if self.master_address != (connection.host, connection.port):
            await connection.disconnect(nowait=True)
        await super().give(connection)
