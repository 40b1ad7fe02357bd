"""
Connections to the servers that hold the sessions, and what is sent on them. Nothing is repeated here.

Connections are made with the settings of the cache ``CACHES[SESSION_CACHE_ALIAS]``: its address, credentials and
time-outs. The cache has connections of its own. So has each event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, MutableMapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed
from redis.exceptions import (
    AskError,
    ClusterDownError,
    MasterDownError,
    MovedError,
    ReadOnlyError,
    ResponseError,
    TryAgainError,
)
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from django_redsess import forks
from django_redsess.clock import monotonic
from django_redsess.transport import caches
from django_redsess.transport.cluster_map import Cluster
from django_redsess.transport.keys import Partition, other_store
from django_redsess.transport.outages import UNREACHABLE
from django_redsess.transport.pools import ConnectionPool, LoopPool, Pool, PooledConnection, make_session_pool
from django_redsess.transport.sources import NOT_ENOUGH_DATA, Internals, PushNotification, loop_source_like, socket_of

_pool: Pool | Cluster | None = None
_POOLS: dict[str, Pool | Cluster] = {}
"""The pools of other stores than the settings' own, by their alias."""
_OF_ALIAS: WeakKeyDictionary[Any, Pool] = WeakKeyDictionary()
_POOL_LOCK = forks.Lock()


def pool() -> Pool | Cluster:
    """
    Return the pool of the only server, with the settings of the alias, or the cluster.

    ``pool().server_of_tag(tag)`` is the pool of the server that has a partition. django-redis has one pool for each
    address in a process, and so have sessions. With the other backends, sessions have one pool for equal settings.
    """
    global _pool
    if (other := other_store()) is not None:
        if other.alias not in _POOLS:
            _POOLS[other.alias] = _pool_of(other.alias, "MOVE_TO or MOVE_FROM names")
        return _POOLS[other.alias]
    if _pool is None:
        _pool = _pool_of(settings.SESSION_CACHE_ALIAS, "SESSION_CACHE_ALIAS is")
    return _pool


def _pool_of(alias: str, named_by: str) -> Pool | Cluster:
    if alias not in settings.CACHES:
        raise ImproperlyConfigured(
            f"{named_by} {alias!r}, and CACHES has no such entry, only "
            f"{', '.join(map(repr, settings.CACHES))}. Add it. If a test overrides CACHES, keep the entry: "
            "override_settings(CACHES={**settings.CACHES, ...})."
        )
    found = caches.pool_of(alias)
    if isinstance(found, Cluster):
        return found
    with _POOL_LOCK:
        if found not in _OF_ALIAS:
            _OF_ALIAS[found] = make_session_pool(found)
        return _OF_ALIAS[found]


def server_of(partition: Partition) -> Pool:
    """Return the pool of the server that has ``partition``, with its clock and its outages."""
    found = pool() if _pool is None or other_store() is not None else _pool
    # The only server has all partitions.
    return found if isinstance(found, Pool) else found.server_of_tag(partition.tag)


def by_server(partitions: Sequence[Partition], numbers: Iterable[int]) -> dict[Pool, list[int]]:
    """Group the ``numbers`` of ``partitions`` by server."""
    found: dict[Pool, list[int]] = {}
    server_of_tag = pool().server_of_tag
    for number in numbers:
        found.setdefault(server_of_tag(partitions[number].tag), []).append(number)
    return found


def _drop_pool(*, setting: str, **kwargs: Any) -> None:
    global _pool
    if setting in ("CACHES", "SESSION_CACHE_ALIAS"):
        _pool = None
        _POOLS.clear()
    elif _pool is not None and setting == "REDSESS":
        _pool.invalidate()


setting_changed.connect(_drop_pool)


async def loop_pool(connections: Pool) -> LoopPool:
    """Return the pool of the running event loop that connects to the same server as ``connections``."""
    # The pool of an unknown node has no connections for an event loop either.
    if not isinstance(connections, Pool):
        return connections
    # A connection belongs to the event loop that opened it, so each loop has pools of its own.
    loop = asyncio.get_running_loop()
    pools = _OF_LOOP.get(loop)
    if pools is None:
        with _OF_LOOP_LOCK:
            # A loop may end without notice. Its pools refer to it, so it would stay here for ever.
            for closed in [other for other in _OF_LOOP if other.is_closed()]:
                del _OF_LOOP[closed]
            pools = _OF_LOOP.setdefault(loop, WeakKeyDictionary())
    known = pools.get(connections)
    if known is not None:
        return known[0]
    # A loop may have any number of requests under way, so it may have as many connections as all threads.
    make_source = partial(loop_source_like, connections.source)
    made = LoopPool(make_source, connections.max_connections, connections.wait_seconds, connections.master)
    lifetime = _lifetime(made)
    pools[connections] = made, lifetime
    await anext(lifetime)
    return made


_Pools = MutableMapping[Any, tuple[LoopPool, Any]]
_OF_LOOP: WeakKeyDictionary[asyncio.AbstractEventLoop, _Pools] = WeakKeyDictionary()
_OF_LOOP_LOCK = forks.Lock()


async def _lifetime(pool: LoopPool) -> AsyncGenerator[None]:
    # An event loop that ends closes the asynchronous generators that are under way in it. There is no other notice.
    try:
        yield
    finally:
        loop = asyncio.get_running_loop()
        with _OF_LOOP_LOCK:
            # A node may have left the cluster: then only its pool is closed.
            pools = _OF_LOOP.get(loop, {})
            for connections in [each for each, (other, _) in pools.items() if other is pool]:
                del pools[connections]
            if not pools:
                _OF_LOOP.pop(loop, None)
        manager = getattr(pool.source, "sentinel_manager", None)
        for each in (pool.source, *(sentinel.connection_pool for sentinel in (manager.sentinels if manager else ()))):
            await each.disconnect()


def send_and_read(internals: Internals, packed: bytes, answers: list[Any], replies: int) -> None:
    """Send ``packed``, and add so many ``replies`` to ``answers``, as redis-py does."""
    sock, parser, reader, buffer = internals
    try:
        sock.sendall(packed)
        while len(answers) < replies:
            if not (size := sock.recv_into(buffer)):
                raise RedisConnectionError("Connection closed by server.")
            reader.feed(buffer, 0, size)
            for message in read_along(reader, answers, replies):
                parser.handle_push_response(message)
    except TimeoutError as error:
        raise RedisTimeoutError("The server did not answer in time.") from error
    except OSError as error:
        raise RedisConnectionError(f"The connection is lost: {error}") from error


def read_along(reader: Any, answers: list[Any], replies: int) -> list[Any]:
    """Add the replies that hiredis has ready. Return the push messages between them."""
    # redis-py takes five calls for each. Its own parsers have nothing ready.
    messages = []
    while len(answers) < replies and (answer := reader.gets(False)) is not NOT_ENOUGH_DATA:
        if type(answer) is PushNotification:
            messages.append(answer)
        elif isinstance(answer, RedisConnectionError):
            # LOADING, for example. redis-py raises it too.
            raise answer
        else:
            answers.append(answer)
    return messages


WRITTEN_AT_ONCE = 16 * 1024
"""Bytes that an event loop takes without being waited for. redis-py makes a task for each command that it sends."""


@dataclass(slots=True)
class FollowUp:
    """
    Commands to send behind others, on the same connection.

    Their replies may take ``seconds`` longer than others. ``read`` gets them; errors are exceptions, also that of a
    connection that was lost.
    """

    packed: bytes
    replies: int
    seconds: float
    read: Callable[[list[Any]], None]


FollowUpMaker = Callable[[list[Any]], FollowUp | None]
"""A function that gets the replies, and returns what to send behind them, or None."""


@dataclass(slots=True)
class Send:
    """Commands to send ``to`` the server of this pool, packed, how many replies they have, and a follow-up."""

    to: Pool
    packed: bytes
    replies: int
    follow_up: FollowUpMaker | None = None


@dataclass(slots=True)
class Pause:
    """Time to wait, in seconds; shorter if ``until`` is done earlier."""

    seconds: float
    until: Future[None] | None = None

    def __iter__(self) -> Generator[Pause, None, None]:
        yield self


# A reply belongs to its request. Anything may interrupt a request between sending and the end of the last reply: a
# time-out, the exception of a signal or a greenlet, the end of a task. Then the connection is closed. Otherwise the
# next request would read these replies. redis-py does not close all connections by itself: not those behind Sentinel.
# execute_command() is not used. It repeats by its own rules, and does much that sessions don't need.


_LOST = (*UNREACHABLE, ReadOnlyError)

_OF_CLUSTER: dict[str, type[ResponseError]] = {
    "ASK": AskError,
    "CLUSTERDOWN": ClusterDownError,
    "MASTERDOWN": MasterDownError,
    "MOVED": MovedError,
    "TRYAGAIN": TryAgainError,
}
"""Types of errors by their codes. Older redis-py gives them to the errors of its own client for clusters only."""


SECONDS_BETWEEN_LOOKS = 1
"""
While the master refuses writes for want of replicas, sentinels are asked for it once in this time: for all connections,
and for each that was opened before.
"""


def _of_its_type(error: ResponseError) -> ResponseError:
    if type(error) is not ResponseError:
        return error
    code, _, words = str(error).partition(" ")
    return _OF_CLUSTER[code](words) if code in _OF_CLUSTER else error


def is_short_of_replicas(reply: object) -> bool:
    """Tell whether a master has refused to write for want of replicas: as one does that Sentinel is about to demote."""
    return isinstance(reply, ResponseError) and str(reply).startswith("NOREPLICAS")


def _leave_master(connections: ConnectionPool, pooled: PooledConnection, answers: list[Any]) -> bool:
    """Tell whether to look for the master again after these ``answers``. Raises a ReadOnlyError that is among them."""
    for number, answer in enumerate(answers):
        if isinstance(answer, ResponseError):
            if isinstance(answer, ReadOnlyError):
                raise answer
            answers[number] = _of_its_type(answer)
            if is_short_of_replicas(answer) and connections.is_behind_sentinel:
                # In a failover, replicas leave a master seconds before it is demoted. If they are merely down, it stays
                # the master, and goes on answering reads.
                now = monotonic()
                if now >= connections.next_look_at:
                    connections.next_look_at = now + SECONDS_BETWEEN_LOOKS
                    return True
                if answers[0] is None or now >= pooled.opened_at + SECONDS_BETWEEN_LOOKS:
                    # The next user of this connection is led to the master of now. What a master does not have may be
                    # at the next one, so a miss does not wait for a second to be over.
                    pooled.master = None
    return False


def send(connections: Pool, packed: bytes, replies: int, follow_up: FollowUpMaker | None = None) -> list[Any]:
    """
    Send ``packed`` on one of the ``connections`` of a pool. Return the replies; ``replies`` is their number.

    An error among them is returned as an exception. Raises redis-py's ReadOnlyError for a master that was demoted, and
    its ConnectionError and TimeoutError. A failure of the commands that ``follow_up`` sends raises nothing.
    """
    answers = list[Any]()
    pooled = connections.acquire()
    try:
        try:
            if pooled.internals is not None:
                send_and_read(pooled.internals, packed, answers, replies)
            else:
                connection = pooled.connection
                connection.send_packed_command([packed], connection.health_check_interval)
                _read_replies(connection, answers, replies)
            if _leave_master(connections, pooled, answers):
                connections.close_idle()
            elif follow_up is None or _sent_behind(pooled.connection, follow_up(answers)):
                # Unless another request has found another master.
                pooled.is_clean = pooled.master == connections.master.address
        except _LOST:
            # The repetition would meet the next lost connection.
            connections.close_idle()
            raise
        finally:
            if not pooled.is_clean:
                pooled.close()
    finally:
        # As put_back() does. But an interruption could come before the first line of that.
        pooled.home.append(pooled)
        if connections.waiters:
            connections.serve_waiters()
    return answers


def _read_replies(connection: Any, answers: list[Any], replies: int, **options: Any) -> None:
    while len(answers) < replies:
        try:
            answers.append(connection.read_response(disable_decoding=True, **options))
        except ResponseError as error:
            answers.append(error)


def _sent_behind(connection: Any, behind: FollowUp | None) -> bool:
    """Send what comes behind. False if the connection must not be used again."""
    if behind is None:
        return True
    answers: list[Any] = []
    try:
        connection.send_packed_command([behind.packed], False)
        sock, usual = socket_of(connection), connection.socket_timeout
        longer = None if usual is None else usual + behind.seconds
        if sock is None:
            _read_replies(connection, answers, behind.replies, timeout=longer)
        else:
            usual = sock.gettimeout()
            sock.settimeout(None if usual is None else usual + behind.seconds)
            _read_replies(connection, answers, behind.replies)
            sock.settimeout(usual)
    except _LOST as error:
        answers.append(error)
    behind.read(answers)
    # A master that was demoted refuses, too.
    return not any(isinstance(answer, Exception) for answer in answers)


async def asend(
    connections: LoopPool, packed: bytes, replies: int, follow_up: FollowUpMaker | None = None
) -> list[Any]:
    """Send and read as :func:`send`, on one of the ``connections`` of an event loop."""
    answers = list[Any]()
    pooled = await connections.acquire()
    connection, internals = pooled.connection, pooled.internals
    try:
        try:
            if internals is not None and internals.write is not None and len(packed) < WRITTEN_AT_ONCE:
                internals.write(packed)
            else:
                await connection.send_packed_command([packed], connection.health_check_interval)
            while len(answers) < replies:
                try:
                    answers.append(await connection.read_response(disable_decoding=True))
                except ResponseError as error:
                    answers.append(error)
                if len(answers) < replies and internals is not None and internals.reader is not None:
                    for message in read_along(internals.reader, answers, replies):
                        await internals.parser.handle_push_response(message)
            if _leave_master(connections, pooled, answers):
                await connections.close_idle()
            elif follow_up is None or await _asent_behind(connection, follow_up(answers)):
                # Unless another request has found another master.
                pooled.is_clean = pooled.master == connections.master.address
        except _LOST:
            await connections.close_idle()
            raise
        finally:
            if not pooled.is_clean:
                await pooled.aclose()
    finally:
        pooled.home.append(pooled)
        if connections.waiters:
            connections.serve_waiters()
    return answers


async def _asent_behind(connection: Any, behind: FollowUp | None) -> bool:
    if behind is None:
        return True
    answers: list[Any] = []
    usual = connection.socket_timeout
    try:
        await connection.send_packed_command([behind.packed], False)
        # Not its argument: with that, redis-py returns None in place of an error.
        connection.socket_timeout = None if usual is None else usual + behind.seconds
        while len(answers) < behind.replies:
            try:
                answers.append(await connection.read_response(disable_decoding=True))
            except ResponseError as error:
                answers.append(error)
    except _LOST as error:
        answers.append(error)
    finally:
        connection.socket_timeout = usual
    behind.read(answers)
    return not any(isinstance(answer, Exception) for answer in answers)
