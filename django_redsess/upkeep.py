"""
What keeps the store clean, and tells how it is: each operation is one call of one script, as in
:mod:`django_redsess.store`, for each partition.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, NamedTuple

from django_redsess import scripts
from django_redsess.call import Call
from django_redsess.keys import Partition, keyspace
from django_redsess.signals import Endings, Reason, session_ended
from django_redsess.store import AT_ONCE_MAX, session_keys, share_of, time_of

BATCH_MAX = 1000

REASONS = tuple(Reason)

SAMPLES_KEPT_SECONDS = 2 * 24 * 3600


class Batch(NamedTuple):
    """How many sessions a cleaner's call ended, and whether there are ``more`` of the kind."""

    ended: int
    more: bool


class Backlog(NamedTuple):
    """How many sessions of a partition are due, of how many in all, and how many of those it may have."""

    due: int
    stored: int
    maximum: int


class Sample(NamedTuple):
    """
    Who was online in the minute that began ``at``, and what had happened until then since the store began.

    ``signed_in`` and ``guests`` are sessions, ``created`` all that there ever were, ``ended`` those that are over.
    """

    at: datetime
    signed_in: int
    guests: int
    created: int
    ended: dict[Reason, int]


class Present(NamedTuple):
    """Who is online ``at`` that time: sessions, ``signed_in`` and ``guests``."""

    at: datetime
    signed_in: int
    guests: int


class Fault(NamedTuple):
    """
    An entry of ``key`` that does not fit the other keys.

    ``kind`` is ``missing``, ``stray`` (there, and should not be), ``differs`` (in its login time) or ``ahead`` (of the
    server's clock), which can be mended; or ``unreadable`` (a record of another release, perhaps) or ``unknown`` (a key
    that is none of ours).
    """

    kind: str
    sid: str
    key: str

    def __str__(self) -> str:
        sid, key = printable(self.sid), printable(self.key)
        return {
            "missing": f"{key}: session {sid} is missing",
            "stray": f"{key}: {sid} does not belong there",
            "differs": f"{key}: session {sid} has another login time than elsewhere",
            "ahead": f"{key}: session {sid} has a time that is still to come",
            "unreadable": f"{key}: the record of {sid} is in no known format",
            "unknown": f"{key}: no key of this app",
        }[self.kind]

    @property
    def can_be_mended(self) -> bool:
        return self.kind in ("missing", "stray", "differs", "ahead")


def printable(text: str) -> str:
    """Return ``text`` as a terminal can be sent it: what somebody else wrote must not act on it."""
    return text if text.isprintable() else ascii(text)


class Checked(NamedTuple):
    """A step of a check: where the next begins (0: done), how much was looked at, and what did not fit."""

    cursor: int
    entries: int
    record_bytes: int
    faults: list[Fault]


def expire(*, limit: int) -> list[Call[Batch]]:
    """End up to ``limit`` due sessions of each partition (at most 250 of them)."""
    return [
        Call(partition, scripts.EXPIRE, session_keys(partition), (_batch(limit), _tell()), _cleaned)
        for partition in keyspace().partitions
    ]


def evict(maximum: int, *, limit: int) -> list[Call[Batch]]:
    """End up to ``limit`` sessions (at most 250) of each partition above its share of ``maximum``, oldest first."""
    space = keyspace()
    args = (share_of(maximum, space.count), _batch(limit), _tell())
    return [Call(partition, scripts.EVICT, session_keys(partition), args, _cleaned) for partition in space.partitions]


def backlog(maximum: int) -> list[Call[Backlog]]:
    """Count what there is to clean in each partition, where all together may have ``maximum`` sessions."""
    space = keyspace()
    share = share_of(maximum, space.count)
    return [
        Call(partition, scripts.BACKLOG, session_keys(partition), (), lambda reply: Backlog(reply[0], reply[1], share))
        for partition in space.partitions
    ]


def next_deadline() -> list[Call[float | None]]:
    """Read in how many seconds each partition's first session is due; None where there is none."""
    return [Call(partition, scripts.NEXT, session_keys(partition), (), _seconds) for partition in keyspace().partitions]


def sample() -> list[Call[float]]:
    """Note who is online, if nobody has in this minute; the seconds until the next minute are returned."""
    return [
        Call(
            partition,
            scripts.SAMPLE,
            (*session_keys(partition), partition.samples),
            (SAMPLES_KEPT_SECONDS * 1000, "created", *Reason),
            lambda milliseconds: milliseconds / 1000,
        )
        for partition in keyspace().partitions
    ]


def samples(*, seconds: float) -> list[Call[tuple[Present, list[Sample]]]]:
    """Count who is online now, and read the samples of the last so many seconds, the earliest first."""
    return [
        Call(
            partition,
            scripts.SAMPLES,
            (*session_keys(partition), partition.samples),
            (f"{seconds * 1000:.0f}",),
            _samples,
        )
        for partition in keyspace().partitions
    ]


def check(
    partition: Partition, key: str, cursor: int, *, about: int, mend: bool, owner: str | None = None
) -> Call[Checked]:
    """
    Compare about so many entries of ``key``, from ``cursor`` on, with the other keys, and mend what disagrees.

    ``key`` is the hash of records or one that lists sessions; ``owner`` the user id where it is a user's list.
    """
    keys: tuple[str | bytes, ...] = (*session_keys(partition), _raw(key))
    args = ("mend" if mend else "", cursor, about, *(() if owner is None else (_raw(owner),)))
    return Call(partition, scripts.CHECK, keys, args, _checked)


def check_names(partition: Partition, names: Sequence[str], *, mend: bool) -> Call[tuple[list[Fault], list[str]]]:
    """
    Compare up to 100 keys that belong to one session or user each with the sessions, and mend what disagrees.

    Returns the faults, and which of ``names`` are lists too long for that: they are for :func:`check`.
    """
    args: tuple[str | bytes, ...] = ("mend" if mend else "", *map(_raw, names))
    return Call(
        partition,
        scripts.CHECK_NAMES,
        session_keys(partition),
        args,
        lambda reply: (_faults(reply[0]), [_text(name) for name in reply[1]]),
    )


def names(cursor: int, *, about: int) -> Call[tuple[int, list[str]]]:
    """List some names of keys, those of this store among them, from ``cursor`` on: 0 at first, and when done."""
    space = keyspace()
    return Call(
        space.partitions[0],
        scripts.NAMES,
        (),
        (cursor, space.pattern, about),
        lambda reply: (int(reply[0]), [_text(name) for name in reply[1]]),
    )


def _tell() -> int:
    # Naming thousands that nobody asks for takes a good part of the time.
    return int(bool(session_ended.receivers))


def _cleaned(more: int, ended: Endings) -> Batch:
    return Batch(len(ended), bool(more))


def _seconds(milliseconds: int | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000


def _samples(reply: list[Any]) -> tuple[Present, list[Sample]]:
    at, signed_in, guests, notes = reply
    samples = []
    for note in notes:
        # Somebody else may have written anything.
        with suppress(ValueError):
            samples.append(_sample(note))
    return Present(time_of(at), signed_in, guests), samples


def _sample(note: bytes) -> Sample:
    minute, signed_in, guests, created, *ended = note.split()
    # One of an earlier release may know fewer reasons.
    totals = dict(zip(REASONS, [*map(int, ended), *[0] * (len(REASONS) - len(ended))], strict=True))
    return Sample(time_of(minute), int(signed_in), int(guests), int(created), totals)


def _batch(limit: int) -> int:
    if not 1 <= limit <= BATCH_MAX:
        raise ValueError(f"A batch has 1 to {BATCH_MAX} sessions, not {limit}.")
    return min(limit, AT_ONCE_MAX)


def _checked(reply: list[Any], _: Endings) -> Checked:
    cursor, entries, record_bytes, faults = reply
    return Checked(int(cursor), entries, record_bytes, _faults(faults))


def _faults(reply: list[bytes]) -> list[Fault]:
    parts = [_text(part) for part in reply]
    return [Fault(*each) for each in zip(parts[::3], parts[1::3], parts[2::3], strict=True)]


def _text(name: bytes) -> str:
    # So that a name that is no UTF-8 is sent back as it came.
    return name.decode(errors="surrogateescape")


def _raw(text: str) -> bytes:
    return text.encode(errors="surrogateescape")
