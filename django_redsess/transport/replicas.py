"""Ends that replicas confirm: the setting ``CONFIRM_ENDS``.

Behind a script that ended sessions, ``WAIT`` is sent on the same connection. Its reply is the number of replicas that
have received all that this connection has written so far.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from functools import partial
from typing import Any, TypedDict

from redis.exceptions import ResponseError

from django_redsess import forks
from django_redsess.conf import conf
from django_redsess.signals import EndedSession, Reason
from django_redsess.transport.causes import words_of
from django_redsess.transport.connections import FollowUp, server_of
from django_redsess.transport.keys import Partition
from django_redsess.transport.packing import pack_command

logger = logging.getLogger("django_redsess")


class Confirmation:
    """
    How many replicas hold what an operation has ended, by one script or several.

    ``confirmed_by`` is the least of the counts, or None before the first one. With ``only``, only scripts that ended
    sessions for this reason count. Otherwise all do, since the sessions may have ended before.
    """

    def __init__(self, replicas: int, milliseconds: int, only: Reason | None = None) -> None:
        self.confirmed_by: int | None = None
        self._replicas, self._milliseconds, self._only = replicas, milliseconds, only

    @property
    def is_short(self) -> bool:
        """Whether too few replicas have confirmed."""
        return self.confirmed_by is not None and self.confirmed_by < self._replicas

    def follow_up(self, partition: Partition, replies: list[Any]) -> FollowUp | None:
        """Return what to send behind a script of ``partition`` that has got these replies."""
        reply = replies[-1]
        if isinstance(reply, ResponseError):
            return None
        reasons = reply[2::3]
        if self._only and self._only.encode() not in reasons:
            return None
        # An operation waits in vain only once.
        milliseconds = 1 if self.is_short else self._milliseconds
        packed, reply_count = pack_command("WAIT", self._replicas, milliseconds), 1
        if not reasons:
            # The script may have written nothing, and Valkey does not wait for writes of other connections. So this
            # connection writes a count that stays the same.
            packed, reply_count = pack_command("HINCRBY", partition.totals, Reason.KICKED, 0) + packed, 2
        return FollowUp(
            packed, reply_count, milliseconds / 1000, partial(self._note_count, server_of(partition).outages.of)
        )

    def _note_count(self, of_node: str, replies: list[Any]) -> None:
        errors = [reply for reply in replies if isinstance(reply, Exception)]
        count = 0 if errors else int(replies[-1])
        self.confirmed_by = count if self.confirmed_by is None else min(count, self.confirmed_by)
        _log_shortage(of_node, count, self._replicas, *errors[:1])


def confirmation(only: Reason | None = None) -> Confirmation | None:
    """Return a new confirmation, or None without the setting ``CONFIRM_ENDS``."""
    asked = conf.CONFIRM_ENDS
    if asked is None:
        return None
    replicas, milliseconds = asked
    return Confirmation(replicas, milliseconds, only)


class ReplicaStatus(TypedDict):
    """How many replicas hold an end: see :class:`EndedList`."""

    confirmed_by: int | None
    may_return: bool


def replica_status(confirmation: Confirmation | None) -> ReplicaStatus:
    """Return the status of an end by its ``confirmation``. None stands for an end that asks no replica."""
    if confirmation is None:
        return {"confirmed_by": None, "may_return": False}
    return {"confirmed_by": confirmation.confirmed_by, "may_return": confirmation.is_short}


class EndedList(list[EndedSession]):
    """
    The sessions that have ended, and how many replicas hold that.

    With the setting ``CONFIRM_ENDS``, ``confirmed_by`` is the number of replicas that held the end in memory when the
    server answered. It survives a failover that promotes one of them. ``may_return`` is True if these are fewer than
    ``CONFIRM_ENDS`` asks for: the sessions are ended, and may return after a failover. Repeat to check replication
    again. Without the setting, ``confirmed_by`` is None, and ``may_return`` False.
    """

    def __init__(
        self, ended: Iterable[EndedSession] = (), confirmed_by: int | None = None, may_return: bool = False
    ) -> None:
        super().__init__(ended)
        self.confirmed_by, self.may_return = confirmed_by, may_return


class EndedCount(int):
    """How many sessions have ended: an integer with ``confirmed_by`` and ``may_return``, as :class:`EndedList` has."""

    confirmed_by: int | None
    may_return: bool

    def __new__(cls, count: int, confirmed_by: int | None = None, may_return: bool = False) -> EndedCount:
        made = super().__new__(cls, count)
        made.confirmed_by, made.may_return = confirmed_by, may_return
        return made


_LOCK = forks.Lock()
_short_of_replicas: set[str] = set()


def _log_shortage(of_node: str, count: int, wanted: int, error: Exception | None = None) -> None:
    # Logged once when a shortage begins, and once when it is over.
    with _LOCK:
        was_short, is_short = of_node in _short_of_replicas, count < wanted
        (_short_of_replicas.add if is_short else _short_of_replicas.discard)(of_node)
    if is_short and not was_short:
        why = f" ({type(error).__name__}: {words_of(error)})" if error is not None else ""
        text = "Sessions%s that end may return after a failover: %d of %d replicas confirm it%s."
        logger.warning(text, of_node, count, wanted, why)
    elif was_short and not is_short:
        logger.info("Sessions%s that end are confirmed by enough replicas again: %d.", of_node, count)
