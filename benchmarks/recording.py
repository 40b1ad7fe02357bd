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
from django_redsess.session.record import Client
from django_redsess.session.saving import Visit

HISTORY = 25
"""How many viewed items a session keeps, in all ways."""

SESSIONS_AT_ONCE = 500
CLIENT = Client("192.0.2.1", USER_AGENT)


def update_token(conn: redis.Redis, token: str, user: str, item: str | None = None) -> None:
    """Do what update_token in *Redis in Action* does; only the arguments of ``zadd`` have today's order."""
    timestamp = time.time()
    conn.hset("login:", token, user)
    conn.zadd("recent:", {token: timestamp})
    if item:
        conn.zadd("viewed:" + token, {item: timestamp})
        conn.zremrangebyrank("viewed:" + token, 0, -26)
        conn.zincrby("viewed:", -1, item)


def update_token_at_once(conn: redis.Redis, token: str, user: str, item: str, *, transaction: bool) -> None:
    """Do the same in one round trip."""
    with conn.pipeline(transaction=transaction) as together:
        update_token(together, token, user, item)
        together.execute()


def record(conn: redis.Redis, token: str, user: str, item: str) -> None:
    """Record a view with the engine, as a request does. ``token`` is the session key."""
    session = SessionStore(token)
    session.visit = Visit(lambda: CLIENT)
    assert viewed.record(session, item)


class Way(NamedTuple):
    """How to record a view. ``settings`` are the engine's ``REDSESS``; the listing has None."""

    view: Callable[[redis.Redis, str, str, str], object]
    settings: dict[str, Any] | None = None


PIPELINE = "listing in one pipeline"
BASES = LISTING, PIPELINE
"""The ways that the others are compared with."""

WAYS = {
    LISTING: Way(update_token),
    "listing, again": Way(update_token),
    PIPELINE: Way(partial(update_token_at_once, transaction=False)),
    "listing in one MULTI/EXEC": Way(partial(update_token_at_once, transaction=True)),
    "engine, every view noted": Way(record, {"TOUCH_INTERVAL": 0}),
    "engine, sliding": Way(record, {"SLIDING": True}),
    "engine, defaults": Way(record, {}),
}
