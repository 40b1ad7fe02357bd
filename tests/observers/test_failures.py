"""What traces say of an error: its cause, its code, and nothing of its text."""

import asyncio

import pytest
from redis import exceptions

from django_redsess.exceptions import SessionStoreUnavailable
from django_redsess.observers.failures import Failure, failure_of

pytestmark = pytest.mark.unit


def outage_by(cause: Exception) -> SessionStoreUnavailable:
    outage = SessionStoreUnavailable("The server that holds the sessions can't be reached.")
    outage.__cause__ = cause
    return outage


@pytest.mark.parametrize(
    ("error", "failure"),
    [
        (asyncio.CancelledError(), Failure("cancelled", "", "cancelled")),
        (GeneratorExit(), Failure("cancelled", "", "cancelled")),
        (exceptions.TimeoutError("after 0.5 s"), Failure("timeout", "", "redis.exceptions.TimeoutError")),
        (exceptions.ConnectionError("host"), Failure("unreachable", "", "redis.exceptions.ConnectionError")),
        (outage_by(exceptions.ConnectionError()), Failure("unreachable", "", "redis.exceptions.ConnectionError")),
        (outage_by(exceptions.OutOfMemoryError("too much")), Failure("full", "OOM", "OOM")),
        (exceptions.ReadOnlyError("replica"), Failure("read_only", "READONLY", "READONLY")),
        (outage_by(exceptions.MovedError("1 10.0.0.1:6379")), Failure("refused", "MOVED", "MOVED")),
        (exceptions.ResponseError("WRONGTYPE Operation"), Failure("error", "WRONGTYPE", "WRONGTYPE")),
        (
            outage_by(exceptions.ResponseError("NOREPLICAS few")),
            Failure("no_replicas", "NOREPLICAS", "NOREPLICAS"),
        ),
        (exceptions.ResponseError("unknown command 'HGET'"), Failure("error", "ERR", "ERR")),
        (ValueError("text"), Failure("error", "", "ValueError")),
        (SessionStoreUnavailable(), Failure("error", "", "django_redsess.exceptions.SessionStoreUnavailable")),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else value.type,
)
def test_an_error_has_an_outcome_a_code_and_a_type(error: BaseException, failure: Failure) -> None:
    # As with older releases of redis-py, which keep no code.
    assert failure_of(error) == failure


def test_a_code_that_redis_py_keeps_is_used() -> None:
    error = exceptions.AuthenticationError("invalid username-password pair")
    error.status_code = "WRONGPASS"
    outage = outage_by(error)
    outage.lasts = True
    assert failure_of(outage) == Failure("forbidden", "WRONGPASS", "WRONGPASS")
