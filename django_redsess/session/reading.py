"""
How a session is read, and what a session that is gone has left: the note that says why.

The functions here send nothing: each returns a step, as those of :mod:`~django_redsess.session.operations` do.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from functools import lru_cache
from typing import Any, NamedTuple

from django.utils.encoding import force_str

from django_redsess.conf import conf
from django_redsess.exceptions import SessionStoreUnavailable
from django_redsess.session.record import REVISION_SIZE, has_user
from django_redsess.signals import Reason
from django_redsess.transport import packing, scripts
from django_redsess.transport.compatibility import agree
from django_redsess.transport.connections import server_of
from django_redsess.transport.keys import PREFIXES_KEPT, Keyspace, Partition, is_sid, keyspace
from django_redsess.transport.outages import forbidden, is_foreign
from django_redsess.transport.partitions import ask_each
from django_redsess.transport.steps import Call, Commands, Steps

NOBODY = b"-" * 20
"""As long as a sid, and can't be one."""

TIME_MAX = 2.0**52
"""Milliseconds. This is later than any real time, and scores are exact up to here."""


class Touch(StrEnum):
    """The times that a read writes about the session."""

    NOTHING = ""
    SEEN = "seen"
    """The last-seen time. For a passive request."""
    ACTIVE = "active"
    """The last-seen time, and a later deadline if the settings move it. For an active request."""


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

    @property
    def expired_note(self) -> str:
        """The note that a session gets when it is removed, if it is due and has not been removed yet. Else ``""``."""
        return expired_note(self.due) if self.record is None and self.due else ""


def expired_note(at: int) -> str:
    """Return the note of a session that expired ``at`` this time, in milliseconds."""
    return f"{Reason.EXPIRED} {at} "


def seen_at(now: int) -> int:
    """
    Return the last-seen time that a touch at the server's time ``now`` writes, in milliseconds.

    It is rounded down to ``TOUCH_INTERVAL``. So a second touch in the same interval changes nothing, and no process has
    to remember which sessions it has touched.
    """
    return now - now % (conf.TOUCH_INTERVAL * 1000 or 1)


def read(sid: str, touch: Touch = Touch.NOTHING) -> Commands[Loaded]:
    """Read the record and the deadline of ``sid``, and touch the session as ``touch`` says."""
    space, name = keyspace(), sid.encode()
    partition, reading, touching, _ = templates(space.prefix, space.count)[
        space.number_of(sid) if space.count > 1 else 0
    ]

    def loaded(replies: list[Any]) -> Loaded:
        record, score, time = replies[:3]
        now = server_of(partition).clock.learn(time)
        # A foreign client may have written any score.
        due = 0 if score is None else int(max(0.0, min(float(score), TIME_MAX)))
        if record is None or due > now:
            return Loaded(sid, record if due else None, due if record else 0, now)
        return Loaded(sid, None, due if has_user(record) else 0, now)

    if touch is Touch.NOTHING:
        return Commands(partition, "read", reading % (name, name), 3, loaded, 3)

    def packed(now: int) -> bytes:
        seen = seen_at(now)
        return (reading + touching) % (name, name, seen, name, seen, name)

    return Commands(partition, "read", packed, 5, loaded, 3)


def note_of(sid: str) -> Steps[str]:
    """Read the note that says why the session ``sid`` is gone. ``""`` if there is no note."""
    partition = keyspace().of_sid(sid)
    [note] = yield from texts_of(partition, partition.ended_of(sid))
    return note


def texts_of(partition: Partition, *names: str) -> Steps[list[str]]:
    """Read these keys of a session that is gone. ``""`` for each that is not there."""
    packed = b"".join(packing.command("GET", name) for name in names) + packing.command("EXISTS", partition.meta)
    try:
        *texts, agreed = yield from Commands(partition, "note", packed, len(names) + 1, list, len(names))
    except SessionStoreUnavailable as error:
        # Without a note, nobody is told why the session is gone. That is no reason to refuse the request.
        if not is_foreign(error.__cause__):
            raise
        return [""] * len(names)
    if agreed == 0:
        # All data have gone. A process with other settings must not be the first to write.
        server_of(partition).agreed.discard(partition.tag)
        yield from agree([partition])
    return [text.decode(errors="replace") if text else "" for text in texts]


def time(partition: Partition | None = None) -> Commands[int]:
    """Read the time of the server that has ``partition``, by default the first one, in milliseconds."""
    asked = partition or keyspace().partitions[0]
    return Commands(asked, "time", packing.command("TIME"), 1, lambda replies: server_of(asked).clock.learn(replies[0]))


def probe() -> Steps[None]:
    """
    Ask each server what a load asks, in one round trip: for a session that does not exist, so nothing changes.

    A server that refuses to write refuses to touch a session, too. A script asks whether those that save and add
    sessions may run their commands. The first server that fails raises what :class:`Commands` raises.
    """
    space, asking = keyspace(), scripts.PERMISSIONS
    # HINCRBY only counts. Without its permission, sessions are still stored.
    wanted = [name for name in scripts.commands_of(scripts.CHANGE, scripts.ADD) if name != "HINCRBY"]

    def commands(number: int, at: int) -> bytes:
        partition, reading, touching, _ = templates(space.prefix, space.count)[number]
        args = asking.arguments(commands=wanted, names=[partition.login])
        asked = (reading + touching) % (NOBODY, NOBODY, at, NOBODY, at, NOBODY)
        return asked + packing.script_call(asking, (), args)

    for *_, (refused, _) in (yield from ask_each("ready", space.partitions, commands, 6, script=asking)):
        if refused:
            raise forbidden(map(force_str, refused))


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


def successor(sid: str, note: str, leads_on: Callable[[str], object] = rotated_to) -> Steps[tuple[Loaded | None, str]]:
    """
    Follow the keys that a session has got, from the ``note`` of its old key ``sid`` on.

    Return the live session, or None and the note that says why it is gone. ``leads_on`` tells of each note whether the
    next key is looked at.
    """
    seen = {sid}
    while leads_on(note) and (sid := rotated_to(note)) not in seen:
        # Foreign notes may point in a circle.
        seen.add(sid)
        loaded = yield from read(sid)
        if loaded.record is not None:
            return loaded, ""
        note = (yield from note_of(sid)) or loaded.expired_note
    return None, note


def was_guest(note: str) -> bool:
    """Return whether a session had no user when it got another key. ``note`` is the note of its old key."""
    return bool(rotated_to(note)) and "guest" in note.split(" ")[2:]


def is_followed(note: str) -> bool:
    """Return whether sockets that watch a session that got another key go on under the new one."""
    return bool(rotated_to(note)) and "follow" in note.split(" ")[2:]


def records(partition: Partition, cursor: int, *, about: int) -> Commands[tuple[int, list[tuple[bytes, bytes]]]]:
    """Read some records from ``cursor`` on, each with its sid. ``about`` is roughly how many."""
    packed = packing.command("HSCAN", partition.login, cursor, "COUNT", about)

    def read(replies: list[Any]) -> tuple[int, list[tuple[bytes, bytes]]]:
        next_cursor, found = replies[0]
        return int(next_cursor), list(zip(found[::2], found[1::2], strict=True))

    return Commands(partition, "scan", packed, 1, read)


def viewed_by(sid: str) -> Call[list[bytes]]:
    """Read the items that a session viewed, to move them with it: item, time, item, time, …"""
    partition, script = keyspace().of_sid(sid), scripts.RECENT_ITEMS
    return Call(partition, script, script.keys(partition), script.arguments(sid=sid, limit=0), list)
