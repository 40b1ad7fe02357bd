"""
Samples of who was online, one a minute. Most functions return calls: see :mod:`django_redsess.session.operations`.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, NamedTuple

from django_redsess.session.operations import time_of
from django_redsess.session.partitions import on_each
from django_redsess.signals import Reason
from django_redsess.transport import scripts
from django_redsess.transport.steps import Call, Steps
from django_redsess.transport.together import together

REASONS = tuple(Reason)

Numbers = tuple[int, ...]
"""A sample of one partition, as it is stored: the minute, signed in, guests, created; ended by reason; guests ended."""

WIDTH = 4 + 2 * len(REASONS)

SAMPLES_KEPT_SECONDS = 2 * 24 * 3600


class Sample(NamedTuple):
    """
    How many sessions were online in the minute that began ``at``.

    ``signed_in`` and ``guests`` are the numbers of live sessions. The other fields count from the beginning of the
    store: ``created`` counts all sessions, ``ended`` those that have ended, by reason. ``guests_ended`` is the guests'
    part of ``ended``.
    """

    at: datetime
    signed_in: int
    guests: int
    created: int
    ended: dict[Reason, int]
    guests_ended: dict[Reason, int]


class Present(NamedTuple):
    """How many sessions are online at the time ``at``: ``signed_in`` and ``guests``."""

    at: datetime
    signed_in: int
    guests: int


def sample() -> list[Call[float]]:
    """Store a sample, unless this minute has one. Each call returns the seconds until the next minute."""
    fields = ("created", *Reason, *(f"guests:{reason}" for reason in Reason))
    args = scripts.TAKE_SAMPLE.arguments(lifetime=SAMPLES_KEPT_SECONDS * 1000, fields=fields)
    return on_each(scripts.TAKE_SAMPLE, args, lambda milliseconds: milliseconds / 1000)


def samples(*, seconds: float) -> list[Call[tuple[Present, list[Numbers]]]]:
    """Count the sessions that are online now, and read the samples of the last ``seconds``, the earliest first."""
    args = scripts.READ_SAMPLES.arguments(milliseconds=f"{seconds * 1000:.0f}")
    return on_each(scripts.READ_SAMPLES, args, _samples)


def until_now(*, hours: float = 24) -> Steps[tuple[list[Sample], Present]]:
    """Return what :func:`django_redsess.online.history` returns for ``hours``, and how many are online now."""
    minutes: dict[int, list[Numbers]] = {}
    present: list[Present] = []
    for now, noted in (yield from together(samples(seconds=hours * 3600))):
        present.append(now)
        for numbers in noted:
            minutes.setdefault(numbers[0], []).append(numbers)
    # A minute that one partition lacks would look like a dip. It was unreachable then, or the minute has just begun.
    whole = [_sample(minute, minutes[minute]) for minute in sorted(minutes) if len(minutes[minute]) == len(present)]
    times, signed_in, guests = zip(*present, strict=True)
    return whole, Present(max(times), sum(signed_in), sum(guests))


def _sample(minute: int, partitions: list[Numbers]) -> Sample:
    # Numbers are added up before anything is made of them: a day has 1440 samples of each partition.
    _, signed_in, guests, created, *ended = map(sum, zip(*partitions, strict=True))
    in_all, of_guests = ended[: len(REASONS)], ended[len(REASONS) :]
    totals = (dict(zip(REASONS, part, strict=True)) for part in (in_all, of_guests))
    return Sample(time_of(b"%d" % minute), signed_in, guests, created, *totals)


def _samples(reply: list[Any]) -> tuple[Present, list[Numbers]]:
    at, signed_in, guests, notes = reply
    found = []
    for note in notes:
        # Another program may have written anything.
        with suppress(ValueError):
            numbers = tuple(map(int, note.split()))
            # A sample of an earlier release may have fewer reasons.
            numbers += (0,) * (WIDTH - len(numbers)) if len(numbers) >= 4 else ()
            if len(numbers) == WIDTH:
                found.append(numbers)
    return Present(time_of(at), signed_in, guests), found


def evicted(samples: Sequence[Sample]) -> tuple[int, int]:
    """Return how many signed-in and how many guests' sessions were evicted between the first and the last sample."""
    first, last = (
        (sample.ended[Reason.EVICTED], sample.guests_ended[Reason.EVICTED]) for sample in (samples[0], samples[-1])
    )
    # If the store was emptied meanwhile, it counts from 0 again.
    in_all, of_guests = (max(0, after - before) for before, after in zip(first, last, strict=True))
    return max(0, in_all - of_guests), of_guests
