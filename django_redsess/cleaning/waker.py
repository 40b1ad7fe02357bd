"""Sleeping until a save sets a deadline that is earlier than all others."""

from __future__ import annotations

import logging
import selectors
import time
from collections.abc import Sequence
from typing import Any, Protocol

from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

from django_redsess.transport.connections import pool
from django_redsess.transport.keys import Partition
from django_redsess.transport.outage import UNREACHABLE

PATIENCE_SECONDS = 5
"""An answer may come so much later than asked for. After that, its connection counts as lost."""

logger = logging.getLogger("django_redsess")


class HasFileno(Protocol):
    def fileno(self) -> int: ...


class Waker:
    """
    Wait for the ``wake`` key of each partition: a BLPOP on a connection of its own for each.

    If a connection breaks, this wait lasts its full time, and the next one opens the connection again. The cleaner
    sends commands every few seconds anyway, and so learns of the outage.
    """

    def __init__(self, partitions: Sequence[Partition]) -> None:
        self._bells = [_Bell(partition) for partition in partitions]

    def wait(self, seconds: float, *, until: HasFileno) -> None:
        """Return after ``seconds``, or as soon as an earlier deadline appears or ``until`` can be read."""
        ends = time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(until, selectors.EVENT_READ)
            for bell in self._bells:
                bell.listen(selector, ends)
            while (left := ends - time.monotonic()) > 0:
                for key, _ in selector.select(left):
                    if key.data is None or key.data.rang(selector, ends):
                        return

    def close(self) -> None:
        """Close the connections."""
        for bell in self._bells:
            bell.close()


class _Bell:
    """The connection for one partition. Its answer may come in a later wait than the one that asked."""

    def __init__(self, partition: Partition) -> None:
        self._partition = partition
        self._connection: Any = None
        self._answer_by = 0.0
        self._warned = False

    def listen(self, selector: selectors.BaseSelector, ends: float) -> None:
        try:
            if self._connection is not None and self._answer_by and time.monotonic() > self._answer_by:
                self.close()
            if self._connection is None:
                self._connection = _connection()
                self._answer_by = 0.0
            if not self._answer_by:
                self._ask(ends)
            selector.register(self._connection._sock, selectors.EVENT_READ, self)
        except RedisError as error:
            self._failed(error)
        except BaseException:
            self.close()
            raise

    def rang(self, selector: selectors.BaseSelector, ends: float) -> bool:
        """Read the answer, and return whether it is a wake-up call. If not, ask again."""
        sock = self._connection._sock
        try:
            rang = self._connection.read_response() is not None
            self._answer_by = 0.0
            if not rang and ends > time.monotonic():
                self._ask(ends)
        except RedisError as error:
            selector.unregister(sock)
            self._failed(error)
            return False
        except BaseException:
            # The rest of this answer must not be read as the next one.
            self.close()
            raise
        return rang

    def close(self) -> None:
        if self._connection is not None:
            self._connection.disconnect()
            self._connection = None

    def _ask(self, ends: float) -> None:
        # BLPOP takes a time that rounds to 0 as: for ever.
        seconds = max(0.01, ends - time.monotonic())
        self._connection.send_command("BLPOP", self._partition.wake, f"{seconds:.3f}")
        self._answer_by = time.monotonic() + seconds + PATIENCE_SECONDS

    def _failed(self, error: RedisError) -> None:
        self.close()
        if not isinstance(error, UNREACHABLE) and not self._warned:
            self._warned = True
            logger.warning(
                "Can't wait for %s: %s. Earlier deadlines will be noticed late.", self._partition.wake, error
            )


def _connection() -> Any:
    # Like the pool's connections, but without retries. The time-outs here are for connecting: the wait for an answer
    # is in Waker.wait().
    connections = pool()
    kwargs = connections.connection_kwargs
    options: dict[str, Any] = {
        "socket_timeout": kwargs.get("socket_timeout") or PATIENCE_SECONDS,
        "socket_connect_timeout": kwargs.get("socket_connect_timeout") or PATIENCE_SECONDS,
        "retry": Retry(NoBackoff(), 0),
        "retry_on_error": [],
        "retry_on_timeout": False,
    }
    connection = connections.connection_class(**{**kwargs, **options})
    connection.connect()
    return connection
