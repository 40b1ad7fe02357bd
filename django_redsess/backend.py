"""The session engine: ``SESSION_ENGINE = "django_redsess.backend"``."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from asgiref.sync import sync_to_async
from django.contrib.auth import SESSION_KEY
from django.contrib.sessions.backends.base import VALID_KEY_CHARS, CreateError, SessionBase, UpdateError
from django.utils import timezone
from django.utils.crypto import get_random_string

from django_redsess import cleaner, store
from django_redsess.conf import conf
from django_redsess.keys import sid_of
from django_redsess.record import Client, Record, log_unusable, pack, unpack

KEY_LENGTH = 32
KEY_LENGTH_MAX = 128
KEY_CHARS = frozenset(VALID_KEY_CHARS)


class SessionStore(SessionBase):
    """A session, kept in Redis under a name that can't be turned into its cookie."""

    def __init__(self, session_key: str | None = None) -> None:
        super().__init__(session_key)
        self._client: Client | None = None
        self._stored_client = Client()
        self._rotates_from: str | None = None

    @property
    def sid(self) -> str | None:
        """Name this session as Redis, the admin and the logs do; None before it has a session key."""
        return sid_of(self.session_key) if self.session_key else None

    def opened_by(self, client: Client) -> None:
        """
        Tell that a request of ``client`` opened this session.

        Only such a session notes, when it is loaded, that it was seen; and if somebody is signed in, its next save
        keeps the client's address and user agent.
        """
        self._client = client

    def exists(self, session_key: str) -> bool:
        """Tell whether a live session has this key. Reads without a trace."""
        # What this session is about to leave, it has left as far as its own request is concerned.
        if not self._validate_session_key(session_key) or session_key == self._rotates_from:
            return False
        return store.load(sid_of(session_key)).run() is not None

    def load(self) -> dict[str, Any]:
        """
        Read the session's data: an empty dict, and no key any more, when there is no such session.

        Data that this site did not write for this session (or can't read) is taken for none, and logged.
        """
        sid = self.sid
        if sid is None:
            return {}
        touch_interval = None if self._client is None else conf.TOUCH_INTERVAL
        packed = store.load(sid, touch_interval_seconds=touch_interval).run()
        if packed is None:
            self._session_key = None
            return {}
        try:
            record = unpack(sid, packed)
            data: dict[str, Any] = self.serializer().loads(record.data)
        except Exception as error:  # A serializer may raise anything.
            log_unusable(sid, error)
            self._session_key = None
            return {}
        self._stored_client = record.client
        return data

    def create(self) -> None:
        """Store a new session, with the data that this object already holds, under a new key."""
        while True:
            self._session_key = _new_key()
            try:
                self.save(must_create=True)
            except CreateError:
                continue
            self.modified = True
            return

    def save(self, must_create: bool = False) -> None:
        """
        Store the session's data, and note that it was seen.

        With ``must_create``, raises CreateError when the key is taken; without, UpdateError when the session was ended
        or expired meanwhile: it is not brought back.
        """
        data: dict[str, Any] = self._get_session(no_load=must_create)  # type: ignore[attr-defined]
        sid = self.sid
        if sid is None:
            return self.create()
        user_id = "" if data.get(SESSION_KEY) is None else str(data[SESSION_KEY])
        client = (self._client or self._stored_client) if user_id else Client()
        packed = pack(sid, Record(user_id, client, self.serializer().dumps(data)))
        written = (packed, user_id, self._deadline())
        if must_create:
            if not store.create(sid, *written).run():
                raise CreateError
        elif self._rotates_from is not None:
            if not store.rotate(sid_of(self._rotates_from), sid, *written).run():
                raise UpdateError
        elif not store.save(sid, *written).run():
            raise UpdateError
        self._rotates_from = None

    def cycle_key(self) -> None:
        """
        Choose a new key for the same session; the next save moves it there, all at once.

        Nothing is sent before: when that save does not happen, the session stays under its old key.
        """
        self._get_session()  # type: ignore[attr-defined]
        if self.session_key is not None:
            self._rotates_from = self._rotates_from or self.session_key
            while True:
                self._session_key = _new_key()
                if store.same_partition(sid_of(self._rotates_from), sid_of(self._session_key)):
                    break
        self.modified = True

    async def acycle_key(self) -> None:
        """Do as :meth:`cycle_key` does. Django's own would store the new session and end the old one in two steps."""
        await sync_to_async(self.cycle_key)()

    def delete(self, session_key: str | None = None) -> None:
        """End the session of ``session_key``: this one, when None is given. It's no error if there is none."""
        if session_key is None:
            # Before a rotation is saved, the session is still under its old key.
            session_key, self._rotates_from = self._rotates_from or self.session_key, None
        if session_key is not None and self._validate_session_key(session_key):
            for call in store.end([sid_of(session_key)]):
                call.run()

    @classmethod
    def clear_expired(cls) -> None:
        """End every session whose deadline has passed: what ``manage.py clearsessions`` calls."""
        for _ in cleaner.expired():
            pass

    def _deadline(self) -> store.Deadline:
        expiry = self.get("_session_expiry")
        if not isinstance(expiry, (datetime, str)):
            return store.Deadline(self.get_expiry_age())
        date = self.get_expiry_date()
        return store.Deadline(0, timezone.make_aware(date) if timezone.is_naive(date) else date)

    def _validate_session_key(self, key: object) -> bool:
        # What can't be a key names no session and is never sent to the server. Eight is Django's own lower bound.
        return isinstance(key, str) and 8 <= len(key) <= KEY_LENGTH_MAX and KEY_CHARS.issuperset(key)


def _new_key() -> str:
    return get_random_string(KEY_LENGTH, VALID_KEY_CHARS)
