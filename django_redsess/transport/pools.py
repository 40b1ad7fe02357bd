"""
The servers as this process knows them, and the connections to each: a pool for threads, and one for an event loop.

redis-py's own get and release take forty calls of Python: they poll the socket each time, and report events and
metrics. So redis-py's pool, the ``source``, is asked once for each connection, and the connections are shared out here.
redis-py sees all of them as checked out; its notifications (new credentials, maintenance) are handled when a connection
is taken.

Requests that wait for a connection are served in the order in which they came. A task holds up no other task.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from itertools import repeat
from os import getpid
from typing import TYPE_CHECKING, Any, Protocol

from redis.backoff import NoBackoff
from redis.credentials import StreamingCredentialProvider
from redis.event import AfterPooledConnectionsInstantiationEvent, ClientType, EventDispatcher
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.retry import Retry

from django_redsess import forks
from django_redsess.clock import monotonic
from django_redsess.transport import sources
from django_redsess.transport.outages import UNREACHABLE, Outages
from django_redsess.transport.sources import greet, thread_source_like

if TYPE_CHECKING:
    from django_redsess.transport.cluster_map import Cluster

TIME_FRESH_SECONDS = 1.0
"""For how long a read goes by the time that another reply has told. Then it asks for the time again."""

SESSIONS_TOUCHED_MAX = 32_768
"""How many touched sessions a process remembers for a server. Above it, all are forgotten at once."""

UNUSED_SECONDS = 1
"""A connection whose last use began longer ago is polled before it is used: the server may have closed it."""


class Clock:
    """
    The clock of a server: the last time that it told, carried on by the monotonic clock of this process.

    The wall clock of this process is never used. Any thread may use an instance, since its state is one pair.
    """

    moved_ms = 0
    """By how much a test has moved the clocks of all servers ahead: see :mod:`django_redsess.testing`."""

    def __init__(self) -> None:
        # How far the server's clock is ahead of the monotonic one, in milliseconds, and until when that is fresh.
        self._ahead: float | None = None
        self._fresh_until = 0.0

    def learn(self, time_reply: Sequence[bytes | int]) -> int:
        """Take a reply to ``TIME`` that has just come, and return it in milliseconds."""
        seconds, microseconds = time_reply
        milliseconds = int(seconds) * 1000 + int(microseconds) / 1000
        self._set(milliseconds)
        return int(milliseconds) + self.moved_ms

    def learn_from_script(self, milliseconds: int) -> None:
        """Take the time of a script that has just replied: see ``now`` in ``lua/common.lua``."""
        self._set(milliseconds - self.moved_ms)

    def _set(self, milliseconds: float) -> None:
        at = monotonic()
        self._ahead = milliseconds - at * 1000
        self._fresh_until = at + TIME_FRESH_SECONDS

    def now(self) -> int | None:
        """Return the server's time in milliseconds; None before the first reply."""
        ahead = self._ahead
        return None if ahead is None else int(ahead + monotonic() * 1000) + self.moved_ms

    def fresh(self) -> int | None:
        """Return the server's time in milliseconds; None unless a reply of the last second has told it."""
        at, ahead = monotonic(), self._ahead
        if ahead is None or at > self._fresh_until:
            return None
        return int(ahead + at * 1000) + self.moved_ms

    def expire(self) -> None:
        """Have the next read ask for the time: the server may be another now."""
        self._fresh_until = 0.0


class TouchedSessions:
    """
    The sessions of a server that this process has touched in the present ``TOUCH_INTERVAL``: a read of one asks less.

    An interval is named by the last-seen time that touches write in it. When another begins, all are forgotten. A lost
    entry costs one touch more. Any thread may use an instance: if two threads add sessions while an interval ends, one
    may be taken for touched in the next. Then its last-seen time is late by an interval.
    """

    def __init__(self) -> None:
        self._seen, self._sessions = 0, dict[str, bool]()

    def recall(self, name: str, seen: int) -> bool | None:
        """Return what was noted with the session, if it was touched with this last-seen time; else None."""
        return self._sessions.get(name) if seen == self._seen else None

    def note_touch(self, name: str, seen: int, deadline_in_record: bool) -> None:
        """
        Note that a session was touched with the last-seen time ``seen``.

        ``name`` tells it from those of other stores. ``deadline_in_record`` is whether its deadline was not before the
        one in its record.
        """
        if seen != self._seen or len(self._sessions) >= SESSIONS_TOUCHED_MAX:
            self._sessions, self._seen = {}, seen
        self._sessions[name] = deadline_in_record

    def clear(self) -> None:
        """Forget all sessions."""
        self._sessions = {}


class PooledConnection:
    """
    A connection of a pool, open or yet to be opened. Its user is alone with it.

    ``is_clean`` is False from before the first byte of an exchange is sent until its last reply is read. A connection
    that is not clean is closed before anybody else uses it.
    """

    __slots__ = ("connection", "fresh_until", "home", "internals", "is_clean", "master", "opened_at")

    def __init__(self, home: list[PooledConnection]) -> None:
        # The idle list of its pool. In a forked process the pool has another list, and nobody reads this one.
        self.home = home
        self.connection: Any = None
        self.is_clean = False
        self.fresh_until = 0.0
        self.internals: Any = None
        # Behind Sentinel, the address of the master when the connection was opened, and the time of that.
        self.master: tuple[str, int] | None = None
        self.opened_at = 0.0

    def close(self) -> None:
        """Close the connection of a thread."""
        if self.connection is not None:
            self.connection.disconnect()

    async def aclose(self) -> None:
        """Close the connection of a task."""
        if self.connection is not None:
            await self.connection.disconnect(nowait=True)


class Waiter(Protocol):
    """A request that waits for a connection. ``held`` has the connection before ``wake_up`` is called."""

    held: list[PooledConnection]

    def wake_up(self) -> None: ...


class KnownMaster:
    """
    The address of the master that all clean connections to one server lead to, behind Sentinel. None elsewhere.

    Threads and event loops share it: once one has met the new master, none uses a connection to the old one.
    """

    __slots__ = ("address",)

    def __init__(self) -> None:
        self.address: tuple[str, int] | None = None


class ConnectionPool:
    """
    Up to ``max_connections`` connections. The one returned last is taken first.

    ``make_source`` makes the ``source``, the pool of redis-py that makes the connections. ``wait_seconds`` is how long
    to wait for a free connection; None for ever.

    A connection is in ``idle``, or it is held by a request: by a variable, within a ``try`` that puts it back. It moves
    between the two by single steps of Python, so an interruption, at any moment, loses none. ``[pooled] = map(…)`` is
    such a step. To pop and to assign are two, and an interruption may come between them.
    """

    def __init__(
        self,
        make_source: Callable[[], Any],
        max_connections: int,
        wait_seconds: float | None,
        master: KnownMaster | None = None,
    ) -> None:
        self._make_source, self.max_connections, self.wait_seconds = make_source, max_connections, wait_seconds
        self.master = master or KnownMaster()
        self.reset()
        self.is_behind_sentinel = hasattr(self.source, "sentinel_manager")
        self._follows_master = self.is_behind_sentinel and self.source.is_master
        self._may_be_moved = bool(getattr(self.source, "maint_notifications_enabled", bool)())

    def reset(self) -> None:
        """Go on without any connection. Those of the parent of a forked process are not this process's."""
        # The source of the parent may be locked: redis-py waits for that lock, also to find out that it was forked.
        self.source = self._make_source()
        # When sentinels may be asked for the master again, by the monotonic clock.
        self.next_look_at = 0.0
        self.idle: list[PooledConnection] = []
        self.waiters: deque[Waiter] = deque()
        self._made = 0
        self._lock = forks.Lock()
        self._pid = getpid()

    def put_back(self, *held: PooledConnection) -> None:
        """Let others use these connections."""
        for pooled in held:
            pooled.home.append(pooled)
        if self.waiters:
            self.serve_waiters()

    def serve_waiters(self) -> None:
        """Give waiters what connections are free, or may still be made."""
        with self._lock:
            while self.waiters:
                first = self.waiters[0]
                if not first.held and not self._give_to(first):
                    return
                first.wake_up()
                self.waiters.popleft()

    def _give_to(self, waiter: Waiter) -> bool:
        try:
            # Others take idle connections without the lock.
            waiter.held += map(list.pop, (self.idle,))
        except IndexError:
            if self._made >= self.max_connections:
                return False
            waiter.held.append(PooledConnection(self.idle))
            self._made += 1
        return True

    def join_line(self, waiter: Waiter) -> None:
        """Give ``waiter`` a connection as soon as it is its turn, perhaps at once."""
        with self._lock:
            self.waiters.append(waiter)
        self.serve_waiters()

    def leave_line(self, waiter: Waiter) -> None:
        """Give ``waiter`` no connection any more. It may have got one meanwhile."""
        with self._lock:
            if waiter in self.waiters:
                self.waiters.remove(waiter)

    def take_all_idle(self, held: list[PooledConnection]) -> None:
        """Move all idle connections to ``held``, none of them clean any more."""
        with suppress(IndexError):
            held += map(list.pop, repeat(self.idle))
        for pooled in held:
            pooled.is_clean = False

    def note_master(self, pooled: PooledConnection) -> bool:
        """Note where the connection of ``pooled`` leads, just opened. Tell whether the others lead elsewhere."""
        if not self._follows_master:
            return False
        before, self.master.address = self.master.address, self.source.master_address
        pooled.master = pooled.connection.host, pooled.connection.port
        pooled.opened_at = monotonic()
        return before != self.master.address


class Pool(ConnectionPool):
    """
    The connections to one server, for threads and greenlets.

    ``clock`` is the clock of the server, ``outages`` what is known of its outages, ``touched`` the sessions that this
    process has touched there. ``agreed`` are the tags of the partitions that suit this process. ``cluster`` is None for
    the only server. ``address`` is what observers are told.
    """

    def __init__(self, make_source: Callable[[], Any], max_connections: int, wait_seconds: float | None) -> None:
        super().__init__(make_source, max_connections, wait_seconds)
        forks.reset_in_child(self)
        self.clock, self.outages, self.touched = Clock(), Outages(), TouchedSessions()
        self.cluster: Cluster | None = None
        self.agreed: set[str] = set()
        self.address: tuple[str, int | None, int, str] | None = None
        self._has_new_credentials = False

    @property
    def connection_class(self) -> Any:
        return self.source.connection_class

    @property
    def connection_kwargs(self) -> dict[str, Any]:
        """The options of each connection."""
        options: dict[str, Any] = self.source.connection_kwargs
        return options

    def server_of_tag(self, tag: str) -> Pool:
        """Return the pool of the server that has the partition with this ``tag``."""
        return self

    def nodes(self) -> list[Pool]:
        """Return the pools of all servers that have partitions."""
        return [self]

    def any_node(self) -> Pool:
        """Return the pool of one of the servers, without connecting. All have the same options."""
        return self

    def invalidate(self) -> None:
        """Forget what was learned from the server: the agreement, its time, and the touched sessions."""
        self.agreed.clear()
        self.invalidate_reads()

    def invalidate_reads(self) -> None:
        """Make the next read of each session ask for everything: the server or its data may be others now."""
        self.clock.expire()
        self.touched.clear()

    def make_separate_connection(self, **options: Any) -> Any:
        """Return a connection that is not of the pool, and is not open yet. It repeats nothing by itself."""
        no_repeats = {"retry": Retry(NoBackoff(), 0), "retry_on_error": [], "retry_on_timeout": False}
        return self.connection_class(**{**self.connection_kwargs, **no_repeats, **options})

    def acquire(self) -> PooledConnection:
        """Return a connection that is ready. Raises redis-py's ConnectionError if none gets free in time."""
        # uWSGI forks without telling Python.
        if self._pid != getpid():
            self.reset()
        pooled = None
        try:
            try:
                [pooled] = self._wait_for_connection() if self.waiters else map(list.pop, (self.idle,))
            except IndexError:
                [pooled] = self._wait_for_connection()
            is_clean = pooled.is_clean and pooled.master == self.master.address
            pooled.is_clean, now = False, monotonic()
            if not (
                is_clean
                and pooled.fresh_until > now
                and not self.outages.under_way
                and not self._has_new_credentials
                and not (self._may_be_moved and pooled.connection.should_reconnect())
            ):
                self._make_ready(pooled, is_clean)
            pooled.fresh_until = now + UNUSED_SECONDS
        except BaseException:
            if pooled is not None:
                self.discard(pooled)
            raise
        return pooled

    def discard(self, pooled: PooledConnection) -> None:
        """Close a connection that must not be used again, and put it back."""
        try:
            pooled.close()
        finally:
            pooled.home.append(pooled)
            if self.waiters:
                self.serve_waiters()

    def close_idle(self) -> None:
        """Close the idle connections, after one was lost, or led to a server that is no master any more."""
        held: list[PooledConnection] = []
        try:
            self.take_all_idle(held)
            for pooled in held:
                pooled.close()
        finally:
            self.put_back(*held)

    def disconnect(self) -> None:
        """Close all connections, those in use too."""
        self.close_idle()
        self.source.disconnect()

    def re_auth_callback(self, token: Any) -> None:
        """Log in anew with ``token`` on each connection before it is used again: redis-py calls this."""
        self.source.re_auth_callback(token)
        self._has_new_credentials = True

    def _wait_for_connection(self) -> list[PooledConnection]:
        thread = WaitingThread()
        try:
            self.join_line(thread)
            if not thread.held:
                thread.wait_for_turn(self.wait_seconds)
            self.leave_line(thread)
        except BaseException:
            self.leave_line(thread)
            self.put_back(*thread.held)
            raise
        if not thread.held:
            raise RedisConnectionError("No connection available.")
        return thread.held

    def _make_ready(self, pooled: PooledConnection, is_clean: bool) -> None:
        # Also called in an outage: nothing is repeated then, and each idle connection may be lost.
        connection = pooled.connection
        if connection is None:
            # A connection that is idle there was lost, perhaps in the middle of its greeting.
            self.source.disconnect(inuse_connections=False)
            pooled.connection = self.source.get_connection()
        elif is_clean and self._stays(connection):
            return
        else:
            connection.disconnect()
            # Sending would connect too, but behind Sentinel to the old address.
            connection.connect()
        pooled.internals = sources.internals_of(pooled.connection)
        if self.note_master(pooled):
            self.close_idle()

    def _stays(self, connection: Any) -> bool:
        try:
            if self._has_new_credentials:
                connection.re_auth()
            # Unread data may be a message of the server, or a reply to somebody else.
            return not (self._may_be_moved and connection.should_reconnect()) and not connection.can_read()
        except (*UNREACHABLE, OSError):
            return False


class WaitingThread:
    """A thread or a greenlet that waits for a connection."""

    def __init__(self) -> None:
        self.held: list[PooledConnection] = []
        # Looked up now: gevent replaces it.
        self._asleep = threading.Lock()
        self._asleep.acquire()

    def wait_for_turn(self, seconds: float | None) -> None:
        """Wait until :meth:`wake_up` is called, or was, for ``seconds`` at most."""
        self._asleep.acquire(timeout=-1 if seconds is None else seconds)

    def wake_up(self) -> None:
        with suppress(RuntimeError):  # It was woken already.
            self._asleep.release()


class LoopPool(ConnectionPool):
    """The connections to one server of an event loop. Only sessions use them, so no idle one has an unread reply."""

    async def acquire(self) -> PooledConnection:
        """Return a connection that is ready, as :meth:`Pool.acquire` does."""
        pooled = None
        try:
            try:
                [pooled] = await self._wait_for_connection() if self.waiters else map(list.pop, (self.idle,))
            except IndexError:
                [pooled] = await self._wait_for_connection()
            is_clean, pooled.is_clean = pooled.is_clean and pooled.master == self.master.address, False
            # The event loop has noticed which connections the server closed.
            if not (
                is_clean
                and (internals := pooled.internals) is not None
                and not internals.at_eof()
                and not (self._may_be_moved and pooled.connection.should_reconnect())
            ):
                await self._make_ready(pooled, is_clean)
        except BaseException:
            if pooled is not None:
                await self.discard(pooled)
            raise
        return pooled

    async def discard(self, pooled: PooledConnection) -> None:
        """Close a connection that must not be used again, and put it back."""
        try:
            await pooled.aclose()
        finally:
            self.put_back(pooled)

    async def close_idle(self) -> None:
        """Close the idle connections."""
        held: list[PooledConnection] = []
        try:
            self.take_all_idle(held)
            for pooled in held:
                await pooled.aclose()
        finally:
            self.put_back(*held)

    async def _wait_for_connection(self) -> list[PooledConnection]:
        task = WaitingTask()
        try:
            self.join_line(task)
            if not task.held:
                await task.wait_for_turn(self.wait_seconds)
            self.leave_line(task)
        except BaseException:
            self.leave_line(task)
            self.put_back(*task.held)
            raise
        if not task.held:
            raise RedisConnectionError("No connection available.")
        return task.held

    async def _make_ready(self, pooled: PooledConnection, is_clean: bool) -> None:
        connection = pooled.connection
        if connection is None:
            await self.source.disconnect(inuse_connections=False)
            pooled.connection = await self.source.get_connection()
        else:
            if not is_clean or (self._may_be_moved and connection.should_reconnect()):
                await connection.disconnect(nowait=True)
            await self.source.ensure_connection(connection)
        pooled.internals = sources.loop_internals_of(pooled.connection)
        if self.note_master(pooled):
            await self.close_idle()


class WaitingTask:
    """A task that waits for a connection."""

    def __init__(self) -> None:
        self.held: list[PooledConnection] = []
        self._turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def wait_for_turn(self, seconds: float | None) -> None:
        """Wait until :meth:`wake_up` is called, or was, for ``seconds`` at most."""
        await asyncio.wait((self._turn,), timeout=seconds)

    def wake_up(self) -> None:
        if not self._turn.done():
            self._turn.set_result(None)


def make_session_pool(found: Any, *, cluster: Cluster | None = None, node: str = "") -> Pool:
    """
    Return a pool for sessions with the settings of ``found``, a pool of redis-py that stays as it is.

    It has its connection class, its options, its Sentinel, its maximum, and its time-out for a free connection. With
    ``cluster`` it is that of a ``node``.
    """
    options = found.connection_kwargs
    wait_seconds = getattr(found, "timeout", options.get("socket_timeout"))
    make_source = partial(thread_source_like, found, redis_connect_func=greet)
    pool = Pool(make_source, found.max_connections, wait_seconds)
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
