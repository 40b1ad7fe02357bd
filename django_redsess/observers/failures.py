"""How an operation failed, in words that name no address: for metrics, for traces, and for the answer of ``/ready``."""

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
"""redis-py takes these prefixes off the texts of errors. Before version 6 they are nowhere else."""


_OUTCOMES = {"OOM": "full", "READONLY": "read_only", "NOREPLICAS": "no_replicas"}


class Failure(NamedTuple):
    """
    ``outcome`` is one word. ``"timeout"`` if the server did not answer in time, ``"unreachable"`` if there is no
    connection, ``"forbidden"`` if a password or a permission is wrong; ``"full"``, ``"read_only"`` or ``"no_replicas"``
    if the server refuses to write, and ``"refused"`` if it refuses for another reason. ``"cancelled"`` if the request
    was interrupted, and ``"error"`` for all else: a bug, or a wrong setting.

    ``code`` is the prefix of the server's error, such as ``"OOM"``; ``""`` if it answered with none. ``type`` is the
    most that is known: the prefix, the name of the exception, or ``"cancelled"``.
    """

    outcome: str
    code: str
    type: str


def failure_of(error: BaseException) -> Failure:
    """Return how an operation that raised ``error`` has failed."""
    is_outage = isinstance(error, SessionStoreUnavailable)
    cause = error.__cause__ or error if is_outage else error
    # Steps whose task is cancelled are closed.
    if isinstance(cause, (asyncio.CancelledError, GeneratorExit)):
        return Failure("cancelled", "", "cancelled")
    code = _code_of(cause) if isinstance(cause, RedisError) else ""
    name = type(cause).__qualname__
    if type(cause).__module__ != "builtins":
        name = f"{type(cause).__module__}.{name}"
    if isinstance(error, SessionStoreUnavailable) and error.lasts:
        outcome = "forbidden"
    elif isinstance(cause, exceptions.TimeoutError):
        outcome = "timeout"
    elif code:
        outcome = _OUTCOMES.get(code, "refused" if is_outage else "error")
    else:
        outcome = "unreachable" if isinstance(cause, exceptions.ConnectionError) else "error"
    return Failure(outcome, code, code or name)


def _code_of(error: RedisError) -> str:
    known = getattr(error, "status_code", None) or _CODES.get(type(error))
    if known:
        return str(known)
    if not isinstance(error, ResponseError):
        return ""
    prefix = re.match(r"[A-Z]{3,}(?= )", str(error))
    return prefix[0] if prefix else "ERR"
