"""How an operation ended, in one word: for labels of metrics, and for answers that are to name no address."""

from __future__ import annotations

from asyncio import CancelledError

from redis.exceptions import BusyLoadingError, OutOfMemoryError, ReadOnlyError
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from django_redsess.exceptions import SessionStoreUnavailable

OK = "ok"


def outcome_of(error: BaseException | None) -> str:
    """
    Return how an operation ended that raised ``error``; ``"ok"`` for None.

    In an outage: ``timeout`` if the server did not answer in time, ``unreachable`` if there is no connection,
    ``forbidden`` if a password or a permission is wrong, ``full``, ``read_only`` or ``no_replicas`` if the server
    refuses to write, and ``refused`` if it refuses for another reason. ``cancelled`` if the request was interrupted,
    and ``error`` for all else: a bug, or a wrong setting.
    """
    if error is None:
        return OK
    if isinstance(error, (CancelledError, GeneratorExit)):
        return "cancelled"
    if not isinstance(error, SessionStoreUnavailable):
        return "error"
    return "forbidden" if error.lasts else _refusal_of(error.__cause__)


def _refusal_of(cause: BaseException | None) -> str:
    if isinstance(cause, RedisTimeoutError):
        return "timeout"
    if isinstance(cause, RedisConnectionError) and not isinstance(cause, BusyLoadingError):
        return "unreachable"
    if isinstance(cause, OutOfMemoryError):
        return "full"
    if isinstance(cause, ReadOnlyError):
        return "read_only"
    # redis-py has no class for these. A script's error begins with the same code.
    codes = {"OOM ": "full", "NOREPLICAS ": "no_replicas", "READONLY ": "read_only"}
    return next((word for code, word in codes.items() if str(cause).startswith(code)), "refused")
