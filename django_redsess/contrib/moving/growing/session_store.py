"""
The class of a session object while sessions move between two stores of this engine.

In step 1, the settings describe the store before: all is used there, and what a process of step 2 has moved is used in
the next store. In step 2, they describe the next store: what is not there moves there when it is looked for.
"""

from __future__ import annotations

from typing import Any

from django_redsess.contrib.moving.growing.stores import SiblingStore, site_stores
from django_redsess.contrib.moving.growing.transfer import move_user_sessions, transfer_sessions
from django_redsess.contrib.moving.marks import COPIED
from django_redsess.session import blocks, operations, reading
from django_redsess.session.operations import Ending, Outcome
from django_redsess.session.reading import Loaded
from django_redsess.session.record import revision_of, user_of
from django_redsess.session.state import NO_SNAPSHOT
from django_redsess.session.store import SessionStore as PlainSessionStore
from django_redsess.signals import Reason
from django_redsess.transport.keys import Store, using
from django_redsess.transport.steps import Steps, T, in_store


class SessionStore(PlainSessionStore):
    """Django's session API for sessions that are in one of two stores."""

    other_store = SiblingStore()
    store: Store | None = None
    """The store in which this session is. None stands for the one that the settings describe."""

    def run_steps(self, steps: Steps[T]) -> T:
        return super().run_steps(in_store(self.store, lambda: steps))

    async def arun_steps(self, steps: Steps[T]) -> T:
        return await super().arun_steps(in_store(self.store, lambda: steps))

    @classmethod
    def clear_expired(cls) -> None:
        """End every session whose deadline has passed, in both stores."""
        super().clear_expired()
        with using(site_stores().other):
            super().clear_expired()

    def loading(self) -> Steps[dict[str, Any]]:
        sid = self.stored_sid or ""
        data = yield from super().loading()
        if self.snapshot.revision != COPIED:
            return data
        self.snapshot = NO_SNAPSHOT
        loaded = yield from self._read_in(self.store, sid)
        return (yield from in_store(self.store, self._take_over, loaded))

    def loading_gone(self, loaded: Loaded) -> Steps[dict[str, Any]]:
        if self.store is not None:
            return (yield from super().loading_gone(loaded))
        note = yield from reading.note_of(loaded.sid)
        if not note:
            found = yield from self._find_and_move(loaded.sid)
            if found.record is not None:
                return (yield from in_store(self.store, self._take_over, found))
            note = yield from in_store(site_stores().other, reading.note_of, loaded.sid)
        self.take_note(loaded, note)
        return {}

    def _find_and_move(self, sid: str) -> Steps[Loaded]:
        """Look for a session that is not in the store of the settings. Move it there, or note where it is."""
        both, store = site_stores(), None
        if both.before is None:
            store = both.next
        else:
            yield from transfer_sessions(both, [sid])
        found = yield from self._read_in(store, sid)
        if found.record is not None:
            self.store = store
        return found

    def _read_in(self, store: Store | None, sid: str) -> Steps[Loaded]:
        """Read a session in ``store``. If a process was stopped while it moved the session, end the move."""
        loaded = yield from in_store(store, reading.read_session, sid, self.touch, self.claim)
        if loaded.record is not None and revision_of(loaded.record) == COPIED:
            yield from transfer_sessions(site_stores(), [sid], are_copied=True)
            loaded = yield from in_store(store, reading.read_session, sid, self.touch, self.claim)
        return loaded

    def _take_over(self, loaded: Loaded) -> Steps[dict[str, Any]]:
        if loaded.record is None:
            return (yield from super().loading_gone(loaded))
        data = yield from self.loading_live(loaded)
        user_id, both = user_of(data), site_stores()
        if user_id and both.before is not None:
            # So the user's list and limit have all sessions.
            yield from move_user_sessions(both, user_id)
        return data

    def saving(self, must_create: bool = False) -> Steps[None]:
        data: dict[str, Any] | None = self.__dict__.get("_session_cache")
        if data is None:
            data = yield from self.opening(no_load=must_create)
        if not must_create:
            yield from self.proving()
        sid, snapshot, user_id, both = self.stored_sid, self.snapshot, user_of(data), site_stores()
        is_unseen = snapshot.record is None and not (must_create or snapshot.gone)
        if sid and is_unseen and (yield from self._read_in(self.store, sid)).record is None:
            # Its data were replaced without loading it.
            yield from self._find_and_move(sid)
        if user_id and (snapshot.record is None or snapshot.record.user_id != user_id):
            yield from in_store(both.other, blocks.refuse_if_blocked, user_id)
            if both.before is not None:
                yield from move_user_sessions(both, user_id)
        yield from in_store(self.store, super().saving, must_create)

    def _save_of_gone(self, data: dict[str, Any], outcome: Outcome) -> Steps[None]:
        sid, both = self.stored_sid, site_stores()
        may_have_moved = sid and self.store is None and both.next is not None and not outcome.note
        if may_have_moved and (yield from self._find_and_move(sid or "")).record is not None:
            # A process of step 2 has moved it since it was loaded.
            return (yield from in_store(self.store, super().saving))
        yield from super()._save_of_gone(data, outcome)

    def creating(self) -> Steps[None]:
        self.store = None
        yield from in_store(None, super().creating)

    def deleting(self, session_key: str | None) -> Steps[None]:
        pending, snapshot, both, sid = self.pending, self.snapshot, site_stores(), self.stored_sid
        for store in both.in_order:
            self.pending, self.snapshot = pending, snapshot
            yield from in_store(store, super().deleting, session_key)
        record = snapshot.record
        if session_key is None and sid is not None and record is not None and record.user_id:
            # It may have got another key in the store before, and have moved since.
            new_sid = reading.rotated_to((yield from in_store(both.before, reading.note_of, sid)))
            if new_sid:
                reason = Reason.LOGOUT if pending.signs_out else Reason.INVALIDATED
                yield from in_store(both.next, operations.end_by_sid, [new_sid], Ending(reason), follow=True)

    def existing(self, session_key: str) -> Steps[bool]:
        for store in site_stores().in_order:
            if (yield from in_store(store, super().existing, session_key)):
                return True
        return False

    def refuse_blocked(self, user_id: str) -> None:
        super().refuse_blocked(user_id)
        self.run_steps(in_store(site_stores().other, blocks.refuse_if_blocked, user_id))

    @property
    def began_in_other_store(self) -> int | None:
        return 0 if site_stores().before is None else None
