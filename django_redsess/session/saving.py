"""
Saving a session, from the first attempt to the last.

Other requests may save the same session meanwhile. Each attempt writes only if the stored record is still the one that
this object knows. If not, the changes of both are merged, and the next attempt follows.
"""

from __future__ import annotations

import logging
import random
import time
from typing import Any

from django.conf import settings
from django.contrib.sessions.backends.base import CreateError, UpdateError

from django_redsess.conf import conf
from django_redsess.exceptions import SessionLimitReached, SessionStoreUnavailable
from django_redsess.session import addresses, capacity, deadlines, limits, messages, operations, reading
from django_redsess.session.addresses import STAYS
from django_redsess.session.deadlines import Expiry
from django_redsess.session.limits import Limit
from django_redsess.session.loading import SessionLoading
from django_redsess.session.merge import merge, same
from django_redsess.session.moving import move_home, moving_elsewhere
from django_redsess.session.operations import Outcome, Saving
from django_redsess.session.reading import Touch
from django_redsess.session.record import Record, log_unusable, pack, revision_of, unpack
from django_redsess.session.serializers import data_of
from django_redsess.session.state import GONE, NOTHING_KNOWN, NOTHING_PENDING, Known, Pending
from django_redsess.session.writing import change_of, client_of, expiry_of, serialized, user_of
from django_redsess.transport.connections import of
from django_redsess.transport.exchange import Pause
from django_redsess.transport.keys import keyspace, sid_of
from django_redsess.transport.steps import Step, Steps

SAVE_SECONDS_MAX = 5.0
"""How long a save tries again while other requests change the same session."""

logger = logging.getLogger("django_redsess")


class SaveAttempts:
    """The attempts to save ``session`` with ``data``. With ``must_create``, it is a new session."""

    def __init__(self, session: SessionLoading, data: dict[str, Any], *, must_create: bool = False) -> None:
        self.session, self.data, self.must_create = session, data, must_create
        self.at = 0  # The server's time, once the server has refused ours.
        self.began, self.merges = time.monotonic(), 0

    def steps(self, outcome: Outcome | None = None) -> Steps[Outcome]:
        """Try until the session is saved or gone. ``outcome`` is that of an attempt by the short way, if any."""
        outcome = outcome or (yield from self._try_short_way())
        while True:
            if outcome.status == "again":
                outcome = yield from self._try_general_way()
            if outcome.status in ("saved", "gone"):
                return outcome
            if outcome.status == "refused":
                raise self._refusal()
            if outcome.status == "clock":
                # The record is made again by the server's time. No script can change it, because it is sealed.
                self.at, outcome = outcome.at, operations.AGAIN
                continue
            self._merge(outcome.record)
            yield from self._let_others_go_first()
            outcome = yield from self._try_short_way()

    def _try_short_way(self) -> Steps[Outcome]:
        """Compare and set, if the save needs nothing else. If it does, leave it to the general way."""
        change = None if self.must_create or self.at else change_of(self.session)
        if change is None:
            return operations.AGAIN
        known, step = change
        outcome = yield from step
        if outcome.status == "saved":
            self.session.known = known
        return outcome

    def _try_general_way(self) -> Steps[Outcome]:
        """Choose the key, make the record, send the script that writes it, and remember what is stored then."""
        limit = self._choose_key()
        sid = self.session.sid or ""
        partition = keyspace().of_sid(sid)
        at = self.at or of(partition).clock.now() or (yield from reading.time(partition))
        expiry = expiry_of(self.session, at)
        saving, known = self._made(sid, at, expiry, limit)
        outcome = yield from self._to_send(sid, saving, expiry)
        if saving.item:
            self.session.pending = self.session.pending._replace(item=outcome.item)
        if outcome.status == "saved":
            self.session.known = known
            self._note_done(sid, saving.item)
            yield from capacity.making_room(sid, saving, outcome)
            if outcome.stored is not None and outcome.stored.message:
                yield from messages.deliver(sid, saving.user_id, outcome.stored.message)
        return outcome

    def _choose_key(self) -> Limit | None:
        """Choose a key in the user's bucket, if another key is needed. Return the limit that the script enforces."""
        session, base, user_id = self.session, self._base, user_of(self.data)
        user_before, sign_in = base.user_id if base else "", session.pending.sign_in
        limit = None
        # The limit is for a user who is new to this session, not for one who signs in again.
        if user_id not in ("", user_before):
            limit = limits.ceiling() if sign_in is None else sign_in.limit
        # The script save enforces no limit, but rotate does. So with a limit, the session gets a new key.
        renews = limit is not None and not self.must_create
        if user_id and (
            renews or self.must_create or session.pending.rotates_from is not None or user_id != user_before
        ):
            move_home(session, user_id, must_create=self.must_create, renews=renews)
        return limit

    def _made(self, sid: str, at: int, expiry: Expiry, limit: Limit | None) -> tuple[Saving, Known]:
        """Make the record by the time ``at``. Return what to write, and what is known after it is written."""
        session, known, base, user_id = self.session, self.session.known, self._base, user_of(self.data)
        times, login_ms = None, at if user_id else 0
        if base is not None and user_id == base.user_id and session.pending.sign_in is None:
            times = deadlines.of_save(expiry, base, known.due, at, passive=session.passive)
            login_ms = base.login_ms
        times = times or deadlines.of_new(expiry, login_ms, at)
        client = client_of(session, user_id)
        data = serialized(session, self.data)
        record = Record(user_id, login_ms, times.deadline_seconds, times.age_seconds, client, *data)
        packed = pack(sid, record)
        old_key = session.pending.rotates_from
        # A move to another partition takes three scripts, and each may fail. So it records no view.
        moves = old_key is not None and not operations.same_partition(sid_of(old_key), sid)
        item = "" if moves else session.pending.item
        place = STAYS if self.must_create and not conf.INDEX_ADDRESSES else self._place_in_index(base, client, user_id)
        saving = Saving(packed, user_id, login_ms, at, times.due, times.later_stays, item, limit, place)
        due = max(times.due, known.due) if times.later_stays else times.due
        return saving, Known(record, revision_of(packed), due)

    def _place_in_index(self, base: Record | None, client: bytes, user_id: str) -> str:
        if self.must_create or self.session.pending.rotates_from is not None:
            return addresses.place_of_new(client)
        # Without a revision, another record than ``base`` may be replaced.
        if base is None or not self.session.known.revision or user_id != base.user_id:
            return addresses.written_place(client)
        if client == base.client_packed:
            return STAYS
        entry = addresses.changed_entry(base, client)
        return STAYS if entry is None else entry.place

    def _to_send(self, sid: str, saving: Saving, expiry: Expiry) -> Step[Outcome] | Steps[Outcome]:
        loaded, old_key = self.session.known.revision, self.session.pending.rotates_from
        if self.must_create:
            return self._adding(sid, saving, expiry)
        if old_key is None:
            return operations.save(sid, saving, loaded=loaded)
        old_sid = sid_of(old_key)
        if operations.same_partition(old_sid, sid):
            return operations.rotate(old_sid, sid, saving, loaded=loaded)
        return moving_elsewhere(old_sid, sid, saving, loaded=loaded)

    def _adding(self, sid: str, saving: Saving, expiry: Expiry) -> Steps[Outcome]:
        session, outcome = self.session, operations.AGAIN
        is_new = session.session_key == session.pending.own_key
        # The script add ends none of the user's other sessions. It wakes no cleaner that sleeps until a later deadline.
        ends_none = saving.limit is None or saving.limit.is_built_in
        if is_new and not saving.item and ends_none and expiry.age >= settings.SESSION_COOKIE_AGE * 1000:
            outcome = yield from operations.add(sid, saving)
            is_new = False
        if outcome.status == "again":
            outcome = yield from operations.create(sid, saving, is_new=is_new)
        if outcome.status not in ("saved", "clock"):
            # The next attempt must not take this key for its own.
            session.pending = session.pending._replace(own_key=None)
        if outcome.status == "taken":
            raise CreateError
        return outcome

    def _note_done(self, sid: str, item: str) -> None:
        """Clear what is pending, except for what a save does not do."""
        pending = self.session.pending
        elsewhere = item and operations.counted_elsewhere(sid, item)
        left = pending.item, item if elsewhere else pending.uncounted, pending.signs_out
        self.session.pending = Pending(None, None, None, *left) if any(left) else NOTHING_PENDING

    @property
    def _base(self) -> Record | None:
        return None if self.must_create else self.session.known.record

    def _merge(self, packed: bytes) -> None:
        """Take the record that another request has saved, and apply the changes of this request to it."""
        session, data = self.session, self.data
        sid, known, serializer = session.stored_sid or "", session.known, session.serializer()
        try:
            record = unpack(sid, packed)
            theirs = data_of(record)
        except Exception as error:
            log_unusable(sid, error)
            session.known = GONE
            raise UpdateError from None
        base = data_of(known.record) if known.record else {}
        mine = serializer.loads(serializer.dumps(data))
        # Another serializer may have written the base: what is still as it was loaded is no change.
        mine |= {key: value for key, value in base.items() if key in data and same(data[key], value)}
        merged = merge(base, mine, theirs)
        # An unchanged value stays the same object, because the request's code may hold a reference to it.
        kept = {
            key: data[key] if key in data and same(mine.get(key), value) else value for key, value in merged.items()
        }
        data.clear()
        data.update(kept)
        session.known = Known(record, record.revision, min(known.due, record.deadline_seconds * 1000))

    def _let_others_go_first(self) -> Steps[None]:
        """From the second merge on, wait for a while. Raise SessionStoreUnavailable if the save has taken too long."""
        self.merges += 1
        waited = time.monotonic() - self.began
        if self.merges >= 2:
            # The wait gets shorter with time. Otherwise a new request would always win against a waiting one.
            yield from Pause(random.uniform(0, max(0.0, 0.1 - waited / 3)))  # noqa: S311
        if waited > SAVE_SECONDS_MAX:
            sid = self.session.stored_sid
            logger.warning("Too many requests change session %s at once: one gave up after %.1f s.", sid, waited)
            raise SessionStoreUnavailable("Too many requests change the session at once.")

    def _refusal(self) -> SessionLimitReached:
        sign_in = self.session.pending.sign_in
        maximum = sign_in.limit.maximum if sign_in is not None and sign_in.limit is not None else 0
        # flush() must not follow the loaded session to a key that another request has given it.
        self.session.known = NOTHING_KNOWN
        return SessionLimitReached(limits.REFUSED % {"maximum": maximum})


def looking(session: SessionLoading) -> Steps[None]:
    """Read the stored session's user and login time, for a save that replaces the data without loading them."""
    loaded = yield from reading.read(session.sid or "", Touch.NOTHING if session.visit is None else Touch.SEEN)
    if loaded.record is None:
        return
    try:
        session.known = Known(unpack(loaded.sid, loaded.record), b"", loaded.due)
    except Exception as error:
        log_unusable(loaded.sid, error)
