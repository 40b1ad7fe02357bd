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


def samples(*, seconds: float) -> list[Call[tuple[Present, list[Sample]]]]:
    """Count the sessions that are online now, and read the samples of the last ``seconds``, the earliest first."""
    args = scripts.READ_SAMPLES.arguments(milliseconds=f"{seconds * 1000:.0f}")
    return on_each(scripts.READ_SAMPLES, args, _samples)


def until_now(*, hours: float = 24) -> Steps[tuple[list[Sample], Present]]:
    """Return what :func:`django_redsess.online.history` returns for ``hours``, and how many are online now."""
    minutes: dict[datetime, list[Sample]] = {}
    present: list[Present] = []
    for now, noted in (yield from together(samples(seconds=hours * 3600))):
        present.append(now)
        for sample in noted:
            minutes.setdefault(sample.at, []).append(sample)
    # A minute that one partition lacks would look like a dip. It was unreachable then, or the minute has just begun.
    whole = [at for at in sorted(minutes) if len(minutes[at]) == len(present)]
    times, signed_in, guests = zip(*present, strict=True)
    return [_together(minutes[at]) for at in whole], Present(max(times), sum(signed_in), sum(guests))


def _together(partitions: list[Sample]) -> Sample:
    if len(partitions) == 1:
        return partitions[0]
    return Sample(
        partitions[0].at,
        sum(sample.signed_in for sample in partitions),
        sum(sample.guests for sample in partitions),
        sum(sample.created for sample in partitions),
        {reason: sum(sample.ended[reason] for sample in partitions) for reason in REASONS},
        {reason: sum(sample.guests_ended[reason] for sample in partitions) for reason in REASONS},
    )


def _samples(reply: list[Any]) -> tuple[Present, list[Sample]]:
    at, signed_in, guests, notes = reply
    samples = []
    for note in notes:
        # Another program may have written anything.
        with suppress(ValueError):
            samples.append(_sample(note))
    return Present(time_of(at), signed_in, guests), samples


def _sample(note: bytes) -> Sample:
    minute, *counts = note.split()
    signed_in, guests, created, *ended = map(int, counts)
    # A sample of an earlier release may have fewer reasons.
    ended += [0] * (2 * len(REASONS) - len(ended))
    in_all, of_guests = ended[: len(REASONS)], ended[len(REASONS) :]
    totals = (dict(zip(REASONS, part, strict=True)) for part in (in_all, of_guests))
    return Sample(time_of(minute), signed_in, guests, created, *totals)


def evicted(samples: Sequence[Sample]) -> tuple[int, int]:
    """Return how many signed-in and how many guests' sessions were evicted between the first and the last sample."""
    first, last = (
        (sample.ended[Reason.EVICTED], sample.guests_ended[Reason.EVICTED]) for sample in (samples[0], samples[-1])
    )
    # If the store was emptied meanwhile, it counts from 0 again.
    in_all, of_guests = (max(0, after - before) for before, after in zip(first, last, strict=True))
    return max(0, in_all - of_guests), of_guests
