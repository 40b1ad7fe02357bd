"""
Samples of who was online, one a minute. Most functions return calls: see :mod:`django_redsess.session.script_calls`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django_redsess.session.script_calls import time_of
from django_redsess.signals import Reason
from django_redsess.transport import lua_scripts
from django_redsess.transport.round_trips import Call, Steps, on_each, together

REASONS = tuple(Reason)

Numbers = tuple[int, ...]
"""A sample of one partition, as it is stored: signed in, guests, created; ended, by reason; guests ended, by reason."""

COUNTS = 3 + 2 * len(REASONS)

BRIEF = re.compile(rb"^(\d+) (\d+) (\d+) [\d ]+$", re.MULTILINE)
"""The minute of a sample, signed in, guests."""

DAY_SECONDS = 24 * 3600

KEPT_SECONDS = 32 * DAY_SECONDS

THINNING = ((8 * DAY_SECONDS, 3600), (2 * DAY_SECONDS, 600))
"""Ages from which samples are thinned out, and the length of the slots of which one sample is left: in seconds."""

PARTITIONS_AT_ONCE = 8
"""Of how many partitions the samples of more than a day are read together."""


class Sample(NamedTuple):
    """
    How many sessions were online in the minute that began ``at``; in an older sample, in the ten minutes or the hour.

    ``signed_in`` and ``guests`` are the numbers of live sessions: in an older sample, the highest of that time. With
    several partitions, the highest of each are added up. The other fields count from the beginning of the store:
    ``created`` counts all sessions, ``ended`` those that have ended, by reason. ``guests_ended`` is the guests' part of
    ``ended``.
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
    """
    Store a sample and thin out old ones, unless this minute has a sample.

    Each call returns the seconds until the next minute.
    """
    fields = ("created", *Reason, *(f"guests:{reason}" for reason in Reason))
    thinning = [seconds * 1000 for pair in THINNING for seconds in pair]
    args = lua_scripts.TAKE_SAMPLE.arguments(lifetime=KEPT_SECONDS * 1000, thinning=thinning, fields=fields)
    return on_each(lua_scripts.TAKE_SAMPLE, args, lambda milliseconds: milliseconds / 1000)


def slot_of(age: timedelta) -> timedelta:
    """Return how long a time a sample of that ``age`` stands for."""
    seconds = next((length for older_than, length in THINNING if age.total_seconds() > older_than), 60)
    return timedelta(seconds=seconds)


def samples(first: float, last: float | None = None) -> Steps[list[tuple[Present, bytes]]]:
    """
    Of each partition, count the sessions that are online now, and read the samples from ``first`` to ``last``.

    Both are times in seconds; ``first`` may be how long ago, as a negative number, and ``last`` None for now. The
    samples are one text with a line for each, the earliest first.
    """
    args = lua_scripts.READ_SAMPLES.arguments(
        first=f"{first * 1000:.0f}", last=None if last is None else f"{last * 1000:.0f}"
    )
    calls = on_each(lua_scripts.READ_SAMPLES, args, _samples)
    # The samples of more than a day take the server long: it serves others in between.
    at_once = len(calls) if -DAY_SECONDS <= first < 0 else PARTITIONS_AT_ONCE
    found = []
    for start in range(0, len(calls), at_once):
        found += yield from together(calls[start : start + at_once])
    return found


def history(hours: float) -> Steps[list[Sample]]:
    """Return what :func:`django_redsess.online.history` returns for ``hours``."""
    found = yield from samples(-hours * 3600)
    return _added_up([text for _, text in found])


def until_now(hours: float, day: tuple[datetime, datetime] | None) -> Steps[tuple[Sequence[Sample | Present], Present]]:
    """
    Return the samples of the last ``hours``, and how many are online now.

    ``day`` asks for the samples between two times instead. Of several partitions, only the first and the last sample
    are whole. The others have what a chart draws: a day has 1440 samples of each partition.
    """
    first, last = (-hours * 3600, None) if day is None else (day[0].timestamp(), day[1].timestamp())
    found = yield from samples(first, last)
    present, texts = zip(*found, strict=True)
    times, signed_in, guests = zip(*present, strict=True)
    now = Present(max(times), sum(signed_in), sum(guests))
    if len(texts) == 1:
        return _added_up(texts), now
    minutes: dict[bytes, list[tuple[bytes, ...]]] = {}
    for text in texts:
        for minute, *counts in BRIEF.findall(text):
            minutes.setdefault(minute, []).append(tuple(counts))
    drawn: list[Sample | Present] = [
        Present(time_of(minute), *(sum(map(int, counts)) for counts in zip(*minutes[minute], strict=True)))
        for minute in _whole(minutes, len(texts))
    ]
    if drawn:
        lines = [text.split(b"\n") for text in texts]
        ends = {minute for minute in minutes if time_of(minute) in (drawn[0].at, drawn[-1].at)}
        of_ends = [b"\n".join(line for line in some if line.split(b" ", 1)[0] in ends) for some in lines]
        whole = {sample.at: sample for sample in _added_up(of_ends)}
        drawn[0], drawn[-1] = whole.get(drawn[0].at, drawn[0]), whole.get(drawn[-1].at, drawn[-1])
    return drawn, now


def _added_up(texts: Sequence[bytes]) -> list[Sample]:
    """Return the samples that all partitions have, each of which has one of the ``texts``."""
    minutes: dict[bytes, list[Numbers]] = {}
    for text in texts:
        for line in text.split(b"\n"):
            # Another program may have written anything.
            with suppress(ValueError):
                minute, *counts = line.split()
                int(minute)
                numbers = tuple(map(int, counts))
                if len(numbers) >= 3:
                    # A sample of an earlier release may have fewer reasons.
                    numbers += (0,) * (COUNTS - len(numbers))
                if len(numbers) == COUNTS:
                    minutes.setdefault(minute, []).append(numbers)
    return [_sample(minute, minutes[minute]) for minute in _whole(minutes, len(texts))]


def _whole(minutes: Mapping[bytes, Sequence[Any]], partitions: int) -> list[bytes]:
    # A minute that one partition lacks would look like a dip. It was unreachable then, or the minute has just begun.
    return [minute for minute in sorted(minutes, key=int) if len(minutes[minute]) == partitions]


def _sample(minute: bytes, partitions: list[Numbers]) -> Sample:
    signed_in, guests, created, *ended = map(sum, zip(*partitions, strict=True))
    in_all, of_guests = ended[: len(REASONS)], ended[len(REASONS) :]
    totals = (dict(zip(REASONS, part, strict=True)) for part in (in_all, of_guests))
    return Sample(time_of(minute), signed_in, guests, created, *totals)


def _samples(reply: list[Any]) -> tuple[Present, bytes]:
    at, signed_in, guests, text = reply
    return Present(time_of(at), signed_in, guests), text


def evicted(samples: Sequence[Sample | Present]) -> tuple[int, int]:
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
