"""Reading a session: a few plain commands in one round trip, packed but for what is another thing each time."""

from __future__ import annotations

from enum import StrEnum
from functools import lru_cache
from typing import Any, NamedTuple

from django_redsess.conf import conf
from django_redsess.session.record import REVISION_SIZE, has_user
from django_redsess.transport import connections, packing, scripts
from django_redsess.transport.keys import Keyspace, is_sid, keyspace
from django_redsess.transport.steps import Plain

TIME_MAX = 2.0**52
"""Milliseconds: far beyond all times, and scores are exact up to there."""


class Touch(StrEnum):
    """What reading a session leaves behind."""

    NOTHING = ""
    SEEN = "seen"
    """A note that it was seen: for a request that nobody made by hand."""
    ACTIVE = "active"
    """The same, and later deadlines, as far as the settings move them."""


class Loaded(NamedTuple):
    """
    A session as it was read at the server's time ``now``. ``record`` is None when it is gone.

    ``due`` is its deadline. Of a session that is gone it is 0; but if it has a user, is due, and nobody has taken it
    out so far, it is that deadline. Both times are in milliseconds.
    """

    sid: str
    record: bytes | None
    due: int
    now: int


def read(sid: str, touch: Touch = Touch.NOTHING) -> Plain[Loaded]:
    """
    Read the record and the deadline of ``sid``, and touch it, unless ``touch`` says not to.

    Last seen is rounded down to ``TOUCH_INTERVAL``. So the second touch in an interval changes nothing, and no process
    needs to remember whom it has touched.
    """
    space, name = keyspace(), sid.encode()
    reading, touching, _ = templates(space.prefix, space.count)[space.number_of(sid) if space.count > 1 else 0]

    def loaded(replies: list[Any]) -> Loaded:
        record, score, time = replies[:3]
        now = connections.clock().learn(time)
        # Somebody else may have written anything.
        due = 0 if score is None else int(max(0.0, min(float(score), TIME_MAX)))
        if record is None or due > now:
            return Loaded(sid, record if due else None, due if record else 0, now)
        return Loaded(sid, None, due if has_user(record) else 0, now)

    if touch is Touch.NOTHING:
        return Plain(space, "read", reading % (name, name), 3, loaded, 3)

    def packed(now: int) -> bytes:
        seen = now - now % (conf.TOUCH_INTERVAL * 1000 or 1)
        return (reading + touching) % (name, name, seen, name, seen, name)

    return Plain(space, "read", packed, 5, loaded, 3)


def note_of(sid: str) -> Plain[str]:
    """Read why the session ``sid`` is gone: ``""`` where nobody knows."""
    space = keyspace()
    packed = packing.command("GET", space.of_sid(sid).ended_of(sid))

    def read(replies: list[Any]) -> str:
        # Somebody may have put anything there.
        return replies[0].decode(errors="replace") if isinstance(replies[0], bytes) else ""

    return Plain(space, "note", packed, 1, read, 0)


def time() -> Plain[int]:
    """Read the server's time, in milliseconds."""
    return Plain(keyspace(), "time", packing.command("TIME"), 1, lambda replies: connections.clock().learn(replies[0]))


@lru_cache(maxsize=8)
def templates(prefix: str, count: int) -> list[tuple[bytes, bytes, bytes]]:
    # For each partition: what reads a session, what touches it, and what changes its record, packed but for what is
    # another thing each time. A session is in one of the two lists, and XX leaves the other alone.
    sid, time, any_length = b"$20\r\n%b\r\n", b"$13\r\n%013d\r\n", b"$%d\r\n%b\r\n"

    def packed(count: int, *command: str) -> bytes:
        return b"*%d%b" % (count, packing.command(*command)[2:].replace(b"%", b"%%"))

    def touch(name: str) -> bytes:
        return packed(6, "ZADD", name, "XX", "GT") + time + sid

    return [
        (
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
    """Return the sid under which the session lives on whose note this is; ``""`` where it does not."""
    word, _, sid = note.partition(" ")
    return sid if word == "rotated" and is_sid(sid) else ""
