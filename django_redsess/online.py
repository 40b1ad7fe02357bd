"""Who is online, and ending their sessions. Public."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from django_redsess import call, store, upkeep
from django_redsess.keys import is_sid, keyspace
from django_redsess.record import Client, Record, RecordError, log_unusable, unpack
from django_redsess.signals import Ended, Reason
from django_redsess.upkeep import Sample

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser


@dataclass(frozen=True, slots=True)
class Session:
    """
    A session that is online, without its data.

    ``user_id`` is the user's primary key as text; ``login_at`` is when the user signed in, ``seen_at`` when a request
    last used the session (exact to ``TOUCH_INTERVAL``), ``expires_at`` its deadline (all aware, UTC); ``address`` and
    ``user_agent`` are those of the request that last saved it, ``""`` where not known. For a guest's session
    ``user_id`` is ``""`` and ``login_at`` None.
    """

    sid: str
    user_id: str
    login_at: datetime | None
    seen_at: datetime
    expires_at: datetime
    address: str
    user_agent: str


def sessions(
    *, offset: int = 0, limit: int = 100, newest_first: bool = True, user_ids: Sequence[str] | None = None
) -> list[Session]:
    """
    List signed-in sessions by the time of sign-in.

    ``offset`` leaves out so many, ``limit`` returns at most so many; ``newest_first`` turns the order round;
    ``user_ids`` (primary keys as text, at most 1 000) lists only the sessions of those users. Raises ValueError for a
    negative ``offset``, or too many users.
    """
    if offset < 0:
        raise ValueError(f"offset must be 0 or more, not {offset}.")
    if limit < 1:
        return []
    calls = store.page(offset, offset + limit - 1, newest_first=newest_first, user_ids=user_ids)
    rows = [row for page in calls for row in page.run()]
    if len(calls) > 1:
        rows.sort(key=lambda row: (row.login_at, row.sid), reverse=newest_first)
        rows = rows[offset : offset + limit]
    return [_session(row) for row in rows]


def of_user(user: AbstractBaseUser, *, limit: int = 100) -> list[Session]:
    """List the sessions of ``user``, at most ``limit``, newest sign-in first."""
    return sessions(limit=limit, user_ids=[user_id_of(user)])


def get(sid: str) -> Session | None:
    """Return the session ``sid``, a guest's too, or None when it is gone, due, or ``sid`` is none."""
    found = find([sid])
    return found[0] if found else None


def find(sids: Sequence[str]) -> list[Session]:
    """Return the sessions of these sids that are there, in no certain order."""
    return [_session(row) for look in store.find([sid for sid in sids if is_sid(sid)]) for row in look.run()]


def count(*, user_ids: Sequence[str] | None = None) -> int:
    """Count signed-in sessions: of these users (at most 1 000), or of all."""
    return sum(part.run() for part in store.count(user_ids))


def end(*sids: str) -> list[Ended]:
    """
    End these sessions at once: each one's next request finds itself signed out.

    Returns those that were there; what was gone already is no error.
    """
    return call.run(store.end([sid for sid in sids if is_sid(sid)], Reason.KICKED))


def history(*, hours: float = 24) -> list[Sample]:
    """
    Return how many were online, minute by minute, over the last ``hours`` (at most 48 are kept), the earliest first.

    Empty where no ``cleansessions --forever`` runs, which takes the samples. What was created and has ended is counted
    from the beginning of the store: take the difference of two samples.
    """
    minutes: dict[datetime, list[Sample]] = {}
    for read in upkeep.samples(seconds=hours * 3600):
        for sample in read.run():
            minutes.setdefault(sample.at, []).append(sample)
    # A minute that not all partitions know (one was out of reach, or it has just begun) would look like a dip.
    whole = [at for at in sorted(minutes) if len(minutes[at]) == keyspace().count]
    return [_together(minutes[at]) for at in whole]


def user_id_of(user: AbstractBaseUser) -> str:
    """Return the primary key of ``user`` as sessions hold it: as text."""
    return user._meta.pk.value_to_string(user)


def _together(partitions: list[Sample]) -> Sample:
    return Sample(
        partitions[0].at,
        sum(sample.signed_in for sample in partitions),
        sum(sample.guests for sample in partitions),
        sum(sample.created for sample in partitions),
        {reason: sum(sample.ended[reason] for sample in partitions) for reason in Reason},
    )


def _session(row: store.Row) -> Session:
    try:
        record = unpack(row.sid, row.record)
    except RecordError as error:
        log_unusable(row.sid, error)
        record = Record("", Client(), b"")
    return Session(
        row.sid,
        record.user_id,
        row.login_at,
        row.seen_at,
        row.expires_at,
        record.client.address,
        record.client.user_agent,
    )
