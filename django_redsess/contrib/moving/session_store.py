"""
The class of a session object while sessions move: a session that is not here is looked for in the other store.

In the first step (``MOVES`` is False) the session is used there, and its own engine writes it. In the second step it is
copied here, and its row stays until ``movesessions --finish``. Processes of both steps may run at once. So a mark tells
that a session is or has been here, and a process marks a session before it ends the session or gives it another key.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from copy import deepcopy
from functools import partial
from typing import Any

from django.contrib.sessions.backends.base import SessionBase, UpdateError

from django_redsess.conf import conf
from django_redsess.contrib.moving import marks
from django_redsess.contrib.moving.contents import is_movable, keep_serializable, log_unmovable
from django_redsess.contrib.moving.copying import (
    BEGAN_KEY,
    ask_outside,
    build_copy,
    copy_session,
    fetch_row,
    keys_here,
    possible_keys,
)
from django_redsess.contrib.moving.marks import Traces, keys_by_mark
from django_redsess.contrib.moving.other_store import ForeignStore, find_beginning
from django_redsess.contrib.moving.sources import source
from django_redsess.contrib.moving.sources.base import Row, fill
from django_redsess.session import blocks, operations, reading, user_limit
from django_redsess.session.client import Client
from django_redsess.session.merge import merge, same
from django_redsess.session.reading import Loaded
from django_redsess.session.record import Record, pack, revision_of, serialized, user_of
from django_redsess.session.saving import SaveAttempts
from django_redsess.session.state import ENDED, NOTHING_PENDING, PendingSignIn, Snapshot, not_saved
from django_redsess.session.store import SessionStore as OwnSessionStore
from django_redsess.session.user_limit import Limit
from django_redsess.transport.connections import server_of
from django_redsess.transport.keys import keyspace, sid_of
from django_redsess.transport.steps import Steps


class SessionStore(OwnSessionStore):
    """Django's session API for sessions that are here or, until they move, in the store of ``MOVE_FROM``."""

    other_store = ForeignStore()
    key_there: str | None = None
    """The key that the session has in the other store, if it comes from there: the one that the browser has sent."""
    there: SessionBase | None = None
    """The session in the other store, as long as it is used there."""
    _data_there: dict[str, Any]
    _began_there = 0
    """When the session began there, in milliseconds of our server's clock; 0 if it was before the move."""
    _deadline_there: int | None = None
    _renews_there = False

    def __init__(self, session_key: str | None = None) -> None:
        keys = [] if session_key is None else keys_here(session_key)
        self.key_there = session_key if keys else None
        super().__init__(keys[0] if keys else None)

    def exists(self, session_key: str) -> bool:
        return super().exists(session_key) or self.run_steps(self._exists_there(session_key))

    async def aexists(self, session_key: str) -> bool:
        return await super().aexists(session_key) or await self.arun_steps(self._exists_there(session_key))

    @classmethod
    def clear_expired(cls) -> None:
        """End every session whose deadline has passed, in the other store too."""
        super().clear_expired()
        if (engine := source().engine) is not None:
            engine.clear_expired()

    def loading(self) -> Steps[dict[str, Any]]:
        if self.there is not None:
            # The session is loaded once more.
            self.there, self._session_key = None, self._key_here
        data = yield from super().loading()
        record, revision = self.snapshot[:2]
        return data if record is None or revision != marks.COPIED else (yield from self._compare_with_row(record, data))

    @property
    def brought_key(self) -> str | None:
        # It may have another key here.
        return self.key_there or super().brought_key

    def proving(self) -> Steps[None]:
        # A session that is used in the other store is loaded, and has no binding.
        if self.there is None:
            yield from super().proving()

    def loading_gone(self, loaded: Loaded) -> Steps[dict[str, Any]]:
        if self.key_there is not None:
            return (yield from self._look_in_other_store(self.key_there, loaded))
        return (yield from super().loading_gone(loaded))

    def _look_in_other_store(self, key: str, loaded: Loaded) -> Steps[dict[str, Any]]:
        """Find a session that is not here in the other store. If it is not there either, learn why it is gone."""
        row = None
        key_here, traces = yield from _find_traces(key)
        if not (traces.note or traces.mark):
            row = yield from fetch_row(key)
            if row is None:
                # Another request may have moved it meanwhile, and deleted its row.
                key_here = keys_here(key)[0]
                traces = yield from marks.traces_of(sid_of(key_here))
        if keys := keys_by_mark(key, traces.mark):
            return (yield from self._load_under(keys, loaded))
        if traces.mark:
            # It may have been moved after it was looked for here.
            return (yield from self._load_under([key_here], loaded, traces.note))
        if row is None:
            self.take_note(loaded, traces.note)
            return {}
        return (yield from self._move_here(key, row, loaded) if conf.MOVES else self._use_there(key, row, loaded))

    def _load_under(self, keys: Iterable[str], loaded: Loaded, note: str = "") -> Steps[dict[str, Any]]:
        """Load the session that was moved here under one of these ``keys``."""
        for key in keys:
            again = yield from reading.read_session(sid_of(key), self.touch, self.claim)
            if again.record is not None:
                self._session_key = key
                data = yield from self.loading_live(again)
                # The browser has to get the new key.
                self.modified = self.modified or key != self.key_there
                return data
        self.take_note(loaded, note)
        return {}

    def _use_there(self, key: str, found: Row, loaded: Loaded) -> Steps[dict[str, Any]]:
        """Use the session where it is. Its own engine writes it, but does not read it."""
        sid, data, began_at = sid_of(keys_here(key)[0]), found.data, found.began_ms
        lives_since = yield from find_beginning(sid, user_of(data), began_at)
        if lives_since is None:
            return (yield from self._end_there(key, loaded))
        self.there = yield from ask_outside(partial(source().open_session, key, self._client()))
        self._session_key, self._data_there, self._deadline_there = key, _snapshot(data), found.deadline_ms
        self._began_there = lives_since
        return data

    def _end_there(self, key: str, loaded: Loaded) -> Steps[dict[str, Any]]:
        """End a session that an end of many sessions has included."""
        yield from self.deleting(key)
        self.take_note(loaded, "")
        return {}

    def _move_here(self, key: str, found: Row, loaded: Loaded) -> Steps[dict[str, Any]]:
        """Copy the session here, and load it."""
        if not is_movable(found):
            log_unmovable(key, "its data, user id or deadline are more than can be written here")
            self.take_note(loaded, "")
            return {}
        data = keep_serializable(found.data, self.serializer)
        own_key = self.session_key or ""
        keys = possible_keys(key, own_key, user_of(data))
        if keys[0] != own_key:
            for other in keys[1:]:
                # It may have been moved when the site had another secret key.
                if (yield from self.existing(other)):
                    keys = [other]
        outcome = yield from copy_session(self, sid_of(keys[0]), found._replace(data=data), sid_of(own_key))
        if outcome == "over":
            return (yield from self._end_there(key, loaded))
        if outcome == "ended":
            self.take_note(loaded, "")
            return {}
        if keys[0] != own_key and not (
            yield from marks.mark_moved_to(sid_of(own_key), found.deadline_ms, sid_of(keys[0]))
        ):
            # It was ended by its old key while it was copied.
            yield from super().deleting(keys[0])
        return (yield from self._load_under(keys, loaded))

    def _compare_with_row(self, record: Record, data: dict[str, Any]) -> Steps[dict[str, Any]]:
        """Compare an unused copy with its row: a process of the first step may have written the row since."""
        sid, due = self.sid or "", 0
        row = yield from fetch_row(self.key_there or "")
        row = row if row is not None and is_movable(row) else None
        late = data if row is None else keep_serializable(row.data, self.serializer)
        if user_of(late) != record.user_id:
            self._session_cache = late
            # That sign-in is over. Nothing can refuse it now.
            self.pending = self.pending._replace(sign_in=PendingSignIn(user_limit.ceiling()))
            yield from SaveAttempts(self, late).steps()
            return late
        if row is not None and not same(late, data, self.serializer()):
            at = server_of(keyspace().of_sid(sid)).clock.now() or 0
            made = build_copy(self, row, serialized(self.serializer, late), at)
            due, record = made.due, made.record._replace(login_ms=record.login_ms, client_packed=record.client_packed)
        packed = pack(sid, record)
        revision = revision_of(packed)
        outcome = yield from operations.save_fast(sid, packed, revision=revision, loaded=marks.COPIED, due=due)
        if outcome.status == "changed":
            # Another request has compared it, and may have changed it since.
            return (yield from super().loading())
        if outcome.status == "saved":
            self.snapshot = Snapshot(record._replace(revision=revision), revision, max(due, self.snapshot.due))
        return late

    def saving(self, must_create: bool = False) -> Steps[None]:
        data: dict[str, Any] | None = self.__dict__.get("_session_cache")
        if data is None:
            data = yield from self.opening(no_load=must_create)
        if self.there is None:
            return (yield from super().saving(must_create))
        yield from self._save_there(self.there, data, must_create)

    def _save_there(self, there: SessionBase, data: dict[str, Any], must_create: bool) -> Steps[None]:
        user_id = user_of(data)
        yield from self._note_sign_in_there(data)
        if self._renews_there:
            yield from self.cycling()
            if self.there is None:
                return (yield from super().saving())
        sid, is_gone = self._sid_here, False
        self._fill_there(there, data)
        try:
            yield from ask_outside(partial(there.save, must_create))
        except UpdateError:
            is_gone = True
        left = yield from marks.traces_of(sid)
        if is_gone or left.mark:
            yield from self._go_on_here()
            return (yield from super().saving())
        if (yield from find_beginning(sid, user_id, self._began_there)) is None:
            # It was ended while it was saved.
            yield from self.deleting(None)
            raise not_saved(ENDED)
        self._note_saved_there(there, data)

    def _note_sign_in_there(self, data: dict[str, Any]) -> Steps[None]:
        """Note a sign-in by the user id in the data: a view may have written it without ``login()``."""
        user_id = user_of(data)
        if user_id != user_of(self._data_there):
            yield from blocks.refuse_if_blocked(user_id)
            yield from self._begin_there(user_id)

    def _fill_there(self, there: SessionBase, data: dict[str, Any]) -> None:
        began = {BEGAN_KEY: self._began_there} if self._began_there else {}
        fill(there, {**data, **began})

    def _note_saved_there(self, there: SessionBase, data: dict[str, Any]) -> None:
        self._session_key = self.key_there = there.session_key
        self._data_there, self.pending = _snapshot(data), NOTHING_PENDING

    def _begin_there(self, user_id: str) -> Steps[None]:
        """Note that the session or its sign-in begins now: ends of many sessions that came before do not include it."""
        space = keyspace()
        self._began_there = yield from reading.read_time(space.of_user(user_id) if user_id else space.partitions[0])

    def _go_on_here(self) -> Steps[None]:
        """Go on with the session that another process has moved here, with the changes of this request."""
        before, mine = self._data_there, self.__dict__.pop("_session_cache")
        self.there, self._session_key = None, self._key_here
        theirs = yield from self.loading()
        if self.session_key is None:
            raise not_saved(ENDED)
        serializer = self.serializer
        self._session_cache = merge(
            keep_serializable(before, serializer), keep_serializable(mine, serializer), theirs, serializer()
        )

    def creating(self) -> Steps[None]:
        if conf.MOVES:
            return (yield from super().creating())
        data = yield from self.opening(no_load=True)
        if user_id := user_of(data):
            yield from blocks.refuse_if_blocked(user_id)
        yield from self._begin_there(user_id)
        self.there = there = yield from ask_outside(partial(source().open_session, None, self._client()))
        self._fill_there(there, data)
        yield from ask_outside(there.create)
        # The create() of some engines leaves the data out.
        self._fill_there(there, data)
        yield from ask_outside(there.save)
        self._note_saved_there(there, data)
        self._renews_there, self.modified = False, True

    def cycling(self, *, ends_copies: bool = False) -> Steps[None]:
        data = yield from self.opening()
        there = self.there
        if there is not None and not (yield from marks.set_mark(self._sid_here, self._deadline_there)):
            # It has been moved meanwhile.
            yield from self._go_on_here()
            there = None
        if there is None:
            return (yield from super().cycling(ends_copies=ends_copies))
        yield from self._note_sign_in_there(data)
        # An end of all others names the session that stays by its sid, which is about to change.
        began_at = yield from find_beginning(self._sid_here, user_of(data), self._began_there)
        self._began_there = self._began_there if began_at is None else began_at
        self._fill_there(there, data)
        yield from ask_outside(there.cycle_key)
        self._note_saved_there(there, data)
        self._renews_there, self.modified = False, True

    def deleting(self, session_key: str | None) -> Steps[None]:
        key = self.key_there if session_key is None else session_key
        if key is None or not keys_here(key):
            return (yield from super().deleting(session_key))
        if session_key is None and self.snapshot.record is not None:
            yield from super().deleting(session_key)
            yield from ask_outside(partial(source().delete_row, key))
        else:
            found = yield from fetch_row(key)
            for each in (yield from self._mark_as_ended(key, found)):
                yield from super().deleting(each)
            if found is not None:
                yield from ask_outside(partial(source().delete_row, key))
        if session_key is None:
            self.there = self.key_there = None

    def _mark_as_ended(self, key: str, found: Row | None) -> Steps[list[str]]:
        """
        Mark the session ``key``, so that nobody moves it any more. Return the keys that it may have here.

        What has no row there gets no mark: anybody can send any number of keys.
        """
        keys = keys_here(key)
        if found is not None and is_movable(found):
            # A process may have been killed before it noted the key that it had chosen.
            keys += [each for each in possible_keys(key, keys[0], user_of(found.data)) if each not in keys]
        for sid in map(sid_of, list(keys)):
            if found is None or not (yield from marks.set_mark(sid, found.deadline_ms)):
                keys += keys_by_mark(key, (yield from marks.traces_of(sid)).mark)
        return keys

    def signed_in(self, limit: Limit | None = None) -> None:
        if self.there is None and not self._begins_there:
            return super().signed_in(limit)
        # Django's login() keeps the key if the same user was signed in before.
        user_id = self.loaded_user_id
        self._renews_there = self.there is not None and user_id == user_of(self._data_there) != ""

    def note_view(self, item: str) -> None:
        # Viewed items are stored here only.
        if not (self.there is not None or self._begins_there):
            super().note_view(item)

    def abandon(self) -> None:
        super().abandon()
        if self.there is not None:
            self.there, self._session_key = None, self._key_here

    def _validate_session_key(self, key: object) -> bool:
        return super()._validate_session_key(key) or (self.there is not None and isinstance(key, str))

    @property
    def began_in_other_store(self) -> int | None:
        return None if self.there is None else self._began_there

    @property
    def _sid_here(self) -> str:
        return sid_of(self._key_here)

    @property
    def _key_here(self) -> str:
        return keys_here(self.key_there or "")[0]

    @property
    def _begins_there(self) -> bool:
        return not conf.MOVES and self.snapshot.record is None

    def _client(self) -> Client:
        return Client() if self.visit is None else self.visit.client()

    def _exists_there(self, key: str) -> Steps[bool]:
        if not keys_here(key):
            return False
        left = yield from marks.traces_of(sid_of(keys_here(key)[0]))
        return not (left.note or left.mark) and (yield from fetch_row(key)) is not None


def _snapshot(data: dict[str, Any]) -> dict[str, Any]:
    """Return a copy of ``data``, to tell later what has changed. It is empty if they can't be copied: then all has."""
    with suppress(Exception):
        return deepcopy(data)
    return {}


def _find_traces(key: str) -> Steps[tuple[str, Traces]]:
    """Return the key under which the session ``key`` has left traces here, and the traces; the last key if none has."""
    key_here, traces = "", Traces("", "")
    for key_here in keys_here(key):
        traces = yield from marks.traces_of(sid_of(key_here))
        if traces.note or traces.mark:
            break
    return key_here, traces
