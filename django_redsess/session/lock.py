"""
The lock of a session: requests get it one after the other, in the order in which they came.

A waiting request asks again after a pause, and holds no connection meanwhile. If a request dies, its lock still ends in
time. Nothing else looks at the lock: saves merge with it and without.
"""

from __future__ import annotations

from collections import deque
from os import urandom
from typing import Any

from django_redsess.clock import monotonic
from django_redsess.exceptions import SessionStoreUnavailable
from django_redsess.session.state import OF_ANOTHER, not_saved
from django_redsess.session.store import SessionStore
from django_redsess.transport import scripts
from django_redsess.transport.connections import Pause, server_of
from django_redsess.transport.keys import Partition, keyspace
from django_redsess.transport.scripts import Script
from django_redsess.transport.steps import ScriptCall, Steps, adrive, drive, in_store

PAUSE_MIN = 0.005
"""Seconds between two questions of the first in line. Each request ahead adds as much to the pause."""

PAUSE_MAX = 0.5
"""Seconds. Well below ``ALIVE_MS`` in ``lua/locking.lua``."""

PAUSE_IN_PLACE_MAX = 0.25
"""Seconds. A request that stays at its place in line asks less and less often, down to once in this time."""

LEFT_OVER_AT_ONCE = 20
"""How many locks left over from an outage one request gives back, at most."""


class SessionLock:
    """
    The lock of ``session`` for one request, which has the lock, waits for it, or will.

    ``sid`` is that of the key in the cookie. The lock is in the store that the settings describe, even while sessions
    move between stores. The request has the lock for up to ``hold`` seconds.
    """

    def __init__(self, session: SessionStore, sid: str, hold: float) -> None:
        self.session, self.sid, self.partition = session, sid, keyspace().of_sid(sid)
        # The token tells other requests how long the lock may last.
        self.token = f"{urandom(16).hex()}:{max(1, hold * 1000):.0f}"

    def taking(self, wait: float) -> Steps[str]:
        """
        Wait for the lock, for up to ``wait`` seconds.

        Return ``"locked"``; ``"gone"`` if the session is gone, and has no lock; or ``"late"`` if others had it for all
        that time. Raises SessionStoreUnavailable in an outage.
        """
        until = monotonic() + wait
        ahead, since = -1, monotonic()
        while True:
            # A lock that is left over holds the requests behind it until it ends.
            if left_over:
                yield from _giving_left_over_back(self.partition)
            left = until - monotonic()
            reply = yield from in_store(None, self._lock_call, waits=left > 0)
            if reply in (b"locked", b"gone"):
                return str(reply.decode())
            if left <= 0:
                return "late"
            if reply != ahead:
                ahead, since = reply, monotonic()
            pause = max(PAUSE_MIN * (1 + ahead), min((monotonic() - since) / 10, PAUSE_IN_PLACE_MAX))
            yield from Pause(min(pause, PAUSE_MAX, left))

    def _lock_call(self, *, waits: bool) -> ScriptCall[Any]:
        script = scripts.LOCK
        # While sessions move here from another store, this one may still be there.
        anywhere = self.session.other_store is not None
        args = script.arguments(sid=self.sid, token=self.token, waits=waits, anywhere=anywhere)
        return ScriptCall(self.partition, script, self._keys(script), args, lambda reply: reply)

    def _keys(self, script: Script) -> tuple[bytes, ...]:
        sid, names = self.sid, self.partition
        return script.keys(names, lock=names.lock_of(sid), waiting=names.waiting_of(sid), alive=names.alive_of(sid))

    def giving_back(self) -> Steps[None]:
        """Give the lock back, or stop waiting for it. Raises SessionStoreUnavailable in an outage."""
        yield from in_store(None, self._unlock_call)

    def _unlock_call(self) -> ScriptCall[int]:
        script = scripts.UNLOCK
        return ScriptCall(self.partition, script, self._keys(script), script.arguments(token=self.token), int)

    def give_back(self) -> None:
        """Give the lock back, or stop waiting for it. In an outage, it is given back later, or runs out by itself."""
        drive(self._giving_back_now_or_later())

    async def agive_back(self) -> None:
        """Give the lock back as :meth:`give_back`, in an event loop."""
        await adrive(self._giving_back_now_or_later())

    def _giving_back_now_or_later(self) -> Steps[None]:
        # A request waits only once for a server that does not answer. A full server answers at once.
        if self.session.unavailable is not None and server_of(self.partition).outages.out_of_reach.is_known:
            left_over.append(self)
            return
        try:
            yield from self.giving_back()
        except SessionStoreUnavailable:
            left_over.append(self)


left_over: deque[SessionLock] = deque(maxlen=1000)
"""Locks that this process could not give back in an outage. Its next requests that want a lock give them back."""


def _giving_left_over_back(partition: Partition) -> Steps[None]:
    """Give back some of the left-over locks in ``partition``. Each lock is given back by one request only."""
    for lock in [each for each in left_over.copy() if each.partition == partition][:LEFT_OVER_AT_ONCE]:
        try:
            left_over.remove(lock)
        except ValueError:  # Another request was faster.
            continue
        try:
            yield from lock.giving_back()
        except BaseException:
            left_over.append(lock)
            raise


def reading_anew(session: SessionStore) -> Steps[None]:
    """
    Refresh a session that was loaded before its request got the lock.

    A changed session is saved: a save merges. Without changes, the session is loaded again. Nothing is sent for a
    session that was not loaded, or is not stored yet. Raises UpdateError if the session is no longer the same user's.
    """
    if "_session_cache" not in session.__dict__ or session.saved_key is None:
        return
    if session.modified:
        yield from session.saving()
        return
    user_id = session.loaded_user_id
    session.abandon()
    yield from session.opening()
    if session.loaded_user_id != user_id:
        raise not_saved(OF_ANOTHER)
