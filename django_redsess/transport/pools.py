"""
The connections that sessions use: pools of their own, for threads and for an event loop, and their first exchange.

redis-py's own get and release take forty calls of Python: they poll the socket each time, and report events and
metrics. So its pool is asked once for each connection, and here connections are given out. All are in use for redis-py.
What it tells those (new credentials, maintenance) is seen when they are taken.

Whoever waits for a connection gets one first come, first served. A task of an event loop holds up no other.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from copy import copy
from functools import partial
from os import getpid
from typing import Any, Protocol
from weakref import ref

import redis
from redis.backoff import NoBackoff
from redis.credentials import StreamingCredentialProvider
from redis.event import AfterPooledConnectionsInstantiationEvent, ClientType, EventDispatcher
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import ReadOnlyError, ResponseError
from redis.retry import Retry
from redis.sentinel import SentinelConnectionPool

from django_redsess import forks
from django_redsess.clock import monotonic
from django_redsess.transport import exchange
from django_redsess.transport.clock import Clock
from django_redsess.transport.outages import UNREACHABLE, Outages
from django_redsess.transport.touched import Touched

try:
    from redis.maint_notifications import MaintNotificationsConfig
except ImportError:  # Before redis-py 6.4.
    MaintNotificationsConfig: Any = None  # type: ignore[no-redef]


CLUSTER = (b"cluster", "cluster")
REPLICA = (b"replica", b"slave", "replica", "slave")
"""Roles of a server that takes no writes. Any other role is taken for a master's."""


def greet(connection: Any) -> None:
    """
    Make a new connection ready, or close it and raise an error.

    Raises redis-py's ReadOnlyError if the server is a replica. Behind Sentinel, the repetition looks for the master.
    """
    try:
        connection.on_connect()
        # redis-py sends HELLO for RESP3 only, and then keeps the reply.
        hello = connection.handshake_metadata
        if not hello and _is_of_sentinel(connection):
            connection.send_command("HELLO", check_health=False)
            try:
                hello = connection.read_response()
            except ResponseError:
                hello = None
        _refuse_replica(connection, hello)
    except BaseException:
        connection.disconnect()
        raise


async def agreet(connection: Any) -> None:
    """Do as :func:`greet` does, for a connection of an event loop."""
    try:
        await connection.on_connect()
        # Here redis-py does not keep the reply.
        if _is_of_sentinel(connection):
            await connection.send_command("HELLO", check_health=False)
            try:
                hello = await connection.read_response()
            except ResponseError:
                hello = None
            _refuse_replica(connection, hello)
    except BaseException:
        await connection.disconnect(nowait=True)
        raise


# HELLO without a version changes nothing, and no ACL can forbid it. A renamed command can be unknown: then the role is
# not known either.


def _is_of_sentinel(connection: Any) -> bool:
    # A sentinel may name a master that was demoted. For a fixed address the first write tells.
    return hasattr(connection, "connect_to")


def _refuse_replica(connection: Any, hello: Any) -> None:
    if isinstance(hello, list):  # As in RESP2: names and values by turns.
        hello = dict(zip(hello[::2], hello[1::2], strict=False))
    if not hello or (hello.get(b"mode") or hello.get("mode")) in CLUSTER:
        # A cluster's replica says by itself where to go, and may be asked for the map.
        return
    if (hello.get(b"role") or hello.get("role")) in REPLICA:
        raise ReadOnlyError(f"{_address_of(connection)} is a replica, and not the master.")


def _address_of(connection: Any) -> str:
    return getattr(connection, "path", "") or f"{connection.host}:{connection.port}"


MANY = 2**31
"""A maximum that redis-py's pools never reach. The maximum of connections is minded here."""


class PooledConnection:
    """
    A connection of a pool, open or yet to be opened. Whoever has taken it is alone with it.

    A pooled that nobody holds any more, and that was not given back, is gone: another may be made. So an interruption
    between any two steps takes no pooled connection.
    """

    __slots__ = ("__weakref__", "connection", "fresh_until", "home", "internals", "is_open", "known", "server")

    def __init__(self, home: list[PooledConnection]) -> None:
        # A list of its pool. In a forked process the pool has another list, and this one's connections are nobody's.
        self.home = home
        self.connection: Any = None
        self.is_open = False
        self.fresh_until = 0.0
        self.internals: Any = None
        # Behind Sentinel, the address that the connection led to.
        self.server: tuple[str, int] | None = None
        self.known: _Known


class _Known(ref[PooledConnection]):
    # Knows the connection of a pooled connection that is gone: it may have replies unread, and is closed.
    __slots__ = ("connection", "tells")

    connection: Any
    tells: ref[PooledConnection]


class Waiting(Protocol):
    """
    A waiter. Its ``pooled`` connection is set before ``wake`` is called.

    ``look`` wakes it without a pooled connection, so that it asks for those that have freed their places. It takes no
    lock and raises nothing, and any thread may call it, also one that is in the middle of a method of this module.
    """

    pooled: PooledConnection | None

    def wake(self) -> None: ...

    def look(self) -> None: ...


def _have_first_look(waiting: deque[Waiting], _: object) -> None:
    # Called where a pooled connection was lost: at any moment, in any thread.
    with suppress(IndexError):
        waiting[0].look()


class PooledConnections:
    """
    Up to ``max_connections`` connections. The one given back last is taken first.

    ``make_source`` makes the ``source``, the pool of redis-py that makes the connections. All count as in use there,
    idle ones too. ``wait_seconds`` is how long to wait for a free connection; None for ever.
    """

    def __init__(self, make_source: Callable[[], Any], max_connections: int, wait_seconds: float | None) -> None:
        self._make_source, self.max_connections, self.wait_seconds = make_source, max_connections, wait_seconds
        self.reset()
        self.is_behind_sentinel = hasattr(self.source, "sentinel_manager")
        self._follows_master = self.is_behind_sentinel and self.source.is_master
        self._may_be_moved = bool(getattr(self.source, "maint_notifications_enabled", bool)())

    def reset(self) -> None:
        """Begin without any pooled connection. Those of the parent of a forked process are not this process's."""
        # The source of the parent may be locked: redis-py waits for that lock, also to find out that it was forked.
        self.source = self._make_source()
        # Where all open connections lead, behind Sentinel.
        self._master: tuple[str, int] | None = None
        self._idle: list[PooledConnection] = []
        self._waiting: deque[Waiting] = deque()
        self._known: list[_Known] = []
        # Python does not run between the end of a pooled connection and its entry here: it could be interrupted.
        self._gone: list[_Known] = []
        self._lock = forks.Lock()
        self._pid = getpid()

    def stand_in_line(self, waiting: Waiting) -> None:
        """Give ``waiting`` a pooled connection as soon as it is its turn, perhaps at once."""
        with self._lock:
            self._waiting.append(waiting)
            self._serve()

    def leave_line(self, waiting: Waiting) -> None:
        """Give ``waiting`` no pooled connection any more. It may have got one meanwhile."""
        with self._lock:
            if waiting in self._waiting:
                self._waiting.remove(waiting)
            # It may have been told to look for all.
            self._serve()

    def put(self, pooled: PooledConnection) -> None:
        """Let others have ``pooled``."""
        pooled.home.append(pooled)
        # In this order: who waits looks for a pooled connection after it has said so.
        if self._waiting:
            self.serve()

    def serve(self) -> None:
        """Give those who wait what connections there are."""
        with self._lock:
            self._serve()

    def take_idle(self) -> list[PooledConnection]:
        """Take all connections that nobody uses."""
        taken = []
        for _ in range(len(self._idle)):
            try:
                taken.append(self._idle.pop())
            except IndexError:
                break
        return taken

    def let_go(self, connection: Any) -> None:
        """Close the ``connection`` of a pooled connection that is gone."""

    def has_new_master(self, pooled: PooledConnection) -> bool:
        """Note where the connection of ``pooled`` leads, just opened. Tell whether the others lead elsewhere."""
        if not self._follows_master:
            return False
        pooled.server = pooled.connection.host, pooled.connection.port
        before, self._master = self._master, self.source.master_address
        return before != self._master

    def _deadline(self) -> float | None:
        # Until when a new waiter waits, by the monotonic clock.
        return None if self.wait_seconds is None else monotonic() + self.wait_seconds

    def _serve(self) -> None:
        while self._waiting:
            try:
                # Others take what is idle without the lock.
                pooled = self._idle.pop()
            except IndexError:
                made = self._make_pooled()
                if made is None:
                    return
                pooled = made
            first = self._waiting[0]
            first.pooled = pooled
            self._waiting.popleft()
            first.wake()

    def _make_pooled(self) -> PooledConnection | None:
        if self._gone:
            self._forget_gone()
        if len(self._known) >= self.max_connections:
            return None
        pooled = PooledConnection(self._idle)
        # Of two callbacks, Python calls the later one first: so whoever looks finds the entry.
        tells = ref(pooled, partial(_have_first_look, self._waiting))
        pooled.known = _Known(pooled, self._gone.append)
        pooled.known.connection, pooled.known.tells = None, tells
        self._known.append(pooled.known)
        return pooled

    def _forget_gone(self) -> None:
        gone = self._gone[:]
        for known in gone:
            if known in self._known:
                self._known.remove(known)
            # Once, or a connection that is used again would be closed.
            connection, known.connection = known.connection, None
            if connection is not None:
                self.let_go(connection)
        del self._gone[: len(gone)]


def _left(until: float | None) -> float | None:
    return None if until is None else max(0.0, until - monotonic())


class _Task:
    """A task that waits."""

    __slots__ = ("_loop", "_woken", "pooled")

    def __init__(self) -> None:
        self.pooled: PooledConnection | None = None
        self._loop = asyncio.get_running_loop()
        self._woken: asyncio.Future[None] = self._loop.create_future()

    async def wait(self, seconds: float | None) -> bool:
        """Wait to be woken, for ``seconds`` at most. False if the time is up."""
        await asyncio.wait((self._woken,), timeout=seconds)
        if not self._woken.done():
            return False
        self._woken = self._loop.create_future()
        return True

    def wake(self) -> None:
        if not self._woken.done():
            self._woken.set_result(None)

    def look(self) -> None:
        with suppress(RuntimeError):  # The loop is closed.
            self._loop.call_soon_threadsafe(self.wake)


class LoopPool(PooledConnections):
    """The connections to one server of an event loop. Only sessions use them, so no idle one has an unread reply."""

    async def take(self) -> PooledConnection:
        """Do as :meth:`django_redsess.transport.pools.Pool.take` does."""
        try:
            pooled = await self._wait() if self._waiting else self._idle.pop()
        except IndexError:
            pooled = await self._wait()
        # The event loop has noticed which connections the server closed.
        if (
            pooled.is_open
            and (line := pooled.internals) is not None
            and not line.at_eof()
            and not (self._may_be_moved and pooled.connection.should_reconnect())
        ):
            return pooled
        await self._make_ready(pooled)
        return pooled

    async def give(self, pooled: PooledConnection) -> None:
        """Give back a connection. All replies on it have been read."""
        if pooled.server != self._master:
            # Another task has found another master.
            await self.drop(pooled)
            return
        pooled.home.append(pooled)
        if self._waiting:
            self.serve()

    async def drop(self, pooled: PooledConnection) -> None:
        """Give back a connection that must not be used again, and close it."""
        try:
            await _aclose(pooled)
        finally:
            self.put(pooled)

    async def lose_idle(self) -> None:
        """Close the idle connections."""
        idle = self.take_idle()
        try:
            for pooled in idle:
                await _aclose(pooled)
        finally:
            for pooled in idle:
                pooled.is_open = False
                self.put(pooled)

    async def _wait(self) -> PooledConnection:
        task, until = _Task(), self._deadline()
        try:
            self.stand_in_line(task)
            while task.pooled is None:
                if not await task.wait(_left(until)):
                    self.leave_line(task)
                    break
                if task.pooled is None:
                    self.serve()
        except BaseException:
            self.leave_line(task)
            if task.pooled is not None:
                self.put(task.pooled)
            raise
        if task.pooled is None:
            raise RedisConnectionError("No connection available.")
        return task.pooled

    async def _make_ready(self, pooled: PooledConnection) -> None:
        try:
            connection = pooled.connection
            if connection is None:
                await self.source.disconnect(inuse_connections=False)
                pooled.known.connection = pooled.connection = await self.source.get_connection()
            else:
                if not pooled.is_open or (self._may_be_moved and connection.should_reconnect()):
                    await connection.disconnect(nowait=True)
                await self.source.ensure_connection(connection)
            pooled.internals, pooled.is_open = exchange.loop_internals_of(pooled.connection), True
            if self.has_new_master(pooled):
                await self.lose_idle()
        except BaseException:
            await self.drop(pooled)
            raise


async def _aclose(pooled: PooledConnection) -> None:
    pooled.is_open, pooled.internals = False, None
    if pooled.connection is not None:
        await pooled.connection.disconnect(nowait=True)


FRESH_SECONDS = 1
"""A connection that was unused for longer is polled before it is used: the server may have closed it."""

OF_ANOTHER_POOL = frozenset(
    (
        *("connection_pool", "himport_registry"),
        *("maint_notifications_pool_handler", "oss_cluster_maint_notifications_handler"),
    )
)
"""Options of connections that lead back to the pool which has them, or that it shares with them."""


class _Thread:
    """A thread or a greenlet that waits."""

    __slots__ = ("_lock", "pooled")

    def __init__(self) -> None:
        self.pooled: PooledConnection | None = None
        # Looked up now: gevent replaces it.
        self._lock = threading.Lock()
        self._lock.acquire()

    def wait(self, seconds: float | None) -> bool:
        """Wait to be woken, for ``seconds`` at most. False if the time is up."""
        return self._lock.acquire(timeout=-1 if seconds is None else seconds)

    def wake(self) -> None:
        with suppress(RuntimeError):  # It was woken already, and does not know yet.
            self._lock.release()

    look = wake


class Pool(PooledConnections):
    """
    The connections to one server, for threads and greenlets.

    ``clock`` is the clock of the server, ``outages`` what is known of its outages, ``touched`` the sessions that this
    process has touched there. ``agreed`` are the tags of the partitions that suit this process. ``cluster`` is None for
    the only server. ``address`` is what observers are told.
    """

    def __init__(self, make_source: Callable[[], Any], max_connections: int, wait_seconds: float | None) -> None:
        super().__init__(make_source, max_connections, wait_seconds)
        forks.reset_in_child(self)
        self.clock, self.outages, self.touched, self.cluster = Clock(), Outages(), Touched(), None
        self.agreed: set[str] = set()
        self.address: tuple[str, int | None, int, str] | None = None
        self._is_told = False

    @property
    def connection_class(self) -> Any:
        return self.source.connection_class

    @property
    def connection_kwargs(self) -> dict[str, Any]:
        """The options of each connection."""
        options: dict[str, Any] = self.source.connection_kwargs
        return options

    def of(self, tag: str) -> Pool:
        """Return the pool of the server that has the partition with this ``tag``."""
        return self

    def nodes(self) -> list[Pool]:
        """Return the pools of all servers that have partitions."""
        return [self]

    def any_node(self) -> Pool:
        """Return the pool of one of the servers, without connecting. All have the same options."""
        return self

    def invalidate(self) -> None:
        """Have all asked again that was learned from the server: what is agreed on, its time, and what is touched."""
        self.agreed.clear()
        self.invalidate_reads()

    def invalidate_reads(self) -> None:
        """Have the next read of each session ask for all: the server, or what it holds, may be another now."""
        self.clock.expire()
        self.touched.clear()

    def alone(self, **options: Any) -> Any:
        """Return a connection that is not of the pool, and is not open yet. It repeats nothing by itself."""
        no_repeats = {"retry": Retry(NoBackoff(), 0), "retry_on_error": [], "retry_on_timeout": False}
        return self.connection_class(**{**self.connection_kwargs, **no_repeats, **options})

    def take(self) -> PooledConnection:
        """Return a connection that is ready. Raises redis-py's ConnectionError if none gets free in time."""
        # uWSGI forks without telling Python.
        if self._pid != getpid():
            self.reset()
        try:
            pooled = self._wait() if self._waiting else self._idle.pop()
        except IndexError:
            pooled = self._wait()
        if (
            pooled.fresh_until > monotonic()
            and not self.outages.under_way
            and not self._is_told
            and not (self._may_be_moved and pooled.connection.should_reconnect())
        ):
            return pooled
        self._make_ready(pooled)
        return pooled

    def give(self, pooled: PooledConnection) -> None:
        """Give back a connection. All replies on it have been read."""
        if pooled.server != self._master:
            # Another thread has found another master.
            self.drop(pooled)
            return
        pooled.fresh_until = monotonic() + FRESH_SECONDS
        # As put() does.
        pooled.home.append(pooled)
        if self._waiting:
            self.serve()

    def drop(self, pooled: PooledConnection) -> None:
        """Give back a connection that must not be used again, and close it."""
        try:
            _close(pooled)
        finally:
            self.put(pooled)

    def lose_idle(self) -> None:
        """Close the idle connections, after one was lost, or led to a server that is no master any more."""
        idle = self.take_idle()
        try:
            for pooled in idle:
                _close(pooled)
        finally:
            for pooled in idle:
                pooled.fresh_until, pooled.is_open = 0.0, False
                self.put(pooled)

    def disconnect(self) -> None:
        """Close all connections, those in use too."""
        self.lose_idle()
        self.source.disconnect()

    def let_go(self, connection: Any) -> None:
        connection.disconnect()
        self.source.release(connection)

    def re_auth_callback(self, token: Any) -> None:
        """Log in anew with ``token`` on each connection before it is used again: redis-py calls this."""
        self.source.re_auth_callback(token)
        # From now on each connection is asked.
        self._is_told = True

    def _wait(self) -> PooledConnection:
        thread, until = _Thread(), self._deadline()
        try:
            self.stand_in_line(thread)
            while thread.pooled is None:
                if not thread.wait(_left(until)):
                    self.leave_line(thread)
                    break
                if thread.pooled is None:
                    self.serve()
        except BaseException:
            self.leave_line(thread)
            if thread.pooled is not None:
                self.put(thread.pooled)
            raise
        if thread.pooled is None:
            raise RedisConnectionError("No connection available.")
        return thread.pooled

    def _make_ready(self, pooled: PooledConnection) -> None:
        # Also called in an outage: nothing is repeated then, and each idle connection may be lost.
        try:
            connection = pooled.connection
            if connection is None:
                # What is idle there was lost, perhaps in the middle of its greeting.
                self.source.disconnect(inuse_connections=False)
                pooled.known.connection = pooled.connection = self.source.get_connection()
            elif pooled.is_open and self._stays(connection):
                return
            else:
                connection.disconnect()
                # Sending would connect too, but behind Sentinel to the old address.
                connection.connect()
            pooled.internals, pooled.is_open = exchange.internals_of(pooled.connection), True
            if self.has_new_master(pooled):
                self.lose_idle()
        except BaseException:
            self.drop(pooled)
            raise

    def _stays(self, connection: Any) -> bool:
        try:
            if self._is_told:
                connection.re_auth()
            # Unread data may be a message of the server, or a reply to somebody else.
            return not (self._may_be_moved and connection.should_reconnect()) and not connection.can_read()
        except (*UNREACHABLE, OSError):
            return False


def _close(pooled: PooledConnection) -> None:
    pooled.fresh_until, pooled.is_open, pooled.internals = 0.0, False, None
    if pooled.connection is not None:
        pooled.connection.disconnect()


def make_session_pool(found: Any, *, cluster: Any = None, node: str = "") -> Pool:
    """
    Return a pool for sessions with the settings of ``found``, a pool of redis-py that stays as it is.

    It has its connection class, its options, its Sentinel, its maximum, and its time-out for a free connection. With
    ``cluster`` it is that of a ``node``.
    """
    options = found.connection_kwargs
    wait_seconds = getattr(found, "timeout", options.get("socket_timeout"))
    pool = Pool(partial(_source_like, found, redis_connect_func=greet), found.max_connections, wait_seconds)
    pool.cluster = cluster
    if node:
        pool.outages = Outages(f"node {node}")
    credentials = options.get("credential_provider")
    if isinstance(credentials, StreamingCredentialProvider):
        # A provider may know one listener only: it tells both.
        EventDispatcher().dispatch(
            AfterPooledConnectionsInstantiationEvent([found, pool], ClientType.SYNC, credentials)
        )
    return pool


def _source_like(found: Any, **defaults: Any) -> Any:
    """Return a new pool of redis-py with the settings of ``found``. It shares no lock with that, and no connection."""
    given = {name: value for name, value in found.connection_kwargs.items() if name not in OF_ANOTHER_POOL}
    options = {**defaults, **given, **keep_maintenance_off(found)}
    options |= {"connection_class": found.connection_class, "max_connections": MANY}
    if not isinstance(found, SentinelConnectionPool):
        return redis.ConnectionPool(**options)
    # The class and the other attributes may be the site's own.
    manager = copy(found.sentinel_manager)
    manager.sentinels = [
        redis.Redis(connection_pool=_source_like(sentinel.connection_pool)) for sentinel in manager.sentinels
    ]
    return SentinelConnectionPool(  # type: ignore[no-untyped-call]
        found.service_name,
        manager,
        is_master=found.is_master,
        check_connection=found.check_connection,
        **options,
    )


def keep_maintenance_off(source: Any) -> dict[str, Any]:
    """
    Return the option that keeps messages about maintenance off, if the pool ``source`` has them off.

    With RESP3, redis-py turns them on by itself. The pool keeps this option for itself only where they are on.
    """
    if MaintNotificationsConfig is None or getattr(source, "maint_notifications_enabled", bool)():
        return {}
    return {"maint_notifications_config": MaintNotificationsConfig(enabled=False)}
