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

    ``user_id`` is the user's primary key as text; ``login_at`` is when the user signed in, ``seen_at`` when a request
    last used the session (or up to ``TOUCH_INTERVAL`` before that), ``expires_at`` its deadline (all aware, UTC);
    ``address`` and ``user_agent`` are those of the request that last saved it, ``""`` where not known. ``size`` is that
    of its record in Redis, in bytes; ``newest_item`` what it viewed last, or ``""``. For a guest's session ``user_id``
    is ``""`` and ``login_at`` None.
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
    # What stands in the list of a user, somebody else may have written there: it is that user's if its record says so.
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
