"""Outages of the other store: which errors are one, what is raised and logged for it, and broken connections."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from django.contrib.sessions.backends.base import UpdateError
from django.db import InterfaceError, OperationalError, connections
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

from django_redsess.exceptions import SessionStoreUnavailable
from django_redsess.transport.causes import words_of
from django_redsess.transport.outages import Outages, is_foreign

T = TypeVar("T")

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


def ask_other_store(function: Callable[[], T]) -> T:
    """
    Return the result of ``function``, which asks the other store. Raises SessionStoreUnavailable in an outage of it.

    A connection of Django's that broke is closed: the next query opens another one.
    """
    try:
        result = function()
    except Exception as error:
        # Django's database engine takes an outage for a row that is gone.
        cause: BaseException | None = error.__context__ if isinstance(error, UpdateError) else error
        if not isinstance(cause, Exception) or not is_outage(cause):
            raise
        if isinstance(cause, OSError) and cause.filename is not None:
            # A file's name has the key.
            cause = OSError(cause.errno, cause.strerror)
        _close_broken()
        _the_other.out_of_reach.note_failure("", cause)
        raised = SessionStoreUnavailable("The other store, from which sessions move here, can't be reached.")
        raised.cause = f"{raised} {words_of(cause)}"
        raised.setting = "REDSESS['MOVE_FROM'] names the other store: look at its own settings, and whether it runs."
        raise raised from cause
    if _the_other.under_way:
        _the_other.finish("are reached again")
    return result


def _close_broken() -> None:
    for connection in connections.all(initialized_only=True):
        if connection.errors_occurred and not connection.in_atomic_block:
            connection.close()


_the_other = Outages("the other store")
