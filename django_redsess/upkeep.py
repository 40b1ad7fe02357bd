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
from django_redsess.conf import conf
from django_redsess.keys import Partition, keyspace
from django_redsess.signals import Endings, Reason, session_ended
from django_redsess.store import AT_ONCE_MAX, session_keys, share_of, time_of

BATCH_MAX = 1000

RESERVE_MIN = 100

NO_LIMIT = 2**53
"""More than there can be; the highest number that Lua counts up to."""

ALONG_MIN, ALONG_MAX = 50, 100
"""Beside a new session, so many others are taken out at least, and at most."""

REASONS = tuple(Reason)

SAMPLES_KEPT_SECONDS = 2 * 24 * 3600


class Batch(NamedTuple):
    """How many sessions a cleaner's call ended, and whether there are ``more`` of the kind."""

    ended: int
    more: bool


class Allowed(NamedTuple):
    """
    How many sessions a partition may have: ``signed_in``; and of guests what these leave of it.

    But guests may always have ``reserve``, and never more than ``guests``.
    """

    signed_in: int
    reserve: int
    guests: int

    def too_many(self, signed_in: int, guests: int) -> int:
        """Count those that are too many of so many; ``excess.lua`` has the same rule."""
        guests_allowed = min(max(self.signed_in - signed_in, self.reserve), self.guests)
        return max(0, guests - guests_allowed) + max(0, signed_in - self.signed_in)


class Backlog(NamedTuple):
    """
    How many sessions of a partition are due; and how many there are ``signed_in``, and of ``guests``.

    ``due_guests`` are those of guests among the due. Of more than a thousand due ones that is estimated.
    """

    due: int
    signed_in: int
    guests: int
    due_guests: int


class Sample(NamedTuple):
    """
    Who was online in the minute that began ``at``, and what had happened until then since the store began.

    ``signed_in`` and ``guests`` are sessions, ``created`` all that there ever were, ``ended`` those that are over, and
    ``guests_ended`` those of guests among these.
    """

    at: datetime
    signed_in: int
    guests: int
    created: int
    ended: dict[Reason, int]
    guests_ended: dict[Reason, int]


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


def allowed(maximum: int | None = None, guests: int | None = None) -> Allowed:
    """
    Return how many sessions each partition may have, where all together may have ``maximum``, and of guests ``guests``.

    None stands for the setting. 1 % of ``maximum``, at least 100, is kept for guests, however many are signed in.
    """
    maximum = conf.MAX_SESSIONS if maximum is None else maximum
    guests = conf.MAX_GUESTS if guests is None else guests
    reserve = min(max(maximum // 100, RESERVE_MIN), maximum)
    partitions = keyspace().count
    return Allowed(*(share_of(each, partitions) for each in (maximum, reserve, NO_LIMIT if guests is None else guests)))


def evict(allowed: Allowed, *, limit: int) -> list[Call[Batch]]:
    """End up to ``limit`` sessions (at most 250) of each partition that are too many: guests' first, longest unseen."""
    args = (*allowed, _batch(limit), _tell())
    return [
        Call(partition, scripts.EVICT, session_keys(partition), args, _cleaned) for partition in keyspace().partitions
    ]


def cleaning_along(partition: Partition, *, due: int, recent: int, guests: int) -> Call[Batch] | None:
    """
    Return what there is to clean beside a new session, or None where these counts say that it is not enough yet.

    So the store stays bounded though no cleaner runs. Enough is 50 of a kind, or of what is too many a twentieth of the
    maximum where that is less. The call ends up to 100: those that are due, then guests', then others.
    """
    may = allowed()
    enough = max(1, min(ALONG_MIN, may.signed_in // 20))
    if due < ALONG_MIN and may.too_many(recent, guests) < enough:
        return None
    args = (*may, ALONG_MAX, _tell())
    return Call(partition, scripts.CLEAN, session_keys(partition), args, _cleaned)


def backlog() -> list[Call[Backlog]]:
    """Count what there may be to clean in each partition."""
    return [
        Call(partition, scripts.BACKLOG, session_keys(partition), (1000,), _backlog)
        for partition in keyspace().partitions
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
            (SAMPLES_KEPT_SECONDS * 1000, "created", *Reason, *(f"guests:{reason}" for reason in Reason)),
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


def _backlog(reply: list[int]) -> Backlog:
    due, signed_in, guests, looked_at, of_guests = reply
    return Backlog(due, signed_in, guests, round(due * of_guests / looked_at) if looked_at else 0)


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
    minute, *counts = note.split()
    signed_in, guests, created, *ended = map(int, counts)
    # One of an earlier release may know fewer reasons.
    ended += [0] * (2 * len(REASONS) - len(ended))
    in_all, of_guests = ended[: len(REASONS)], ended[len(REASONS) :]
    totals = (dict(zip(REASONS, part, strict=True)) for part in (in_all, of_guests))
    return Sample(time_of(minute), signed_in, guests, created, *totals)


def evicted(samples: Sequence[Sample]) -> tuple[int, int]:
    """Count the sessions with a user, and those of guests, that were evicted from the first sample to the last."""
    first, last = (
        (sample.ended[Reason.EVICTED], sample.guests_ended[Reason.EVICTED]) for sample in (samples[0], samples[-1])
    )
    # A store that was emptied meanwhile counts from 0 again.
    in_all, of_guests = (max(0, after - before) for before, after in zip(first, last, strict=True))
    return max(0, in_all - of_guests), of_guests


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
