"""Loading a session. The work is written as steps: see :mod:`django_redsess.transport.steps`."""

from __future__ import annotations

from typing import Any

from django.contrib.sessions.serializers import JSONSerializer

from django_redsess.conf import conf
from django_redsess.exceptions import SessionStoreUnavailable
from django_redsess.session import deadlines, notice, operations, reading
from django_redsess.session.messages import MESSAGE_KEY
from django_redsess.session.reading import Loaded
from django_redsess.session.record import log_unusable, unpack
from django_redsess.session.serializers import named
from django_redsess.session.state import Known, SessionState
from django_redsess.signals import Reason
from django_redsess.transport.keys import sid_of
from django_redsess.transport.outage import is_moving
from django_redsess.transport.steps import Steps


class SessionLoading(SessionState):
    """The loading of a session's data."""

    def opening(self, no_load: bool = False) -> Steps[dict[str, Any]]:
        """Return the data. Load them first, unless they are loaded already, or ``no_load`` says that they are empty."""
        self.accessed = True
        if not hasattr(self, "_session_cache"):
            empty = no_load or self.session_key is None
            self._session_cache = {} if empty else (yield from self.loading())
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
