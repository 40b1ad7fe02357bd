"""
The sources of connections: pools of redis-py, one class for threads and one for event loops.

redis-py has each class of connections twice. Which options a class takes is read from its own signatures, so options of
a later redis-py reach both.

All private parts of redis-py that sessions use are in this module. With them, an exchange takes a third of the calls.
They are looked up when a connection is opened. Where one of them is missing, the exchange takes redis-py's public way.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from copy import copy
from inspect import Parameter, signature
from typing import Any, NamedTuple

import redis
import redis.asyncio
from django.core.exceptions import ImproperlyConfigured
from django.utils.module_loading import import_string
from redis.exceptions import ReadOnlyError, ResponseError
from redis.sentinel import SentinelConnectionPool

from django_redsess.conf import conf

try:
    from redis._parsers import _AsyncHiredisParser, _HiredisParser
    from redis._parsers.hiredis import NOT_ENOUGH_DATA as NOT_ENOUGH_DATA
except ImportError:  # Private names may move.
    _AsyncHiredisParser = _HiredisParser = NOT_ENOUGH_DATA = None  # type: ignore[assignment, misc]

try:
    from hiredis import PushNotification as PushNotification
except ImportError:  # None is installed, or one that does not know them.
    PushNotification: Any = None  # type: ignore[no-redef]

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
    """Make a new connection of an event loop ready, or close it and raise an error: see :func:`greet`."""
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


# HELLO without a version changes nothing, and no ACL can forbid it. A server that renames it does not tell its role.


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


OF_ANOTHER_POOL = frozenset(
    (
        *("connection_pool", "himport_registry"),
        *("maint_notifications_pool_handler", "oss_cluster_maint_notifications_handler"),
    )
)
"""Options of connections that refer to their pool, or that the pool shares with them."""


def thread_source_like(found: Any, **defaults: Any) -> Any:
    """Return a new pool of redis-py with the settings of ``found``. The two share no lock and no connection."""
    given = {name: value for name, value in found.connection_kwargs.items() if name not in OF_ANOTHER_POOL}
    options = {**defaults, **given, **keep_maintenance_off(found)}
    options |= {"connection_class": found.connection_class, "max_connections": MANY}
    if not isinstance(found, SentinelConnectionPool):
        return redis.ConnectionPool(**options)
    # The class and the other attributes may be the site's own.
    manager = copy(found.sentinel_manager)
    manager.sentinels = [
        redis.Redis(connection_pool=thread_source_like(sentinel.connection_pool)) for sentinel in manager.sentinels
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


NOT_SHARED = frozenset(
    (
        # Classes and functions that either block or await.
        *("command_packer", "encoder_class", "parser_class", "redis_connect_func", "retry"),
        # In event loops redis-py repeats nothing: this app does, once.
        *("retry_on_error", "retry_on_timeout"),
        # Shared by a pool and its own connections.
        *("connection_pool", "event_dispatcher", "himport_registry"),
        *("maint_notifications_pool_handler", "oss_cluster_maint_notifications_handler"),
        # Noted by a pool while its server is being moved.
        *("maintenance_state", "maintenance_notification_hash"),
        *("orig_host_address", "orig_socket_timeout", "orig_socket_connect_timeout"),
    )
)
"""Options that both classes take, and that can't be handed from one to the other."""

MODULE_PAIRS = ((redis.connection, redis.asyncio.connection), (redis.sentinel, redis.asyncio.sentinel))
"""The modules with redis-py's classes of connections: those of threads, and those of event loops."""

SETTING = "REDSESS['ASYNC_CONNECTION_CLASS']"


def loop_source_like(source: Any) -> Any:
    """
    Return a pool of redis-py for an event loop, with the settings of ``source``, one of threads. Nothing is connected.

    Raises ImproperlyConfigured if the connections of ``source`` have a class without counterpart, or an option that
    protects them and that the counterpart does not know.
    """
    connection_class = class_like(source.connection_class)
    if unprotected := list(filter(protects, lost_options(connection_class, source))):
        raise ImproperlyConfigured(
            f"The connections of the sessions set {', '.join(unprotected)}, which redis-py does not know in event "
            "loops: nothing is sent without that protection."
        )
    options = options_for(connection_class, source)
    options |= {"connection_class": connection_class, "redis_connect_func": agreet, "max_connections": MANY}
    if not isinstance(source, redis.sentinel.SentinelConnectionPool):
        return redis.asyncio.ConnectionPool(**options)
    # The sentinels tell the address.
    told_by = source.sentinel_manager
    manager: Any = redis.asyncio.sentinel.Sentinel([], told_by.min_other_sentinels)  # type: ignore[no-untyped-call]
    sources = [loop_source_like(sentinel.connection_pool) for sentinel in told_by.sentinels]
    manager.sentinels = [redis.asyncio.Redis(connection_pool=source) for source in sources]
    return redis.asyncio.sentinel.SentinelConnectionPool(  # type: ignore[no-untyped-call]
        source.service_name,
        manager,
        is_master=source.is_master,
        check_connection=source.check_connection,
        **options,
    )


def class_like(connection_class: Any) -> Any:
    """
    Return the class of connections of event loops that suits ``connection_class``, one of threads.

    A class of the site's own may do anything, so the setting ``ASYNC_CONNECTION_CLASS`` has to name its counterpart.
    Raises ImproperlyConfigured if it does not, or if that one derives from another class of redis-py: it would connect
    in another way, such as without TLS.
    """
    ancestors = filter(None, map(_own_counterpart_of, connection_class.__mro__))
    nearest = next(ancestors, None)
    if nearest is not None and nearest is _own_counterpart_of(connection_class):
        return nearest
    path = conf.ASYNC_CONNECTION_CLASS
    if path is None:
        raise ImproperlyConfigured(
            f"Sessions have connections of the class {_path_of(connection_class)}, and {SETTING} names no class for "
            "event loops."
        )
    try:
        named = import_string(path)
    except Exception as error:  # The module may be any code.
        raise ImproperlyConfigured(f"{SETTING}, {path!r}, can't be imported.") from error
    if not isinstance(named, type) or (nearest is not None and not issubclass(named, nearest)):
        raise ImproperlyConfigured(
            f"{SETTING}, {path!r}, does not derive from {_path_of(nearest or type)}, as the counterpart of "
            f"{_path_of(connection_class)} has to."
        )
    return named


def options_for(connection_class: Any, source: Any) -> dict[str, Any]:
    """Return those options of the pool ``source`` of threads that mean the same to ``connection_class``."""
    known, given = _options_of(connection_class), {**source.connection_kwargs, **keep_maintenance_off(source)}
    # A class that takes any option hands it to one of redis-py's, which refuses what it does not know.
    shared = (name for name in given if known.takes(name) and _is_shared(name) and not _is_of_threads(name))
    return {name: given[name] for name in shared}


def lost_options(connection_class: Any, source: Any) -> list[str]:
    """
    Name the options of the pool ``source`` of threads that do not reach ``connection_class``, and would change it.

    An option that has its default changes nothing. A ``parser_class`` has no visible effect. Another check is about
    repetitions.
    """
    defaults, known = _options_of(source.connection_class).defaults, _options_of(connection_class)
    return [
        name
        for name, value in source.connection_kwargs.items()
        if (_is_shared(name) and not known.takes(name) and value != defaults.get(name))
        or (name == "redis_connect_func" and value not in (None, greet))
    ]


def protects(option: str) -> bool:
    """Tell whether connections must not be made without this option, since it says how the server is verified."""
    return option.startswith("ssl_")


def _is_shared(name: str) -> bool:
    return name not in NOT_SHARED


def _is_of_threads(name: str) -> bool:
    """Tell whether this release of redis-py has the option for threads only."""
    classes = redis.Connection, redis.asyncio.Connection
    return [name in _options_of(each).defaults for each in classes] == [True, False]


def _own_counterpart_of(connection_class: Any) -> Any:
    """Return redis-py's own counterpart of one of its own classes; None for any other class."""
    name = connection_class.__name__
    for of_threads, of_loops in MODULE_PAIRS:
        if getattr(of_threads, name, None) is connection_class:
            return getattr(of_loops, name, None)
    return None


class _Options(NamedTuple):
    """The options that a class of connections names, with their defaults, and whether it takes any others."""

    defaults: dict[str, Any]
    takes_any: bool

    def takes(self, name: str) -> bool:
        return self.takes_any or name in self.defaults


def _options_of(connection_class: Any) -> _Options:
    found: dict[str, Any] = {}
    for each in connection_class.__mro__:
        if each is object or "__init__" not in vars(each):
            continue
        parameters = signature(each.__init__).parameters.values()
        found = {one.name: one.default for one in parameters} | found
        # Without **kwargs, nothing is handed on to the next class.
        if not any(one.kind is Parameter.VAR_KEYWORD for one in parameters):
            return _Options(found, takes_any=False)
    return _Options(found, takes_any=True)


def _path_of(found: Any) -> str:
    return f"{found.__module__}.{found.__qualname__}"


class Internals(NamedTuple):
    """The parts of an open connection: its socket, redis-py's parser with hiredis, hiredis' reader, a buffer."""

    sock: Any
    parser: Any
    reader: Any
    buffer: Any


class LoopInternals(NamedTuple):
    """
    The parts of an open connection of an event loop.

    ``at_eof`` tells whether the server has closed it. ``write`` is None for a connection that redis-py checks before it
    writes. ``parser`` and ``reader`` are None without hiredis.
    """

    at_eof: Callable[[], bool]
    write: Callable[[bytes], None] | None
    parser: Any
    reader: Any


def internals_of(connection: Any) -> Internals | None:
    """Return the internals of an open connection, or None if its exchanges take the public way."""
    parser = getattr(connection, "_parser", None)
    if parser is None or type(parser) is not _HiredisParser or connection.health_check_interval:
        return None
    line = Internals(socket_of(connection), parser, getattr(parser, "_reader", None), getattr(parser, "_buffer", None))
    return None if None in (line.sock, line.reader, line.buffer) else line


def loop_internals_of(connection: Any) -> LoopInternals | None:
    """Return the internals of an open connection of an event loop, or None if its exchanges take the public way."""
    at_eof = getattr(getattr(connection, "_reader", None), "at_eof", None)
    if at_eof is None:
        return None
    write = getattr(getattr(connection, "_writer", None), "write", None)
    parser = getattr(connection, "_parser", None)
    reader = getattr(parser, "_reader", None) if type(parser) is _AsyncHiredisParser else None
    return LoopInternals(at_eof, None if connection.health_check_interval else write, parser, reader)


def socket_of(connection: Any) -> Any:
    """Return the socket of an open connection; None if it is not known."""
    sock = getattr(connection, "_sock", None)
    # An object that only acts as a socket, as in fakeredis, has neither the methods nor the replies.
    return sock if isinstance(sock, socket.socket) else None


def retries_of(retry: Any) -> int:
    """Return how often redis-py's ``retry`` repeats a command; 1 if that is not known."""
    if hasattr(retry, "get_retries"):
        return int(retry.get_retries())
    # redis-py 5 has no public name for it.
    return int(getattr(retry, "_retries", 1))
