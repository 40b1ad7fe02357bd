"""
What a session object knows, and saving it, from the first attempt to the last.

Other requests may save the same session meanwhile. Each attempt writes only if the stored record is still the one that
this object knows. If not, the changes of both are merged, and the next attempt follows. All sessions of a user are in
the user's home partition, so a sign-in may give the session another key.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from django.conf import settings
from django.contrib.auth import HASH_SESSION_KEY, SESSION_KEY
from django.contrib.sessions.backends.base import VALID_KEY_CHARS, CreateError, SessionBase, UpdateError
from django.contrib.sessions.serializers import JSONSerializer
from django.http.response import HttpResponseBase

from django_redsess import observers, signals
from django_redsess.clock import monotonic
from django_redsess.conf import conf
from django_redsess.exceptions import SessionLimitReached, SessionStoreUnavailable, SignInRefused
from django_redsess.session import blocks, client_address, deadlines, eviction, script_calls, user_limit
from django_redsess.session.client_address import STAYS, changed_entry
from django_redsess.session.compression import check_depth, unpacked_client
from django_redsess.session.deadlines import Expiry
from django_redsess.session.merge import merge, same
from django_redsess.session.notice import Notice, deliver
from django_redsess.session.record import (
    REVISION_SIZE,
    Client,
    Record,
    client_packed,
    data_of,
    log_unusable,
    name_of,
    named,
    pack,
    revision_of,
    unpack,
)
from django_redsess.session.script_calls import Ending, Outcome, Saving, Touch
from django_redsess.session.user_limit import Limit
from django_redsess.signals import BegunSession
from django_redsess.times import aware
from django_redsess.transport import lua_scripts
from django_redsess.transport.connections import of
from django_redsess.transport.keys import bucket_of, bucket_of_user, keyspace, new_key, sid_of
from django_redsess.transport.round_trips import Plain, SendSignals, Step, Steps, time_of
from django_redsess.transport.sending import Pause

KEY_LENGTH_MAX = 128
KEY_CHARS = frozenset(VALID_KEY_CHARS)


@dataclass(slots=True)
class Visit:
    """
    The request that opened the session.

    Only a session with a visit is touched when it is loaded. If a user is signed in, each save calls ``client``, and
    stores the address and user agent that it returns; with ``INDEX_ADDRESSES``, a guest's address, too. ``on_notice``
    is called with the notice when a load finds out why the session is gone, and with a text when the session has a
    message about another one. It returns whether the user is told by this request. It is called with None when a
    sign-in or ``flush()`` makes that obsolete.
    """

    client: Callable[[], Client]
    on_notice: Callable[[Notice | str | None], bool] | None = None
    passive: bool = False
    """Whether the request is passive: made by a page itself. It prolongs nothing."""
    begins_by_view: bool = True
    """Whether viewing an item may start a session for a guest, if ``VIEWED_GUESTS`` is True."""
    with_cookie: Callable[[HttpResponseBase], None] | None = None
    """Called with the response that gets the session's cookie, to add another one."""


class Cookie(NamedTuple):
    """
    What this request knows about the session that the cookie names.

    - ``notice``: why the session is gone, as a notice to its user
    - ``late``: the session has another key now, which this request does not know
    - ``was_guest``: that session had no user when it got its new key
    - ``refresh``: the cookie must be sent again, because the session's deadline has moved
    """

    notice: Notice | None = None
    late: bool = False
    was_guest: bool = False
    refresh: bool = False


class Known(NamedTuple):
    """
    What is stored, as far as this object knows from its last load or save.

    ``record`` is None if no record is known. A save writes only over a record that has this ``revision``. An empty
    revision fits any record: then the save replaces data that were not loaded. ``due`` is the deadline in milliseconds,
    or a time before it. ``gone`` says that a save found no session. A session that is gone is not stored again.
    """

    record: Record | None = None
    revision: bytes = b""
    due: int = 0
    gone: bool = False


class SignIn(NamedTuple):
    """A user has signed in. Other sessions above ``limit`` end, or the sign-in is refused."""

    limit: Limit | None = None


class Pending(NamedTuple):
    """
    The work that is still to be done.

    By the next save, besides writing the data:

    - ``sign_in``: store a new login time, and enforce the limit
    - ``rotates_from``: move the session from this old key to its new one
    - ``ends_copies``: the new key is given so that copies of the old cookie end: who watches with one is not to go on
    - ``own_key``: create the session under this key, which is new and certainly unused
    - ``item``: record that the visitor views this item; without a save, the middleware does so

    After that save:

    - ``uncounted``: count the view of this item, which a save has recorded, in another partition
    - ``signs_out``: report the next end as a sign-out
    """

    sign_in: SignIn | None = None
    rotates_from: str | None = None
    own_key: str | None = None
    item: str = ""
    uncounted: str = ""
    signs_out: bool = False
    ends_copies: bool = False


# Each request has its own session object. The objects share these values until they know something else.
COOKIE_UNCHANGED = Cookie()
NOTHING_KNOWN = Known()
GONE = Known(gone=True)
NOTHING_PENDING = Pending()


class SessionState(SessionBase):
    """What a session object knows of its session, and what it still has to do."""

    visit: Visit | None = None
    """The request that opened the session. None in a shell or a command."""
    cookie = COOKIE_UNCHANGED
    known = NOTHING_KNOWN
    pending = NOTHING_PENDING
    unavailable: SessionStoreUnavailable | None = None
    """The outage that an operation has met. Later ones fail at once: a request waits for the server only once."""
    _session_cache: dict[str, Any]

    @property
    def sid(self) -> str | None:
        """The name of this session in Redis, the admin and the logs. None without a session key."""
        return sid_of(self.session_key) if self.session_key else None

    @property
    def stored_sid(self) -> str | None:
        """The sid under which the session is stored. Until a new key is saved, it is the old sid."""
        old_key = self.pending.rotates_from
        return sid_of(old_key) if old_key else self.sid

    @property
    def stored_key(self) -> str | None:
        """The session key under which this object has loaded or saved the session. None if it is not stored yet."""
        is_stored = self.known.record is not None and self.pending.rotates_from is None
        return self.session_key if is_stored else None

    @property
    def passive(self) -> bool:
        """Whether the request is passive: made by a page itself. It prolongs nothing."""
        return self.visit is not None and self.visit.passive

    @property
    def touch(self) -> Touch:
        """How the next read touches the session. It does not if no request opened the session, or if it is loaded."""
        if self.visit is None or "_session_cache" in self.__dict__:
            return Touch.NOTHING
        return Touch.SEEN if self.visit.passive else Touch.ACTIVE

    def _validate_session_key(self, key: object) -> bool:
        return is_key(key)


def is_key(key: object) -> bool:
    """Tell whether ``key`` may be a session key. Another one names no session, and is never sent to the server."""
    # Eight is Django's own minimum length.
    return isinstance(key, str) and 8 <= len(key) <= KEY_LENGTH_MAX and KEY_CHARS.issuperset(key)


def give_key(session: SessionState, user_id: str) -> None:
    """Give ``session`` a new, unused key: in the bucket of this user, or in a random bucket for a guest."""
    session._session_key = key = new_key(bucket_of_user(user_id) if user_id else None)
    session.pending = session.pending._replace(own_key=key)


def rotate_key(session: SessionState) -> None:
    """Give ``session`` another key in the same bucket. The next save moves the session to it."""
    old_key = session.pending.rotates_from or session.session_key
    if old_key is not None:
        session.pending = session.pending._replace(rotates_from=old_key)
        session._session_key = new_key(bucket_of(old_key))


def move_home(session: SessionState, user_id: str, *, must_create: bool = False, renews: bool = False) -> None:
    """
    Give ``session`` a key in the bucket of this user, unless it has one there.

    With ``renews``, it gets a new key even then, unless a new key is pending already. With ``must_create``, the session
    is not stored yet, so there is no old key to move from.
    """
    sid, space, pending = session.sid or "", keyspace(), session.pending
    at_home = script_calls.at_home(sid, user_id)
    if must_create and session.session_key != pending.own_key:
        # The caller has chosen this key. It only needs to be in the right partition.
        at_home = space.of_sid(sid) == space.of_user(user_id)
    if at_home and not (renews and pending.rotates_from is None):
        return
    if not must_create:
        session.pending = pending._replace(rotates_from=pending.rotates_from or session.session_key)
    give_key(session, user_id)


def moving_elsewhere(old_sid: str, sid: str, saving: Saving, *, loaded: bytes) -> Steps[Outcome]:
    """Do as :func:`operations.rotate` does, for a new sid in another partition. No script reaches both partitions."""
    viewed = yield from script_calls.viewed_by(old_sid)
    made = yield from script_calls.create(sid, saving, viewed)
    if made.status in ("clock", "blocked"):
        return made
    if made.status == "refused":
        # Two requests may sign in at once from one guest's session. The other one may have been first.
        old = yield from script_calls.read(old_sid)
        if old.record is not None:
            return made
        note = yield from script_calls.note_of(old_sid)
        return Outcome("gone", note=note)
    # This only ends the old session, and leaves a note with the new sid.
    try:
        outcome = yield from script_calls.rotate(old_sid, sid, saving, loaded=loaded)
    except SessionStoreUnavailable:
        # Nobody gets the new key. Another node, or one that only refuses, may still end the session under it.
        if not of(keyspace().of_sid(sid)).outages.out_of_reach.known:
            with suppress(SessionStoreUnavailable):
                yield from script_calls.end([sid], Ending())
        raise
    if outcome.status != "saved":
        yield from script_calls.end([sid], Ending())
    return outcome._replace(crowded=outcome.crowded or made.crowded, stored=made.stored or outcome.stored)


AHEAD_MIN = 5_000
"""Milliseconds: the script change does not read the deadline, so it must be ahead by more than a request waits."""

Change = tuple[Known, Plain[Outcome]]
"""A save by the short way: what is known after it, and the step that sends it."""


def change_of(session: SessionState) -> Change | None:
    """
    Return the short way to save ``session``: compare and set. None if the save may need more.

    The script checks only the revision. So the rest must be known in advance: the session is live, only its record
    changes, and its deadline does not move to an earlier time.
    """
    known, data, key = session.known, session._session_cache, session.session_key
    base, user = known.record, data.get(SESSION_KEY)
    if (
        base is None
        or not known.revision
        or key is None
        or session.pending != NOTHING_PENDING
        or ("" if user is None else str(user)) != base.user_id
    ):
        return None
    sid = sid_of(key)
    server = of(keyspace().of_sid(sid))
    at = server.clock.now() or 0
    # Only the general script can find out that a full server has room again.
    if server.outages.under_way and server.outages.affects(lua_scripts.SAVE.name):
        return None
    if not at or known.due - at < AHEAD_MIN:
        return None
    passive = session.visit is not None and session.visit.passive
    times = deadlines.of_save(expiry_of(session, at), base, known.due, at, passive=passive)
    if times is None:
        return None
    deadline_seconds, age_seconds, due, _ = times
    user_id, login_ms, client = base.user_id, base.login_ms, client_of(session, base.user_id)
    entry = None if client == base.client_packed else changed_entry(base, client)
    record = Record(user_id, login_ms, deadline_seconds, age_seconds, client, *serialized(session, data))
    packed = pack(sid, record)
    revision, moved = packed[1 : 1 + REVISION_SIZE], due if due > known.due else 0
    step = script_calls.change(sid, packed, revision=revision, loaded=known.revision, due=moved, entry=entry)
    # As Known() does, in half the time.
    return tuple.__new__(Known, (record, revision, due, False)), step


def user_of(data: dict[str, Any]) -> str:
    """Return the user id in the data of a session, ``""`` for a guest."""
    return "" if data.get(SESSION_KEY) is None else str(data[SESSION_KEY])


def serialized(session: SessionState, data: dict[str, Any]) -> tuple[bytes, str]:
    """
    Return ``data`` as the serializer writes them, and its name for the record.

    Raises ValueError if they have too many levels to be read.
    """
    serializer = session.serializer
    try:
        written: bytes = serializer().dumps(data)
    except RecursionError:
        check_depth(data)
        raise
    check_depth(data, written)
    return written, "" if serializer is JSONSerializer else name_of(serializer)


def client_of(session: SessionState, user_id: str) -> bytes:
    """
    Return the client part of the record: the present visitor, or else the stored one.

    A guest has only an address, and only with ``INDEX_ADDRESSES``.
    """
    if not user_id and not conf.INDEX_ADDRESSES:
        return b""
    if session.visit is not None:
        client = session.visit.client()
        return client_packed(client if user_id else Client(client.address))
    return session.known.record.client_packed if session.known.record else b""


def expiry_of(session: SessionState, now: int) -> Expiry:
    """Return Django's deadline of ``session``, from the methods of Django's session API."""
    expiry = session._session_cache.get("_session_expiry")
    if expiry is None and type(session).get_expiry_age is SessionBase.get_expiry_age:
        # The same value as get_expiry_age(), in less time.
        return Expiry(int(session.get_session_cookie_age()) * 1000, 0)
    if isinstance(expiry, (datetime, str)):
        return Expiry(0, int(aware(session.get_expiry_date()).timestamp() * 1000))
    age = int(session.get_expiry_age() * 1000)
    return Expiry(age, 0) if age > 0 else Expiry(0, now + age)


SAVE_SECONDS_MAX = 5.0
"""How long a save tries again while other requests change the same session."""

logger = logging.getLogger("django_redsess")


class SaveAttempts:
    """The attempts to save ``session`` with ``data``. With ``must_create``, it is a new session."""

    def __init__(self, session: SessionState, data: dict[str, Any], *, must_create: bool = False) -> None:
        self.session, self.data, self.must_create = session, data, must_create
        self.at = 0  # The server's time, once the server has refused ours.
        self.limit: Limit | None = None  # What the last attempt enforced.
        self.began, self.merges = monotonic(), 0

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
            if outcome.status == "blocked":
                yield from self._refuse_if_blocked()
                # The block was lifted meanwhile.
                outcome = script_calls.AGAIN
                continue
            if outcome.status == "clock":
                # The record is made again by the server's time. No script can change it, because it is sealed.
                self.at, outcome = outcome.at, script_calls.AGAIN
                continue
            self._merge(outcome.record)
            yield from self._let_others_go_first()
            outcome = yield from self._try_short_way()

    def _try_short_way(self) -> Steps[Outcome]:
        """Compare and set, if the save needs nothing else. If it does, leave it to the general way."""
        change = None if self.must_create or self.at else change_of(self.session)
        if change is None:
            return script_calls.AGAIN
        known, step = change
        outcome = yield from step
        if outcome.status == "saved":
            self.session.known = known
        return outcome

    def _try_general_way(self) -> Steps[Outcome]:
        """Choose the key, make the record, send the script that writes it, and remember what is stored then."""
        self.limit = limit = self._choose_key()
        sid = self.session.sid or ""
        partition = keyspace().of_sid(sid)
        at = self.at or of(partition).clock.now() or (yield from script_calls.time(partition))
        expiry = expiry_of(self.session, at)
        saving, known = self._made(sid, at, expiry, limit)
        outcome = yield from self._to_send(sid, saving, expiry)
        if saving.item:
            self.session.pending = self.session.pending._replace(item=outcome.item)
        if outcome.status == "saved":
            begun = self._begun(sid, saving, known) if signals.sessions_began.receivers else []
            self.session.known = known
            self._note_done(sid, saving.item)
            if not signals.hold(begun):
                yield SendSignals(begun)
            yield from eviction.making_room(sid, saving, outcome)
            if outcome.stored is not None and outcome.stored.message:
                yield from deliver(sid, saving.user_id, outcome.stored.message)
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
        moves = old_key is not None and not script_calls.same_partition(sid_of(old_key), sid)
        item = "" if moves else session.pending.item
        score = STAYS if self.must_create and not conf.INDEX_ADDRESSES else self._address_score(base, client, user_id)
        name = "sign_in" if login_ms == at else ""
        follows = old_key is not None and session.pending.sign_in is None and self._is_followed(user_id)
        saving = Saving(packed, user_id, login_ms, at, times.due, times.later_stays, item, limit, score, name, follows)
        due = max(times.due, known.due) if times.later_stays else times.due
        return saving, Known(record, revision_of(packed), due)

    def _is_followed(self, user_id: str) -> bool:
        """Tell whether who watches the session under its old key goes on: nothing says that copies of it are to end."""
        base = self._base
        if self.session.pending.ends_copies or base is None or base.user_id != user_id:
            return False
        # Without a revision, another record than ``base`` may be replaced. Another hash is another password.
        is_loaded = bool(self.session.known.revision)
        return is_loaded and data_of(base).get(HASH_SESSION_KEY) == self.data.get(HASH_SESSION_KEY)

    def _address_score(self, base: Record | None, client: bytes, user_id: str) -> str:
        if self.must_create or self.session.pending.rotates_from is not None:
            return client_address.score_of_new(client)
        # Without a revision, another record than ``base`` may be replaced.
        if base is None or not self.session.known.revision or user_id != base.user_id:
            return client_address.written_score(client)
        if client == base.client_packed:
            return STAYS
        entry = client_address.changed_entry(base, client)
        return STAYS if entry is None else entry.score

    def _to_send(self, sid: str, saving: Saving, expiry: Expiry) -> Step[Outcome] | Steps[Outcome]:
        loaded, old_key = self.session.known.revision, self.session.pending.rotates_from
        if self.must_create:
            return self._adding(sid, saving, expiry)
        if old_key is None:
            return script_calls.save(sid, saving, loaded=loaded)
        old_sid = sid_of(old_key)
        if script_calls.same_partition(old_sid, sid):
            return script_calls.rotate(old_sid, sid, saving, loaded=loaded)
        return moving_elsewhere(old_sid, sid, saving, loaded=loaded)

    def _adding(self, sid: str, saving: Saving, expiry: Expiry) -> Steps[Outcome]:
        session, outcome = self.session, script_calls.AGAIN
        is_new = session.session_key == session.pending.own_key
        # The script add ends none of the user's other sessions. It wakes no cleaner that sleeps until a later deadline.
        ends_none = saving.limit is None or saving.limit.is_built_in
        if is_new and not saving.item and ends_none and expiry.age >= settings.SESSION_COOKIE_AGE * 1000:
            outcome = yield from script_calls.add(sid, saving)
            is_new = False
        if outcome.status == "again":
            outcome = yield from script_calls.create(sid, saving, is_new=is_new)
        if outcome.status not in ("saved", "clock"):
            # The next attempt must not take this key for its own.
            session.pending = session.pending._replace(own_key=None)
        if outcome.status == "taken":
            raise CreateError
        return outcome

    def _begun(self, sid: str, saving: Saving, known: Known) -> list[BegunSession]:
        """Return the sign-in that this save has stored, if it has stored one."""
        base, record = self._base, known.record
        is_same_user = base is not None and base.user_id == saving.user_id
        replaces = base.login_ms if base is not None and is_same_user else 0
        if record is None or saving.login_ms in (0, replaces):
            return []
        login_at, before = time_of(saving.login_ms), time_of(replaces) if replaces else None
        return [BegunSession(sid, saving.user_id, login_at, before, *unpacked_client(record.client_packed))]

    def _note_done(self, sid: str, item: str) -> None:
        """Clear what is pending, except for what a save does not do."""
        pending = self.session.pending
        elsewhere = item and script_calls.counted_elsewhere(sid, item)
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
        by = (serializer, named(known.record.serializer)()) if known.record else (serializer,)
        mine = serializer.loads(serializer.dumps(data))
        # Another serializer may have written the base: what is still as it was loaded is no change.
        mine |= {key: value for key, value in base.items() if key in data and same(data[key], value, *by)}
        merged = merge(base, mine, theirs, *by)
        # An unchanged value stays the same object, because the request's code may hold a reference to it.
        kept = {
            key: data[key] if key in data and key in mine and same(mine[key], value, *by) else value
            for key, value in merged.items()
        }
        data.clear()
        data.update(kept)
        session.known = Known(record, record.revision, min(known.due, record.deadline_seconds * 1000))

    def _let_others_go_first(self) -> Steps[None]:
        """From the second merge on, wait for a while. Raise SessionStoreUnavailable if the save has taken too long."""
        self.merges += 1
        observers.event("conflict_merged", merges=self.merges)
        waited = monotonic() - self.began
        if self.merges >= 2:
            # The wait gets shorter with time. Otherwise a new request would always win against a waiting one.
            yield from Pause(random.uniform(0, max(0.0, 0.1 - waited / 3)))  # noqa: S311
        if waited > SAVE_SECONDS_MAX:
            sid = self.session.stored_sid
            logger.warning("Too many requests change session %s at once: one gave up after %.1f s.", sid, waited)
            raise SessionStoreUnavailable("Too many requests change the session at once.")

    def _refuse_if_blocked(self) -> Steps[None]:
        try:
            yield from blocks.refuse(user_of(self.data))
        except SignInRefused:
            # As in _refusal.
            self.session.known = NOTHING_KNOWN
            raise

    def _refusal(self) -> SessionLimitReached:
        maximum = self.limit.maximum if self.limit is not None else 0
        # flush() must not follow the loaded session to a key that another request has given it.
        self.session.known = NOTHING_KNOWN
        observers.event("sign_in_refused", reason="limit")
        return SessionLimitReached(user_limit.REFUSED % {"maximum": maximum})


def looking(session: SessionState) -> Steps[None]:
    """Read the stored session's user and login time, for a save that replaces the data without loading them."""
    loaded = yield from script_calls.read(session.sid or "", Touch.NOTHING if session.visit is None else Touch.SEEN)
    if loaded.record is None:
        return
    try:
        session.known = Known(unpack(loaded.sid, loaded.record), b"", loaded.due)
    except Exception as error:
        log_unusable(loaded.sid, error)
