"""
Connections to the server that holds the sessions.

They are made with the settings of the cache ``CACHES[SESSION_CACHE_ALIAS]``: its address, credentials and time-outs.
The cache has connections of its own. So has each event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, MutableMapping, Sequence
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed

from django_redsess import forks
from django_redsess.transport import caches
from django_redsess.transport.cluster_map import Cluster
from django_redsess.transport.keys import Partition, other_store
from django_redsess.transport.pools import LoopPool, Pool, make_session_pool
from django_redsess.transport.sources import loop_source_like

_pool: Pool | Cluster | None = None
_POOLS: dict[str, Pool | Cluster] = {}
"""The pools of other stores than the settings' own, by their alias."""
_OF_ALIAS: WeakKeyDictionary[Any, Pool] = WeakKeyDictionary()
_POOL_LOCK = forks.Lock()


def pool() -> Pool | Cluster:
    """
    Return what sessions use to connect: a pool with the settings of the alias, or its cluster.

    ``pool().of(tag)`` is the pool of the server that has a partition. django-redis has one pool for each address in a
    process, and so have sessions. With the other backends, sessions have one pool for equal settings.
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
    return found if isinstance(found, Pool) else found.of(partition.tag)


def by_server(partitions: Sequence[Partition], numbers: Iterable[int]) -> dict[Pool, list[int]]:
    """Return for each server, as its pool, the ``numbers`` of those ``partitions`` that it has."""
    found: dict[Pool, list[int]] = {}
    server_of = pool().of
    for number in numbers:
        found.setdefault(server_of(partitions[number].tag), []).append(number)
    return found


def _forget_pool(*, setting: str, **kwargs: Any) -> None:
    global _pool
    if setting in ("CACHES", "SESSION_CACHE_ALIAS"):
        _pool = None
        _POOLS.clear()
    elif _pool is not None and setting == "REDSESS":
        _pool.invalidate()


setting_changed.connect(_forget_pool)


async def loop_pool(connections: Pool) -> LoopPool:
    """Return the pool of the running event loop that connects to the same server as ``connections``."""
    # The pool of a node that is not known gives nothing, here either.
    if not isinstance(connections, Pool):
        return connections
    # A connection belongs to the event loop that opened it, so each loop has pools of its own.
    loop = asyncio.get_running_loop()
    pools = _OF_LOOP.get(loop)
    if pools is None:
        with _OF_LOOP_LOCK:
            # A loop may end without notice. It would stay here for ever, since its connections refer to it.
            for closed in [other for other in _OF_LOOP if other.is_closed()]:
                del _OF_LOOP[closed]
            pools = _OF_LOOP.setdefault(loop, WeakKeyDictionary())
    known = pools.get(connections)
    if known is not None:
        return known[0]
    # A loop may have any number of requests under way, so it may have as many connections as all threads.
    make_source = partial(loop_source_like, connections.source)
    made = LoopPool(make_source, connections.max_connections, connections.wait_seconds)
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
            # Of a node that has left the cluster, the pool alone is closed.
            pools = _OF_LOOP.get(loop, {})
            for connections in [each for each, (other, _) in pools.items() if other is pool]:
                del pools[connections]
            if not pools:
                _OF_LOOP.pop(loop, None)
        manager = getattr(pool.source, "sentinel_manager", None)
        for each in (pool.source, *(sentinel.connection_pool for sentinel in (manager.sentinels if manager else ()))):
            await each.disconnect()
