"""
Saving a session, from the first attempt to the last.

Other requests may save the same session meanwhile. An attempt writes only if the stored record has the revision of the
snapshot. Otherwise the changes of both requests are merged, and the next attempt follows. All sessions of a user are in
the user's home partition, so a sign-in may give the session another key.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.contrib.auth import HASH_SESSION_KEY
from django.contrib.sessions.backends.base import CreateError, SessionBase

from django_redsess import observers, signals
from django_redsess.clock import monotonic
from django_redsess.exceptions import SessionLimitReached, SessionStoreUnavailable, SignInRefused
from django_redsess.session import blocks, deadlines, eviction, operations, reading, user_limit
from django_redsess.session.binding import YET_TO_BE_BOUND, BindingChanged
from django_redsess.session.client import Client, pack_client
from django_redsess.session.deadlines import Expiry
from django_redsess.session.merge import merge, same
from django_redsess.session.messages import deliver_message
from django_redsess.session.operations import Ending, Outcome, Saving
from django_redsess.session.record import (
    REVISION_SIZE,
    Record,
    data_of,
    log_unusable,
    pack,
    revision_of,
    serialized,
    serializer_named,
    stored_client,
    unpack,
    user_of,
)
from django_redsess.session.state import GONE, NO_SNAPSHOT, NOTHING_PENDING, UNREADABLE, Pending, Snapshot, not_saved
from django_redsess.session.user_limit import Limit
from django_redsess.signals import BegunSession
from django_redsess.times import to_aware
from django_redsess.transport import scripts
from django_redsess.transport.connections import Pause, server_of
from django_redsess.transport.keys import keyspace, sid_of
from django_redsess.transport.steps import SendSignals, Step, Steps, current_time, time_of

if TYPE_CHECKING:
    from django_redsess.session.store import SessionStore

AHEAD_MIN = 5_000
"""Milliseconds. ``save_fast`` does not read the deadline. So it must be ahead by more than a request waits."""


def django_expiry(session: SessionStore, now: int) -> Expiry:
    """Return Django's deadline, from the methods of Django's session API. ``now`` is the server's time."""
    expiry = session._session_cache.get("_session_expiry")
    if expiry is None and type(session).get_expiry_age is SessionBase.get_expiry_age:
        # The same value as get_expiry_age(), in less time.
        return Expiry(int(session.get_session_cookie_age()) * 1000, 0)
    if isinstance(expiry, (datetime, str)):
        return Expiry(0, int(to_aware(session.get_expiry_date()).timestamp() * 1000))
    age = int(session.get_expiry_age() * 1000)
    return Expiry(age, 0) if age > 0 else Expiry(0, now + age)


def client_part(session: SessionStore, user_id: str, before: Callable[[], Client] = Client) -> bytes:
    """
    Return the client part of the record: the present visitor, or else the stored one, or else the one ``before``.

    ``user_id`` is the user of that record. Nothing is stored about the sender of a guest's (``""``) requests.
    """
    if not user_id:
        return b""
    if session.visit is None and session.snapshot.record:
        return session.snapshot.record.client_packed
    return pack_client(before() if session.visit is None else session.visit.client())


def move_across_partitions(old_sid: str, sid: str, saving: Saving, *, loaded: bytes) -> Steps[Outcome]:
    """Move a session to a new sid in another partition, by several scripts: none reaches both partitions."""
    viewed = yield from reading.read_viewed_items(old_sid)
    made = yield from operations.create(sid, saving, viewed)
    if made.status in ("clock", "blocked", "again"):
        return made
    if made.status == "refused":
        # Two requests may sign in at once from one guest's session. The other one may have been first.
        old = yield from reading.read_session(old_sid)
        if old.record is not None:
            return made
        note = yield from reading.note_of(old_sid)
        return Outcome("gone", note=note)
    # This only ends the old session, and leaves a note with the new sid.
    try:
        outcome = yield from operations.rotate(old_sid, sid, saving, loaded=loaded)
    except SessionStoreUnavailable:
        # The browser does not get the new key. A server that can be reached may still end the session under it.
        if not server_of(keyspace().of_sid(sid)).outages.out_of_reach.is_known:
            with suppress(SessionStoreUnavailable):
                yield from operations.end_by_sid([sid], Ending())
        raise
    if outcome.status != "saved":
        yield from operations.end_by_sid([sid], Ending())
    elif made.status == "taken":
        # Only this session has this sid: an earlier save has created it there, and was interrupted.
        there = yield from reading.read_session(sid)
        return Outcome("gone") if there.record is None else Outcome("moved", there.record)
    return outcome._replace(crowded=outcome.crowded or made.crowded, stored=made.stored or outcome.stored)


SAVE_SECONDS_MAX = 5.0
"""How long a save tries again while other requests change the same session."""

logger = logging.getLogger("django_redsess")


class SaveAttempts:
    """The attempts to save ``session`` with ``data``. With ``must_create``, it is a new session."""

    def __init__(self, session: SessionStore, data: dict[str, Any], *, must_create: bool = False) -> None:
        self.session, self.data, self.must_create = session, data, must_create
        self.at = 0  # The server's time, once the server has refused ours.
        self.limit: Limit | None = None  # The limit that the last attempt enforced.
        self.merges, self.first_merge_at = 0, 0.0

    def steps(self) -> Steps[Outcome]:
        """Try until the session is saved or gone."""
        while True:
            outcome = operations.AGAIN
            if (fast := self._prepare_fast()) is not None:
                step, snapshot = fast
                outcome = yield from step
                if outcome.status == "saved":
                    self.session.snapshot = snapshot
                    return outcome
            # If the general script replies "again", it has removed entries of the user's list that do not count.
            while outcome.status in ("again", "clock", "blocked"):
                outcome = yield from self._try_general()
                if outcome.status == "clock":
                    # The record is made again by the server's time. No script can change it, because it is sealed.
                    self.at = outcome.at
                elif outcome.status == "blocked":
                    # If this raises nothing, the block was lifted meanwhile.
                    yield from self._refuse_if_blocked()
            if outcome.status == "refused":
                raise self._limit_reached()
            if outcome.status in ("saved", "gone"):
                return outcome
            if outcome.status == "moved":
                # What was changed since the interrupted save is still to be stored, under the new key.
                self.session.pending = self.session.pending._replace(rotates_from=None, own_key=None)
            self._merge(outcome.record)
            if outcome.status == "changed":
                yield from self._let_others_go_first()

    def _prepare_fast(self) -> tuple[Step[Outcome], Snapshot] | None:
        """
        Return the step that compares and sets by ``save_fast``, and the snapshot after it. None if it needs more.

        The script checks only the revision. So the rest must be known in advance: the session is live, only its record
        changes, and its deadline does not move to an earlier time.
        """
        session, data = self.session, self.data
        snapshot = session.snapshot
        base = snapshot.record
        if (
            self.must_create
            or self.at
            or base is None
            or not snapshot.revision
            or session.pending != NOTHING_PENDING
            or user_of(data) != base.user_id
            or (key := session.session_key) is None
        ):
            return None
        sid = sid_of(key)
        # A serializer may raise anything, and error reports show the variables.
        del key
        server = server_of(keyspace().of_sid(sid))
        at = server.clock.now() or 0
        # Only the general script can find out that a full server has room again.
        if server.outages.under_way and server.outages.affects(scripts.SAVE.name):
            return None
        if not at or snapshot.due - at < AHEAD_MIN:
            return None
        visit, expiry = session.visit, django_expiry(session, at)
        passive, visited = visit is not None and visit.passive, visit is not None
        times = deadlines.times_of_save(expiry, base, snapshot.due, at, passive=passive, visited=visited)
        if times is None:
            return None
        deadline_seconds, age_seconds, due, _ = times
        user_id, client = base.user_id, client_part(session, base.user_id)
        written, serializer = serialized(session.serializer, data)
        record = Record(
            user_id, base.login_ms, deadline_seconds, age_seconds, client, written, serializer, base.binding
        )
        packed = pack(sid, record)
        revision, later = packed[1 : 1 + REVISION_SIZE], due if due > snapshot.due else 0
        step = operations.save_fast(sid, packed, revision=revision, loaded=snapshot.revision, due=later)
        # As Snapshot() does, in half the time.
        return step, tuple.__new__(Snapshot, (record, revision, due, False))

    def _try_general(self) -> Steps[Outcome]:
        """Choose the key, make the record, send the script that writes it, and remember what is stored then."""
        self.limit = self._choose_key()
        session, sid = self.session, self.session.sid or ""
        at = self.at or (yield from current_time(keyspace().of_sid(sid)))
        expiry = django_expiry(session, at)
        saving, snapshot = self._content(sid, at, expiry)
        outcome = yield from self._to_send(sid, saving, expiry)
        if outcome.status == "saved":
            begun = self._begun(sid, saving, snapshot) if signals.sessions_began.receivers else []
            session.snapshot = snapshot
            session.pending = Pending(signs_out=True) if session.pending.signs_out else NOTHING_PENDING
            if not signals.hold_events(begun):
                yield SendSignals(begun)
            yield from eviction.evict_after_save(sid, saving, outcome)
            if outcome.stored is not None and outcome.stored.message:
                yield from deliver_message(sid, saving.user_id, outcome.stored.message)
        return outcome

    def _choose_key(self) -> Limit | None:
        """Choose a key in the user's bucket, if another key is needed. Return the limit that the script enforces."""
        session, base, user_id = self.session, self._base, user_of(self.data)
        user_before, sign_in = base.user_id if base else "", session.pending.sign_in
        limit = None
        # The limit is for a user who is new to this session, not for one who signs in again.
        if user_id not in ("", user_before):
            limit = user_limit.limit_without_login() if sign_in is None else sign_in.limit
        # The script save enforces no limit, but rotate does. So with a limit, the session gets a new key.
        renews = limit is not None and not self.must_create
        if user_id and (
            renews or self.must_create or session.pending.rotates_from is not None or user_id != user_before
        ):
            session.move_home(user_id, must_create=self.must_create, renews=renews)
        return limit

    def _content(self, sid: str, at: int, expiry: Expiry) -> tuple[Saving, Snapshot]:
        """Make the record by the time ``at``. Return what to write, and the snapshot after it is written."""
        session, before, base, user_id = self.session, self.session.snapshot, self._base, user_of(self.data)
        times, login_ms = None, at if user_id else 0
        if base is not None and user_id == base.user_id and session.pending.sign_in is None:
            visited = session.visit is not None
            times = deadlines.times_of_save(expiry, base, before.due, at, passive=session.passive, visited=visited)
            login_ms = base.login_ms
        times = times or deadlines.times_of_new(expiry, login_ms, at)
        client = client_part(session, user_id)
        data, serializer = serialized(session.serializer, self.data)
        binding = session.pending.binding
        if binding is None or not user_id:
            # Another user's session is not bound to this device, and no guest's is.
            binding = base.binding if base is not None and base.user_id == user_id else b""
        record = Record(user_id, login_ms, times.deadline_seconds, times.age_seconds, client, data, serializer, binding)
        packed = pack(sid, record)
        has_new_key = session.pending.rotates_from is not None
        saving = Saving(
            record=packed,
            user_id=user_id,
            login_ms=login_ms,
            at=at,
            due=times.due,
            later_stays=times.later_stays,
            limit=self.limit,
            name="sign_in" if login_ms == at else "",
            follows=has_new_key and session.pending.sign_in is None and self._is_followed(user_id),
        )
        due = max(times.due, before.due) if times.later_stays else times.due
        return saving, Snapshot(record, revision_of(packed), due)

    def _is_followed(self, user_id: str) -> bool:
        """Tell whether sockets that watch the session under its old key go on: no reason to end copies is known."""
        base = self._base
        if self.session.pending.ends_copies or base is None or base.user_id != user_id:
            return False
        # Without a revision, another record than ``base`` may be replaced. Another hash is another password.
        is_loaded = bool(self.session.snapshot.revision)
        return is_loaded and data_of(base).get(HASH_SESSION_KEY) == self.data.get(HASH_SESSION_KEY)

    def _to_send(self, sid: str, saving: Saving, expiry: Expiry) -> Step[Outcome] | Steps[Outcome]:
        loaded, old_key = self.session.snapshot.revision, self.session.pending.rotates_from
        if self.must_create:
            return self._adding(sid, saving, expiry)
        if old_key is None:
            return operations.save(sid, saving, loaded=loaded)
        old_sid = sid_of(old_key)
        if operations.same_partition(old_sid, sid):
            return operations.rotate(old_sid, sid, saving, loaded=loaded)
        return move_across_partitions(old_sid, sid, saving, loaded=loaded)

    def _adding(self, sid: str, saving: Saving, expiry: Expiry) -> Steps[Outcome]:
        session, outcome = self.session, operations.AGAIN
        is_new = session.session_key == session.pending.own_key
        # create_fast ends none of the user's other sessions. It wakes no cleaner that sleeps until a later deadline.
        ends_none = saving.limit is None or saving.limit.is_built_in
        if is_new and ends_none and expiry.age >= settings.SESSION_COOKIE_AGE * 1000:
            outcome = yield from operations.create_fast(sid, saving)
            is_new = False
        if outcome.status == "again":
            outcome = yield from operations.create(sid, saving, is_new=is_new)
        if outcome.status not in ("saved", "clock"):
            # The next attempt must not take this key for its own.
            session.pending = session.pending._replace(own_key=None)
        if outcome.status == "taken":
            raise CreateError(
                "Nothing was saved: the key is another session's. Save without must_create, or with a new key."
            )
        return outcome

    def _begun(self, sid: str, saving: Saving, snapshot: Snapshot) -> list[BegunSession]:
        """Return the sign-in that this save has stored, if it has stored one."""
        base, record = self._base, snapshot.record
        is_same_user = base is not None and base.user_id == saving.user_id
        replaces = base.login_ms if base is not None and is_same_user else 0
        if record is None or saving.login_ms in (0, replaces):
            return []
        login_at, before = time_of(saving.login_ms), time_of(replaces) if replaces else None
        client = stored_client(record)
        return [
            BegunSession(
                sid, saving.user_id, login_at, replaces=before, address=client.address, user_agent=client.user_agent
            )
        ]

    @property
    def _base(self) -> Record | None:
        return None if self.must_create else self.session.snapshot.record

    def _merge(self, packed: bytes) -> None:
        """Take the record that another request has saved, and apply the changes of this request to it."""
        session, data = self.session, self.data
        sid, snapshot, serializer = session.stored_sid or "", session.snapshot, session.serializer()
        try:
            record = unpack(sid, packed)
            theirs = data_of(record)
        except Exception as error:
            log_unusable(sid, error)
            session.snapshot = GONE
            raise not_saved(UNREADABLE) from None
        if session.pending.binding is not None and snapshot.record and record.binding != snapshot.record.binding:
            if session.pending.binding != YET_TO_BE_BOUND:
                raise BindingChanged
            session.pending = session.pending._replace(binding=None)
        base = data_of(snapshot.record) if snapshot.record else {}
        by = (serializer, serializer_named(snapshot.record.serializer)()) if snapshot.record else (serializer,)
        mine = serializer.loads(serializer.dumps(data))
        # Another serializer may have written the base: a value that is as it was loaded is no change.
        mine |= {key: value for key, value in base.items() if key in data and same(data[key], value, *by)}
        merged = merge(base, mine, theirs, *by)
        # An unchanged value stays the same object, because the request's code may hold a reference to it.
        kept = {
            key: data[key] if key in data and key in mine and same(mine[key], value, *by) else value
            for key, value in merged.items()
        }
        data.clear()
        data.update(kept)
        session.snapshot = Snapshot(record, record.revision, min(snapshot.due, record.deadline_seconds * 1000))

    def _let_others_go_first(self) -> Steps[None]:
        """From the second merge on, wait for a while. Raise SessionStoreUnavailable if the save has taken too long."""
        self.first_merge_at = self.first_merge_at or monotonic()
        self.merges += 1
        observers.notify_event("conflict_merged", merges=self.merges)
        waited = monotonic() - self.first_merge_at
        if self.merges >= 2:
            # The wait gets shorter with time. Otherwise a new request would always win against a waiting one.
            yield from Pause(random.uniform(0, max(0.0, 0.1 - waited / 3)))  # noqa: S311
        if waited > SAVE_SECONDS_MAX:
            sid = self.session.stored_sid
            logger.warning("Too many requests change session %s at once: one gave up after %.1f s.", sid, waited)
            raise SessionStoreUnavailable("Too many requests change the session at once.")

    def _refuse_if_blocked(self) -> Steps[None]:
        try:
            yield from blocks.refuse_if_blocked(user_of(self.data))
        except SignInRefused:
            # As in _limit_reached.
            self.session.snapshot = NO_SNAPSHOT
            raise

    def _limit_reached(self) -> SessionLimitReached:
        maximum = self.limit.maximum if self.limit is not None else 0
        # flush() must not follow the loaded session to a key that another request has given it.
        self.session.snapshot = NO_SNAPSHOT
        observers.notify_event("sign_in_refused", reason="limit")
        reached = SessionLimitReached(user_limit.REFUSED % {"maximum": maximum})
        reached.user_id = user_of(self.data)
        return reached
