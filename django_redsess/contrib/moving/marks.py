"""
The marks of sessions that were moved here.

A mark stays when its session ends: the row may still be in the other store, and must not be moved again. A mark is
``here``, or the number of the bucket in which the session has another key here. If the session was copied, two times in
seconds follow: the deadline of its row, and when it was copied. They show whether the row was saved later.

A copied record has the revision :data:`COPIED` until its first request compares it with its row: a process of the first
step may have written the row after it was read.
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from hashlib import sha256
from typing import NamedTuple

from django.conf import settings

from django_redsess.session import reading
from django_redsess.session.reading import texts_of
from django_redsess.transport import packing, steps
from django_redsess.transport.keys import BUCKETS, bucket_of, key_in_bucket, keyspace
from django_redsess.transport.partitions import ask_each
from django_redsess.transport.steps import Pipeline, Steps

HERE = "here"
COPIED = b"copied"
DAY = 86_400_000


class Traces(NamedTuple):
    """The traces of a session that is not here: the note of its end and its mark, each ``""`` if there is none."""

    note: str
    mark: str


def traces_of(sid: str) -> Steps[Traces]:
    """Read the note and the mark of the session ``sid`` in one round trip."""
    partition = keyspace().of_sid(sid)
    note, mark = yield from texts_of(partition, partition.ended_of(sid), partition.moved_of(sid))
    return Traces(note, mark.partition(" ")[0])


def set_mark(sid: str, deadline: int | None, mark: str = HERE) -> Steps[bool]:
    """Mark the session ``sid`` unless it has a mark. True if it had none. ``deadline`` is that in the other store."""
    partition = keyspace().of_sid(sid)
    packed = pack_mark(sid, deadline, mark, (yield from steps.current_time(partition)))
    [reply] = yield from Pipeline(partition, "mark", packed, 1, list)
    return reply is not None


def set_marks(entries: Sequence[tuple[str, int | None, str]]) -> Steps[list[bool]]:
    """Mark many sessions, as :func:`set_mark` marks one. An entry has a sid, the deadline there, and the mark."""
    partitions = [keyspace().of_sid(sid) for sid, *_ in entries]
    replies = yield from ask_each("mark", partitions, lambda number, at: pack_mark(*entries[number], at), 1)
    return [reply is not None for [reply] in replies]


def mark_moved_to(sid: str, deadline: int | None, sid_here: str) -> Steps[bool]:
    """Note that the session ``sid`` has another sid here. False if it was ended meanwhile by the old one."""
    mark = str(bucket_of(sid_here))
    return (yield from set_mark(sid, deadline, mark)) or (yield from traces_of(sid)).mark == mark


def pack_mark(sid: str, deadline: int | None, mark: str, now: int) -> bytes:
    """Pack the command that :func:`set_mark` sends at the server's time ``now``."""
    name, kept_for = keyspace().of_sid(sid).moved_of(sid), mark_lifetime(deadline, now)
    # A session that was not copied has no row that could be saved later.
    full = mark if mark == HERE else mark_of_copy(mark, deadline, now)
    return packing.pack_command("SET", name, full, "NX", "PX", kept_for)


def mark_of_copy(mark: str, deadline: int | None, now: int) -> str:
    """Return the mark of a session that is copied ``now``, with a row that has this ``deadline``."""
    return f"{mark} {(deadline or 0) // 1000} {now // 1000}"


def mark_lifetime(deadline: int | None, now: int) -> int:
    """
    Return how long a mark stays from ``now`` on, in milliseconds: a day longer than the row and the cookie.

    A process that does not move yet may prolong the row meanwhile, by the age of a cookie.
    """
    left = max((deadline or 0) - now, settings.SESSION_COOKIE_AGE * 1000)
    # A row may have any number.
    return min(left, int(reading.TIME_MAX)) + DAY


def keys_by_mark(key: str, mark: str) -> list[str]:
    """
    Return the keys that the session ``key`` of another store may have here by its mark: see :func:`derived_keys`.

    None if the mark names no bucket. Another program may have written any text there.
    """
    names_bucket = mark.isascii() and mark.isdecimal() and len(mark) <= len(str(BUCKETS)) and int(mark) < BUCKETS
    return derived_keys(key, int(mark)) if names_bucket else []


def derived_keys(key: str, bucket: int) -> list[str]:
    """
    Return the keys in ``bucket`` that the session ``key`` of another store may have here, the present one first.

    Each is derived by one of the site's secret keys. So requests that move the session at the same time choose the
    same key, and nobody can compute it from the old one.
    """
    secrets = (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)
    found = []
    for secret in secrets:
        secret_bytes = secret.encode() if isinstance(secret, str) else secret
        digest = hmac.new(secret_bytes, b"redsess.moved" + key.encode(), sha256)
        found.append(key_in_bucket(bucket, digest.digest() + hmac.new(digest.digest(), b"2", sha256).digest()))
    return found
