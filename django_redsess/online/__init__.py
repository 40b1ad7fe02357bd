"""List sessions, count who is signed in and who is active, and end sessions. Public."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Unpack

from django_redsess.online import blocking, ending, listing, sampling, searching, statistics
from django_redsess.online.ending import BulkEnding, end_all_of_users
from django_redsess.online.listing import (
    Guests,
    Order,
    SearchFilters,
    Session,
    SessionFilter,
    filter_of,
    seconds_of_active,
    sessions_of,
)
from django_redsess.online.sampling import Sample
from django_redsess.online.searching import LookedThrough
from django_redsess.online.statistics import Totals
from django_redsess.session import reading
from django_redsess.session.binding import Binding, names_device
from django_redsess.session.blocks import Block
from django_redsess.session.encryption import KeyMissing
from django_redsess.session.other_store import sibling_stores
from django_redsess.session.record import django_times, log_left_out, log_unusable, serializer_named, unpack
from django_redsess.session.store import proving_own, user_id_of
from django_redsess.signals import Reason
from django_redsess.transport.keys import is_sid
from django_redsess.transport.replicas import EndedCount, EndedList
from django_redsess.transport.steps import Steps, adrive, drive, in_store, time_of
from django_redsess.user_messages import check_message, ready_message

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser


@dataclass(frozen=True, slots=True)
class Details:
    """
    The data of a session.

    ``data`` is None if it can't be read. ``sizes`` has the bytes of each top-level value, serialized.
    ``django_deadline`` is Django's expiry date as stored. ``age_seconds`` is Django's expiry age, or 0 if the expiry
    was set as a date. ``bound_at`` is when the session was bound to its user's device, and ``proved_at`` the time of
    the device's last proof: ``bound_at`` if it has given none since. Both are None for a session that is not bound.
    """

    data: dict[str, Any] | None
    sizes: dict[str, int]
    django_deadline: datetime
    age_seconds: float
    bound_at: datetime | None = None
    proved_at: datetime | None = None


def _read_details(sid: str) -> Steps[Details | None]:
    if not is_sid(sid) or not (yield from proving_own([sid])):
        return None
    loaded = yield from reading.read_session(sid)
    if loaded.record is None:
        return None
    bound = list[datetime]()
    try:
        record = unpack(sid, loaded.record)
        bound = _times_of(record.binding)
        serializer = serializer_named(record.serializer)()
        data = serializer.loads(record.data)
        sizes = {key: len(serializer.dumps(value)) for key, value in data.items()}
    except KeyMissing as error:
        log_left_out(sid, error)
        data, sizes = None, {}
    except Exception as error:  # A serializer may raise anything.
        log_unusable(sid, error)
        data, sizes = None, {}
    deadline, age = django_times(loaded.record)
    return Details(data, sizes, time_of(deadline * 1000), age, *bound)


def _times_of(binding: bytes) -> list[datetime]:
    if not names_device(binding):
        return []
    _, bound_at, proved_at, _ = Binding.unpack(binding)
    return [time_of(bound_at), time_of(proved_at)]


__all__ = [
    "Block",
    "Details",
    "EndedCount",
    "EndedList",
    "LookedThrough",
    "Order",
    "Sample",
    "Session",
    "Totals",
    "ablock",
    "ablock_of",
    "ablocked",
    "acount",
    "adetails",
    "aend",
    "aend_all",
    "aend_user",
    "afind",
    "aget",
    "aof_user",
    "asamples",
    "asessions",
    "atotals",
    "aunblock",
    "block",
    "block_of",
    "blocked",
    "count",
    "details",
    "end",
    "end_all",
    "end_in_batches",
    "end_user",
    "find",
    "get",
    "of_user",
    "ready_message",
    "samples",
    "sessions",
    "totals",
    "unblock",
]


def _list_sessions(session_filter: SessionFilter, offset: int, limit: int, order: Order | None) -> Steps[list[Session]]:
    listing.check_page(session_filter, offset, order)
    by_seen = session_filter.only_by_seen or order in ("last_seen_at", "-last_seen_at")
    latest_first = order is None or order.startswith("-")
    if not session_filter.needs_search:
        return (
            yield from listing.read_sessions(session_filter, offset, limit, by_seen=by_seen, latest_first=latest_first)
        )
    if limit < 1:
        return []
    found = yield from searching.find_matching(session_filter, by_seen=by_seen)
    return (yield from found.read_found(offset, limit, latest_first=latest_first))


def sessions(
    *,
    offset: int = 0,
    limit: int = 100,
    order: Order | None = None,
    user_ids: Sequence[str] | None = None,
    guests: Guests = False,
    active_seconds: float | None = None,
    **searched: Unpack[SearchFilters],
) -> list[Session]:
    """
    Return signed-in sessions: at most ``limit``, after skipping ``offset``.

    ``order`` is by sign-in (``"created_at"``) or by last seen (``"last_seen_at"``). ``"-"`` before it puts the latest
    first. The default is ``"-created_at"``. ``user_ids`` keeps the sessions of these users: at most 1 000 primary keys
    as text. ``guests`` adds guests' sessions, and ``"only"`` lists no others; it has no effect with ``user_ids``.
    ``active_seconds`` keeps sessions seen in the last so many seconds. With either of these, the only order is by last
    seen, by default the latest first. With several users, or with ``user_ids`` by last seen, each partition lists at
    most its latest 5 000 sign-ins.

    ``network`` keeps the sessions of an address or a network, such as ``"198.51.100.0/24"``. The beginning of an
    address is one, too: ``"198.51.100"``, ``"2001:db8:"``. So is the name of a file in the setting ``NETWORKS``.
    Several networks, as a list of such texts, keep the sessions of any of them. ``browser`` is a browser, or the
    beginning of its name with its version: ``"firefox"``, ``"Chrome 120"``. ``system`` is an operating system, such as
    ``"Windows"``. Case does not matter. ``device_bound`` keeps the sessions that are bound to a device, or with False
    those that are not. With any of these, only the newest 10 000 sessions are looked through, by sign-in or by last
    seen. The section "How far a search looks" of the reference says more.

    Raises ValueError for an impossible ``order``, a negative ``offset`` or ``active_seconds``, too many users, or a
    ``network`` that is none. With several :confval:`PARTITIONS`, ``offset`` must be below 10 000, except for the
    sessions of one user. ``limit`` may be higher, and :attr:`OnlineSession.online
    <django_redsess.models.OnlineSession.online>` has all sessions one after the other.
    """
    return drive(_list_sessions(filter_of(user_ids, guests, active_seconds, **searched), offset, limit, order))


async def asessions(
    *,
    offset: int = 0,
    limit: int = 100,
    order: Order | None = None,
    user_ids: Sequence[str] | None = None,
    guests: Guests = False,
    active_seconds: float | None = None,
    **searched: Unpack[SearchFilters],
) -> list[Session]:
    """Async variant of :func:`sessions`."""
    return await adrive(_list_sessions(filter_of(user_ids, guests, active_seconds, **searched), offset, limit, order))


def of_user(user: AbstractBaseUser, *, limit: int = 100) -> list[Session]:
    """Return up to ``limit`` sessions of ``user``, newest sign-in first. Raises ValueError for an unsaved user."""
    return sessions(limit=limit, user_ids=[user_id_of(user)])


async def aof_user(user: AbstractBaseUser, *, limit: int = 100) -> list[Session]:
    """Async variant of :func:`of_user`."""
    return await asessions(limit=limit, user_ids=[user_id_of(user)])


def _find_sessions(sids: Sequence[str], *, follow: bool = False) -> Steps[list[Session]]:
    wanted = yield from proving_own([sid for sid in sids if is_sid(sid)])
    found = sessions_of((yield from listing.read_list_rows(wanted)))
    there = {each.sid for each in found}
    for sid in [sid for sid in wanted if follow and sid not in there]:
        live, _ = yield from reading.successor(sid, (yield from reading.note_of(sid)))
        if live is not None and live.sid not in there:
            found += sessions_of((yield from listing.read_list_rows([live.sid])))
            there.add(live.sid)
    for store in sibling_stores():
        found += yield from in_store(store, _find_in_store, [sid for sid in wanted if sid not in there])
    return found


def _find_in_store(sids: Sequence[str]) -> Steps[list[Session]]:
    # The seals of the records are those of that store.
    return sessions_of((yield from listing.read_list_rows(sids)))


def find(sids: Sequence[str], *, follow: bool = False) -> list[Session]:
    """
    Return the live sessions with these sids, guests' too, in the order of ``sids``. Unknown sids are left out.

    ``follow`` also looks up sessions that got another key. They come last, under their present sids.
    """
    return drive(_find_sessions(sids, follow=follow))


async def afind(sids: Sequence[str], *, follow: bool = False) -> list[Session]:
    """Async variant of :func:`find`."""
    return await adrive(_find_sessions(sids, follow=follow))


def get(sid: str) -> Session | None:
    """Return the live session ``sid``, a guest's too. None if it is gone or due, or if ``sid`` is no sid."""
    return next(iter(find([sid])), None)


async def aget(sid: str) -> Session | None:
    """Async variant of :func:`get`."""
    return next(iter(await afind([sid])), None)


def _count_sessions(session_filter: SessionFilter, *, active: bool) -> Steps[int]:
    if active:
        if session_filter.active_seconds is not None:
            raise ValueError("active and active_seconds can't be given together.")
        session_filter = session_filter._replace(active_seconds=seconds_of_active())
    if session_filter.needs_search:
        return (yield from searching.find_matching(session_filter)).count
    return (yield from listing.count_in_lists(session_filter))


def count(
    *,
    user_ids: Sequence[str] | None = None,
    guests: Guests = False,
    active: bool = False,
    active_seconds: float | None = None,
    **searched: Unpack[SearchFilters],
) -> int:
    """
    Return how many sessions match. Arguments and errors are those of :func:`sessions`, and one more.

    For a dashboard, ``count(device_bound=True)`` is how many of the newest 10 000 are bound to a device, and
    ``count(device_bound=False)`` how many are not.

    ``active`` counts only those that were seen in the last five minutes. It allows for the rounding of the time at
    which a session was seen: up to ``TOUCH_INTERVAL``, for which ``active_seconds=300`` would miss some. With both
    ``user_ids`` and ``active`` or ``active_seconds``, only the latest sign-ins are counted: at most 5 000 of each
    partition. Raises ValueError for ``active`` together with ``active_seconds``, too.
    """
    return drive(_count_sessions(filter_of(user_ids, guests, active_seconds, **searched), active=active))


async def acount(
    *,
    user_ids: Sequence[str] | None = None,
    guests: Guests = False,
    active: bool = False,
    active_seconds: float | None = None,
    **searched: Unpack[SearchFilters],
) -> int:
    """Async variant of :func:`count`."""
    return await adrive(_count_sessions(filter_of(user_ids, guests, active_seconds, **searched), active=active))


def details(sid: str) -> Details | None:
    """Return the data of the live session ``sid``, without a touch. None if it is gone or due, or ``sid`` is no sid."""
    return drive(_read_details(sid))


async def adetails(sid: str) -> Details | None:
    """Async variant of :func:`details`."""
    return await adrive(_read_details(sid))


def end(*sids: str, message: str = "", keep_user_ids: Collection[str] = ()) -> EndedList:
    """
    End these sessions, and return those that were there. The next request of each is signed out.

    ``message`` is shown to their users, at most 200 characters. Sessions of the users ``keep_user_ids`` (primary keys
    as text) stay. A session that got another key is ended under it. Unknown sids are ignored. Raises ValueError for a
    longer message.
    """
    return drive(ending.end_in_every_store(sids, message=message, keep_user_ids=keep_user_ids))


async def aend(*sids: str, message: str = "", keep_user_ids: Collection[str] = ()) -> EndedList:
    """Async variant of :func:`end`."""
    return await adrive(ending.end_in_every_store(sids, message=message, keep_user_ids=keep_user_ids))


def end_user(user: AbstractBaseUser, *, keep: str | None = None, message: str = "") -> EndedCount:
    """
    End the sessions of ``user``, except the one whose sid is ``keep``. Return how many have ended.

    If the present request is in the session that is kept, and that is one of ``user``, this session gets a new key. A
    copy of its cookie is then worth nothing. ``message`` is as in :func:`end`. Raises ValueError for a longer message,
    and for a user without a primary key.
    """
    return drive(end_all_of_users([user_id_of(user)], Reason.KICKED, keep=keep, message=message))


async def aend_user(user: AbstractBaseUser, *, keep: str | None = None, message: str = "") -> EndedCount:
    """Async variant of :func:`end_user`."""
    return await adrive(end_all_of_users([user_id_of(user)], Reason.KICKED, keep=keep, message=message))


def end_all(*, keep: str | None = None, message: str = "") -> EndedCount:
    """
    End all signed-in sessions, except the one whose sid is ``keep``. Return how many have ended.

    Each call to the server ends up to 250, so that others are served in between. ``keep`` and ``message`` are as in
    :func:`end_user`.
    """
    return drive(end_all_of_users(None, Reason.KICKED, keep=keep, message=message))


async def aend_all(*, keep: str | None = None, message: str = "") -> EndedCount:
    """Async variant of :func:`end_all`."""
    return await adrive(end_all_of_users(None, Reason.KICKED, keep=keep, message=message))


def end_in_batches(
    *,
    user_ids: Sequence[str] | None = None,
    guests: Guests = False,
    keep_sids: Collection[str] = (),
    message: str = "",
    **searched: Unpack[SearchFilters],
) -> Iterator[EndedList]:
    """
    End all signed-in sessions, or those that match, and yield the ended ones in lists of up to 250.

    ``user_ids``, ``guests``, ``network``, ``browser``, ``system`` and ``device_bound`` are as in :func:`sessions`. A
    search ends the sessions that it finds there. ``keep_sids`` are the sids of sessions that stay. ``message`` is as in
    :func:`end`. The first iteration raises ValueError for too many users, a longer message, a ``network`` that is none,
    or a text in place of a list.
    """
    if isinstance(keep_sids, str):
        raise ValueError("keep_sids must be a list of sids, not a text.")
    work = BulkEnding(filter_of(user_ids, guests, **searched), message=check_message(message), keep=keep_sids)
    while not work.done:
        yield drive(work.ending_batch())


def block(
    user: AbstractBaseUser,
    *,
    until: datetime,
    message: str = "",
    by: AbstractBaseUser | None = None,
    internal_note: str = "",
) -> EndedCount:
    """
    Keep ``user`` from signing in until a time, and end all sessions of the user. Return how many have ended.

    No session of the user begins before ``until``, a datetime, whatever signs in: it gets
    :class:`~django_redsess.exceptions.SignInRefused`. A block that is there gets the new time and message. ``message``
    is shown on the user's devices, and to anybody who tries to sign in: at most 200 characters. ``by`` is who blocks
    the user, for the admin's list. ``internal_note`` is for administrators who may end the user's sessions. No user is
    told of it. It has at most 200 characters, too.

    If the present request is in one of these sessions, it continues as a guest's request.

    To keep somebody out for good, deactivate the account. Raises ValueError if ``until`` is not ahead, or is naive on a
    site with ``USE_TZ``; for a longer message or note, and for a user without a primary key. Raises
    SessionStoreUnavailable in an outage: the user may be blocked by then, and some sessions may live. Call it again.
    """
    ender = "" if by is None else user_id_of(by)
    return drive(blocking.block_and_end(user_id_of(user), until, message, ender, internal_note))


async def ablock(
    user: AbstractBaseUser,
    *,
    until: datetime,
    message: str = "",
    by: AbstractBaseUser | None = None,
    internal_note: str = "",
) -> EndedCount:
    """Async variant of :func:`block`."""
    ender = "" if by is None else user_id_of(by)
    return await adrive(blocking.block_and_end(user_id_of(user), until, message, ender, internal_note))


def unblock(user: AbstractBaseUser) -> bool:
    """
    Let ``user`` sign in again. True if the user was blocked: of several calls at once, one returns True.

    Raises ValueError for a user without a primary key.
    """
    return drive(blocking.unblock_in_every_store(user_id_of(user)))


async def aunblock(user: AbstractBaseUser) -> bool:
    """Async variant of :func:`unblock`."""
    return await adrive(blocking.unblock_in_every_store(user_id_of(user)))


def block_of(user: AbstractBaseUser) -> Block | None:
    """Return the block of ``user``. None if the user may sign in. Raises ValueError for one without a primary key."""
    return drive(blocking.read_block_in_every_store(user_id_of(user)))


async def ablock_of(user: AbstractBaseUser) -> Block | None:
    """Async variant of :func:`block_of`."""
    return await adrive(blocking.read_block_in_every_store(user_id_of(user)))


def blocked(*, offset: int = 0, limit: int = 100) -> list[Block]:
    """
    Return the users who are blocked, those whose block is over first: at most ``limit``, after skipping ``offset``.

    Raises ValueError for a negative ``offset``, and beyond the first 5 000.
    """
    return drive(blocking.list_blocks(offset, limit))


async def ablocked(*, offset: int = 0, limit: int = 100) -> list[Block]:
    """Async variant of :func:`blocked`."""
    return await adrive(blocking.list_blocks(offset, limit))


def samples(*, hours: float = 24) -> list[Sample]:
    """
    Return the samples of the last ``hours``, the earliest first: :class:`Sample`.

    There is one for each minute of the last 2 days, one for each 10 minutes up to 8 days ago, and one for each hour up
    to 32 days ago. A sample of 10 minutes or an hour has the beginning of that time, its highest counts, and the totals
    at its end.

    ``cleansessions --forever`` takes the samples: without it, the list is empty. ``created`` and ``ended`` count from
    the beginning of the store. Subtract two samples to get the change between them.
    """
    return drive(sampling.samples_of_hours(hours))


async def asamples(*, hours: float = 24) -> list[Sample]:
    """Async variant of :func:`samples`."""
    return await adrive(sampling.samples_of_hours(hours))


def totals() -> Totals:
    """
    Return the numbers of the store as it is now, for a monitoring system: :class:`Totals`.

    It takes one round trip to each server, whatever the number of sessions. Unlike :func:`count`, it ends no session
    that is due. Raises SessionStoreUnavailable in an outage.
    """
    return drive(statistics.read_totals())


async def atotals() -> Totals:
    """Async variant of :func:`totals`."""
    return await adrive(statistics.read_totals())
