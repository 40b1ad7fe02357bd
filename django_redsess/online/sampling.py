"""
Samples of how many were signed in and active, one a minute.

Most functions return calls: see :mod:`django_redsess.session.operations`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django_redsess.online.listing import seconds_of_active
from django_redsess.signals import Reason
from django_redsess.transport import scripts
from django_redsess.transport.partitions import on_each, together
from django_redsess.transport.steps import ScriptCall, Steps, drive, time_of

REASONS = tuple(Reason)

TOTALS = ("created", *REASONS, *(f"guests:{reason}" for reason in REASONS))
"""The fields of the hash of totals: created; ended, by reason; guests ended, by reason."""

Numbers = tuple[int, ...]
"""A sample of one partition, as it is stored: signed in, guests, created; ended, by reason; guests ended, by reason."""

COUNTS = 3 + 2 * len(REASONS)

COUNT_MAX = 2**63 - 1
"""The highest count that the server can add to."""

BRIEF = re.compile(rb"^(\d{1,16}) (\d{1,16}) (\d{1,16}) [\d ]+$", re.MULTILINE)
"""The minute of a sample, signed in, guests."""

ACTIVE = re.compile(rb"^(\d{1,16}) (\d{1,16}) (\d{1,16})$", re.MULTILINE)
"""The minute of a sample of active sessions: signed in, guests."""

NO_ACTIVE = (None, None)

DAY_SECONDS = 24 * 3600

KEPT_SECONDS = 32 * DAY_SECONDS

THINNING = ((8 * DAY_SECONDS, 3600), (2 * DAY_SECONDS, 600))
"""Ages from which samples are thinned out, and the length of the slots of which one sample is left: in seconds."""

PARTITIONS_AT_ONCE = 8
"""Samples of more than a day are read from so many partitions together."""


class Sample(NamedTuple):
    """
    How many sessions there were in the minute that began ``at``; in an older sample, in the ten minutes or the hour.

    ``signed_in`` and ``guests`` are the numbers of live sessions, ``active`` and ``active_guests`` those of them that
    were seen in the last five minutes. In an older sample, each is the highest of that time. With several partitions,
    the highest of each are added up. ``active`` and ``active_guests`` are None where a sample
    lacks them.

    The other fields count from the beginning of the store: ``created`` counts all sessions, ``ended`` those that have
    ended, by reason. ``guests_ended`` is the guests' part of ``ended``.
    """

    at: datetime
    signed_in: int
    guests: int
    created: int
    ended: dict[Reason, int]
    guests_ended: dict[Reason, int]
    active: int | None = None
    active_guests: int | None = None


class Present(NamedTuple):
    """The numbers of sessions at the time ``at``: as in :class:`Sample`."""

    at: datetime
    signed_in: int
    guests: int
    active: int | None = None
    active_guests: int | None = None


class PartitionSamples(NamedTuple):
    """
    The numbers of a partition: those of ``now``, and its samples in two texts. A line is a sample, the earliest first.

    ``text`` has the samples of all counts, ``active`` those of active sessions.
    """

    now: Present
    text: bytes
    active: bytes


def take_samples() -> list[ScriptCall[float]]:
    """
    Store a sample and thin out old ones, unless this minute has a sample.

    Each call returns the seconds until the next minute.
    """
    thinning = [seconds * 1000 for pair in THINNING for seconds in pair]
    args = scripts.TAKE_SAMPLE.arguments(
        active=_active_milliseconds(), lifetime=KEPT_SECONDS * 1000, thinning=thinning, fields=TOTALS
    )
    return on_each(scripts.TAKE_SAMPLE, args, lambda milliseconds: milliseconds / 1000)


def _active_milliseconds() -> str:
    return f"{seconds_of_active() * 1000:.0f}"


def slot_of(age: timedelta) -> timedelta:
    """Return how long a time a sample of that ``age`` stands for."""
    seconds = next((length for older_than, length in THINNING if age.total_seconds() > older_than), 60)
    return timedelta(seconds=seconds)


def read_samples(first: float, last: float | None = None) -> Steps[list[PartitionSamples]]:
    """
    Of each partition, count the sessions that are here now, and read the samples from ``first`` to ``last``.

    Both are times in seconds; ``first`` may be how long ago, as a negative number, and ``last`` None for now.
    """
    args = scripts.READ_SAMPLES.arguments(
        active=_active_milliseconds(),
        first=f"{first * 1000:.0f}",
        last=None if last is None else f"{last * 1000:.0f}",
    )
    calls = on_each(scripts.READ_SAMPLES, args, _partition_samples)
    # The samples of more than a day take the server long: it serves others in between.
    at_once = len(calls) if -DAY_SECONDS <= first < 0 else PARTITIONS_AT_ONCE
    found = list[PartitionSamples]()
    for start in range(0, len(calls), at_once):
        found += yield from together(calls[start : start + at_once])
    return found


def samples_of_hours(hours: float) -> Steps[list[Sample]]:
    """Return what :func:`django_redsess.online.samples` returns for ``hours``."""
    found = yield from read_samples(-hours * 3600)
    return _added_up([each.text for each in found], _active_by_minute(found))


def samples_until_now(
    *, hours: float = 24, day: tuple[datetime, datetime] | None = None
) -> tuple[Sequence[Sample | Present], Present]:
    """
    Return the samples of the last ``hours``, and how many are here now.

    ``day`` asks for the samples between two times instead. Of several partitions, only the first and the last sample
    are whole. The others have what a chart draws: a day has 1440 samples of each partition.
    """
    first, last = (-hours * 3600, None) if day is None else (day[0].timestamp(), day[1].timestamp())
    found = drive(read_samples(first, last))
    texts, active = [each.text for each in found], _active_by_minute(found)
    times, *counts = zip(*(each.now for each in found), strict=True)
    now = Present(max(times), *map(sum, counts))
    if len(texts) == 1:
        return _added_up(texts, active), now
    minutes: dict[bytes, list[tuple[bytes, ...]]] = {}
    for text in texts:
        for minute, *counts in BRIEF.findall(text):
            minutes.setdefault(minute, []).append(tuple(counts))
    drawn: list[Sample | Present] = [
        Present(time_of(minute), *_sums(minutes[minute]), *active.get(minute, NO_ACTIVE))
        for minute in _complete_minutes(minutes, len(texts))
    ]
    if drawn:
        lines = [text.split(b"\n") for text in texts]
        ends = {minute for minute in minutes if time_of(minute) in (drawn[0].at, drawn[-1].at)}
        of_ends = [b"\n".join(line for line in some if line.split(b" ", 1)[0] in ends) for some in lines]
        whole = {sample.at: sample for sample in _added_up(of_ends, active)}
        drawn[0], drawn[-1] = whole.get(drawn[0].at, drawn[0]), whole.get(drawn[-1].at, drawn[-1])
    return drawn, now


def _active_by_minute(found: Sequence[PartitionSamples]) -> Mapping[bytes, tuple[int, int]]:
    """Return how many were active, signed in and guests, in the minutes of which all partitions have a sample."""
    minutes: dict[bytes, list[tuple[bytes, ...]]] = {}
    for each in found:
        for minute, *counts in ACTIVE.findall(each.active):
            minutes.setdefault(minute, []).append(tuple(counts))
    return {minute: _sums(counts) for minute, counts in minutes.items() if len(counts) == len(found)}


def _sums(counts: Sequence[tuple[bytes, ...]]) -> tuple[int, int]:
    signed_in, guests = (sum(map(int, each)) for each in zip(*counts, strict=True))
    return signed_in, guests


def _added_up(texts: Sequence[bytes], active: Mapping[bytes, tuple[int, int]]) -> list[Sample]:
    """Return the samples that all partitions have, each of which has one of the ``texts``."""
    minutes: dict[bytes, list[Numbers]] = {}
    for text in texts:
        for line in text.split(b"\n"):
            # Another program may have written anything.
            with suppress(ValueError):
                minute, *counts = line.split()
                int(minute)
                numbers = tuple(map(_bounded, counts))
                if len(numbers) >= 3:
                    # A sample of an earlier release may have fewer reasons.
                    numbers += (0,) * (COUNTS - len(numbers))
                if len(numbers) == COUNTS:
                    minutes.setdefault(minute, []).append(numbers)
    return [
        _sample_of_minute(minute, minutes[minute], active.get(minute, NO_ACTIVE))
        for minute in _complete_minutes(minutes, len(texts))
    ]


def count_in(stored: bytes | None) -> int:
    """Return a count as the store has it: 0 for other texts, and between 0 and ``COUNT_MAX``."""
    with suppress(ValueError):
        return _bounded(stored or b"0")
    return 0


def _bounded(stored: bytes) -> int:
    # Another program may have written any number.
    return max(0, min(int(stored), COUNT_MAX))


def _complete_minutes(minutes: Mapping[bytes, Sequence[Any]], partitions: int) -> list[bytes]:
    # A minute that one partition lacks would look like a dip. It was unreachable then, or the minute has just begun.
    return [minute for minute in sorted(minutes, key=int) if len(minutes[minute]) == partitions]


def _sample_of_minute(minute: bytes, partitions: list[Numbers], active: tuple[int | None, int | None]) -> Sample:
    signed_in, guests, created, *ended = map(sum, zip(*partitions, strict=True))
    in_all, of_guests = ended[: len(REASONS)], ended[len(REASONS) :]
    totals, totals_of_guests = (dict(zip(REASONS, part, strict=True)) for part in (in_all, of_guests))
    return Sample(time_of(minute), signed_in, guests, created, totals, totals_of_guests, *active)


def _partition_samples(reply: list[Any]) -> PartitionSamples:
    at, counts, text, active = reply
    return PartitionSamples(Present(time_of(at), *counts), text, active)


def count_evicted(samples: Sequence[Sample | Present]) -> tuple[int, int]:
    """Return how many signed-in and how many guests' sessions were evicted between the first and the last sample."""
    whole = [sample for sample in samples if isinstance(sample, Sample)]
    if not whole:
        return 0, 0
    first, last = (
        (sample.ended[Reason.EVICTED], sample.guests_ended[Reason.EVICTED]) for sample in (whole[0], whole[-1])
    )
    # If the store was emptied meanwhile, it counts from 0 again.
    in_all, of_guests = (max(0, after - before) for before, after in zip(first, last, strict=True))
    return max(0, in_all - of_guests), of_guests
