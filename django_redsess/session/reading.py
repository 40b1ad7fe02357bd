"""Reading a session: a few plain commands in one round trip. Their fixed parts are packed in advance."""

from __future__ import annotations

from enum import StrEnum
from functools import lru_cache
from typing import Any, NamedTuple

from redis.exceptions import ResponseError

from django_redsess.conf import conf
from django_redsess.session.record import REVISION_SIZE, has_user
from django_redsess.transport import packing, scripts
from django_redsess.transport.agreement import agree
from django_redsess.transport.connections import of
from django_redsess.transport.keys import PREFIXES_KEPT, Keyspace, Partition, is_sid, keyspace
from django_redsess.transport.steps import Plain, Steps

TIME_MAX = 2.0**52
"""Milliseconds. This is later than any real time, and scores are exact up to here."""


class Touch(StrEnum):
    """What a read writes about the session."""

    NOTHING = ""
    SEEN = "seen"
    """That the session was seen. For a passive request."""
    ACTIVE = "active"
    """That the session was seen, and a later deadline if the settings move it. For an active request."""


class Loaded(NamedTuple):
    """
    A session as it was read at the server's time ``now``. ``record`` is None if the session is gone.

    ``due`` is its deadline. It is 0 if the session is gone. But if a user's session is due and has not been removed
    yet, ``due`` is the deadline that has passed. Both times are in milliseconds.
    """

    sid: str
    record: bytes | None
    due: int
    now: int


def read(sid: str, touch: Touch = Touch.NOTHING) -> Plain[Loaded]:
    """
    Read the record and the deadline of ``sid``, and touch the session as ``touch`` says.

    The last-seen time is rounded down to ``TOUCH_INTERVAL``. So a second touch in the same interval changes nothing,
    and no process has to remember which sessions it has touched.
    """
    space, name = keyspace(), sid.encode()
    partition, reading, touching, _ = templates(space.prefix, space.count)[
        space.number_of(sid) if space.count > 1 else 0
    ]

    def loaded(replies: list[Any]) -> Loaded:
        record, score, time = replies[:3]
        now = of(partition).clock.learn(time)
        # A foreign client may have written any score.
        due = 0 if score is None else int(max(0.0, min(float(score), TIME_MAX)))
        if record is None or due > now:
            return Loaded(sid, record if due else None, due if record else 0, now)
        return Loaded(sid, None, due if has_user(record) else 0, now)

    if touch is Touch.NOTHING:
        return Plain(partition, "read", reading % (name, name), 3, loaded, 3)

    def packed(now: int) -> bytes:
        seen = now - now % (conf.TOUCH_INTERVAL * 1000 or 1)
        return (reading + touching) % (name, name, seen, name, seen, name)

    return Plain(partition, "read", packed, 5, loaded, 3)


def note_of(sid: str) -> Steps[str]:
    """Read the note that says why the session ``sid`` is gone. ``""`` if there is no note."""
    partition = keyspace().of_sid(sid)
    packed = packing.command("GET", partition.ended_of(sid)) + packing.command("EXISTS", partition.meta)
    try:
        note, agreed = yield from Plain(partition, "note", packed, 2, list)
    except ResponseError:
        # A foreign client may have written another type of value.
        return ""
    if agreed == 0:
        # All data have gone. A process with other settings must not be the first to write.
        of(partition).agreed.discard(partition.tag)
        yield from agree([partition])
    return note.decode(errors="replace") if note else ""


def time(partition: Partition | None = None) -> Plain[int]:
    """Read the time of the server that has ``partition``, by default the first one, in milliseconds."""
    asked = partition or keyspace().partitions[0]
    return Plain(asked, "time", packing.command("TIME"), 1, lambda replies: of(asked).clock.learn(replies[0]))


@lru_cache(maxsize=PREFIXES_KEPT)
def templates(prefix: str, count: int) -> list[tuple[Partition, bytes, bytes, bytes]]:
    # Each partition, with the packed commands that read a session, touch it, and change its record. Placeholders stand
    # for the variable parts. A session is in one of the two lists: XX leaves the other list unchanged.
    sid, time, any_length = b"$20\r\n%b\r\n", b"$13\r\n%013d\r\n", b"$%d\r\n%b\r\n"

    def packed(count: int, *command: str) -> bytes:
        return b"*%d%b" % (count, packing.command(*command)[2:].replace(b"%", b"%%"))

    def touch(name: str) -> bytes:
        return packed(6, "ZADD", name, "XX", "GT") + time + sid

    return [
        (
            each,
            packed(3, "HGET", each.login) + sid + packed(3, "ZSCORE", each.expire) + sid + packed(1, "TIME"),
            touch(each.recent) + touch(each.guests),
            packed(9, "EVALSHA", scripts.CHANGE.digest, "2", each.login, each.expire)
            + sid
            + b"$%d\r\n%%b\r\n" % REVISION_SIZE
            + any_length
            + any_length,
        )
        for each in Keyspace(prefix, count).partitions
    ]


def rotated_to(note: str) -> str:
    """Return the new sid in the note of a session that got another key. ``""`` for any other note."""
    word, sid, *_ = (*note.split(" "), "")
    return sid if word == "rotated" and is_sid(sid) else ""


def was_guest(note: str) -> bool:
    """Return whether a session had no user when it got another key. ``note`` is the note of its old key."""
    return bool(rotated_to(note)) and note.endswith(" guest")
