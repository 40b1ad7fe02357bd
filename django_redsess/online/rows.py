"""A session as lists show it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from django_redsess.online.queries import Row
from django_redsess.session.record import Client, RecordError, client_of, log_unusable, unpack


@dataclass(frozen=True, slots=True)
class Session:
    """
    A session that is online, without its data.

    ``user_id`` is the user's primary key as text, ``""`` for a guest or an unreadable record. ``login_at`` is the time
    of the sign-in, None for a guest. ``seen_at`` is the time of the last request, rounded down by up to
    ``TOUCH_INTERVAL``. ``expires_at`` is the deadline. All times are aware, in UTC. ``address`` and ``user_agent`` are
    those of the request that last saved the session, ``""`` if unknown. ``size`` is the size of the record in Redis, in
    bytes. ``newest_item`` is the item that the session viewed last, or ``""``.
    """

    sid: str
    user_id: str
    login_at: datetime | None
    seen_at: datetime
    expires_at: datetime
    address: str
    user_agent: str
    size: int
    newest_item: str


def session_of_row(row: Row, owners: Collection[str] | None = None) -> Session | None:
    # Another program may have written to a user's list. A session is the user's only if its record says so.
    try:
        record = unpack(row.sid, row.record)
        if owners is not None and record.user_id not in owners:
            raise RecordError("it is in the list of a user whose it is not")
        user_id, client = record.user_id, client_of(record)
    except RecordError as error:
        log_unusable(row.sid, error)
        if owners is not None:
            return None
        user_id, client = "", Client()
    return Session(
        row.sid,
        user_id,
        row.login_at,
        row.seen_at,
        row.expires_at,
        client.address,
        client.user_agent,
        len(row.record),
        row.newest_item,
    )
