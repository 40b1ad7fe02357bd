"""
The connections of event loops: redis-py's asynchronous pools, with the class and the options of those of threads.

redis-py has each class twice. Which options a class takes is read from its own signatures, so those that a later
redis-py brings reach both.
"""

from __future__ import annotations

from inspect import Parameter, signature
from typing import Any, NamedTuple

import redis
import redis.asyncio
from django.core.exceptions import ImproperlyConfigured
from django.utils.module_loading import import_string

from django_redsess.conf import conf
from django_redsess.transport.pools import MANY, agreet, greet, keep_maintenance_off

OF_ONE_HALF = frozenset(
    (
        # Classes and functions that wait in one of the two ways.
        *("command_packer", "encoder_class", "parser_class", "redis_connect_func", "retry"),
        # Event loops repeat nothing by redis-py: this app does, once.
        *("retry_on_error", "retry_on_timeout"),
        # Shared by a pool and its own connections.
        *("connection_pool", "event_dispatcher", "himport_registry"),
        *("maint_notifications_pool_handler", "oss_cluster_maint_notifications_handler"),
        # Noted by a pool while its server is being moved.
        *("maintenance_state", "maintenance_notification_hash"),
        *("orig_host_address", "orig_socket_timeout", "orig_socket_connect_timeout"),
    )
)
"""Options that both classes take, and that mean nothing to the other one."""

TWICE = ((redis.connection, redis.asyncio.connection), (redis.sentinel, redis.asyncio.sentinel))
"""The modules with redis-py's classes of connections: those of threads, and those of event loops."""

SETTING = "REDSESS['ASYNC_CONNECTION_CLASS']"


def source_like(source: Any) -> Any:
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
    manager.sentinels = [
        redis.asyncio.Redis(connection_pool=source_like(sentinel.connection_pool)) for sentinel in told_by.sentinels
    ]
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
    ancestors = filter(None, map(_twin_of, connection_class.__mro__))
    nearest = next(ancestors, None)
    if nearest is not None and nearest is _twin_of(connection_class):
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
    return {name: value for name, value in given.items() if known.has(name) and _is_shared(name)}


def lost_options(connection_class: Any, source: Any) -> list[str]:
    """
    Name the options of the pool ``source`` of threads that do not reach ``connection_class``, and would change it.

    One that has its default changes nothing. A ``parser_class`` has no effect that could be seen, and repetitions are
    another check's.
    """
    defaults, known = _options_of(source.connection_class).defaults, _options_of(connection_class)
    return [
        name
        for name, value in source.connection_kwargs.items()
        if (_is_shared(name) and not known.has(name) and value != defaults.get(name))
        or (name == "redis_connect_func" and value not in (None, greet))
    ]


def protects(option: str) -> bool:
    """Tell whether connections must not be made without this option: it says how the server is verified."""
    return option.startswith("ssl_")


def _is_shared(name: str) -> bool:
    return name not in OF_ONE_HALF


def _twin_of(connection_class: Any) -> Any:
    """Return redis-py's own counterpart of one of its own classes; None for any other class."""
    name = connection_class.__name__
    for of_threads, of_loops in TWICE:
        if getattr(of_threads, name, None) is connection_class:
            return getattr(of_loops, name, None)
    return None


class _Options(NamedTuple):
    """The options that a class of connections names, with their defaults, and whether it takes any others."""

    defaults: dict[str, Any]
    takes_any: bool

    def has(self, name: str) -> bool:
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
