"""A system check of what a site and its store must agree on. It only reads."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from django.core import checks
from redis.exceptions import RedisError

from django_redsess.checks.server import ASKS_SERVER, may_ask
from django_redsess.checks.settings import error
from django_redsess.transport import agreement, connections, exchange
from django_redsess.transport.keys import keyspace

NUMBERS = {"partitions": "E043", "secret key": "E044", "format": "E045"}


@checks.register(ASKS_SERVER)
def check_agreement(**kwargs: Any) -> list[checks.CheckMessage]:
    """Refuse PARTITIONS, a SECRET_KEY or a release that do not suit the store: every request would fail."""
    if not may_ask():
        return []
    # What does not answer, or refuses, is told by check_server.
    with suppress(RedisError, OSError):
        space = keyspace()
        connections.pool().nodes()
        server = connections.of(space.agreement)
        stored = exchange.ask(server, "HMGET", space.agreement.meta, "partitions", "format", "keys")
        if fault := agreement.fault_in(space, stored):
            return [error(NUMBERS[fault.about], fault.message, fault.hint)]
    return []
