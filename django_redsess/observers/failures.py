"""What traces say of an operation that failed: of which kind it is, and no text of it, which may name addresses."""

from __future__ import annotations

import asyncio
import re
from typing import NamedTuple

from redis import exceptions
from redis.exceptions import RedisError, ResponseError

from django_redsess.exceptions import SessionStoreUnavailable

_CODES: dict[type[RedisError], str] = {
    exceptions.AskError: "ASK",
    exceptions.BusyLoadingError: "LOADING",
    exceptions.ClusterDownError: "CLUSTERDOWN",
    exceptions.MasterDownError: "MASTERDOWN",
    exceptions.MovedError: "MOVED",
    exceptions.NoPermissionError: "NOPERM",
    exceptions.NoScriptError: "NOSCRIPT",
    exceptions.OutOfMemoryError: "OOM",
    exceptions.ReadOnlyError: "READONLY",
    exceptions.TryAgainError: "TRYAGAIN",
}
"""redis-py takes these prefixes off the texts of errors. Before version 6 it tells them nowhere else."""


class Failure(NamedTuple):
    """
    ``kind`` is ``"cancelled"``, ``"timeout"``, ``"unreachable"``, ``"refused"`` or ``"other"``.

    ``code`` is the prefix of the server's error, such as ``"OOM"``; ``""`` if it answered with none. ``type`` is the
    most that is known: the prefix, the name of the exception, or ``"cancelled"``.
    """

    kind: str
    code: str
    type: str


def failure_of(error: BaseException) -> Failure:
    """Return how an operation has failed that raised ``error``."""
    cause = error.__cause__ if isinstance(error, SessionStoreUnavailable) and error.__cause__ else error
    # Steps whose task is cancelled are closed.
    if isinstance(cause, (asyncio.CancelledError, GeneratorExit)):
        return Failure("cancelled", "", "cancelled")
    code = _code_of(cause) if isinstance(cause, RedisError) else ""
    name = type(cause).__qualname__
    if type(cause).__module__ != "builtins":
        name = f"{type(cause).__module__}.{name}"
    if isinstance(cause, exceptions.TimeoutError):
        kind = "timeout"
    elif code:
        kind = "refused"
    else:
        kind = "unreachable" if isinstance(cause, exceptions.ConnectionError) else "other"
    return Failure(kind, code, code or name)


def _code_of(error: RedisError) -> str:
    known = getattr(error, "status_code", None) or _CODES.get(type(error))
    if known:
        return str(known)
    if not isinstance(error, ResponseError):
        return ""
    prefix = re.match(r"[A-Z]{3,}(?= )", str(error))
    return prefix[0] if prefix else "ERR"
