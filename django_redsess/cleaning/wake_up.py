"""Sleeping until a save sets a deadline earlier than all others."""

from __future__ import annotations

import logging
import selectors
from collections.abc import Sequence
from typing import Any, Protocol

from redis.exceptions import RedisError

from django_redsess.cleaning import seconds_to_next_deadline
from django_redsess.clock import monotonic
from django_redsess.transport.attempts import notify_observers
from django_redsess.transport.cluster_map import Cluster
from django_redsess.transport.connections import pool
from django_redsess.transport.keys import Partition
from django_redsess.transport.outages import UNREACHABLE
from django_redsess.transport.sources import socket_of

PATIENCE_SECONDS = 5
"""How late an answer may come. After that, its connection counts as lost."""

POLL_SECONDS = 1
"""How often the nodes of a cluster are asked whether an earlier deadline has appeared."""

logger = logging.getLogger("django_redsess")


class HasFileno(Protocol):
    def fileno(self) -> int: ...


def make_sleeper(partitions: Sequence[Partition]) -> Sleeper:
    """Return a way to sleep until a session of these ``partitions`` is due."""
    return PollingSleeper() if partitions and isinstance(pool(), Cluster) else WakeUpSleeper(partitions)


class PollingSleeper:
    """
    Ask all partitions for their first deadlines, once a second, in one round trip to each node of a cluster.

    A cluster refuses a BLPOP for keys of several hash slots, and each partition has a slot of its own. A connection
    for each partition would be too many.
    """

    def sleep(self, seconds: float, *, until: HasFileno) -> None:
        """Return after ``seconds``, or as soon as an earlier deadline appears or ``until`` can be read."""
        ends = monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(until, selectors.EVENT_READ)
            while (left := ends - monotonic()) > 0:
                if selector.select(min(left, POLL_SECONDS)):
                    return
                if left > POLL_SECONDS and (due_in := seconds_to_next_deadline()) is not None:
                    ends = min(ends, monotonic() + due_in)

    def close(self) -> None:
        pass


class WakeUpSleeper:
    """
    Wait for the ``wake`` keys of all ``partitions`` of the only server, by one BLPOP on a connection of its own.

    An answer may arrive in a later wait than the one that asked for it. If the connection breaks, the present wait
    lasts its full time. The next wait opens the connection again. The cleaner learns of the outage anyway, because it
    sends commands every few seconds.
    """

    def __init__(self, partitions: Sequence[Partition]) -> None:
        self._keys = [partition.wake for partition in partitions]
        self._connection: Any = None
        self._asked_at = self._answer_by = 0.0
        self._warned = False

    def sleep(self, seconds: float, *, until: HasFileno) -> None:
        """Return after ``seconds``, or as soon as an earlier deadline appears or ``until`` can be read."""
        ends = monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(until, selectors.EVENT_READ)
            if self._keys and not self._listen(selector, ends):
                PollingSleeper().sleep(seconds, until=until)
                return
            while (left := ends - monotonic()) > 0:
                for key, _ in selector.select(left):
                    if key.fileobj is until or self._is_called(selector, ends):
                        return

    def close(self) -> None:
        if self._connection is not None:
            self._connection.disconnect()
            self._connection = None

    def _listen(self, selector: selectors.BaseSelector, ends: float) -> bool:
        """Register the connection with ``selector``. Return False if it has no socket to wait for."""
        try:
            if self._connection is not None and self._answer_by and monotonic() > self._answer_by:
                self.close()
            if self._connection is None:
                self._asked_at = monotonic()
                self._connection = _open_connection()
                self._answer_by = 0.0
            sock = socket_of(self._connection)
            if sock is None:
                return False
            if not self._answer_by:
                self._send_blpop(ends)
            selector.register(sock, selectors.EVENT_READ)
        except RedisError as error:
            self._note_failure(error)
        except BaseException:
            self.close()
            raise
        return True

    def _is_called(self, selector: selectors.BaseSelector, ends: float) -> bool:
        """Read the answer, and return whether it is a wake-up call. If not, ask again."""
        sock = socket_of(self._connection)
        try:
            is_called = self._connection.read_response() is not None
            self._answer_by = 0.0
            notify_observers("wait", pool().any_node(), self._asked_at, None, "BLPOP")
            if not is_called and ends > monotonic():
                self._send_blpop(ends)
        except RedisError as error:
            selector.unregister(sock)
            self._note_failure(error)
            return False
        except BaseException:
            # The rest of this answer must not be read as the next one.
            self.close()
            raise
        return is_called

    def _send_blpop(self, ends: float) -> None:
        # BLPOP waits for ever if its time-out rounds to 0.
        self._asked_at = monotonic()
        seconds = max(0.01, ends - self._asked_at)
        self._connection.send_command("BLPOP", *self._keys, f"{seconds:.3f}")
        self._answer_by = monotonic() + seconds + PATIENCE_SECONDS

    def _note_failure(self, error: RedisError) -> None:
        self.close()
        notify_observers("wait", pool().any_node(), self._asked_at, error, "BLPOP")
        if not isinstance(error, UNREACHABLE) and not self._warned:
            self._warned = True
            logger.warning("Can't wait for %s: %s. Earlier deadlines will be noticed late.", self._keys[0], error)


Sleeper = PollingSleeper | WakeUpSleeper
"""A cleaner sleeps by either."""


def _open_connection() -> Any:
    # The time-outs here are only for connecting: WakeUpSleeper.sleep() waits for the answers.
    connections = pool().any_node()
    timeouts = {
        name: connections.connection_kwargs.get(name) or PATIENCE_SECONDS
        for name in ("socket_timeout", "socket_connect_timeout")
    }
    connection = connections.make_separate_connection(**timeouts)
    connection.connect()
    return connection
