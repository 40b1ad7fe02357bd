"""
The marks of sessions that were moved here, and the script that moves one.

A mark stays when its session ends. So it stays ended, although its row is still in the other store. A mark is
``here``, or the number of the bucket in which the session has another key here. Of a session that was copied, two
times in seconds follow: the deadline of its row, and when it was copied. So rows that are saved later can be told.

A record that was copied has the revision :data:`COPIED` until it is compared with its row, by who uses it first: a
process that does not move yet may have written the row after it was read.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

from django.conf import settings

from django_redsess.session import reading
from django_redsess.session.other_store import EndBefore, Watched
from django_redsess.session.reading import texts_of
from django_redsess.session.record import Record, pack, with_revision
from django_redsess.transport import packing, scripts, steps
from django_redsess.transport.keys import BUCKETS, Partition, bucket_of, key_in_bucket, keyspace
from django_redsess.transport.partitions import ask_each, together
from django_redsess.transport.steps import EndedSessions, Pipeline, ScriptCall, Steps

HERE = "here"
COPIED = b"copied"
DAY = 86_400_000
OVER_LIFETIME = 401 * DAY
"""
How long it is known what was ended in the other store: a day longer than browsers keep any cookie. The limit is that of
RFC 6265bis, section 5.5.
"""


class Gone(NamedTuple):
    """What is left of a session that is not here: the note of its end and its mark, each ``""`` if there is none."""

    note: str
    mark: str


def left_of(sid: str) -> Steps[Gone]:
    """Read what is left of the session ``sid`` in one round trip."""
    partition = keyspace().of_sid(sid)
    note, mark = yield from texts_of(partition, partition.ended_of(sid), partition.moved_of(sid))
    return Gone(note, mark.partition(" ")[0])


def set_mark(sid: str, deadline: int | None, mark: str = HERE) -> Steps[bool]:
    """Mark the session ``sid``, unless it is marked. True if it was not. ``deadline`` is that in the other store."""
    partition = keyspace().of_sid(sid)
    packed = marking(sid, deadline, mark, (yield from steps.now(partition)))
    [reply] = yield from Pipeline(partition, "mark", packed, 1, list)
    return reply is not None


def set_marks(entries: Sequence[tuple[str, int | None, str]]) -> Steps[list[bool]]:
    """Do as :func:`set_mark` does for many sessions at once: sid, deadline in the other store, and mark of each."""
    partitions = [keyspace().of_sid(sid) for sid, *_ in entries]
    replies = yield from ask_each("mark", partitions, lambda number, at: marking(*entries[number], at), 1)
    return [reply is not None for [reply] in replies]


def moved_to(sid: str, deadline: int | None, sid_here: str) -> Steps[bool]:
    """Mark the session ``sid``: it has another sid here. False if it has ended meanwhile by the old one."""
    mark = str(bucket_of(sid_here))
    return (yield from set_mark(sid, deadline, mark)) or (yield from left_of(sid)).mark == mark


def marking(sid: str, deadline: int | None, mark: str, now: int) -> bytes:
    """Pack the command that :func:`set_mark` sends at the server's time ``now``."""
    name, kept_for = keyspace().of_sid(sid).moved_of(sid), lifetime(deadline, now)
    # Of a session that is not copied, there is no row that could be saved later.
    full = mark if mark == HERE else mark_of_copy(mark, deadline, now)
    return packing.pack_command("SET", name, full, "NX", "PX", kept_for)


def mark_of_copy(mark: str, deadline: int | None, now: int) -> str:
    """Return the mark of a session that is copied ``now``, with a row that has this ``deadline``."""
    return f"{mark} {(deadline or 0) // 1000} {now // 1000}"


def lifetime(deadline: int | None, now: int) -> int:
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


class Copy(NamedTuple):
    """A session as it is written here: its record without a seal, and its times."""

    record: Record
    due: int
    seen: int
    deadline: int
    began_at: int


def copy(sid: str, made: Copy, at: int, sid_there: str) -> ScriptCall[tuple[str, int]]:
    """
    Add a session, unless it is or has been here. Return how that went, and the server's time if it refuses ours.

    It is ``copied``, ``there``, ``ended``, ``over`` or ``clock``. ``sid_there`` is its sid in the other store.
    """
    partition, script, record = keyspace().of_sid(sid), scripts.COPY, made.record
    args = script.arguments(
        sid=sid,
        record=with_revision(pack(sid, record), COPIED),
        user_id=record.user_id,
        login_time=record.login_ms or "",
        at=at,
        seen=made.seen,
        due=made.due,
        mark=mark_of_copy(HERE, made.deadline, at),
        mark_lifetime=lifetime(made.deadline, at),
        began_at=made.began_at,
        sid_there=sid_there,
    )
    over, over_all = _over_of(partition, record.user_id)
    keys = script.keys(partition, moved=partition.moved_of(sid), over=over, over_all=over_all)
    return ScriptCall(partition, script, keys, args, _outcome)


def _outcome(reply: list[bytes], _: EndedSessions) -> tuple[str, int]:
    return reply[0].decode(), int(reply[1]) if len(reply) > 1 else 0


def end_before(which: EndBefore) -> Steps[None]:
    """Note which sessions are over in the other store."""
    script, space = scripts.END_BEFORE, keyspace()
    kept = [*(f"session {sid}" for sid in which.keep), *(f"user {user_id}" for user_id in which.keep_users)]
    names = [(home, home.over_of(user_id)) for user_id in which.user_ids or () for home in [space.of_user(user_id)]]
    if which.user_ids is None:
        names += [(each, each.over_users) for each in space.partitions if which.users]
        names += [(each, each.over_guests) for each in space.partitions if which.guests]
    args = script.arguments(before=which.latest, lifetime=OVER_LIFETIME, kept=kept)
    calls = [ScriptCall(partition, script, script.keys(partition, over=name), args, bytes) for partition, name in names]
    if calls:
        yield from together(calls)


def lives(sid: str, user_id: str, began_at: int) -> Steps[int | None]:
    """
    Tell whether a session of the other store still lives there, by what :func:`end_before` has noted.

    Return None if not; else when it began, in milliseconds: a later time, if it was meant to stay.
    """
    home = _home_of(sid, user_id)
    texts = yield from texts_of(home, *set(_over_of(home, user_id)))
    return _later_began(texts, sid, user_id, began_at)


def living(watched: Sequence[Watched]) -> Steps[list[bool]]:
    """Tell of each session that was used in the other store whether it lives there or here."""
    space, command = keyspace(), packing.pack_command
    partitions, homes = [space.of_sid(sid) for sid, *_ in watched], [_home_of(sid, user) for sid, user, _ in watched]

    def asking(number: int, at: int) -> bytes:
        here, sid = partitions[number], watched[number].sid
        return command("HEXISTS", here.login, sid) + command("EXISTS", here.ended_of(sid), here.moved_of(sid))

    def asking_of_ends(number: int, at: int) -> bytes:
        names = _over_of(homes[number], watched[number].user_id)
        return b"".join(command("GET", name) for name in names)

    found = yield from ask_each("watch", partitions, asking, 2)
    ends = yield from ask_each("watch", homes, asking_of_ends, 2)
    lives = list[bool]()
    for each, (is_here, traces), over in zip(watched, found, ends, strict=True):
        texts = {text.decode(errors="replace") for text in over if text}
        lives.append(bool(is_here or (not traces and _later_began(texts, *each) is not None)))
    return lives


def _home_of(sid: str, user_id: str) -> Partition:
    return keyspace().of_user(user_id) if user_id else keyspace().of_sid(sid)


def _later_began(texts: Iterable[str], sid: str, user_id: str, began_at: int) -> int | None:
    stays = {f"session {sid}", f"user {user_id}"}
    later = [(before, kept) for text in texts for before, *kept in _ends_in(text) if before >= began_at]
    if any(stays.isdisjoint(map(str, kept)) for _, kept in later):
        return None
    return max((before + 1 for before, _ in later), default=began_at)


def _over_of(home: Partition, user_id: str) -> tuple[str, str]:
    return (home.over_of(user_id), home.over_users) if user_id else (home.over_guests, home.over_guests)


def _ends_in(text: str) -> list[Any]:
    try:
        found = json.loads(text or "[]")
    except ValueError:  # Another program may have stored anything there.
        return []
    entries = found if isinstance(found, list) else []
    return [each for each in entries if isinstance(each, list) and each and isinstance(each[0], int)]
