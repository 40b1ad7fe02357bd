"""
Who is online, and ending their sessions. Public.

Each function that asks the server (but :func:`end_in_batches`) has a twin to be awaited, whose name begins with ``a``:
``await online.acount()``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, get_args

from django.conf import settings
from django.contrib.auth import get_user_model
from django.utils.module_loading import import_string

from django_redsess.online import queries, samples
from django_redsess.online.ending import BulkEnding
from django_redsess.online.queries import SessionFilter
from django_redsess.online.rows import Session, session_of_row
from django_redsess.online.samples import Sample
from django_redsess.session import notice, operations, reading
from django_redsess.session.record import django_times, log_unusable, unpack
from django_redsess.signals import EndedSession, Reason
from django_redsess.transport.keys import is_sid
from django_redsess.transport.steps import Steps, both, drive

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser

__all__ = [
    "Details",
    "Order",
    "Sample",
    "Session",
    "acount",
    "adetails",
    "aend",
    "aend_all",
    "aend_user",
    "afind",
    "aget",
    "ahistory",
    "aof_user",
    "asessions",
    "count",
    "details",
    "end",
    "end_all",
    "end_in_batches",
    "end_user",
    "find",
    "get",
    "history",
    "of_user",
    "sessions",
]

Order = Literal["login_at", "-login_at", "seen_at", "-seen_at"]


def _sessions(
    *,
    offset: int = 0,
    limit: int = 100,
    order: Order | None = None,
    user_ids: Sequence[str] | None = None,
    guests: bool = False,
    active_seconds: float | None = None,
) -> Steps[list[Session]]:
    """
    List the sessions in which somebody is signed in.

    ``offset`` leaves out so many, ``limit`` returns at most so many. ``order`` is by sign-in (``"login_at"``) or by
    when they were last seen (``"seen_at"``), with ``"-"`` before it the latest first; None is the latest sign-in first.
    ``user_ids`` (primary keys as text, at most 1 000) lists only the sessions of those users, as far as their records
    say that they are; ``guests`` guests' too, ``active_seconds`` only those seen in so many last seconds. Of the last
    two the order is always by last seen, and None the last seen first. Of several users, or of one in another order
    than by sign-in, the latest 5 000 sign-ins (about, and of each partition) can be reached. Raises ValueError for what
    can't be.
    """
    session_filter = _filter_of(user_ids, guests, active_seconds)
    if offset < 0:
        raise ValueError(f"offset must be 0 or more, not {offset}.")
    if order not in (None, *get_args(Order)):
        raise ValueError(f"order must be one of {', '.join(get_args(Order))}; not {order!r}.")
    if session_filter.only_by_seen and order in ("login_at", "-login_at"):
        raise ValueError("Guests, and those seen in the last seconds, can be listed by seen_at only.")
    if limit < 1:
        return []
    by_seen = session_filter.only_by_seen or order in ("seen_at", "-seen_at")
    latest_first = order is None or order.startswith("-")
    rows = yield from queries.page(
        session_filter, offset, offset + limit - 1, by_seen=by_seen, latest_first=latest_first
    )
    owners = None if session_filter.user_ids is None else frozenset(session_filter.user_ids)
    found = [session_of_row(row, owners) for row in rows]
    return [session for session in found if session is not None]


sessions, asessions = both(_sessions)


def _of_user(user: AbstractBaseUser, *, limit: int = 100) -> Steps[list[Session]]:
    """List the sessions of ``user``, at most ``limit``, newest sign-in first."""
    return (yield from _sessions(limit=limit, user_ids=[user_id_of(user)]))


of_user, aof_user = both(_of_user)


def _find(sids: Sequence[str], *, follow: bool = False) -> Steps[list[Session]]:
    """
    Return the sessions of these sids that are there, guests' too, in this order.

    With ``follow``, one that has got another key meanwhile comes after the others, under its present sid.
    """
    wanted = [sid for sid in sids if is_sid(sid)]
    found, named = list[Session](), set(wanted)
    while wanted:
        rows = yield from queries.find(wanted)
        found += [session for row in rows if (session := session_of_row(row)) is not None]
        there = {row.sid for row in rows}
        gone = [sid for sid in wanted if follow and sid not in there]
        wanted = []
        for sid in gone:
            note = yield from reading.note_of(sid)
            rotated_to = reading.rotated_to(note)
            # Notes that somebody else wrote may go in a circle.
            if rotated_to and rotated_to not in named:
                wanted.append(rotated_to)
                named.add(rotated_to)
    return found


find, afind = both(_find)


def _get(sid: str) -> Steps[Session | None]:
    """Return the session ``sid``, a guest's too, or None when it is gone, due, or ``sid`` is none."""
    found = yield from _find([sid])
    return found[0] if found else None


get, aget = both(_get)


def _count(
    *, user_ids: Sequence[str] | None = None, guests: bool = False, active_seconds: float | None = None
) -> Steps[int]:
    """Count signed-in sessions, or others, as :func:`sessions` lists them. Raises ValueError for what can't be."""
    counted, _ = yield from queries.census(_filter_of(user_ids, guests, active_seconds))
    return counted


count, acount = both(_count)


census, acensus = both(queries.census)


@dataclass(frozen=True, slots=True)
class Details:
    """
    What is inside a session: its ``data`` (None where that can't be read), and the ``sizes`` of its values in bytes.

    ``django_deadline`` is the one that was written with it, ``age_seconds`` after its last save; or that is 0, where it
    was set as a date.
    """

    data: dict[str, Any] | None
    sizes: dict[str, int]
    django_deadline: datetime
    age_seconds: float


def _details(sid: str) -> Steps[Details | None]:
    """Look into the session ``sid``, a guest's too, without a trace; None when it is gone, due, or ``sid`` is none."""
    if not is_sid(sid):
        return None
    loaded = yield from reading.read(sid)
    if loaded.record is None:
        return None
    try:
        serializer = import_string(settings.SESSION_SERIALIZER)()
        data = serializer.loads(unpack(sid, loaded.record).data)
        sizes = {key: len(serializer.dumps(value)) for key, value in data.items()}
    except Exception as error:  # A serializer may raise anything.
        log_unusable(sid, error)
        data, sizes = None, {}
    deadline, age = django_times(loaded.record)
    return Details(data, sizes, operations.time_of(b"%d000" % deadline), age)


details, adetails = both(_details)


def _end(*sids: str, message: str = "", keep_users: Collection[str] = ()) -> Steps[list[EndedSession]]:
    """
    End these sessions at once: each one's next request finds itself signed out.

    ``message`` is for their users to read, at most 200 characters. The sessions of ``keep_users`` (primary keys as
    text) stay. A session that has got another key meanwhile is ended under that. Returns those that were there; what
    was gone already is no error. Raises ValueError for a longer ``message``.
    """
    message = notice.check(message)
    named = [sid for sid in sids if is_sid(sid)]
    return (yield from operations.end(named, Reason.KICKED, message=message, keep_users=keep_users, follow=True))


end, aend = both(_end)


def _end_user(user: AbstractBaseUser, *, keep: str | None = None, message: str = "") -> Steps[int]:
    """
    End the sessions of ``user``, all but the one whose sid is ``keep``, and return how many those were.

    ``message`` is for the user to read, see :func:`end`.
    """
    return (yield from end_all_of([user_id_of(user)], Reason.KICKED, keep=keep, message=message))


end_user, aend_user = both(_end_user)


def _end_all(*, keep: str | None = None, message: str = "") -> Steps[int]:
    """
    End every session in which somebody is signed in, but the one whose sid is ``keep``, and return how many those were.

    It takes 250 a call: others are served in between. ``message`` is for their users to read, see :func:`end`.
    """
    return (yield from end_all_of(None, Reason.KICKED, keep=keep, message=message))


end_all, aend_all = both(_end_all)


def end_all_of(user_ids: Sequence[str] | None, reason: Reason, *, keep: str | None, message: str) -> Steps[int]:
    """End the sessions of these users, or of all (None), but the one ``keep``; return how many those were."""
    work = BulkEnding(_filter_of(user_ids), reason, message=notice.check(message), keep=[keep] if keep else ())
    ended = 0
    while not work.done:
        ended += len((yield from work.step()))
    return ended


def end_in_batches(
    *, user_ids: Sequence[str] | None = None, keep: Collection[str] = (), message: str = ""
) -> Iterator[list[EndedSession]]:
    """End what :func:`end_all` ends, or the sessions of these users (at most 1 000); yield up to 250 at a time."""
    work = BulkEnding(_filter_of(user_ids), message=notice.check(message), keep=keep)
    while not work.done:
        yield drive(work.step())


until_now, auntil_now = both(samples.until_now)


def _history(*, hours: float = 24) -> Steps[list[Sample]]:
    """
    Return how many were online, minute by minute, over the last ``hours`` (at most 48 are kept), the earliest first.

    Empty where no ``cleansessions --forever`` runs, which takes the samples. What was created and has ended is counted
    from the beginning of the store: take the difference of two samples.
    """
    noted, _ = yield from samples.until_now(hours=hours)
    return noted


history, ahistory = both(_history)


def user_id_of(user: AbstractBaseUser) -> str:
    """
    Return the primary key of ``user`` as sessions hold it: as text.

    Raises ValueError for a user without one, as every user is after ``delete()``.
    """
    # That of the user model: a model that is derived from it may have another.
    key = get_user_model()._meta.pk
    if getattr(user, key.attname) is None:
        raise ValueError("This user has no primary key: not saved so far, or deleted.")
    return key.value_to_string(user)


def _filter_of(
    user_ids: Sequence[str] | None, guests: bool = False, active_seconds: float | None = None
) -> SessionFilter:
    if isinstance(user_ids, str):
        raise ValueError("user_ids must be a list of ids, not a text.")
    if active_seconds is not None and not active_seconds >= 0:
        raise ValueError(f"active_seconds must be 0 or more, not {active_seconds}.")
    return SessionFilter(None if user_ids is None else tuple(user_ids), guests, active_seconds)
