"""What a save writes: the parts of the record, and the short way to save."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.contrib.auth import SESSION_KEY
from django.contrib.sessions.backends.base import SessionBase
from django.contrib.sessions.serializers import JSONSerializer
from django.utils import timezone

from django_redsess.conf import conf
from django_redsess.session import deadlines, operations
from django_redsess.session.addresses import changed_entry
from django_redsess.session.deadlines import Expiry
from django_redsess.session.loading import SessionLoading
from django_redsess.session.operations import Outcome
from django_redsess.session.payload import check_depth
from django_redsess.session.record import REVISION_SIZE, Client, Record, client_packed, pack
from django_redsess.session.serializers import name_of
from django_redsess.session.state import NOTHING_PENDING, Known
from django_redsess.transport import scripts
from django_redsess.transport.connections import of
from django_redsess.transport.keys import keyspace, sid_of
from django_redsess.transport.steps import Plain

AHEAD_MIN = 5_000
"""change does not read the deadline. So it must be this many milliseconds ahead, longer than a request waits."""

Change = tuple[Known, Plain[Outcome]]
"""A save by the short way: what is known after it, and the step that sends it."""


def change_of(session: SessionLoading) -> Change | None:
    """
    Return the short way to save ``session``: compare and set. None if the save may need more.

    The script checks only the revision. So the rest must be known in advance: the session is live, only its record
    changes, and its deadline does not move to an earlier time.
    """
    known, data, key = session.known, session._session_cache, session.session_key
    base, user = known.record, data.get(SESSION_KEY)
    if (
        base is None
        or not known.revision
        or key is None
        or session.pending != NOTHING_PENDING
        or ("" if user is None else str(user)) != base.user_id
    ):
        return None
    sid = sid_of(key)
    server = of(keyspace().of_sid(sid))
    at = server.clock.now() or 0
    # Only the general script can find out that a full server has room again.
    if server.outages.under_way and server.outages.is_met_by(scripts.SAVE.name):
        return None
    if not at or known.due - at < AHEAD_MIN:
        return None
    passive = session.visit is not None and session.visit.passive
    times = deadlines.of_save(expiry_of(session, at), base, known.due, at, passive=passive)
    if times is None:
        return None
    deadline_seconds, age_seconds, due, _ = times
    user_id, login_ms, client = base.user_id, base.login_ms, client_of(session, base.user_id)
    entry = None if client == base.client_packed else changed_entry(base, client)
    record = Record(user_id, login_ms, deadline_seconds, age_seconds, client, *serialized(session, data))
    packed = pack(sid, record)
    revision, moved = packed[1 : 1 + REVISION_SIZE], due if due > known.due else 0
    step = operations.change(sid, packed, revision=revision, loaded=known.revision, due=moved, entry=entry)
    # As Known() does, in half the time.
    return tuple.__new__(Known, (record, revision, due, False)), step


def user_of(data: dict[str, Any]) -> str:
    """Return the user id in the data of a session, ``""`` for a guest."""
    return "" if data.get(SESSION_KEY) is None else str(data[SESSION_KEY])


def serialized(session: SessionLoading, data: dict[str, Any]) -> tuple[bytes, str]:
    """
    Return ``data`` as the serializer writes them, and its name for the record.

    Raises ValueError if they have too many levels to be read.
    """
    serializer = session.serializer
    try:
        written: bytes = serializer().dumps(data)
    except RecursionError:
        check_depth(data)
        raise
    check_depth(data, written)
    return written, "" if serializer is JSONSerializer else name_of(serializer)


def client_of(session: SessionLoading, user_id: str) -> bytes:
    """
    Return the client part of the record: the present visitor, or else the stored one.

    A guest has only an address, and only with ``INDEX_ADDRESSES``.
    """
    if not user_id and not conf.INDEX_ADDRESSES:
        return b""
    if session.visit is not None:
        client = session.visit.client()
        return client_packed(client if user_id else Client(client.address))
    return session.known.record.client_packed if session.known.record else b""


def expiry_of(session: SessionLoading, now: int) -> Expiry:
    """Return Django's deadline of ``session``, from the methods of Django's session API."""
    expiry = session._session_cache.get("_session_expiry")
    if expiry is None and type(session).get_expiry_age is SessionBase.get_expiry_age:
        # The same value as get_expiry_age(), in less time.
        return Expiry(int(session.get_session_cookie_age()) * 1000, 0)
    if isinstance(expiry, (datetime, str)):
        date = session.get_expiry_date()
        return Expiry(0, int((timezone.make_aware(date) if timezone.is_naive(date) else date).timestamp() * 1000))
    age = int(session.get_expiry_age() * 1000)
    return Expiry(age, 0) if age > 0 else Expiry(0, now + age)
