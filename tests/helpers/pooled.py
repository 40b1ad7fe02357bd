"""Connections of a pool, taken and returned as a request does."""

from typing import Any

from django_redsess.transport.pools import PooledConnection


def take(pool: Any) -> PooledConnection:
    """Return a connection that is ready."""
    taken: PooledConnection = pool.acquire()
    return taken


async def atake(pool: Any) -> PooledConnection:
    """Return a connection of an event loop that is ready."""
    taken: PooledConnection = await pool.acquire()
    return taken


def give(pool: Any, pooled: PooledConnection) -> None:
    """Return a connection whose replies have all been read."""
    pooled.is_clean = pooled.master == pool.master.address
    pool.put_back(pooled)
