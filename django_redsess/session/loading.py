"""Loading a session. The work is written as steps: see :mod:`django_redsess.transport.steps`."""

from __future__ import annotations

from typing import Any

from django.contrib.sessions.backends.base import VALID_KEY_CHARS, SessionBase
from django.contrib.sessions.serializers import JSONSerializer

from django_redsess.conf import conf
from django_redsess.exceptions import SessionStoreUnavailable
from django_redsess.session import deadlines, notice, operations, reading
from django_redsess.session.messages import MESSAGE_KEY
from django_redsess.session.reading import Loaded, Touch
from django_redsess.session.record import log_unusable, unpack
from django_redsess.session.serializers import named
from django_redsess.session.state import COOKIE_UNCHANGED, NOTHING_KNOWN, NOTHING_PENDING, Known, Visit
from django_redsess.signals import Reason
from django_redsess.transport.keys import sid_of
from django_redsess.transport.outage import is_moving
from django_redsess.transport.steps import Steps

KEY_LENGTH_MAX = 128
KEY_CHARS = frozenset(VALID_KEY_CHARS)


class SessionLoading(SessionBase):
    """The state of a session object, and the loading of its data."""

    visit: Visit | None = None
    """The request that opened the session. None in a shell or a command."""
    cookie = COOKIE_UNCHANGED
    known = NOTHING_KNOWN
    pending = NOTHING_PENDING
    unavailable: SessionStoreUnavailable | None = None
    """The outage that an operation has met. Later ones fail at once: a request waits for the server only once."""

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

    def opening(self, no_load: bool = False) -> Steps[dict[str, Any]]:
        """Return the data. Load them first, unless they are loaded already, or ``no_load`` says that they are empty."""
        self.accessed = True
        if not hasattr(self, "_session_cache"):
            empty = no_load or self.session_key is None
            self._session_cache: dict[str, Any] = {} if empty else (yield from self.loading())
        return self._session_cache

    def loading(self) -> Steps[dict[str, Any]]:
        """Load the data. If there is no such session, drop the key and return an empty dict."""
        key = self.session_key
        if key is None:
            return {}
        loaded = yield from reading.read(sid_of(key), self.touch)
        data, due = self.take(loaded)
        return data if data is not None and due is None else (yield from self.after_loading(loaded, data, due))

    def take(self, loaded: Loaded) -> tuple[dict[str, Any] | None, int | None]:
        """
        Return the data of ``loaded``, and the deadline that this request sets.

        The data are None if the session is gone. The deadline is None if it stays. The record is kept, so that a save
        can compare with it. If the record is not usable, drop the key and return an empty dict.
        """
        sid, packed, due, now = loaded
        if packed is None:
            return None, None
        try:
            record = unpack(sid, packed)
            # Most often it is Django's own: then no function is called to find it.
            serializer = named(record.serializer) if record.serializer else JSONSerializer
            data: dict[str, Any] = serializer().loads(record.data)
        except Exception as error:  # A serializer may raise anything.
            log_unusable(sid, error)
            self._session_key = None
            return {}, None
        moves_to = None
        if "_session_cache" not in self.__dict__:
            # As Known() does, in half the time.
            self.known = tuple.__new__(Known, (record, record.revision, due, False))
            # By default, only a time-out that was removed from the settings can have left an earlier deadline.
            if due < record.deadline_seconds * 1000 - deadlines.ROUNDED_UP or (
                conf.SLIDING or conf.IDLE_TIMEOUT or conf.ABSOLUTE_TIMEOUT
            ):
                active = self.visit is not None and not self.visit.passive
                moves_to = deadlines.moved(record, due, now) if active else None
            if MESSAGE_KEY in data:
                self._tell(data)
        return data, moves_to

    def _tell(self, data: dict[str, Any]) -> None:
        if self.visit is None or self.visit.on_notice is None:
            return
        if self.visit.on_notice(notice.about_another(str(data[MESSAGE_KEY]))):
            del data[MESSAGE_KEY]
            self.modified = True

    def after_loading(self, loaded: Loaded, data: dict[str, Any] | None, due: int | None) -> Steps[dict[str, Any]]:
        """Do what few loads need: find out why the session is gone, or move the deadline. Return the data."""
        if data is None:
            yield from self._asking_why(loaded)
            return {}
        if due is not None:
            yield from self._prolonging(loaded, due)
        return data

    def _asking_why(self, loaded: Loaded) -> Steps[None]:
        note = yield from reading.note_of(loaded.sid)
        if not note and loaded.due:
            # The session is due, but has not been removed yet.
            note = f"{Reason.EXPIRED} {loaded.due} "
        self._session_key = None
        found = notice.read(note)
        self.cookie = self.cookie._replace(
            notice=found, late=bool(reading.rotated_to(note)), was_guest=reading.was_guest(note)
        )
        if found and self.visit is not None and self.visit.on_notice:
            self.visit.on_notice(found)

    def _prolonging(self, loaded: Loaded, due: int) -> Steps[None]:
        base = self.known.record
        try:
            if base is None or not (yield from operations.prolong(loaded, due)):
                return
        except SessionStoreUnavailable as error:
            # The session can be read all the same. The next request moves the deadline.
            if is_moving(error.__cause__):
                return
            raise
        self.known = self.known._replace(due=due)
        if deadlines.sends_cookie(base, loaded.due, due, loaded.now):
            self.cookie = self.cookie._replace(refresh=True)

    def still_there(self) -> Steps[bool]:
        """Return whether the session is still live under its key. Does not touch it."""
        return (yield from self.existing(self.session_key or ""))

    def existing(self, session_key: str) -> Steps[bool]:
        """Return whether a live session has this key. Does not touch it."""
        # Once a new key is chosen, the old key names no session for this request.
        if not self._validate_session_key(session_key) or session_key == self.pending.rotates_from:
            return False
        loaded = yield from reading.read(sid_of(session_key))
        return loaded.record is not None

    def _validate_session_key(self, key: object) -> bool:
        # An invalid key names no session and is never sent to the server. Eight is Django's own minimum length.
        return isinstance(key, str) and 8 <= len(key) <= KEY_LENGTH_MAX and KEY_CHARS.issuperset(key)
