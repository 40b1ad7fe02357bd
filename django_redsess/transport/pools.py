"""
The connections that sessions use: pools of their own, made of the settings of the cache's alias.

redis-py's own get and release take forty calls of Python: they poll the socket each time, and report events and
metrics. So its pool is asked once for each connection, and here connections are given out. All are in use for redis-py.
What it tells those (new credentials, maintenance) is seen when they are taken.
"""

from __future__ import annotations

import threading
from os import getpid
from time import monotonic
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.credentials import StreamingCredentialProvider
from redis.event import AfterPooledConnectionsInstantiationEvent, ClientType, EventDispatcher
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.retry import Retry
from redis.sentinel import SentinelConnectionPool

from django_redsess.transport import lines
from django_redsess.transport.clock import Clock
from django_redsess.transport.greeting import greet
from django_redsess.transport.outage import UNREACHABLE, Outages
from django_redsess.transport.places import MANY, Place, Places

FRESH_SECONDS = 1
"""A connection that was unused for longer is polled before it is used: the server may have closed it."""

OF_ANOTHER_POOL = frozenset(
    ("connection_pool", "maint_notifications_pool_handler", "oss_cluster_maint_notifications_handler")
)
"""Options of connections that lead back to the pool which has them."""


class _Thread:
    """A thread or a greenlet that waits."""

    __slots__ = ("_lock", "place")

    def __init__(self) -> None:
        self.place: Place | None = None
        # Looked up now: gevent replaces it.
        self._lock = threading.Lock()
        self._lock.acquire()

    def wait(self, seconds: float | None) -> None:
        self._lock.acquire(timeout=-1 if seconds is None else seconds)

    def wake(self) -> None:
        self._lock.release()


class Pool(Places):
    """
    The connections to one server, for threads and greenlets.

    ``clock`` is the clock of the server, ``outages`` what is known of its outages. ``agreed`` are the tags of the
    partitions that suit this process. ``cluster`` is None for the only server.
    """

    def __init__(self, source: Any, max_connections: int, wait_seconds: float | None) -> None:
        super().__init__(source, max_connections, wait_seconds)
        self.clock, self.outages, self.cluster = Clock(), Outages(), None
        self.agreed: set[str] = set()
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

    def forget_agreed(self) -> None:
        """Have all that must be agreed on asked again."""
        self.agreed.clear()

    def alone(self, **options: Any) -> Any:
        """Return a connection that is not of the pool, and is not open yet. It repeats nothing by itself."""
        no_repeats = {"retry": Retry(NoBackoff(), 0), "retry_on_error": [], "retry_on_timeout": False}
        return self.connection_class(**{**self.connection_kwargs, **no_repeats, **options})

    def take(self) -> Place:
        """Return a place whose connection is ready. Raises redis-py's ConnectionError if none gets free in time."""
        if self._pid != getpid():
            self.begin()
        try:
            place = self._wait() if self._waiting else self._idle.pop()
        except IndexError:
            place = self._wait()
        if (
            place.fresh_until > monotonic()
            and not self.outages.under_way
            and not self._is_told
            and not (self._may_be_moved and place.connection.should_reconnect())
        ):
            return place
        self._make_ready(place)
        return place

    def give(self, place: Place) -> None:
        """Give back a place. All replies on its connection have been read."""
        if place.server != self._master:
            # Another thread has found another master.
            self.drop(place)
            return
        place.fresh_until = monotonic() + FRESH_SECONDS
        # As put() does.
        place.home.append(place)
        if self._waiting:
            self.serve()

    def drop(self, place: Place) -> None:
        """Give back a place whose connection must not be used again, and close that."""
        _close(place)
        self.put(place)

    def lose_idle(self) -> None:
        """Close the idle connections, after one was lost, or led to a server that is no master any more."""
        idle = self.take_idle()
        for place in idle:
            _close(place)
        for place in idle:
            self.put(place)

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

    def _wait(self) -> Place:
        thread = _Thread()
        try:
            self.stand_in_line(thread)
            if thread.place is None:
                thread.wait(self.wait_seconds)
                if thread.place is None:
                    self.leave_line(thread)
        except BaseException:
            self.leave_line(thread)
            if thread.place is not None:
                self.put(thread.place)
            raise
        if thread.place is None:
            raise RedisConnectionError("No connection available.")
        return thread.place

    def _make_ready(self, place: Place) -> None:
        # Also called in an outage: nothing is repeated then, and each idle connection may be lost.
        try:
            connection = place.connection
            if connection is None:
                # What is idle there was lost, perhaps in the middle of its greeting.
                self.source.disconnect(inuse_connections=False)
                place.known.connection = place.connection = self.source.get_connection()
            elif place.is_open and self._stays(connection):
                return
            else:
                connection.disconnect()
                # Sending would connect too, but behind Sentinel to the old address.
                connection.connect()
            place.line, place.is_open = lines.line_of(place.connection), True
            if self.has_new_master(place):
                self.lose_idle()
        except BaseException:
            self.drop(place)
            raise

    def _stays(self, connection: Any) -> bool:
        try:
            if self._is_told:
                connection.re_auth()
            # Unread data may be a message of the server, or a reply to somebody else.
            return not (self._may_be_moved and connection.should_reconnect()) and not connection.can_read()
        except (*UNREACHABLE, OSError):
            return False


def _close(place: Place) -> None:
    place.fresh_until, place.is_open, place.line = 0.0, False, None
    if place.connection is not None:
        place.connection.disconnect()


def own(found: Any, *, cluster: Any = None, node: str = "") -> Pool:
    """
    Return a pool for sessions with the settings of ``found``, a pool of redis-py that stays as it is.

    It has its connection class, its options, its Sentinel, its maximum, and its time-out for a free connection. With
    ``cluster`` it is that of a ``node``.
    """
    options = {name: value for name, value in found.connection_kwargs.items() if name not in OF_ANOTHER_POOL}
    options.setdefault("redis_connect_func", greet)
    options |= {"connection_class": found.connection_class, "max_connections": MANY}
    if isinstance(found, SentinelConnectionPool):
        source: Any = SentinelConnectionPool(  # type: ignore[no-untyped-call]
            found.service_name,
            found.sentinel_manager,
            is_master=found.is_master,
            check_connection=found.check_connection,
            **options,
        )
    else:
        source = redis.ConnectionPool(**options)
    pool = Pool(source, found.max_connections, getattr(found, "timeout", options.get("socket_timeout")))
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
