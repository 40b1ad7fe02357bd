"""
How a session of the other store comes here: its row is read, and copied under a key that it can have here.

Nothing is invented: a copy has the deadline of its row.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

from django.conf import settings

from django_redsess.contrib.moving.marks import COPIED, HERE, derived_keys, mark_lifetime, mark_of_copy
from django_redsess.contrib.moving.other_store import keys_of_ends
from django_redsess.contrib.moving.outages import ask_other_store
from django_redsess.contrib.moving.sources import source
from django_redsess.contrib.moving.sources.base import Row
from django_redsess.session import deadlines
from django_redsess.session.client import clean_client
from django_redsess.session.record import AGE_MAX, Record, pack, serialized, user_of, with_revision
from django_redsess.session.saving import client_part
from django_redsess.session.store import SessionStore
from django_redsess.transport import scripts
from django_redsess.transport.keys import BUCKETS, bucket_of, bucket_of_user, is_session_key, keyspace
from django_redsess.transport.steps import CallOutside, EndedSessions, ScriptCall, Steps, current_time

BEGAN_KEY = "_redsess_began"
"""Where the data of a session that is used in the other store have the time at which it began, in milliseconds."""


def fetch_row(key: str) -> Steps[Row | None]:
    """Read a row, and take out of its data what we have put there."""
    found: Row | None = yield from ask_outside(partial(source().read_row, key))
    # A source of the site's own may return anything.
    return extract_beginning(found) if found is not None and isinstance(found.data, dict) else None


def extract_beginning(row: Row) -> Row:
    """Return ``row`` with the time at which its session began there, if we have put that into its data."""
    if BEGAN_KEY not in row.data:
        return row
    # A source may keep the row.
    data = {key: value for key, value in row.data.items() if key != BEGAN_KEY}
    at = row.data[BEGAN_KEY]
    return row._replace(data=data, began_ms=at if isinstance(at, int) else 0)


def ask_outside(function: Any) -> Steps[Any]:
    return (yield CallOutside(partial(ask_other_store, function)))


def keys_here(key: str) -> list[str]:
    """
    Return the keys by which the session ``key`` of the other store is looked for here, the one to choose first.

    It is the same, unless it can't be a key here: such as one with capitals, or the signed cookie that is itself the
    session. None if it can be no key there, either.
    """
    if is_session_key(key):
        return [key]
    return derived_keys(key, sum(key.encode()) % BUCKETS) if source().could_be_key(key) else []


def possible_keys(key: str, own_key: str, user_id: str) -> list[str]:
    """
    Return the keys that a session may get here, the one to choose first: ``own_key``, where that can stay.

    With several partitions, all sessions of a user are in the user's bucket, so that all of them can be found.
    """
    if not user_id or keyspace().count == 1 or bucket_of(own_key) == bucket_of_user(user_id):
        return [own_key]
    return derived_keys(key, bucket_of_user(user_id))


class Copy(NamedTuple):
    """A session as it is written here: its record without a seal, and its times."""

    record: Record
    due: int
    seen: int
    deadline: int
    began_at: int


def copy_session(session: SessionStore, sid: str, found: Row, sid_there: str) -> Steps[str]:
    """Copy the session ``found`` here, under this ``sid``, and return how that went: see :func:`copy_call`."""
    partition = keyspace().of_sid(sid)
    at = yield from current_time(partition)
    data = serialized(session.serializer, found.data)
    while True:
        made = build_copy(session, found, data, at)
        if made.due <= at:
            return "ended"
        outcome, at = yield from copy_call(sid, made, at, sid_there)
        if outcome != "clock":
            return outcome


def build_copy(session: SessionStore, found: Row, data: tuple[bytes, str], at: int) -> Copy:
    """
    Return what is written of ``found`` at the server's time ``at``. ``data`` is its serialized data.

    Nothing is invented: the deadline stays. It was last written the age of a session before, which is taken for the
    sign-in and the last request, if they are not known.
    """
    expiry = found.data.get("_session_expiry")
    age_seconds = settings.SESSION_COOKIE_AGE if expiry is None else expiry if isinstance(expiry, int) else 0
    age_seconds = min(age_seconds, AGE_MAX)
    deadline = found.deadline_ms or at + age_seconds * 1000
    written = deadline - age_seconds * 1000
    if age_seconds <= 0 or not 0 < written < at:
        written = at
    user_id = user_of(found.data)
    login_ms = (found.began_ms or written) if user_id else 0
    times = deadlines.times_of_moved(deadline, max(0, age_seconds), login_ms, at)
    client = client_part(session, user_id, partial(clean_client, found.address, found.user_agent or ""))
    packed, serializer = data
    record = Record(user_id, login_ms, times.deadline_seconds, times.age_seconds, client, packed, serializer)
    return Copy(record, times.due, written, deadline, found.began_ms)


def copy_call(sid: str, made: Copy, at: int, sid_there: str) -> ScriptCall[tuple[str, int]]:
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
        mark_lifetime=mark_lifetime(made.deadline, at),
        began_at=made.began_at,
        sid_there=sid_there,
    )
    over, over_all = keys_of_ends(partition, record.user_id)
    keys = script.keys(partition, moved=partition.moved_of(sid), over=over, over_all=over_all)
    return ScriptCall(partition, script, keys, args, _read_outcome)


def _read_outcome(reply: list[bytes], _: EndedSessions) -> tuple[str, int]:
    return reply[0].decode(), int(reply[1]) if len(reply) > 1 else 0
