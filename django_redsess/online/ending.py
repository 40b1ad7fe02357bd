"""Ending many sessions, batch by batch."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from django_redsess.conf import conf
from django_redsess.online.listing import SessionFilter, address_lists_of, lists_of
from django_redsess.online.searching import matching, range_of
from django_redsess.session import messages, notice, operations
from django_redsess.session.elsewhere import Elsewhere, EndedBefore, elsewhere, every_store
from django_redsess.session.operations import AT_ONCE_MAX, Ending
from django_redsess.session.store import session_of
from django_redsess.signals import EndedSession, Reason, request_answered
from django_redsess.transport.keys import Partition, Store, is_sid, using
from django_redsess.transport.partitions import batches
from django_redsess.transport.replicas import EndedCount, EndedList, confirmation, replica_status
from django_redsess.transport.steps import Steps, drive, in_store


class BulkEnding:
    """
    End all sessions that match ``session_filter``. Call ``step`` or ``end_batch`` until ``done``.

    If no list has them together, they are found at the first step: see
    :func:`django_redsess.online.searching.matching`.
    ``reason`` is why they end. ``message`` is shown to their users. Sessions that began after ``latest`` (milliseconds
    of the server's clock) stay; the filter's ``active_seconds`` are counted back from ``latest``. Sessions whose sids
    are in ``keep`` stay, and so do the sessions of the users ``keep_users`` (primary keys as text). Raises ValueError
    for ``active_seconds`` without ``latest``.
    """

    def __init__(
        self,
        session_filter: SessionFilter,
        reason: Reason = Reason.KICKED,
        *,
        message: str = "",
        latest: int | None = None,
        keep: Collection[str] = (),
        keep_users: Collection[str] = (),
    ) -> None:
        by_seen, seconds, since = session_filter.only_by_seen, session_filter.active_seconds, None
        if seconds is not None:
            if latest is None:
                raise ValueError("Those seen in the last seconds can be ended as of a certain time only: give latest.")
            since = f"{latest - seconds * 1000:.0f}"
        self.done, self.confirmation = False, confirmation()
        self._keep, self._message = keep, message if reason is Reason.KICKED else ""
        self._ending = Ending(reason, message, latest, since, keep, keep_users, self.confirmation, user_answered())
        self._low, self._high = "-inf", "+inf"
        if by_seen and session_filter.user_ids is None:
            self._low = since or "-inf"
        elif latest is not None:
            # Later sign-ins stay, so they are not read.
            self._high = str(latest)
        self._filter = session_filter
        self._left: list[tuple[Store | None, Partition, str]] = []
        # None until the sessions are found. Only those that no list has together must be.
        self._found: list[tuple[Store | None, Partition, list[str]]] | None = []
        if network := range_of(session_filter):
            self._low, self._high = str(network.first), str(network.last)
        elif session_filter.names_client:
            self._found = None
        for store in every_store() if self._found is not None else ():
            with using(store):
                lists = address_lists_of(session_filter) if network else lists_of(session_filter, by_seen=by_seen)
            self._left += [(store, partition, name) for partition, names in lists for name in names]
        self._place: tuple[str, int] = self._low, 0
        # What can't be listed there can only be ended as a whole.
        ends_whole = not session_filter.names_client and session_filter.active_seconds is None
        self._elsewhere = elsewhere() if ends_whole else None

    def step(self) -> Steps[EndedList]:
        """End up to 250 sessions, and return those that have ended. The confirmation is that of all steps so far."""
        if self._elsewhere is not None:
            yield from self._end_elsewhere(self._elsewhere)
            self._elsewhere = None
        if self._found is None:
            self._found = []
            for store in every_store():
                sids = (yield from in_store(store, matching, self._filter)).sids
                with using(store):
                    self._found += [(store, *batch) for batch in batches(sids)]
        if self._found:
            return (yield from self._end_found(self._found))
        if not self._left:
            self.done = True
            return EndedList([], **replica_status(self.confirmation))
        store, partition, name = self._left[0]
        low, left_out = self._place
        reply, ended = yield from in_store(store, self._ending.of_list, partition, name, low, self._high, left_out)
        _, more, score, left_out, _ = reply
        self._place = score.decode(), left_out
        if not more:
            self._left.pop(0)
            self._place = self._low, 0
            self.done = not self._left
        return (yield from self._reported(ended))

    def _end_elsewhere(self, other: Elsewhere) -> Steps[None]:
        """Before the sessions that are here: what is about to come here must not come behind."""
        wanted, ending = self._filter, self._ending
        users, guests = wanted.guests != "only", bool(wanted.guests)
        stay = ending.kept_sids, ending.kept_users
        yield from other.end_before(EndedBefore(wanted.user_ids, users, guests, ending.latest, *stay))

    def _end_found(self, found: list[tuple[Store | None, Partition, list[str]]]) -> Steps[EndedList]:
        store, partition, sids = found.pop(0)
        (dealt_with, *_), ended = yield from in_store(store, self._ending.of_sids, partition, sids)
        if dealt_with < len(sids):
            found.insert(0, (store, partition, sids[dealt_with:]))
        self.done = not found
        return (yield from self._reported(ended))

    def _reported(self, ended: list[EndedSession]) -> Steps[EndedList]:
        if self._message:
            # If all of a user's sessions end, only those that are kept are left to be told.
            all_end = all(self._filter.has_all_of(each.user_id) for each in ended)
            yield from tell_others(ended, self._message, among=self._keep if all_end else None)
        return EndedList(ended, **replica_status(self.confirmation))

    def end_batch(self) -> EndedList:
        """Take one step. Return the sessions that it ended, up to 250. The last step may renew the own key."""
        ended = drive(self.step())
        # A failover may lose the new key. Then the administrator would be signed out.
        if self.done and not too_few(ended.confirmed_by):
            drive(self.renew_own_key())
        return ended

    def renew_own_key(self) -> Steps[None]:
        """Give the session of the present request a new key, if it is kept while all others of its user end."""
        session = session_of(request_answered())
        if session is None or session.stored_sid not in self._keep:
            return
        yield from session.opening()
        user_id = session.loaded_user_id
        if user_id and self._filter.has_all_of(user_id):
            # A thief may have a copy of its cookie.
            yield from session.cycling(ends_copies=True)


def tell_others(ended: Collection[EndedSession], message: str, *, among: Collection[str] | None = None) -> Steps[None]:
    """
    Tell the users of these sessions ``message`` elsewhere, too: see :func:`django_redsess.session.messages.tell`.

    Who has ended sessions of their own knows it, and is not told.
    """
    if message and ended:
        own = user_answered()
        user_ids = (each.user_id for each in ended if each.user_id not in ("", own))
        yield from messages.tell(user_ids, message, among=among)


def user_answered() -> str:
    """Return the primary key as text of the user whose request is being answered, ``""`` if there is none."""
    session = session_of(request_answered())
    return "" if session is None else session.loaded_user_id


def kick(
    sids: Iterable[str],
    *,
    message: str,
    latest: int | None = None,
    keep_users: Collection[str] = (),
    follow: bool = False,
) -> Steps[EndedList]:
    """Kick sessions as :func:`operations.end` does, and tell their users elsewhere, too. Ignore what is no sid."""
    named = [sid for sid in sids if is_sid(sid)]
    ending = Ending(Reason.KICKED, message, latest, kept_users=keep_users, by=user_answered())
    if (other := elsewhere()) is not None:
        # What is about to come here must not come behind.
        yield from other.end(named)
    found = list[EndedList]()
    for store in every_store():
        found.append((yield from in_store(store, operations.end, named, ending, follow=follow)))
    confirmed_by, may_return = least(*(some.confirmed_by for some in found)), any(some.may_return for some in found)
    ended = EndedList((each for some in found for each in some), confirmed_by, may_return)
    yield from tell_others(ended, message)
    return ended


def end_all_of(user_ids: Sequence[str] | None, reason: Reason, *, keep: str | None, message: str) -> Steps[EndedCount]:
    """End the sessions of these users (None: of all users), except ``keep``. Return how many have ended."""
    users = SessionFilter(None if user_ids is None else tuple(user_ids))
    work = BulkEnding(users, reason, message=notice.check(message), keep=[keep] if keep else ())
    ended = 0
    while not work.done:
        ended += len((yield from work.step()))
    yield from work.renew_own_key()
    return EndedCount(ended, **replica_status(work.confirmation))


def least(*counts: int | None) -> int | None:
    """Return the least number of replicas that have confirmed. None stands for what was not asked."""
    return min((count for count in counts if count is not None), default=None)


def too_few(confirmed_by: int | None) -> bool:
    """Tell whether ``CONFIRM_ENDS`` asks for more replicas."""
    return confirmed_by is not None and conf.CONFIRM_ENDS is not None and confirmed_by < conf.CONFIRM_ENDS[0]


def end_batch(
    sids: Sequence[str], *, message: str = "", latest: int | None = None, keep_users: Collection[str] = ()
) -> EndedList:
    """
    End the sessions with these ``sids``. Return those that were there. Text that is no sid is ignored.

    Arguments are as in :class:`BulkEnding`.
    """
    return drive(kick(sids, message=message, latest=latest, keep_users=keep_users))


class OneByOneEnding:
    """
    End the sessions of a :class:`django_redsess.querysets.SessionQuerySet`, as :class:`BulkEnding` does, but ask about
    each.

    ``may_end`` decides about a session. ``kept`` counts those that it has kept. A request that goes on where another
    one stopped starts with the other's ``kept``. The keyword arguments are those of :func:`end_batch`.
    """

    def __init__(self, sessions: Any, may_end: Callable[[Any], bool], kept: int, **options: Any) -> None:
        # In this order, a session that signs in or is seen meanwhile moves to a place that was read already, or to one
        # that will be. If a session that is kept is seen meanwhile, one other may be skipped.
        self._sessions = sessions.order_by("seen_at" if sessions.session_filter.only_by_seen else "-login_at")
        self._may_end = may_end
        self._options = options
        self.kept, self.done = kept, False
        # Whether this is a second look at all, which has found none to end so far.
        self._ends_nothing = False

    def end_batch(self) -> EndedList:
        """Read up to 250 sessions, and end those that may be ended."""
        page = self._page()
        if not page and self.kept and not self._ends_nothing:
            # If one that was kept has ended meanwhile, another one has moved to a place that was read already.
            self.kept, self._ends_nothing = 0, True
            page = self._page()
        self.done = not page
        if self.done:
            return EndedList([])
        ended = end_batch([session.sid for session in page if self._may_end(session)], **self._options)
        self.kept += len(page) - len(ended)
        self._ends_nothing = self._ends_nothing and not ended
        return ended

    def _page(self) -> list[Any]:
        return list(self._sessions[self.kept : self.kept + AT_ONCE_MAX])


class FoundEnding:
    """
    End the sessions that a search has found by looking through the newest: see ``SessionQuerySet.looked_through``.

    The search is repeated once, when this is made. At most ``limit`` sessions end, the latest first: with some of the
    newest gone, a search reaches older ones, which nobody has counted. The other arguments are those of
    :class:`OneByOneEnding`.
    """

    def __init__(self, sessions: Any, may_end: Callable[[Any], bool], limit: int, **options: Any) -> None:
        self._options, seconds = options, sessions.session_filter.active_seconds
        asked_at = datetime.fromtimestamp(options["latest"] / 1000, UTC)
        # As in BulkEnding: the last seconds are counted back from the question, and later sign-ins stay.
        since = None if seconds is None else asked_at - timedelta(seconds=seconds)
        found = [
            session
            for session in sessions.newest()
            if (since is None or session.seen_at >= since) and (session.login_at or asked_at) <= asked_at
        ]
        self._left = [session.sid for session in found if may_end(session)][:limit]
        self.done = False

    def end_batch(self) -> EndedList:
        """End up to 250 of the sessions."""
        self.done = not self._left
        if self.done:
            return EndedList([])
        sids, self._left = self._left[:AT_ONCE_MAX], self._left[AT_ONCE_MAX:]
        return end_batch(sids, **self._options)
