"""
Learning that a session has ended while a socket or a stream is open. Public.

In each event loop, one poller asks the store once a second about all sessions that are watched there: 500 in a command,
all commands for a server in one pipeline.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from contextvars import Context
from functools import partial
from typing import Any, NamedTuple, TypeVar, cast
from weakref import WeakKeyDictionary

from django.conf import settings

from django_redsess import forks
from django_redsess.conf import conf
from django_redsess.exceptions import SessionStoreUnavailable
from django_redsess.session import deadlines, notice, operations, reading
from django_redsess.session.other_store import Watched, other_store
from django_redsess.session.reading import Loaded
from django_redsess.session.record import RecordError, log_unusable, unpack
from django_redsess.session.store import SessionStore, proving_own
from django_redsess.signals import Reason
from django_redsess.transport.connections import by_server
from django_redsess.transport.keys import Partition, Store, is_sid, keyspace, using
from django_redsess.transport.packing import pack_command, pack_head
from django_redsess.transport.partitions import ask_each, batches
from django_redsess.transport.steps import Steps, adrive
from django_redsess.user_messages import code_of, message_in_words

__all__ = ["End", "WatchedSession", "ends"]

INTERVAL_SECONDS = 1.0
"""How long the poller sleeps before it asks again."""

AT_ONCE = 500
"""How many sessions one command asks about."""

T = TypeVar("T")

logger = logging.getLogger("django_redsess")


class End(NamedTuple):
    """
    Why a watched session is over.

    ``reason`` is ``invalidated`` also if the session lives on under a new key, for the browser that got its cookie:
    after a sign-in, also of the same user, a new password, or the end of all others. It is None where the store does
    not tell: a user signed out, the site ended the session without a message, or it was a guest's.
    ``message`` is the message for the user in the active language, or ``""``. ``message_code`` is its code if it is a
    ready-made one.
    """

    reason: Reason | None
    stored_message: str = ""

    @property
    def message(self) -> str:
        return message_in_words(self.stored_message)

    @property
    def message_code(self) -> str:
        return code_of(self.stored_message)


class WatchedSession:
    """A session that is watched, as ``async with`` :func:`ends` returns it."""

    def __init__(self, sid: str | None, user_id: str, began_in_other_store: int | None = None) -> None:
        self.sid = sid
        """The sid of the session. It changes when the session is followed to another key. None without a session."""
        self._user_id = user_id
        self._began_in_other_store = began_in_other_store
        """Of a session that is used in the store from which sessions move. It may come here, under the same sid."""
        self._over: asyncio.Future[End] = asyncio.get_running_loop().create_future()
        self._poller: _Poller | None = None
        self._seen_ms = 0

    @property
    def end(self) -> End | None:
        """Why the session is over. None while it lives, as far as is known."""
        return self._over.result() if self._over.done() else None

    async def wait(self) -> End:
        """Wait until the session is over. Return why. Without a session, this waits for ever."""
        return await asyncio.shield(self._over)

    async def during(self, source: AsyncIterable[T] | Callable[[], Awaitable[T]]) -> AsyncIterator[T]:
        """
        Yield what ``source`` gives, until the session is over or the source has no more.

        ``source`` is an asynchronous iterable, or a function that is called for each item, such as ``queue.get``. What
        is awaited when the session ends is cancelled. A source that is an asynchronous generator is closed.
        """
        # A function is called again and again, as by the iter() of a function.
        following = source if callable(source) else partial(anext, aiter(source))
        try:
            while not self._over.done():
                item = asyncio.ensure_future(cast(Awaitable[T], following()))
                try:
                    await asyncio.wait((item, self._over), return_when=asyncio.FIRST_COMPLETED)
                    if self._over.done():
                        return
                    found = item.result()
                except StopAsyncIteration:
                    return
                finally:
                    await _cancel(item)
                yield found
        finally:
            if hasattr(source, "aclose"):
                await source.aclose()

    def used(self) -> None:
        """
        Note that the user has just used the socket. This counts as an active request does.

        The next look at the store records that the session was seen, and moves its deadline if the settings let active
        requests do so. Without this call, an open socket keeps no session alive.
        """
        if self._poller is not None:
            self._poller.used.add(self)

    def _finish(self, end: End) -> None:
        if not self._over.done():
            self._over.set_result(end)


@asynccontextmanager
async def ends(session: Any) -> AsyncIterator[WatchedSession]:
    """
    Watch ``session`` while the context lasts, and return a :class:`WatchedSession`.

    ``session`` is a session object of this engine, such as ``request.session`` or ``scope["session"]``, or a sid. A
    guest's session may be watched, too. A session object without a session never ends.

    The end is known a second later, from whichever process it came: also if the deadline has passed and no cleaner
    runs. If the session gets another key by ``cycle_key()``, it is followed. A new key that is given so that copies of
    the cookie end is an end here: after a sign-in, a password that was given again, a new password, or the end of all
    others. An outage ends nothing.

    Raises TypeError for a session of another engine, and ValueError for a text that is no sid. If the session object is
    not loaded, the session is read first. This raises SessionStoreUnavailable in an outage.
    """
    watched = await _open_watched(session)
    if watched.sid is None or watched.end is not None:
        yield watched
        return
    poller = _poller_of_loop()
    store = Store(settings.SESSION_CACHE_ALIAS, keyspace().prefix, keyspace().count)
    poller.watch(store, watched)
    try:
        yield watched
    finally:
        await poller.unwatch(store, watched)


async def _open_watched(session: Any) -> WatchedSession:
    if isinstance(session, SessionStore):
        if session.other_store is not None:
            # Only the session itself can tell where it is.
            await session.arun_steps(session.opening())
        await session.arun_steps(session.proving())
        sid, known = session.stored_sid, session.snapshot.record
        if sid is not None and session.began_in_other_store is not None:
            return WatchedSession(sid, session.loaded_user_id, session.began_in_other_store)
        if sid is None or known is not None:
            return WatchedSession(sid, known.user_id if known else "")
    elif not isinstance(session, str):
        raise TypeError(f"ends() takes a session of django_redsess or a sid, not {type(session).__name__}.")
    else:
        sid = session
        # Not in the text of the error: it may be a session key.
        if not is_sid(sid):
            raise ValueError("ends() takes a session or a sid, and this text is no sid.")
        if not await adrive(proving_own([sid])):
            return WatchedSession(None, "")
    loaded = await adrive(reading.read_session(sid))
    if loaded.record is None:
        watched = WatchedSession(sid, "")
        note = await adrive(reading.note_of(sid))
        watched._finish(_end_by(note or loaded.expired_note))
        return watched
    user_id = _user_of(loaded)
    watched = WatchedSession(sid, user_id or "")
    if user_id is None:
        watched._finish(End(None))
    return watched


def _user_of(loaded: Loaded) -> str | None:
    """Return the user id in a record, ``""`` for a guest's. None if this site did not write it."""
    try:
        return unpack(loaded.sid, loaded.record or b"").user_id
    except RecordError as error:
        log_unusable(loaded.sid, error)
        return None


def _end_by(note: str) -> End:
    if reading.rotated_to(note):
        return End(Reason.INVALIDATED)
    found = notice.notice_in(note)
    return End(found.reason, found.stored_message) if found else End(None)


def _follow_session(sid: str, note: str, user_id: str) -> Steps[str | End]:
    """
    Return the sid that a session has now that got another key, as its ``note`` says; or why it is over.

    A new key that was given so that copies of the cookie end is an end: the watcher may have such a copy.
    """
    loaded, note = yield from reading.successor(sid, note, reading.is_followed)
    if loaded is None:
        return _end_by(note)
    return loaded.sid if _user_of(loaded) == user_id else End(Reason.INVALIDATED)


def _prolong_session(sid: str) -> Steps[None]:
    """Move the deadline of a session as an active request does."""
    loaded = yield from reading.read_session(sid)
    if loaded.record is None:
        return
    try:
        record = unpack(sid, loaded.record)
    except RecordError as error:
        log_unusable(sid, error)
        return
    due = deadlines.moved_by_visit(record, loaded.due, loaded.now)
    if due is not None:
        yield from operations.prolong(loaded, due)


async def _cancel(future: asyncio.Future[Any]) -> None:
    """Cancel ``future``, and wait until it is done. Its error is ignored."""
    future.cancel()
    await asyncio.wait((future,))
    if not future.cancelled():
        future.exception()


Batch = tuple[Partition, list[str]]


class _Poller:
    """
    Asks about all sessions that are watched in one event loop.

    Between two looks there is a timer and no task: a loop may end without notice, and a task that waits would be
    reported then.
    """

    def __init__(self) -> None:
        self.used: set[WatchedSession] = set()
        self._watched: dict[Store, dict[str, list[WatchedSession]]] = {}
        self._due: dict[str, Any] = {}
        """The deadlines as they were last read. A session that is gone without a note may have expired."""
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._failed = False

    def watch(self, store: Store, watched: WatchedSession) -> None:
        watched._poller = self
        self._watched.setdefault(store, {}).setdefault(watched.sid or "", []).append(watched)
        if self._timer is None and self._task is None:
            self._sleep()

    async def unwatch(self, store: Store, watched: WatchedSession) -> None:
        """Stop watching. The last one to leave waits until no command is under way."""
        watched._poller = None
        self.used.discard(watched)
        self._drop(store, watched)
        if self._watched:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._task is not None:
            await _cancel(self._task)

    def _drop(self, store: Store, watched: WatchedSession) -> None:
        sessions, sid = self._watched.get(store, {}), watched.sid or ""
        of_sid = sessions.get(sid, [])
        if watched in of_sid:
            of_sid.remove(watched)
        if not of_sid:
            sessions.pop(sid, None)
            self._due.pop(sid, None)
        if not sessions:
            self._watched.pop(store, None)

    def _sleep(self) -> None:
        # In the context of the first watcher, the spans of all looks would belong to its request.
        later = asyncio.get_running_loop().call_later
        self._timer = later(INTERVAL_SECONDS, self._start_look, context=Context())

    def _start_look(self) -> None:
        self._timer, self._task = None, asyncio.get_running_loop().create_task(self._look())

    async def _look(self) -> None:
        try:
            for store in list(self._watched):
                with using(store):
                    await self._look_at(store)
            self._failed = False
        except Exception:
            # The next look asks again: otherwise nobody would learn of any end.
            if not self._failed:
                logger.exception("Sessions that are watched can't be asked about.")
            self._failed = True
        finally:
            self._task = None
            if self._watched:
                self._sleep()

    async def _look_at(self, store: Store) -> None:
        groups = list(batches(self._watched.get(store, {}), AT_ONCE))
        partitions, used = [partition for partition, _ in groups], self._take_used(store)
        servers = by_server(partitions, range(len(groups)))
        # Servers are asked side by side: an outage of one must not delay the others.
        asked = [
            self._ask_one_server(store, [groups[number] for number in numbers], used) for numbers in servers.values()
        ]
        for error in await asyncio.gather(*asked, return_exceptions=True):
            if isinstance(error, BaseException) and not isinstance(error, SessionStoreUnavailable):
                raise error

    def _take_used(self, store: Store) -> dict[str, list[WatchedSession]]:
        """Return by sid the sessions that have been used since the last look."""
        used: dict[str, list[WatchedSession]] = {}
        for sid in {each.sid or "" for each in self.used} & self._watched.get(store, {}).keys():
            used[sid] = [each for each in self._watched[store][sid] if each in self.used]
            self.used.difference_update(used[sid])
        return used

    async def _ask_one_server(
        self, store: Store, groups: Sequence[Batch], used: Mapping[str, list[WatchedSession]]
    ) -> None:
        """Ask one server about its sessions, touch those that are ``used``, and see to those that are gone."""
        times, touches = [0] * len(groups), dict[str, int]()

        def pack_question(number: int, at: int) -> bytes:
            (partition, sids), times[number] = groups[number], at
            # All sids have 20 characters. Packing each by itself would take as long as the rest of this method.
            packed = ("$20\r\n" + "\r\n$20\r\n".join(sids) + "\r\n").encode()
            asking = pack_head(2 + len(sids), "ZMSCORE", partition.expire) + packed
            if not used:
                return asking
            # As the engine does: a second touch in the same interval changes nothing, and so it is left out.
            seen = reading.seen_at(at)
            touched = [sid for sid in sids if sid in used and all(each._seen_ms < seen for each in used[sid])]
            touches.update(dict.fromkeys(touched, seen))
            # There are as many replies for each batch. A score of 0 changes nothing.
            entries = [part for sid in touched for part in (seen, sid)] or [0, sids[0]]
            lists = (partition.recent, partition.guests)
            return asking + b"".join(pack_command("ZADD", name, "XX", "GT", *entries) for name in lists)

        partitions = [partition for partition, _ in groups]
        try:
            found = await adrive(ask_each("watch", partitions, pack_question, 3 if used else 1, needed=1))
        except SessionStoreUnavailable:
            # These sessions are touched when the server answers again.
            self.used.update(each for sid in touches for each in used[sid] if each._poller is self)
            raise
        for sid, seen in touches.items():
            for each in used[sid]:
                each._seen_ms = seen
        for (partition, sids), (scores, *_), now in zip(groups, found, times, strict=True):
            if None in scores or min(map(float, scores)) <= now:
                await self._handle_gone(store, partition, dict(zip(sids, scores, strict=True)), now)
            self._due.update(zip(sids, scores, strict=True))
        if touches and conf.moves_deadlines:
            for sid in touches:
                await adrive(_prolong_session(sid))

    async def _handle_gone(self, store: Store, partition: Partition, scores: Mapping[str, Any], now: int) -> None:
        """End the watch of sessions that are due or gone, or follow them to another key."""
        sessions = self._watched.get(store, {})
        gone = [sid for sid, score in scores.items() if score is None]
        notes = await adrive(reading.texts_of(partition, *map(partition.ended_of, gone))) if gone else []
        expired = reading.expired_note(now)
        found = {sid: expired for sid, score in scores.items() if score is not None and float(score) <= now}
        for sid, note in zip(gone, notes, strict=True):
            found[sid] = note or (expired if float(self._due.get(sid) or "inf") <= now else "")
        unexplained = [each for sid, note in found.items() if not note for each in sessions.get(sid, ())]
        living = await _living_in_other_store(unexplained)
        for sid, note in found.items():
            for each in list(sessions.get(sid, ())):
                if each in living:
                    continue
                then = await adrive(_follow_session(sid, note, each._user_id))
                # The watcher may have left meanwhile.
                if each._poller is self:
                    self._drop(store, each)
                    if isinstance(then, End):
                        each._finish(then)
                    else:
                        each.sid = then
                        self.watch(store, each)


async def _living_in_other_store(sessions: Sequence[WatchedSession]) -> set[WatchedSession]:
    """Return which of these sessions, that are not here, live in the other store while sessions move."""
    other = other_store()
    asked = [
        (each, Watched(each.sid or "", each._user_id, each._began_in_other_store))
        for each in sessions
        if each._began_in_other_store is not None
    ]
    if other is None or not asked:
        return set()
    lives = await adrive(other.find_living([watched for _, watched in asked]))
    return {each for (each, _), is_living in zip(asked, lives, strict=True) if is_living}


_POLLERS: WeakKeyDictionary[asyncio.AbstractEventLoop, _Poller] = WeakKeyDictionary()
_POLLERS_LOCK = forks.Lock()


def _poller_of_loop() -> _Poller:
    """Return the poller of the running event loop."""
    loop = asyncio.get_running_loop()
    with _POLLERS_LOCK:
        if loop not in _POLLERS:
            # A loop may end without notice. Its poller's timer refers to it, so it would stay here for ever.
            for closed in [other for other in _POLLERS if other.is_closed()]:
                del _POLLERS[closed]
            _POLLERS[loop] = _Poller()
        return _POLLERS[loop]
