"""What tests do behind the engine's back: turn the clock of a session, and count what is stored."""

from __future__ import annotations

import redis

from django_redsess import store


def make_due(client: redis.Redis, *sids: str) -> None:
    """Move the deadline of these sessions into the past, as if their time had run out."""
    for sid in sids:
        client.zadd(store.keyspace().of_sid(sid).expire, {sid: 1})


def make_seen(client: redis.Redis, sid: str, milliseconds: int) -> None:
    """Say that the signed-in session ``sid`` was last seen then."""
    partition = store.keyspace().of_sid(sid)
    client.zadd(partition.recent, {sid: milliseconds})
    client.zadd(partition.online_seen, {sid: milliseconds})


def stored(client: redis.Redis) -> int:
    """Count the sessions that are stored, due ones and guests' too."""
    return sum(client.hlen(partition.login) for partition in store.keyspace().partitions)
