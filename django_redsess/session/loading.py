"""A session that is read: what its object knows, and loading. Steps, as in :mod:`django_redsess.transport.steps`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib.sessions.backends.base import VALID_KEY_CHARS, SessionBase

from django_redsess.conf import conf
from django_redsess.session import deadlines, notice, operations, reading
from django_redsess.session.notice import Notice
from django_redsess.session.reading import Loaded, Touch
from django_redsess.session.record import Client, Record, log_unusable, unpack
from django_redsess.signals import Reason
from django_redsess.transport.keys import sid_of
from django_redsess.transport.steps import Steps

KEY_LENGTH_MAX = 128
KEY_CHARS = frozenset(VALID_KEY_CHARS)


class SessionLoading(SessionBase):
    """A session, kept in Redis under a name that can't be turned into its cookie: what is known of it, and loading."""

    passive = False
    """Whether nobody made this request by hand: it prolongs nothing."""
    unavailable = False
    """Whether an operation met an outage. All later ones fail at once: a request waits for a server once."""
    late = False
    """Whether the cookie's session lives on under another key, which this request does not know."""
    refresh_cookie = False
    """Whether the cookie is to be sent again, so that it lasts as long as the session that slides."""
    views_item = ""
    """What this request views. Recorded by the next save, else by the middleware."""
    uncounted_item = ""
    """What a save has noted as viewed, whose views are counted in another partition."""
    notice: Notice | None = None
    """What loading has found of why the cookie's session is gone; ``ended`` looks for it too."""
    begins_by_view = True
    """Whether a guest who views an item may get a session for it, where ``VIEWED_GUESTS`` says so."""

    _on_notice: Callable[[Notice | None], None] | None = None
    _client: Callable[[], Client] | None = None
    _base: Record | None = None  # What is stored, as far as this object knows: loaded, or saved by it.
    _revision = b""  # That of its record.
    _due = 0  # When that is due, in milliseconds, or before that.
    _moves_to: int | None = None  # Another deadline, which the request that has read it gives it.
    _replaces = False  # Nobody has looked at what is stored: a save replaces it, whatever it is.
    _rotates_from: str | None = None
    _own_key: str | None = None  # Just made for this object: nobody has had it before.
    _signs_in = False
    _limit: operations.Limit | None = None
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
    def touch(self) -> Touch:
        """What the next look at it leaves behind: nothing where no request opened it, or it has been read already."""
        if self._client is None or "_session_cache" in self.__dict__:
            return Touch.NOTHING
        return Touch.SEEN if self.passive else Touch.ACTIVE

    def opening(self, no_load: bool = False) -> Steps[dict[str, Any]]:
        """Return the data, read from the server unless it is there already (or ``no_load`` forbids it)."""
        self.accessed = True
        if not hasattr(self, "_session_cache"):
            empty = no_load or self.session_key is None
            self._session_cache: dict[str, Any] = {} if empty else (yield from self._loading())
        return self._session_cache

    def still_there(self) -> Steps[bool]:
        """Tell whether the session still lives under this key. Reads without a trace."""
        return (yield from self._existing(self.session_key or ""))

    def _existing(self, session_key: str) -> Steps[bool]:
        # What this session is about to leave, it has left as far as its own request is concerned.
        if not self._validate_session_key(session_key) or session_key == self._rotates_from:
            return False
        loaded = yield from reading.read(sid_of(session_key))
        return loaded.record is not None

    def _loading(self) -> Steps[dict[str, Any]]:
        key = self.session_key
        if key is None:
            return {}
        loaded = yield from reading.read(sid_of(key), self.touch)
        data = self._take(loaded)
        return data if data is not None and self._moves_to is None else (yield from self._going_on(loaded, data))

    def _take(self, loaded: Loaded) -> dict[str, Any] | None:
        """Return the data that were read, and keep their record to compare with; None where the session is gone."""
        sid, packed, due, now = loaded
        if packed is None:
            return None
        try:
            record = unpack(sid, packed)
            data: dict[str, Any] = self.serializer().loads(record.data)
        except Exception as error:  # A serializer may raise anything.
            log_unusable(sid, error)
            self._session_key = None
            return {}
        if "_session_cache" not in self.__dict__:
            self._base, self._revision, self._due = record, record.revision, due
            # With the default settings, nothing else moves it but a time-out that was taken out of them.
            if due < record.deadline_seconds * 1000 - deadlines.ROUNDED_UP or (
                conf.SLIDING or conf.IDLE_TIMEOUT or conf.ABSOLUTE_TIMEOUT
            ):
                active = self._client is not None and not self.passive
                self._moves_to = deadlines.moved(record, due, now) if active else None
        return data

    def _going_on(self, loaded: Loaded, data: dict[str, Any] | None) -> Steps[dict[str, Any]]:
        """Do what few loads need: ask why the session is gone, or move its deadline. Return its data."""
        if data is None:
            note = yield from reading.note_of(loaded.sid)
            if not note and loaded.due:
                # It is due, and nobody has taken it out so far.
                note = f"{Reason.EXPIRED} {loaded.due} "
            self.late = bool(reading.rotated_to(note))
            self._session_key = None
            self.notice = notice.read(note)
            if self.notice and self._on_notice:
                self._on_notice(self.notice)
            return {}
        due, base = self._moves_to, self._base
        if due is not None and base is not None and (yield from operations.prolong(loaded, due)):
            self._due = due
            self.refresh_cookie |= deadlines.sends_cookie(base, loaded.due, due, loaded.now)
        return data

    def _validate_session_key(self, key: object) -> bool:
        # What can't be a key names no session and is never sent to the server. Eight is Django's own lower bound.
        return isinstance(key, str) and 8 <= len(key) <= KEY_LENGTH_MAX and KEY_CHARS.issuperset(key)
