"""Ending many sessions, batch by batch."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import chain

from django_redsess.clock import monotonic
from django_redsess.conf import conf
from django_redsess.online.listing import Session, SessionFilter, lists_of, read_list_rows, sessions_of, sids_of
from django_redsess.online.searching import find_matching
from django_redsess.session import binding, messages, operations
from django_redsess.session.operations import AT_ONCE_MAX, Ending
from django_redsess.session.other_store import EndBefore, OtherStore, other_store, stores_of_site
from django_redsess.session.store import proving_own, session_of
from django_redsess.signals import EndedSession, Reason, request_answered
from django_redsess.transport.keys import Partition, Store, is_sid, using
from django_redsess.transport.packing import pack_command
from django_redsess.transport.partitions import Scored, ask_each, with_scores
from django_redsess.transport.replicas import EndedCount, EndedList, confirmation, replica_status
from django_redsess.transport.steps import Steps, drive, in_store
from django_redsess.user_messages import check_message

Choose = Callable[[list[Session]], Iterable[str]]
"""A function that returns the sids of those of up to 250 sessions that may end."""

EndBySid = Callable[[Store | None, list[str]], Steps[list[EndedSession]]]
"""A function that ends up to 250 sessions of a store by their sids."""

ListPosition = tuple[int, str, str]
"""How many lists are done; in the next one a score, and the sid among the entries with this score."""

BEGINNING: ListPosition = (0, "-inf", "")


class BulkEnding:
    """
    End all sessions that match ``session_filter``. Call ``end_within`` or ``end_batch`` until ``done``.

    Sessions of a network, browser or system are searched for at the first batch: see
    :func:`django_redsess.online.searching.find_matching`. The search is by last seen with ``by_seen``, else by sign-in.
    ``limit`` is the most sessions of a search that end, the latest first. Without it, a search that is repeated reaches
    older sessions, which nobody has counted.

    ``reason`` is why they end. ``message`` is shown to their users. Sessions that began after ``latest`` (milliseconds
    of the server's clock) stay; the filter's ``active_seconds`` are counted back from ``latest``. Sessions whose sids
    are in ``keep`` stay, and so do the sessions of the users ``keep_user_ids`` (primary keys as text). With ``choose``,
    sessions are read first, and the sids that it returns are ended.

    ``position`` is where to go on: the ``position`` of a bulk ending that has stopped. Raises ValueError for
    ``active_seconds`` without ``latest``.
    """

    def __init__(  # noqa: PLR0913, which sessions end, which of them stay, and where to go on
        self,
        session_filter: SessionFilter,
        reason: Reason = Reason.KICKED,
        *,
        message: str = "",
        latest: int | None = None,
        keep: Collection[str] = (),
        keep_user_ids: Collection[str] = (),
        choose: Choose | None = None,
        by_seen: bool = False,
        limit: int | None = None,
        position: ListPosition | None = None,
    ) -> None:
        seconds, since = session_filter.active_seconds, None
        if seconds is not None:
            if latest is None:
                raise ValueError("Those seen in the last seconds can be ended as of a certain time only: give latest.")
            since = f"{latest - seconds * 1000:.0f}"
        self._filter, self._choose, self._keep = session_filter, choose, keep
        self.done, self.confirmation = False, confirmation()
        self._message = message if reason is Reason.KICKED else ""
        self._ending = Ending(reason, message, latest, since, keep, keep_user_ids, self.confirmation, user_of_request())
        self._walk: _SearchWalk | _ListWalk
        if session_filter.needs_search:
            self._walk = _SearchWalk(session_filter, self._end_by_sid, by_seen=by_seen, limit=limit)
        else:
            end_by_sid = None if choose is None else self._end_by_sid
            self._walk = _ListWalk(session_filter, self._ending, end_by_sid, position)
        # The sessions of another engine can't be listed: they can only be ended as a whole.
        ends_whole = not session_filter.needs_search and seconds is None and choose is None
        self._other_store = other_store() if ends_whole else None

    @property
    def position(self) -> ListPosition:
        """Where another bulk ending goes on. A search always begins anew."""
        return self._walk.position

    @property
    def confirmed_by(self) -> int | None:
        """The least number of replicas that hold what has ended so far. None if none was asked."""
        return None if self.confirmation is None else self.confirmation.confirmed_by

    def end_within(self, *, seconds: float = math.inf, limit: float = math.inf) -> EndedList:
        """End sessions until all are done, ``seconds`` have passed or ``limit`` have ended. Return those that have."""
        ended, until = list[EndedSession](), monotonic() + seconds
        while not self.done and len(ended) < limit and monotonic() < until:
            ended += self.end_batch()
        return EndedList(ended, **replica_status(self.confirmation))

    def end_batch(self) -> EndedList:
        """End up to 250 sessions, and return those that have ended. The last batch may renew the own key."""
        ended = drive(self.ending_batch())
        # A failover may lose the new key. Then the administrator would be signed out.
        if self.done and not confirmed_too_few(ended.confirmed_by):
            drive(self.renewing_own_key())
        return ended

    def ending_batch(self) -> Steps[EndedList]:
        """End up to 250 sessions. Return those that have ended. The confirmation is that of all batches so far."""
        if self._other_store is not None:
            yield from self._end_in_other_store(self._other_store)
            self._other_store = None
        ended = [] if self._walk.done else (yield from self._walk.end_next())
        self.done = self._walk.done
        if self._message:
            # If all of a user's sessions end, only the kept sessions are left to be told.
            all_end = all(self._ends_all_of(each.user_id) for each in ended)
            yield from tell_users_of(ended, self._message, among=self._keep if all_end else None)
        return EndedList(ended, **replica_status(self.confirmation))

    def renewing_own_key(self) -> Steps[None]:
        """Give the session of the present request a new key, if it is kept while all others of its user end."""
        session = session_of(request_answered())
        if session is None or session.stored_sid not in self._keep:
            return
        yield from session.opening()
        user_id = session.loaded_user_id
        if user_id and self._ends_all_of(user_id):
            # A thief may have a copy of its cookie.
            yield from session.cycling(ends_copies=True)

    def _ends_all_of(self, user_id: str) -> bool:
        return self._choose is None and self._filter.has_all_of(user_id)

    def _end_by_sid(self, store: Store | None, sids: list[str]) -> Steps[list[EndedSession]]:
        if self._choose is not None:
            rows = yield from in_store(store, read_list_rows, sids)
            sids = list(self._choose(sessions_of(rows, self._filter.user_ids)))
        if store is None and sids and (other := other_store()) is not None:
            # A session that is moving here must not arrive after the end.
            yield from other.note_ends(sids)
        return (yield from in_store(store, operations.end_by_sid, sids, self._ending, follow=True))

    def _end_in_other_store(self, other: OtherStore) -> Steps[None]:
        """Done before the sessions that are here end: a session that is moving here must not arrive after the end."""
        wanted, ending = self._filter, self._ending
        users, guests = wanted.guests != "only", bool(wanted.guests)
        stay = ending.kept_sids, ending.kept_users
        yield from other.note_end_before(EndBefore(wanted.user_ids, users, guests, ending.latest, *stay))


class _ListWalk:
    """
    Ends the sessions of lists, one list after the other.

    Each is read from the lowest score up, so that a session that is seen meanwhile comes again. With ``end_by_sid``,
    sids are read and given to this function. Without it, a script reads and ends them.
    """

    def __init__(
        self,
        session_filter: SessionFilter,
        ending: Ending,
        end_by_sid: EndBySid | None,
        position: ListPosition | None,
    ) -> None:
        self._ending, self._end_by_sid, self._left_out = ending, end_by_sid, 0
        self._lists: list[tuple[Store | None, Partition, str]] = []
        by_seen = session_filter.only_by_seen
        for store in stores_of_site():
            with using(store):
                lists = lists_of(session_filter, by_seen=by_seen)
            self._lists += [(store, partition, name) for partition, names in lists for name in names]
        self._low, self._high = "-inf", "+inf"
        if by_seen and session_filter.user_ids is None:
            self._low = ending.since or "-inf"
        elif ending.latest is not None:
            # Later sign-ins stay, so they are not read.
            self._high = str(ending.latest)
        self.position = position or (0, self._low, "")

    @property
    def done(self) -> bool:
        return self.position[0] >= len(self._lists)

    def end_next(self) -> Steps[list[EndedSession]]:
        """End up to 250 sessions of the list at the position. Return those that have ended."""
        number, low, sid = self.position
        store, partition, name = self._lists[number]
        if self._end_by_sid is None:
            reply, ended = yield from in_store(
                store, self._ending.call_end_range, partition, name, low, self._high, self._left_out
            )
            more, score, self._left_out = reply
            self.position = number, score.decode(), ""
        else:
            entries, more = yield from in_store(store, self._read_beyond, partition, name, low, sid)
            ended = yield from self._end_by_sid(store, sids_of(entries))
            if entries:
                last_score, member = entries[-1]
                self.position = number, repr(last_score), member.decode(errors="replace")
        if not more:
            self.position, self._left_out = (number + 1, self._low, ""), 0
        return ended

    def _read_beyond(self, partition: Partition, name: str, low: str, sid: str) -> Steps[tuple[list[Scored], bool]]:
        """Read up to 250 entries of a list beyond a score and a sid. Return also whether there may be others."""
        count = AT_ONCE_MAX
        while True:
            read = pack_command("ZRANGE", name, low, self._high, "BYSCORE", "LIMIT", 0, count, "WITHSCORES")
            [[reply]] = yield from ask_each("page", [partition], lambda *_, read=read: read, 1)
            entries = with_scores(reply)
            beyond = [entry for entry in entries if entry > (float(low), sid.encode())]
            if beyond or len(entries) < count:
                return beyond[:AT_ONCE_MAX], len(entries) == count
            # All of these have the same score.
            count *= 4


class _SearchWalk:
    """Ends the sessions that a search finds, in each store. It searches before the first batch."""

    position = BEGINNING

    def __init__(
        self, session_filter: SessionFilter, end_by_sid: EndBySid, *, by_seen: bool, limit: int | None
    ) -> None:
        # The script looks when a session was seen. A session that is no longer active was active when that was asked.
        self._filter = session_filter._replace(active_seconds=None)
        self._by_seen = by_seen or session_filter.only_by_seen
        self._end_by_sid = end_by_sid
        self._left: float = math.inf if limit is None else limit
        self._found: list[tuple[Store | None, list[str]]] | None = None

    @property
    def done(self) -> bool:
        return self._found == []

    def end_next(self) -> Steps[list[EndedSession]]:
        """End up to 250 of the sessions. Return those that have ended."""
        if self._found is None:
            self._found = yield from self._search()
        store, sids = self._found[0]
        at_once = int(min(AT_ONCE_MAX, self._left))
        ended = yield from self._end_by_sid(store, sids[:at_once])
        del sids[:at_once]
        self._left -= len(ended)
        if self._left == 0:
            self._found.clear()
        elif not sids:
            self._found.pop(0)
        return ended

    def _search(self) -> Steps[list[tuple[Store | None, list[str]]]]:
        found, sids = [], list[str]()
        for store in stores_of_site():
            matches = yield from in_store(store, find_matching, self._filter, by_seen=self._by_seen)
            # A session that was found in the store before may have moved to this one by the time it is ended.
            sids = list(dict.fromkeys([*sids, *matches.sids]))
            found.append((store, list(sids)))
        return found


def tell_users_of(
    ended: Collection[EndedSession], message: str, *, among: Collection[str] | None = None
) -> Steps[None]:
    """
    Tell the users of these sessions ``message`` elsewhere, too: see :func:`django_redsess.session.messages.tell_users`.

    Users who have ended their own sessions are not told.
    """
    if message and ended:
        own = user_of_request()
        user_ids = (each.user_id for each in ended if each.user_id not in ("", own))
        yield from messages.tell_users(user_ids, message, among=among)


def user_of_request() -> str:
    """Return the primary key as text of the user whose request is being answered, ``""`` if there is none."""
    session = session_of(request_answered())
    return "" if session is None else session.loaded_user_id


def end_in_every_store(sids: Iterable[str], *, message: str, keep_user_ids: Collection[str]) -> Steps[EndedList]:
    """
    Kick sessions, in the store from which sessions move here, too, and tell their users ``message``.

    A session that got another key is ended under it. Texts that are no sid are ignored. Raises ValueError for a long
    message.
    """
    wanted = [sid for sid in sids if is_sid(sid)]
    if binding.guard is not None:
        wanted = yield from proving_own(wanted)
    ending = Ending(Reason.KICKED, check_message(message), kept_users=keep_user_ids, by=user_of_request())
    if (other := other_store()) is not None:
        # A session that is moving here must not arrive after the end.
        yield from other.note_ends(wanted)
    lists = list[EndedList]()
    for store in (None,) if other is None else other.own_stores():
        lists.append((yield from in_store(store, operations.end_by_sid, wanted, ending, follow=True)))
    confirmed_by = least_confirmed(*(each.confirmed_by for each in lists))
    ended = EndedList(chain.from_iterable(lists), confirmed_by, any(each.may_return for each in lists))
    yield from tell_users_of(ended, ending.message)
    return ended


def end_all_of_users(
    user_ids: Sequence[str] | None, reason: Reason, *, keep: str | None, message: str
) -> Steps[EndedCount]:
    """End the sessions of these users (None: of all users), except ``keep``. Return how many have ended."""
    users = SessionFilter(None if user_ids is None else tuple(user_ids))
    work = BulkEnding(users, reason, message=check_message(message), keep=[keep] if keep else ())
    ended = 0
    while not work.done:
        ended += len((yield from work.ending_batch()))
    yield from work.renewing_own_key()
    return EndedCount(ended, **replica_status(work.confirmation))


def least_confirmed(*counts: int | None) -> int | None:
    """Return the least number of replicas that have confirmed. None stands for an end that asked no replica."""
    return min((count for count in counts if count is not None), default=None)


def confirmed_too_few(confirmed_by: int | None) -> bool:
    """Tell whether ``CONFIRM_ENDS`` asks for more replicas."""
    return confirmed_by is not None and conf.CONFIRM_ENDS is not None and confirmed_by < conf.CONFIRM_ENDS[0]
