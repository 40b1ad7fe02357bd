"""One batch of a cleaner: calls as in :mod:`django_redsess.session.operations`, one for each partition."""

from __future__ import annotations

from typing import NamedTuple

from django_redsess.session.capacity import Allowed, Batch, cleaned, limits, names_wanted
from django_redsess.session.operations import AT_ONCE_MAX
from django_redsess.session.partitions import on_each
from django_redsess.transport import scripts
from django_redsess.transport.steps import Call

BATCH_MAX = 1000


class Backlog(NamedTuple):
    """
    The number of sessions of a partition that are ``due``, that are ``signed_in``, and that are ``guests``.

    ``due_guests`` is the number of guests' sessions among the due ones. With more than a thousand due sessions, it is
    an estimate.
    """

    due: int
    signed_in: int
    guests: int
    due_guests: int


def expire(*, limit: int) -> list[Call[Batch]]:
    """End up to ``limit`` due sessions of each partition, at most 250."""
    return on_each(scripts.EXPIRE, scripts.EXPIRE.arguments(limit=_batch(limit), named=names_wanted()), cleaned)


def evict(allowed: Allowed, *, limit: int) -> list[Call[Batch]]:
    """Evict up to ``limit`` sessions of each partition, at most 250: guests' first, the longest unseen first."""
    return on_each(scripts.EVICT, scripts.EVICT.arguments(**limits(allowed, _batch(limit))), cleaned)


def backlog(*, sampled: int = 1000) -> list[Call[Backlog]]:
    """Count all sessions and due sessions of each partition. Of so many due ones it is looked up who are guests'."""
    return on_each(scripts.BACKLOG, scripts.BACKLOG.arguments(sampled=sampled), _backlog)


def next_deadline() -> list[Call[float | None]]:
    """Read the seconds until the next deadline of each partition. None if it has no session."""
    return on_each(scripts.NEXT_DEADLINE, (), _seconds)


def _backlog(reply: list[int]) -> Backlog:
    due, signed_in, guests, looked_at, of_guests = reply
    return Backlog(due, signed_in, guests, round(due * of_guests / looked_at) if looked_at else 0)


def _seconds(milliseconds: int | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000


def _batch(limit: int) -> int:
    if not 1 <= limit <= BATCH_MAX:
        raise ValueError(f"A batch has 1 to {BATCH_MAX} sessions, not {limit}.")
    return min(limit, AT_ONCE_MAX)
