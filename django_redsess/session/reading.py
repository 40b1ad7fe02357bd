"""
Reading a session, and the note that says why a session is gone.

The functions here send nothing: each returns a step, as in :mod:`~django_redsess.session.operations`.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

from django.utils.encoding import force_str
from redis.exceptions import NoScriptError

from django_redsess.conf import conf
from django_redsess.exceptions import SessionStoreUnavailable
from django_redsess.session import binding
from django_redsess.session.record import ROUNDED_UP, django_times, has_user
from django_redsess.signals import Reason
from django_redsess.transport import attempts, packing, scripts, steps
from django_redsess.transport.agreement import agree
from django_redsess.transport.connections import is_short_of_replicas, server_of
from django_redsess.transport.keys import PREFIXES_KEPT, Keyspace, Partition, is_sid, keyspace
from django_redsess.transport.outages import forbidden, is_foreign
from django_redsess.transport.partitions import ask_each
from django_redsess.transport.pools import Pool
from django_redsess.transport.steps import Pipeline, ScriptCall, Steps

NOBODY = b"-" * 20
"""As long as a sid, and can't be one."""

TIME_MAX = 2.0**52
"""Milliseconds. This is later than any real time, and scores are exact up to here."""

TIME = packing.pack_command("TIME")

REPEATS_OF_A_MISS = 3
"""
How often a session that a master without replicas does not have is looked for again. Another request may take the new
connection away, and leave an old one.
"""


class Touch(StrEnum):
    """What a read writes about the session."""

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
    """Return the note of a session that expired at the time ``at``, in milliseconds."""
    return f"{Reason.EXPIRED} {at} "


def seen_at(now: int) -> int:
    """
    Return the last-seen time that a touch at the server's time ``now`` writes, in milliseconds.

    It is rounded down to ``TOUCH_INTERVAL``. So a second touch in the same interval changes nothing, whichever process
    makes it.
    """
    return now - now % (conf.TOUCH_INTERVAL * 1000 or 1)


def read_session(
    sid: str, touch: Touch = Touch.NOTHING, claim: Callable[[], bytes | None] | None = None
) -> Steps[Loaded]:
    """
    Read the record and the deadline of ``sid``, and touch the session as ``touch`` says.

    If there is a guard, a session that is bound to a device is touched only if ``claim`` returns the id of its binding,
    or None.

    A session that this process has touched in the present ``TOUCH_INTERVAL`` is touched again only once a second, when
    the server's time is read. Its deadline is not read as long as that of its record is ahead and no time-out moves
    deadlines.
    """
    space = keyspace()
    commands = templates(space.prefix, space.count)[space.number_of(sid) if space.count > 1 else 0]
    partition = commands.partition
    tag, server = partition.tag, server_of(partition)
    if tag not in server.agreed:
        yield from agree([partition])
    fresh = server.clock.fresh()
    if touch is Touch.NOTHING:
        return (yield from _read_whole(sid, commands, server, fresh))
    seen = seen_at(fresh or server.clock.now() or (yield from steps.current_time(partition)))
    deadline_in_record = server.touched.recall(tag + sid, seen)
    # Once a second all the same: a server that was the master a moment ago refuses it, and is read no more.
    if deadline_in_record is None or not fresh:
        claimed = None if binding.guard is None else claim() if claim else b""
        return (yield from _read_whole(sid, commands, server, fresh, seen, claimed))
    if deadline_in_record and not conf.moves_deadlines:
        [record] = yield from attempts.fetch(server, tag, "read", commands.record % sid.encode(), 1)
        due = 0 if record is None else least_deadline(record)
        if record is None or due > fresh:
            return Loaded(sid, record, due, fresh)
    return (yield from _read_whole(sid, commands, server, fresh))


def _read_whole(
    sid: str, commands: Templates, server: Pool, fresh: int | None, seen: int = 0, claimed: bytes | None = None
) -> Steps[Loaded]:
    """
    Read the record and the deadline of ``sid`` from ``server``, and its time unless that is ``fresh``.

    Touch the session as seen at the time ``seen``. 0 does not touch it. ``claimed`` is the id of the binding that the
    request proves, or None if no guard asks for it.
    """
    partition, name = commands.partition, sid.encode()
    tag = partition.tag
    packed, read_count = (commands.record + commands.deadline) % (name, name), 2
    if not fresh:
        packed, read_count = packed + TIME, 3
    reply_count = read_count
    if seen:
        if claimed is None:
            touching, reply_count = commands.touch % (seen, name, seen, name), read_count + 2
        else:
            touching, reply_count = commands.touch_proven % (name, seen, len(claimed), claimed), read_count + 1
        packed += touching
    replies = yield from attempts.fetch(server, tag, "read", packed, reply_count, read_count)
    if claimed is not None and isinstance(replies[-1], NoScriptError):
        touching = packing.with_text(touching, scripts.TOUCH_PROVEN)
        replies[-1:] = yield from attempts.fetch(server, tag, "read", touching, 1, 0)
    repeats = 0
    while replies[0] is None and repeats < REPEATS_OF_A_MISS and any(map(is_short_of_replicas, replies[read_count:])):
        # Behind Sentinel, another server may be the master by now, and have the session. The refusal has closed the
        # connection, and a new one leads there.
        replies = yield from attempts.fetch(server, tag, "read", packed, reply_count, read_count)
        repeats += 1
    record, score = replies[:2]
    now = fresh or server_of(partition).clock.learn(replies[2])
    # A foreign client may have written any score.
    due = 0 if score is None else int(max(0.0, min(float(score), TIME_MAX)))
    if record is None:
        return Loaded(sid, None, 0, now)
    if due <= now and fresh:
        # Before it counts as over, the server that has it is asked.
        now = yield from read_time(partition)
    if due <= now:
        return Loaded(sid, None, due if has_user(record) else 0, now)
    touched = replies[read_count:]
    # A server that is full refuses to write.
    if touched and type(touched[0]) is type(touched[-1]) is int and (claimed is None or touched[0]):
        # A time-out that was removed from the settings may have left an earlier deadline.
        server.touched.note_touch(tag + sid, seen, due >= least_deadline(record))
    return Loaded(sid, record, due, now)


def least_deadline(record: bytes) -> int:
    """
    Return the deadline in ``record``, in milliseconds.

    If no time-out moves deadlines, the session's deadline is not before it. It may be later by the slack.
    """
    seconds, _ = django_times(record)
    return seconds * 1000 - ROUNDED_UP


def note_of(sid: str) -> Steps[str]:
    """Read the note that says why the session ``sid`` is gone. ``""`` if there is no note."""
    partition = keyspace().of_sid(sid)
    [note] = yield from texts_of(partition, partition.ended_of(sid))
    return note


def texts_of(partition: Partition, *names: str) -> Steps[list[str]]:
    """Read these keys of a session that is gone. ``""`` for each that is not there."""
    packed = b"".join(packing.pack_command("GET", name) for name in names) + packing.pack_command(
        "EXISTS", partition.meta
    )
    try:
        *texts, agreed = yield from Pipeline(partition, "note", packed, len(names) + 1, list, len(names))
    except SessionStoreUnavailable as error:
        # Without a note, nobody is told why the session is gone. That is no reason to refuse the request.
        if not is_foreign(error.__cause__):
            raise
        return [""] * len(names)
    if agreed == 0:
        # All data have gone. A process with other settings must not be the first to write.
        server = server_of(partition)
        server.agreed.discard(partition.tag)
        server.invalidate_reads()
        yield from agree([partition])
    return [text.decode(errors="replace") if text else "" for text in texts]


def read_time(partition: Partition | None = None) -> Pipeline[int]:
    """Read the time of the server that has ``partition``, by default the first one, in milliseconds."""
    asked = partition or keyspace().partitions[0]
    return Pipeline(asked, "time", TIME, 1, lambda replies: server_of(asked).clock.learn(replies[0]))


def probe_servers() -> Steps[None]:
    """
    Send each server the commands of a load, for a session that does not exist. So nothing changes.

    A server that refuses writes refuses to touch a session, too. A script asks whether the user may run the commands of
    the scripts that save and create sessions. The first server that fails raises what :class:`Pipeline` raises.
    """
    space, asking = keyspace(), scripts.ACL
    # HINCRBY only counts. Without its permission, sessions are still stored.
    wanted = [name for name in scripts.commands_of_scripts(scripts.SAVE_FAST, scripts.CREATE_FAST) if name != "HINCRBY"]

    def pack_probe(number: int, at: int) -> bytes:
        of = templates(space.prefix, space.count)[number]
        args = asking.arguments(commands=wanted, names=[of.partition.login])
        asked = (of.record + of.deadline) % (NOBODY, NOBODY) + TIME + of.touch % (at, NOBODY, at, NOBODY)
        return asked + packing.pack_script_call(asking, (), args)

    for *_, (refused, _) in (yield from ask_each("ready", space.partitions, pack_probe, 6, script=asking)):
        if refused:
            raise forbidden(map(force_str, refused))


class Templates(NamedTuple):
    """
    The packed commands for a session in ``partition``, with placeholders for the variable parts.

    They read its ``record`` and its ``deadline``, and ``touch`` it. ``touch_proven`` does so unless it is bound to a
    device and the request has no proof.
    """

    partition: Partition
    record: bytes
    deadline: bytes
    touch: bytes
    touch_proven: bytes


SID_PLACEHOLDER = b"$20\r\n%b\r\n"


def pack_template(parts: int, *command: str) -> bytes:
    """Pack the beginning of a command that has so many ``parts``. The rest may have placeholders."""
    return b"*%d%b" % (parts, packing.pack_command(*command)[2:].replace(b"%", b"%%"))


@lru_cache(maxsize=PREFIXES_KEPT)
def templates(prefix: str, count: int) -> list[Templates]:
    """Return the commands for each partition."""
    time, proven = b"$13\r\n%013d\r\n", scripts.TOUCH_PROVEN

    def pack_touch(name: str) -> bytes:
        # A session is in one of two lists. XX leaves the other one unchanged.
        return pack_template(6, "ZADD", name, "XX", "GT") + time + SID_PLACEHOLDER

    return [
        Templates(
            partition=each,
            record=pack_template(3, "HGET", each.login) + SID_PLACEHOLDER,
            deadline=pack_template(3, "ZSCORE", each.expire) + SID_PLACEHOLDER,
            touch=pack_touch(each.recent) + pack_touch(each.guests),
            touch_proven=pack_template(9, "EVALSHA", proven.digest, "3", each.login, each.recent, each.guests)
            + SID_PLACEHOLDER
            + time
            + b"$%d\r\n%b\r\n",
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
        loaded = yield from read_session(sid)
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


def read_viewed_items(sid: str) -> ScriptCall[list[bytes]]:
    """Read the items that a session viewed, to move them with it: item, time, item, time, …"""
    partition, script = keyspace().of_sid(sid), scripts.RECENT_ITEMS
    return ScriptCall(partition, script, script.keys(partition), script.arguments(sid=sid, limit=0), list)
