"""Which errors of the other store are an outage of it."""

from __future__ import annotations

from django.db import InterfaceError, OperationalError
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

from django_redsess.transport.outage import is_foreign

CLIENTS = ("django_redis", "django_valkey", "pylibmc", "pymemcache", "valkey")
"""Packages whose errors are told by their names, since they may not be installed."""

NAMES = ("ConnectionError", "ConnectionInterrupted", "MemcacheError", "Error", "ResponseError", "TimeoutError")


def is_outage(error: BaseException | None) -> bool:
    """Tell whether the other store can't be reached, or refuses. A value of another type in Redis is no outage."""
    if is_foreign(error) or isinstance(error, FileNotFoundError):
        return False
    if isinstance(
        error, (InterfaceError, OperationalError, OSError, RedisConnectionError, RedisTimeoutError, ResponseError)
    ):
        return True
    return any(each.__module__.partition(".")[0] in CLIENTS and each.__name__ in NAMES for each in type(error).__mro__)
