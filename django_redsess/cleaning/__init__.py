"""
The work of the cleaning commands: ending sessions that are due or too many, and forgetting items.

The work is done in batches, so that the server can serve others in between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from django.dispatch import Signal

from django_redsess import observers
from django_redsess.conf import conf
from django_redsess.online import sampling, statistics
from django_redsess.session import eviction
from django_redsess.session.eviction import BatchResult, batch_result, eviction_args
from django_redsess.session.operations import AT_ONCE_MAX
from django_redsess.signals import Reason, ends_are_wanted
from django_redsess.transport import scripts
from django_redsess.transport.partitions import on_each, together
from django_redsess.transport.steps import ScriptCall, drive
from django_redsess.viewed import popularity

BATCH_MAX = 1000

hourly = Signal()
"""Sent each hour by ``cleansessions --forever``. Receivers get ``go_on``: they stop when it returns False."""


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


def backlogs_by_partition(*, sampled: int = 1000) -> list[ScriptCall[Backlog]]:
    """Count all sessions and due sessions of each partition. Guests are counted among ``sampled`` due ones only."""

    def read_backlog(reply: list[int]) -> Backlog:
        due, signed_in, guests, looked_at, of_guests = reply
        return Backlog(due, signed_in, guests, round(due * of_guests / looked_at) if looked_at else 0)

    return on_each(scripts.BACKLOG, scripts.BACKLOG.arguments(sampled=sampled), read_backlog)


def deadlines_by_partition() -> list[ScriptCall[float | None]]:
    """Read the seconds until the next deadline of each partition. None if it has no session."""
    return on_each(scripts.NEXT_DEADLINE, (), lambda reply: None if reply is None else reply / 1000)


def _check_batch_size(limit: int, of: str = "sessions") -> int:
    if not 1 <= limit <= BATCH_MAX:
        raise ValueError(f"A batch has 1 to {BATCH_MAX} {of}, not {limit}.")
    return min(limit, AT_ONCE_MAX)


BATCH_SIZE = 100


def expire_sessions(*, batch_size: int = BATCH_SIZE, go_on: Callable[[], bool] = lambda: True) -> Iterator[int]:
    """
    End every session whose deadline has passed. Yield the size of each batch.

    A batch has up to ``batch_size`` sessions (1 to 1 000), but at most 250, so that the server can serve others in
    between. After the first batch of a partition, two are sent together. ``go_on`` is called before each sending, and
    False stops the work. Each script reads the clock itself: a session whose deadline has moved meanwhile stays.
    """
    args = scripts.EXPIRE.arguments(limit=_check_batch_size(batch_size), named=ends_are_wanted())
    calls = on_each(scripts.EXPIRE, args, batch_result)
    if len(calls) > 1:
        # Most partitions have nothing due, and one round trip asks all of them.
        firsts = drive(together(deadlines_by_partition()))
        calls = [call for call, seconds in zip(calls, firsts, strict=True) if seconds == 0]
        yield 0
    yield from _run_until_done(calls, go_on)


def evict_sessions(
    *,
    maximum: int | None = None,
    guests: int | None = None,
    batch_size: int = BATCH_SIZE,
    go_on: Callable[[], bool] = lambda: True,
) -> Iterator[int]:
    """
    End the sessions above the maximum: guests' first, the longest unseen first. Yield as :func:`expire_sessions` does.

    ``maximum`` is the most sessions, ``guests`` the most guests' sessions. None stands for the setting MAX_SESSIONS or
    MAX_GUESTS. Each script counts the sessions itself, so two cleaners at once do not end too many.
    """
    allowed = eviction.allowance(maximum, guests)
    args = scripts.EVICT.arguments(**eviction_args(allowed, _check_batch_size(batch_size)))
    calls = on_each(scripts.EVICT, args, batch_result)
    if len(calls) > 1:
        counts = drive(together(backlogs_by_partition(sampled=0)))
        counted = zip(calls, counts, strict=True)
        calls = [call for call, count in counted if allowed.too_many(count.signed_in, count.guests)]
        yield 0
    yield from _run_until_done(calls, go_on)


def count_backlog(
    *, maximum: int | None = None, guests: int | None = None, after_expired: bool = True
) -> tuple[int, int]:
    """
    Count the sessions that :func:`expire_sessions` would end, and those that :func:`evict_sessions` would end.

    With ``after_expired``, the second number is counted as if the expired sessions had ended already.
    """
    due, excess = 0, 0
    allowed = eviction.allowance(maximum, guests)
    for count in drive(together(backlogs_by_partition())):
        due += count.due
        gone, gone_guests = (count.due, count.due_guests) if after_expired else (0, 0)
        excess += allowed.too_many(count.signed_in - (gone - gone_guests), count.guests - gone_guests)
    return due, excess


def seconds_to_next_deadline() -> float | None:
    """Return the seconds until the next deadline. 0 if a session is due now. None if there is no session."""
    return min((seconds for seconds in drive(together(deadlines_by_partition())) if seconds is not None), default=None)


def take_sample() -> float:
    """Take this minute's sample for ``online.samples()``. Return the seconds until the next minute."""
    return min(drive(together(sampling.take_samples())))


def report_totals() -> None:
    """Report the store's numbers to observers. One process is enough. Without observers, no command is sent."""
    if not observers.chosen:
        return
    found = drive(statistics.read_totals())
    sampled_at = found.sampled_at
    observers.notify_event(
        "store_counted",
        signed_in=found.signed_in,
        guests=found.guests,
        active=found.active,
        active_guests=found.active_guests,
        limit=found.limit,
        guests_limit=found.guests_limit,
        created=found.created,
        ended=sum(found.ended.values()),
        evicted=found.ended[Reason.EVICTED],
        lag_seconds=found.lag_seconds,
        sampled_timestamp_seconds=None if sampled_at is None else sampled_at.timestamp(),
    )


def trim_viewed_items(*, limit: int | None = None, batch_size: int = BATCH_SIZE) -> Iterator[int]:
    """
    Forget all but the ``limit`` most viewed items. Yield the size of each batch.

    A ``limit`` of None stands for the setting VIEWED_LIMIT. A batch has up to ``batch_size`` items, 1 to 1 000. Each
    script reads the ranks itself.
    """
    at_once = _check_batch_size(batch_size, "items")
    kept = drive(popularity.split_rank(conf.VIEWED_LIMIT if limit is None else limit))
    for call in popularity.trim_items(kept, limit=at_once):
        left = 1
        while left:
            taken, left = call.run()
            yield taken


def count_excess_items(*, limit: int) -> int:
    """Count the items that :func:`trim_viewed_items` would forget."""
    return max(0, sum(total.items for total in drive(together(popularity.count_items(1)))) - limit)


def _run_until_done(calls: list[ScriptCall[BatchResult]], go_on: Callable[[], bool]) -> Iterator[int]:
    for call in calls:
        at_once, more = 1, True
        while more and go_on():
            batches = drive(together([call] * at_once))
            # Two calls together: the server need not wait for this process after each batch.
            at_once, more = 2, batches[-1].more
            yield from (batch.ended for batch in batches)
