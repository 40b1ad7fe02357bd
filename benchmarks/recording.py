"""The ways to record a page view that are compared: the engine's, and those of the listing of *Redis in Action*."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import redis

from benchmarks.fill import USER_AGENT
from benchmarks.targets import LISTING
from django_redsess import viewed
from django_redsess.backend import SessionStore
from django_redsess.record import Client

HISTORY = 25
"""How many viewed items are kept for a session, by either."""

SESSIONS_AT_ONCE = 500
CLIENT = Client("192.0.2.1", USER_AGENT)


def update_token(conn: redis.Redis, token: str, user: str, item: str | None = None) -> None:
    """Do what update_token in Redis in Action does, with the arguments of ``zadd`` in today's order."""
    timestamp = time.time()
    conn.hset("login:", token, user)
    conn.zadd("recent:", {token: timestamp})
    if item:
        conn.zadd("viewed:" + token, {item: timestamp})
        conn.zremrangebyrank("viewed:" + token, 0, -26)
        conn.zincrby("viewed:", -1, item)


def update_token_at_once(conn: redis.Redis, token: str, user: str, item: str, *, transaction: bool) -> None:
    """Do the same with one round trip."""
    with conn.pipeline(transaction=transaction) as together:
        update_token(together, token, user, item)
        together.execute()


def record(conn: redis.Redis, token: str, user: str, item: str) -> None:
    """Have the engine record a view of a session that a request opened. ``token`` is its session key."""
    session = SessionStore(token)
    session.opened_by(lambda: CLIENT)
    assert viewed.record(session, item)


class Way(NamedTuple):
    """How to record a view: ``REDSESS`` of the engine, None for the listing."""

    view: Callable[[redis.Redis, str, str, str], object]
    settings: dict[str, Any] | None = None


PIPELINE = "listing in one pipeline"
BASES = LISTING, PIPELINE
"""What the others are compared with."""

WAYS = {
    LISTING: Way(update_token),
    "listing, again": Way(update_token),
    PIPELINE: Way(partial(update_token_at_once, transaction=False)),
    "listing in one MULTI/EXEC": Way(partial(update_token_at_once, transaction=True)),
    "engine, every view noted": Way(record, {"TOUCH_INTERVAL": 0}),
    "engine, sliding": Way(record, {"SLIDING": True}),
    "engine, defaults": Way(record, {}),
}
