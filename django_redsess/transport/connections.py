"""
Connections to the server that holds the sessions.

The connections are those of the django-redis cache ``CACHES[SESSION_CACHE_ALIAS]``, with its address, credentials and
time-outs. Each event loop has an asyncio client with the same options.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, MutableMapping
from typing import Any
from weakref import WeakKeyDictionary

import redis
import redis.asyncio
from django.conf import settings
from django.core.signals import setting_changed
from django_redis import get_redis_connection

from django_redsess.transport.cluster import Cluster
from django_redsess.transport.greeting import agreet
from django_redsess.transport.keys import Partition
from django_redsess.transport.pools import LoopPool, SentinelLoopPool, Shared, share

_pool: Any = None
_POOL_LOCK = threading.Lock()


def pool() -> Any:
    """
    Return what sessions use to connect: the pool of the alias, or its cluster.

    ``pool().of(tag)`` is the pool of the server that has a partition. django-redis has one pool for each address in a
    process.
    """
    global _pool
    if _pool is None:
        found = get_redis_connection(settings.SESSION_CACHE_ALIAS).connection_pool
        with _POOL_LOCK:
            if not isinstance(found, (Shared, Cluster)):
                share(found)
        _pool = found
    return _pool


def of(partition: Partition) -> Any:
    """Return the pool of the server that has ``partition``, with its clock and its outages."""
    return (_pool or pool()).of(partition.tag)


def _forget_pool(*, setting: str, **kwargs: Any) -> None:
    global _pool
    if setting in ("CACHES", "SESSION_CACHE_ALIAS"):
        _pool = None


setting_changed.connect(_forget_pool)


async def loop_pool(connections: Any) -> Any:
    """Return the pool of the running event loop that connects to the same server as ``connections``."""
    # The pool of a node that is not known gives nothing, here either.
    return (await _asyncio_client(connections)).connection_pool if isinstance(connections, Shared) else connections


_Clients = MutableMapping[Any, tuple[redis.asyncio.Redis, Any]]
_OF_LOOP: WeakKeyDictionary[asyncio.AbstractEventLoop, _Clients] = WeakKeyDictionary()
_OF_LOOP_LOCK = threading.Lock()

# The options that mean the same in both halves of redis-py. The others (parser, retries, what the pools tell each
# other) are each half's own.
_COMMON_OPTIONS = frozenset(
    (
        *("host", "port", "path", "db", "username", "password", "credential_provider", "client_name", "protocol"),
        *("socket_timeout", "socket_connect_timeout", "socket_keepalive", "socket_keepalive_options"),
        *("ssl_keyfile", "ssl_certfile", "ssl_password", "ssl_ca_certs", "ssl_ca_data", "ssl_ca_path", "ssl_cert_reqs"),
        *("ssl_check_hostname", "ssl_min_version", "ssl_ciphers", "health_check_interval"),
    )
)


async def _asyncio_client(connections: Any) -> redis.asyncio.Redis:
    # A connection belongs to the event loop that opened it, so each loop has a client of its own.
    loop = asyncio.get_running_loop()
    clients = _OF_LOOP.get(loop)
    if clients is None:
        with _OF_LOOP_LOCK:
            # A loop may end without notice. It would stay here for ever, since its connections refer to it.
            for closed in [other for other in _OF_LOOP if other.is_closed()]:
                del _OF_LOOP[closed]
            clients = _OF_LOOP.setdefault(loop, WeakKeyDictionary())
    if connections not in clients:
        client = _asyncio_twin(connections)
        lifetime = _lifetime(client)
        clients[connections] = client, lifetime
        await anext(lifetime)
    return clients[connections][0]


async def _lifetime(client: redis.asyncio.Redis) -> AsyncGenerator[None]:
    # An event loop that ends closes the asynchronous generators that are under way in it. There is no other notice.
    try:
        yield
    finally:
        loop = asyncio.get_running_loop()
        with _OF_LOOP_LOCK:
            # Of a node that has left the cluster, the client alone is closed.
            clients = _OF_LOOP.get(loop, {})
            for connections in [each for each, (other, _) in clients.items() if other is client]:
                del clients[connections]
            if not clients:
                _OF_LOOP.pop(loop, None)
        manager = getattr(client.connection_pool, "sentinel_manager", None)
        for each in (client, *(manager.sentinels if manager else ())):
            await each.connection_pool.disconnect()


def _asyncio_twin(pool: Any) -> redis.asyncio.Redis:
    options = {name: value for name, value in pool.connection_kwargs.items() if name in _COMMON_OPTIONS}
    options["redis_connect_func"] = agreet
    # A loop may have any number of requests under way, and not only as many as a process has threads. So a task waits
    # for a free connection, as long as the pool says, or else as long as for a reply.
    waiting = {
        "max_connections": pool.max_connections,
        "timeout": getattr(pool, "timeout", options.get("socket_timeout")),
    }
    if isinstance(pool, redis.sentinel.SentinelConnectionPool):  # The sentinels tell the address.
        sentinels = [_asyncio_twin(sentinel.connection_pool) for sentinel in pool.sentinel_manager.sentinels]
        ssl = issubclass(pool.connection_class, redis.sentinel.SentinelManagedSSLConnection)
        manager: Any = redis.asyncio.sentinel.Sentinel([], ssl=ssl, **options)  # type: ignore[no-untyped-call]
        manager.sentinels = sentinels
        master: redis.asyncio.Redis = manager.master_for(
            pool.service_name, connection_pool_class=SentinelLoopPool, **waiting
        )
        return master
    connection_class = getattr(redis.asyncio.connection, pool.connection_class.__name__)
    return redis.asyncio.Redis(connection_pool=LoopPool(connection_class=connection_class, **waiting, **options))
