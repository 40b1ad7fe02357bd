"""Sessions as requests open them, and when they are due."""

import redis as redis_py

from django_redsess.backend import SessionStore
from django_redsess.session.client import Client
from django_redsess.session.state import Visit
from django_redsess.transport.keys import keyspace


def opened(session: SessionStore | str, *, passive: bool = False) -> SessionStore:
    """Read the session as a request does."""
    found = SessionStore(session if isinstance(session, str) else session.session_key)
    found.visit = Visit(lambda: Client("192.0.2.1", "Mozilla"), passive=passive)
    found.get("anything")
    return found


def due(redis: redis_py.Redis, session: SessionStore) -> float:
    return float(redis.zscore(keyspace().of_sid(str(session.sid)).expire, session.sid))


def now(redis: redis_py.Redis) -> float:
    """Return the server's time, in milliseconds."""
    seconds, microseconds = redis.time()
    return float(seconds * 1000 + microseconds / 1000)


def left(redis: redis_py.Redis, session: SessionStore) -> float:
    """Return how many seconds the session has until its deadline."""
    return (due(redis, session) - now(redis)) / 1000
