"""The session engine: ``SESSION_ENGINE = "django_redsess.backend"``. Public."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError
from redis.exceptions import NoScriptError

from django_redsess import cleaning
from django_redsess.exceptions import SessionStoreUnavailable
from django_redsess.session import script_calls
from django_redsess.session.notice import Notice
from django_redsess.session.saving import change_of
from django_redsess.session.session_store import SessionLifecycle
from django_redsess.transport.keys import sid_of

__all__ = ["SessionStore"]


class ClearingError(SessionStoreUnavailable, CommandError):
    """An outage during Django's ``manage.py clearsessions``. The command prints a CommandError in one line."""


class SessionStore(SessionLifecycle):
    """
    Django's session API for sessions in Redis.

    Each pair, such as ``save`` and ``asave``, shares its work as steps. ``run`` drives the steps, and ``arun`` awaits
    them. ``load`` and ``save`` first try a short way without steps, since most requests need only these two.
    """

    @property
    def ended(self) -> Notice | None:
        """
        Why the cookie's session has ended: a notice with ``reason``, ``message`` and ``ended_at``, or None.

        A notice is kept for a day if the session was kicked or ended with a message, and otherwise for an hour. Guests'
        sessions, sign-outs and invalidations without a message leave none. Reading this property loads the session,
        unless it is loaded. Raises SessionStoreUnavailable in an outage.
        """
        self.run(self.opening())
        return self.cookie.notice

    async def aended(self) -> Notice | None:
        """Await what :attr:`ended` returns."""
        await self.arun(self.opening())
        return self.cookie.notice

    def exists(self, session_key: str) -> bool:
        """Tell whether a live session has this key. The session is not touched."""
        return self.run(self.existing(session_key))

    async def aexists(self, session_key: str) -> bool:
        return await self.arun(self.existing(session_key))

    def load(self) -> dict[str, Any]:
        """
        Return the session's data as a dict. If there is no such session, the dict is empty, and the object loses its
        key.

        Data that this site did not write for this session, or can't read, count as no session. This is logged.
        """
        key = self.session_key
        if key is None:
            return {}
        if self.unavailable:
            self.fail_at_once()
        touch = self.touch if self.visit is not None else script_calls.Touch.NOTHING
        try:
            loaded = script_calls.read(sid_of(key), touch).run()
        except SessionStoreUnavailable as error:
            self.met(error)
            raise
        data, due = self.take(loaded)
        return data if data is not None and due is None else self.run(self.after_loading(loaded, data, due))

    async def aload(self) -> dict[str, Any]:
        return await self.arun(self.loading())

    def create(self) -> None:
        """Store a new session under a new key, with the data that this object already holds."""
        self.run(self.creating())

    async def acreate(self) -> None:
        await self.arun(self.creating())

    def save(self, must_create: bool = False) -> None:
        """
        Store the session's data.

        If another request has changed the session since it was loaded, only the top-level keys that this request
        changed are written.

        ``must_create`` stores a new session, and raises CreateError if the key is taken. Without it, UpdateError is
        raised if the session was ended, has expired or got another key. Such a session is not stored again. Raises
        SessionLimitReached if a sign-in exceeds the user's limit.
        """
        if not must_create and not self.unavailable and "_session_cache" in self.__dict__:
            change = change_of(self)
            if change is not None:
                known, step = change
                try:
                    outcome = step.run()
                except NoScriptError:
                    return self.run(self.saving())
                except SessionStoreUnavailable as error:
                    self.met(error)
                    raise
                if outcome.status == "saved":
                    self.known = known
                    return
                return self.run(self.saving(met=outcome))
        self.run(self.saving(must_create))

    async def asave(self, must_create: bool = False) -> None:
        await self.arun(self.saving(must_create))

    def cycle_key(self) -> None:
        """
        Choose a new key for the same session. The next save moves the session to it.

        Until that save, the session is stored under its old key.
        """
        self.run(self.cycling())

    async def acycle_key(self) -> None:
        await self.arun(self.cycling())

    def delete(self, session_key: str | None = None) -> None:
        """End the session with this key. None stands for this session. A missing session is no error."""
        self.run(self.deleting(session_key))

    async def adelete(self, session_key: str | None = None) -> None:
        await self.arun(self.deleting(session_key))

    @classmethod
    def clear_expired(cls) -> None:
        """End every session whose deadline has passed. ``manage.py clearsessions`` calls this."""
        try:
            for _ in cleaning.expired():
                pass
        except SessionStoreUnavailable as error:
            raise ClearingError(str(error)) from error

    def _get_session(self, no_load: bool = False) -> dict[str, Any]:
        self.accessed = True
        try:
            return self._session_cache
        except AttributeError:
            self._session_cache = {} if no_load else self.load()
            return self._session_cache

    async def _aget_session(self, no_load: bool = False) -> dict[str, Any]:
        self.accessed = True
        try:
            return self._session_cache
        except AttributeError:
            return await self.arun(self.opening(no_load))

    _session = property(_get_session)


def is_in_use() -> bool:
    """Tell whether ``SESSION_ENGINE`` is this engine, or one derived from it."""
    try:
        return issubclass(import_module(settings.SESSION_ENGINE).SessionStore, SessionStore)
    except Exception:  # Importing an engine may raise anything. Django reports it.
        return False
