"""One batch of what a cleaner takes out: calls, as in :mod:`django_redsess.session.operations`, one a partition."""

from __future__ import annotations

from typing import NamedTuple

from django_redsess.session.capacity import Allowed, Batch, cleaned, names_wanted
from django_redsess.session.operations import AT_ONCE_MAX, session_keys
from django_redsess.transport import scripts
from django_redsess.transport.keys import keyspace
from django_redsess.transport.steps import Call

BATCH_MAX = 1000


class Backlog(NamedTuple):
    """
    How many sessions of a partition are due; and how many there are ``signed_in``, and of ``guests``.

    ``due_guests`` are those of guests among the due. Of more than a thousand due ones that is estimated.
    """

    due: int
    signed_in: int
    guests: int
    due_guests: int


def expire(*, limit: int) -> list[Call[Batch]]:
    """End up to ``limit`` due sessions of each partition (at most 250 of them)."""
    return [
        Call(partition, scripts.EXPIRE, session_keys(partition), (_batch(limit), names_wanted()), cleaned)
        for partition in keyspace().partitions
    ]


def evict(allowed: Allowed, *, limit: int) -> list[Call[Batch]]:
    """End up to ``limit`` sessions (at most 250) of each partition that are too many: guests' first, longest unseen."""
    args = (*allowed, _batch(limit), names_wanted())
    return [
        Call(partition, scripts.EVICT, session_keys(partition), args, cleaned) for partition in keyspace().partitions
    ]


def backlog() -> list[Call[Backlog]]:
    """Count what there may be to clean in each partition."""
    return [
        Call(partition, scripts.BACKLOG, session_keys(partition), (1000,), _backlog)
        for partition in keyspace().partitions
    ]


def next_deadline() -> list[Call[float | None]]:
    """Read in how many seconds each partition's first session is due; None where there is none."""
    return [Call(partition, scripts.NEXT, session_keys(partition), (), _seconds) for partition in keyspace().partitions]


def _backlog(reply: list[int]) -> Backlog:
    due, signed_in, guests, looked_at, of_guests = reply
    return Backlog(due, signed_in, guests, round(due * of_guests / looked_at) if looked_at else 0)


def _seconds(milliseconds: int | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000


def _batch(limit: int) -> int:
    if not 1 <= limit <= BATCH_MAX:
        raise ValueError(f"A batch has 1 to {BATCH_MAX} sessions, not {limit}.")
    return min(limit, AT_ONCE_MAX)
