"""What becomes of a session: loading, saving, getting another key, ending. Steps, as in :mod:`django_redsess.call`."""

from __future__ import annotations

import logging
import random
import secrets
import time
from collections.abc import Callable
from datetime import datetime
from functools import partial
from itertools import chain, product
from typing import Any

from django.contrib.auth import SESSION_KEY
from django.contrib.sessions.backends.base import VALID_KEY_CHARS, CreateError, SessionBase, UpdateError
from django.utils import timezone

from django_redsess import limits, notice, store
from django_redsess.call import Pause, Steps
from django_redsess.client import SessionStoreUnavailable
from django_redsess.keys import sid_of
from django_redsess.limits import SessionLimitReached
from django_redsess.merge import merge, same
from django_redsess.notice import Notice
from django_redsess.payload import check_depth
from django_redsess.record import Client, Record, log_unusable, pack, revision_of, unpack
from django_redsess.signals import Reason

KEY_LENGTH = 32
KEY_LENGTH_MAX = 128
KEY_CHARS = frozenset(VALID_KEY_CHARS)

SAVE_SECONDS_MAX = 5.0
"""How long a save tries again while other requests change the same session."""

logger = logging.getLogger("django_redsess")


class SessionLifecycle(SessionBase):
    """
    A session, kept in Redis under a name that can't be turned into its cookie: what it knows, and its steps.

    ``SessionStore`` drives them, as Django's session API.
    """

    passive = False
    """Whether nobody made this request by hand: it prolongs nothing."""
    unavailable = False
    """Whether an operation met an outage. All later ones fail at once: a request waits for a server once."""
    late = False
    """Whether the cookie's session lives on under another key, which this request does not know."""
    refresh_cookie = False
    """Whether the cookie is to be sent again, so that it lasts as long as the session that slides."""
    views_item = ""
    """What this request views. The next save notes it along, and where none has the middleware does."""
    uncounted_item = ""
    """What a save has noted as viewed, whose views are counted in another partition."""
    notice: Notice | None = None
    """What loading has found of why the cookie's session is gone; ``ended`` looks for it too."""
    begins_by_view = True
    """Whether a guest who views an item may get a session for it, where ``VIEWED_GUESTS`` says so."""

    _on_notice: Callable[[Notice | None], None] | None = None
    _client: Callable[[], Client] | None = None
    _base: Record | None = None  # What is stored, as far as this object knows: loaded, or saved by it.
    _rotates_from: str | None = None
    _own_key: str | None = None  # Just made for this object: nobody has had it before.
    _signs_in = False
    _limit: store.Limit | None = None
    _signs_out = False
    _gone = False  # A save found nothing to save to. What is gone does not come back.

    @property
    def sid(self) -> str | None:
        """Name this session as Redis, the admin and the logs do; None before it has a session key."""
        return sid_of(self.session_key) if self.session_key else None

    @property
    def stored_sid(self) -> str | None:
        """Return the sid under which it is stored: the old one until a new key has been saved."""
        return sid_of(self._rotates_from) if self._rotates_from else self.sid

    @property
    def saved_as(self) -> str | None:
        """Return the session key under which this object has found or left it; None where it is not stored so far."""
        return self.session_key if self._base is not None and self._rotates_from is None else None

    def opened_by(self, client: Callable[[], Client], on_notice: Callable[[Notice | None], None] | None = None) -> None:
        """
        Tell that a request of ``client()`` opened this session.

        Only such a session notes, when it is loaded, that it was seen; and if somebody is signed in, its next save
        asks for the client and keeps its address and user agent. ``on_notice`` is called when loading finds why it is
        gone, and with None where that is nothing for who signs in.
        """
        self._client = client
        self._on_notice = on_notice

    @property
    def opened(self) -> bool:
        """Whether our middleware opened it for a request."""
        return self._client is not None

    @property
    def touch(self) -> store.Touch:
        """What the next look at it leaves behind: nothing where no request opened it, or it has been read already."""
        if not self.opened or hasattr(self, "_session_cache"):
            return store.Touch.NOTHING
        return store.Touch.SEEN if self.passive else store.Touch.ACTIVE

    def signed_in(self, limit: store.Limit | None = None) -> None:
        """
        Tell that somebody just signed in: the next save gives a new login time, to the same user too.

        That save ends other sessions of the user above ``limit``; or it raises SessionLimitReached.
        """
        self._signs_in = True
        self._limit = limit
        # It is about the session that the cookie named, which need not have been of the same user.
        if self.notice and self._on_notice:
            self._on_notice(None)
        self.notice = None

    def signed_out(self) -> None:
        """Tell that somebody signs out: the end that comes next is a sign-out."""
        self._signs_out = True

    def abandon(self) -> None:
        """Forget what was changed since it was saved last, a new key too: the next look reads what is stored."""
        self._session_key, self._rotates_from = self._rotates_from or self.session_key, None
        self._base = self._limit = None
        self.modified = self._signs_in = False
        self.__dict__.pop("_session_cache", None)

    def opening(self, no_load: bool = False) -> Steps[dict[str, Any]]:
        """Return the data, read from the server unless it is there already (or ``no_load`` forbids it)."""
        self.accessed = True
        if not hasattr(self, "_session_cache"):
            empty = no_load or self.session_key is None
            self._session_cache: dict[str, Any] = {} if empty else (yield from self._loading())
        return self._session_cache

    def saving(self, must_create: bool = False) -> Steps[None]:
        data = yield from self.opening(no_load=must_create)
        if self.session_key is None:
            return (yield from self._creating())
        if self._gone and not must_create:
            raise UpdateError
        began, tries = time.monotonic(), 0
        while True:
            outcome = yield from self._writing(data, must_create)
            if outcome.word == "saved":
                return None
            if outcome.word == "gone":
                return (yield from self._save_of_gone(data, outcome))
            if outcome.word == "refused" and self._limit is not None:
                # What ends then is this session, and not what another request may have made of it.
                self._base = None
                raise SessionLimitReached(limits.REFUSED % {"maximum": self._limit.maximum})
            self._merge(data, outcome.record)
            tries += 1
            waited = time.monotonic() - began
            if tries >= 2:
                # Shorter and shorter: else those that have just come would always win against those that wait.
                yield Pause(random.uniform(0, max(0.0, 0.1 - waited / 3)))  # noqa: S311
            if waited > SAVE_SECONDS_MAX:
                logger.warning(
                    "Too many requests change session %s at once: one gave up after %.1f s.", self.stored_sid, waited
                )
                raise SessionStoreUnavailable("Too many requests change the session at once.")

    def flushing(self) -> Steps[None]:
        """Do as Django's ``flush()`` does."""
        self.clear()
        yield from self._deleting(None)
        self._session_key = None

    def still_there(self) -> Steps[bool]:
        """Tell whether the session still lives under this key. Reads without a trace."""
        return (yield from self._existing(self.session_key or ""))

    def _existing(self, session_key: str) -> Steps[bool]:
        # What this session is about to leave, it has left as far as its own request is concerned.
        if not self._validate_session_key(session_key) or session_key == self._rotates_from:
            return False
        loaded = yield store.load(sid_of(session_key))
        return loaded.record is not None

    def _loading(self) -> Steps[dict[str, Any]]:
        sid = self.sid
        if sid is None:
            return {}
        loaded: store.Loaded = yield store.load(sid, self.touch)
        if loaded.record is None:
            self.late = bool(loaded.rotated_to)
            self._session_key = None
            self.notice = notice.read(loaded.note)
            if self.notice and self._on_notice:
                self._on_notice(self.notice)
            return {}
        try:
            record = unpack(sid, loaded.record)
            data: dict[str, Any] = self.serializer().loads(record.data)
        except Exception as error:  # A serializer may raise anything.
            log_unusable(sid, error)
            self._session_key = None
            return {}
        if not hasattr(self, "_session_cache"):
            self._base = record
            self.refresh_cookie = self.refresh_cookie or loaded.refresh_cookie
        return data

    def _creating(self) -> Steps[None]:
        data = yield from self.opening(no_load=True)
        if self.late and not _user_of(data):
            # The browser has a newer cookie by now: another one would take it away.
            raise UpdateError
        while True:
            self._session_key = self._own_key = _new_key(partial(store.at_home, user_id=_user_of(data)))
            try:
                yield from self.saving(must_create=True)
            except CreateError:
                continue
            self.late = self._gone = False
            self.modified = True
            return

    def _writing(self, data: dict[str, Any], must_create: bool) -> Steps[store.Outcome]:
        user_id, sid = _user_of(data), self.sid or ""
        # The limit is for who comes to have this session, and not for who signs in again.
        user_before = self._base.user_id if self._base and not must_create else ""
        limit = self._limit if self._signs_in and user_id not in ("", user_before) else None
        # A plain save looks at no other session.
        renews = limit is not None and not must_create and self._rotates_from is None
        if renews or not store.at_home(sid, user_id):
            if not must_create:
                self._rotates_from = self._rotates_from or self.session_key
            self._session_key = _new_key(partial(store.at_home, user_id=user_id))
            sid = self.sid or ""
        try:
            serialized = self.serializer().dumps(data)
        except RecursionError:
            check_depth(data)
            raise
        check_depth(data, serialized)
        record = Record(user_id, self._client_of(user_id), serialized)
        date = self._expiry_date()
        packed = pack(sid, record, age_seconds=0 if date else self.get_expiry_age())
        # What moves to another partition takes three scripts, any of which may be in vain: no view with them.
        moves = self._rotates_from is not None and not store.same_partition(sid_of(self._rotates_from), sid)
        item = "" if moves else self.views_item
        written = store.Written(packed, user_id, date, self._signs_in, self.passive, item, limit)
        outcome: store.Outcome
        if must_create:
            is_new, self._own_key = self._session_key == self._own_key, None
            outcome = yield store.create(sid, written, is_new=is_new)
            if outcome.word == "taken":
                raise CreateError
        elif self._rotates_from is None:
            outcome = yield store.save(sid, written, loaded=self._base.revision if self._base else b"")
        else:
            outcome = yield from self._rotating(sid_of(self._rotates_from), sid, written)
        if item:
            self.views_item = outcome.item
        if outcome.word == "saved":
            self.uncounted_item = item if item and store.counted_elsewhere(sid, item) else ""
            self._base = Record(user_id, record.client, record.data, revision_of(packed))
            self._rotates_from = None
            self._signs_in = False
            crowded = outcome.crowded
            while crowded and limit is not None:
                crowded = yield store.end_above(limit, user_id, keep=sid)
        return outcome

    def _client_of(self, user_id: str) -> Client:
        if not user_id:
            return Client()
        if self._client is not None:
            return self._client()
        return self._base.client if self._base else Client()

    def _rotating(self, old_sid: str, sid: str, written: store.Written) -> Steps[store.Outcome]:
        elsewhere = not store.same_partition(old_sid, sid)
        made: store.Outcome = store.Outcome("saved")
        if elsewhere:
            viewed = yield store.viewed_by(old_sid)
            made = yield store.create(sid, written, viewed)
            if made.word == "refused":
                # Of two who sign in at once in a guest's session, the other may have been first.
                loaded: store.Loaded = yield store.load(old_sid)
                return made if loaded.record is not None else store.Outcome("gone", note=loaded.note)
        outcome: store.Outcome = yield store.rotate(
            old_sid, sid, written, loaded=self._base.revision if self._base else b""
        )
        if elsewhere and outcome.word != "saved":
            yield from store.end([sid], None)
        return outcome._replace(crowded=outcome.crowded or made.crowded)

    def _save_of_gone(self, data: dict[str, Any], outcome: store.Outcome) -> Steps[None]:
        was_guest = self._base is not None and not self._base.user_id
        self._rotates_from = self._base = None
        if not (outcome.rotated_to and was_guest and _user_of(data)):
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
        self._base = record

    def _cycling(self) -> Steps[None]:
        yield from self.opening()
        if self.session_key is not None:
            self._rotates_from = self._rotates_from or self.session_key
            self._session_key = _new_key(partial(store.same_partition, sid_of(self._rotates_from)))
        self.modified = True

    def _deleting(self, session_key: str | None) -> Steps[None]:
        own = session_key is None and self._base is not None
        reason, self._signs_out = Reason.LOGOUT if self._signs_out else Reason.INVALIDATED, False
        if session_key is None:
            # Before a rotation is saved, the session is still under its old key.
            session_key, self._rotates_from = self._rotates_from or self.session_key, None
        if session_key is None or not self._validate_session_key(session_key):
            return
        # Another request may have given a new key to the session that this one has read: it is that one, then.
        yield from store.end([sid_of(session_key)], reason, follow=own)

    def _expiry_date(self) -> datetime | None:
        expiry = self.get("_session_expiry")
        if not isinstance(expiry, (datetime, str)):
            return None
        date = self.get_expiry_date()
        return timezone.make_aware(date) if timezone.is_naive(date) else date

    def _validate_session_key(self, key: object) -> bool:
        # What can't be a key names no session and is never sent to the server. Eight is Django's own lower bound.
        return isinstance(key, str) and 8 <= len(key) <= KEY_LENGTH_MAX and KEY_CHARS.issuperset(key)


def _user_of(data: dict[str, Any]) -> str:
    return "" if data.get(SESSION_KEY) is None else str(data[SESSION_KEY])


# Each byte stands for a character, and each character for as many bytes: those that are left over are not used.
_CHARACTERS = (VALID_KEY_CHARS * 8).encode()[:256]
_LEFT_OVER = bytes(range(256 - 256 % len(VALID_KEY_CHARS), 256))


def _random_key() -> str:
    # As random as Django's, which asks for each character alone and takes twenty times as long. Of twice as many bytes
    # as are needed, more are left over than half of them once in 10^40 times.
    return secrets.token_bytes(2 * KEY_LENGTH).translate(_CHARACTERS, _LEFT_OVER)[:KEY_LENGTH].decode()


def _new_key(fits: Callable[[str], bool]) -> str:
    """Return a key that nobody can guess, and whose sid ``fits``."""
    key = _random_key()
    others = (key[:-4] + "".join(end) for end in product(VALID_KEY_CHARS, repeat=4))
    return next(key for key in chain([key], others) if fits(sid_of(key)))
