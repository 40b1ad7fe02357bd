"""Saving a session: the short way, the general one, and what becomes of a save that meets another."""

from __future__ import annotations

import logging
import random
import time
from contextlib import suppress
from datetime import datetime
from typing import Any

from django.conf import settings
from django.contrib.auth import SESSION_KEY
from django.contrib.sessions.backends.base import CreateError, SessionBase, UpdateError
from django.utils import timezone
from redis.exceptions import NoScriptError

from django_redsess.exceptions import SessionLimitReached, SessionStoreUnavailable
from django_redsess.session import capacity, deadlines, limits, operations, reading
from django_redsess.session.deadlines import Expiry
from django_redsess.session.loading import SessionLoading
from django_redsess.session.merge import merge, same
from django_redsess.session.operations import Outcome
from django_redsess.session.payload import check_depth
from django_redsess.session.reading import Touch
from django_redsess.session.record import REVISION_SIZE, Record, client_packed, log_unusable, pack, revision_of, unpack
from django_redsess.transport import connections, scripts
from django_redsess.transport.keys import bucket_of_user, keyspace, new_key, sid_of
from django_redsess.transport.outage import is_met_by, under_way
from django_redsess.transport.steps import Pause, Plain, Steps

SAVE_SECONDS_MAX = 5.0
"""How long a save tries again while other requests change the same session."""

AHEAD_MIN = 5_000
"""Milliseconds that a deadline must be ahead for change.lua, which does not look at it: longer than a request waits."""

Change = tuple[Record, bytes, int, Plain[Outcome]]
"""A save by the short way: record, revision and deadline that are stored when it is done, and what does it."""

logger = logging.getLogger("django_redsess")


class SessionSaving(SessionLoading):
    """A session that can be saved."""

    def saving(self, must_create: bool = False, *, met: Outcome | None = None) -> Steps[None]:
        """Save, at first by the short way; or go on from what that has ``met`` already."""
        data: dict[str, Any] | None = self.__dict__.get("_session_cache")
        if data is None:
            data = yield from self.opening(no_load=must_create)
        if self.session_key is None:
            return (yield from self._creating())
        if self._gone and not must_create:
            raise UpdateError
        if self._base is None and not must_create:
            yield from self._looking()
        began, tries, at = time.monotonic(), 0, 0
        while True:
            change = None if met or must_create or at else self._changing()
            outcome, met = met or operations.AGAIN, None
            if change is not None:
                record, revision, due, plain = change
                try:
                    outcome = yield from plain
                except NoScriptError:
                    yield from operations.introduce_change()
                    # It may be told to forget all scripts again and again.
                    with suppress(NoScriptError):
                        outcome = yield from plain
                if outcome.status == "saved":
                    self._base, self._revision, self._due = record, revision, due
                    return
            if outcome.status == "again":
                outcome = yield from self._writing(data, must_create, at)
            if outcome.status == "saved":
                return None
            if outcome.status == "clock":
                # The record is made anew by the server's time: what it has sealed, no script changes.
                at = outcome.at
                continue
            if outcome.status == "gone":
                return (yield from self._save_of_gone(data, outcome))
            if outcome.status == "refused" and self._limit is not None:
                # What ends then is this session, and not what another request may have made of it.
                self._base = None
                raise SessionLimitReached(limits.REFUSED % {"maximum": self._limit.maximum})
            self._merge(data, outcome.record)
            tries += 1
            waited = time.monotonic() - began
            if tries >= 2:
                # Shorter and shorter: else those that have just come would always win against those that wait.
                yield from Pause(random.uniform(0, max(0.0, 0.1 - waited / 3)))  # noqa: S311
            if waited > SAVE_SECONDS_MAX:
                logger.warning(
                    "Too many requests change session %s at once: one gave up after %.1f s.", self.stored_sid, waited
                )
                raise SessionStoreUnavailable("Too many requests change the session at once.")

    def _changing(self) -> Change | None:
        """
        Return the short way to save, which only compares and sets; None where that may not be all there is to do.

        What its script does not look at must be known: that the session is alive, that nothing but its record changes,
        and that its deadline does not move to an earlier time.
        """
        base, data, key = self._base, self._session_cache, self.session_key
        user = data.get(SESSION_KEY)
        if (
            base is None
            or key is None
            or self._gone
            or self._replaces
            or self._rotates_from is not None
            or self._signs_in
            or self.views_item
            or ("" if user is None else str(user)) != base.user_id
            # A server that was full has room again when the general script says so.
            or (under_way and is_met_by(scripts.SAVE.name))
        ):
            return None
        at = connections.clock().now() or 0
        if not at or self._due - at < AHEAD_MIN:
            return None
        times = deadlines.of_save(self._expiry(at), base, self._due, at, passive=self.passive)
        if times is None:
            return None
        deadline_seconds, age_seconds, due, _ = times
        user_id, login_ms = base.user_id, base.login_ms
        record = Record(
            user_id, login_ms, deadline_seconds, age_seconds, self._client_of(user_id), self._serialized(data)
        )
        sid = sid_of(key)
        packed = pack(sid, record)
        revision, moved = packed[1 : 1 + REVISION_SIZE], due if due > self._due else 0
        plain = operations.change(sid, packed, revision=revision, loaded=self._revision, due=moved)
        return record, revision, due, plain

    def _looking(self) -> Steps[None]:
        # A save that never loaded replaces all. It needs to know whose the session is, and since when.
        loaded = yield from reading.read(self.sid or "", Touch.SEEN if self.opened else Touch.NOTHING)
        if loaded.record is not None:
            try:
                self._base, self._due, self._replaces = unpack(loaded.sid, loaded.record), loaded.due, True
                self._revision = self._base.revision
            except Exception as error:
                log_unusable(loaded.sid, error)

    def _creating(self) -> Steps[None]:
        data = yield from self.opening(no_load=True)
        if self.late and not user_of(data):
            # The browser has a newer cookie by now: another one would take it away.
            raise UpdateError
        while True:
            self._session_key = self._own_key = _key_for(user_of(data))
            try:
                yield from self.saving(must_create=True)
            except CreateError:
                continue
            self.late = self._gone = False
            self.modified = True
            return

    def _writing(self, data: dict[str, Any], must_create: bool, at: int) -> Steps[Outcome]:
        base = None if must_create else self._base
        user_id, user_before = user_of(data), base.user_id if base else ""
        # The limit is for who comes to have this session, and not for who signs in again.
        limit = self._limit if self._signs_in and user_id not in ("", user_before) else None
        # save.lua looks at no other session, rotate.lua does: for a limit the session gets a new key.
        renews = limit is not None and not must_create
        if user_id and (renews or must_create or self._rotates_from or user_id != user_before):
            self._move_home(user_id, must_create=must_create, renews=renews)
        sid = self.sid or ""
        at = at or connections.clock().now() or (yield from reading.time())
        expiry = self._expiry(at)
        same_user = base is not None and user_id == user_before and not self._signs_in
        login_ms = base.login_ms if base is not None and same_user else at if user_id else 0
        times = deadlines.of_save(expiry, base, self._due, at, passive=self.passive) if base and same_user else None
        times = times or deadlines.of_new(expiry, login_ms, at)
        serialized = self._serialized(data)
        record = Record(
            user_id, login_ms, times.deadline_seconds, times.age_seconds, self._client_of(user_id), serialized
        )
        packed = pack(sid, record)
        # What moves to another partition takes three scripts, any of which may be in vain: no view with them.
        moves = self._rotates_from is not None and not operations.same_partition(sid_of(self._rotates_from), sid)
        item = "" if moves else self.views_item
        saving = operations.Saving(packed, user_id, login_ms, at, times.due, times.later_stays, item, limit)
        loaded = self._revision if base and not self._replaces else b""
        if must_create:
            outcome = yield from self._adding(sid, saving, expiry)
        elif self._rotates_from is not None:
            outcome = yield from self._rotating(sid_of(self._rotates_from), sid, saving, loaded)
        else:
            outcome = yield from operations.save(sid, saving, loaded=loaded)
        if item:
            self.views_item = outcome.item
        if outcome.status == "saved":
            self.uncounted_item = item if item and operations.counted_elsewhere(sid, item) else ""
            self._base, self._revision = record, revision_of(packed)
            self._due = max(times.due, self._due) if times.later_stays else times.due
            self._rotates_from = None
            self._signs_in = self._replaces = False
            yield from self._cleaning_up(sid, user_id, outcome, limit)
        return outcome

    def _move_home(self, user_id: str, *, must_create: bool = False, renews: bool = False) -> None:
        """Choose a key in the bucket of this user, unless the session has one there; with ``renews``, a new one."""
        sid, space = self.sid or "", keyspace()
        at_home = operations.at_home(sid, user_id)
        if must_create and self._session_key != self._own_key:
            at_home = space.of_sid(sid) == space.of_user(user_id)
        if at_home and not (renews and self._rotates_from is None):
            return
        if not must_create:
            self._rotates_from = self._rotates_from or self.session_key
        self._session_key = self._own_key = _key_for(user_id)

    def _adding(self, sid: str, saving: operations.Saving, expiry: Expiry) -> Steps[Outcome]:
        is_new, outcome = self._session_key == self._own_key, operations.AGAIN
        # What add.lua does not look at: other sessions of the user, a cleaner that sleeps until a later deadline.
        if is_new and not saving.item and saving.limit is None and expiry.age >= settings.SESSION_COOKIE_AGE * 1000:
            outcome = yield from operations.add(sid, saving)
            is_new = False
        if outcome.status == "again":
            outcome = yield from operations.create(sid, saving, is_new=is_new)
        if outcome.status != "clock":
            self._own_key = None
        if outcome.status == "taken":
            raise CreateError
        return outcome

    def _rotating(self, old_sid: str, sid: str, saving: operations.Saving, loaded: bytes) -> Steps[Outcome]:
        elsewhere = not operations.same_partition(old_sid, sid)
        made: Outcome = operations.SAVED
        if elsewhere:
            viewed = yield from operations.viewed_by(old_sid)
            made = yield from operations.create(sid, saving, viewed)
            if made.status == "clock":
                return made
            if made.status == "refused":
                # Of two who sign in at once in a guest's session, the other may have been first.
                old = yield from reading.read(old_sid)
                if old.record is not None:
                    return made
                note = yield from reading.note_of(old_sid)
                return Outcome("gone", note=note)
        outcome = yield from operations.rotate(old_sid, sid, saving, loaded=loaded)
        if elsewhere and outcome.status != "saved":
            yield from operations.end([sid], None)
        return outcome._replace(crowded=outcome.crowded or made.crowded, stored=made.stored or outcome.stored)

    def _cleaning_up(self, sid: str, user_id: str, outcome: Outcome, limit: operations.Limit | None) -> Steps[None]:
        crowded = outcome.crowded
        while crowded and limit is not None:
            crowded = yield from operations.end_above(limit, user_id, keep=sid)
        if outcome.stored is None:
            return
        # As it was before this session came, or got a user.
        due, recent, guests = outcome.stored
        recent, guests = (recent + 1, guests) if user_id else (recent, guests + 1)
        cleaning = capacity.cleaning_along(keyspace().of_sid(sid), due=due, recent=recent, guests=guests)
        if cleaning is not None:
            # The session is saved, whatever becomes of that.
            with suppress(SessionStoreUnavailable):
                yield from cleaning

    def _save_of_gone(self, data: dict[str, Any], outcome: operations.Outcome) -> Steps[None]:
        was_guest = self._base is not None and not self._base.user_id
        self._rotates_from = self._base = None
        if not (outcome.rotated_to and was_guest and user_of(data)):
            self._gone = True
            raise UpdateError
        # Somebody signs in who had signed in a moment before, by a double click: each click gets a session.
        self._session_key, self.late = None, True
        yield from self._creating()

    def _merge(self, data: dict[str, Any], packed: bytes) -> None:
        sid = self.stored_sid or ""
        serializer = self.serializer()
        try:
            record = unpack(sid, packed)
            theirs = serializer.loads(record.data)
        except Exception as error:
            log_unusable(sid, error)
            self._gone = True
            raise UpdateError from None
        base = serializer.loads(self._base.data) if self._base else {}
        mine = serializer.loads(serializer.dumps(data))
        merged = merge(base, mine, theirs)
        # What is still the same stays the object that the request's code may hold.
        kept = {
            key: data[key] if key in data and same(mine.get(key), value) else value for key, value in merged.items()
        }
        data.clear()
        data.update(kept)
        self._base, self._revision = record, record.revision
        self._due = min(self._due, record.deadline_seconds * 1000)

    def _serialized(self, data: dict[str, Any]) -> bytes:
        try:
            serialized: bytes = self.serializer().dumps(data)
        except RecursionError:
            check_depth(data)
            raise
        check_depth(data, serialized)
        return serialized

    def _client_of(self, user_id: str) -> bytes:
        if not user_id:
            return b""
        if self._client is not None:
            return client_packed(self._client())
        return self._base.client_packed if self._base else b""

    def _expiry(self, now: int) -> Expiry:
        expiry = self._session_cache.get("_session_expiry")
        if expiry is None and type(self).get_expiry_age is SessionBase.get_expiry_age:
            # What that would return, which takes longer to find out.
            return Expiry(int(self.get_session_cookie_age()) * 1000, 0)
        if isinstance(expiry, (datetime, str)):
            date = self.get_expiry_date()
            return Expiry(0, int((timezone.make_aware(date) if timezone.is_naive(date) else date).timestamp() * 1000))
        age = int(self.get_expiry_age() * 1000)
        return Expiry(age, 0) if age > 0 else Expiry(0, now + age)


def user_of(data: dict[str, Any]) -> str:
    return "" if data.get(SESSION_KEY) is None else str(data[SESSION_KEY])


def _key_for(user_id: str) -> str:
    return new_key(bucket_of_user(user_id) if user_id else None)
