"""The session engine: ``SESSION_ENGINE = "django_redsess.backend"``. Public."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError
from redis.exceptions import NoScriptError

from django_redsess.cleaning import cleaner
from django_redsess.exceptions import SessionStoreUnavailable
from django_redsess.session import reading
from django_redsess.session.lifecycle import SessionLifecycle
from django_redsess.session.notice import Notice
from django_redsess.session.writing import change_of
from django_redsess.transport.keys import sid_of

__all__ = ["SessionStore"]


class ClearingError(SessionStoreUnavailable, CommandError):
    """An outage while Django's ``manage.py clearsessions`` runs, which prints a CommandError in one line."""


class SessionStore(SessionLifecycle):
    """
    Django's session API, over sessions in Redis.

    Of each pair, such as ``save`` and ``asave``, the work is written once, as steps: ``run`` drives them, and ``arun``
    does so in an event loop. Only ``load`` and ``save`` first try the short way without steps, since that is most of
    what most requests do.
    """

    @property
    def ended(self) -> Notice | None:
        """
        Why the session that the cookie names was ended: ``reason``, ``message`` and ``ended_at``. None if it was not.

        It is known for an hour, for a day where an administrator ended it or the account was changed, and only where
        somebody was signed in; a sign-out is not told of. Reads the session, unless that has been read.
        """
        self.run(self.opening())
        return self.cookie.notice

    async def aended(self) -> Notice | None:
        """Do as :attr:`ended` does, awaiting the reply."""
        await self.arun(self.opening())
        return self.cookie.notice

    def exists(self, session_key: str) -> bool:
        """Tell whether a live session has this key. Reads without a trace."""
        return self.run(self.existing(session_key))

    async def aexists(self, session_key: str) -> bool:
        return await self.arun(self.existing(session_key))

    def load(self) -> dict[str, Any]:
        """
        Load the session's data: an empty dict, and no key any more, when there is no such session.

        Data that this site did not write for this session, or can't read, count as none, and that is logged.
        """
        key = self.session_key
        if key is None:
            return {}
        if self.unavailable:
            self.fail_at_once()
        touch = self.touch if self.visit is not None else reading.Touch.NOTHING
        try:
            loaded = reading.read(sid_of(key), touch).run()
        except SessionStoreUnavailable:
            self.unavailable = True
            raise
        data, due = self.take(loaded)
        return data if data is not None and due is None else self.run(self.after_loading(loaded, data, due))

    async def aload(self) -> dict[str, Any]:
        return await self.arun(self.loading())

    def create(self) -> None:
        """Store a new session, with the data that this object already holds, under a new key."""
        self.run(self.creating())

    async def acreate(self) -> None:
        await self.arun(self.creating())

    def save(self, must_create: bool = False) -> None:
        """
        Store the session's data.

        Where another request has changed the session since it was loaded, only the top-level keys that this one
        changed are written. With ``must_create``, raises CreateError when the key is taken; without, UpdateError when
        the session was ended, has expired or got another key meanwhile: it is not brought back. Raises
        SessionLimitReached for a sign-in that is one too many.
        """
        if not must_create and not self.unavailable and "_session_cache" in self.__dict__:
            change = change_of(self)
            if change is not None:
                known, step = change
                try:
                    outcome = step.run()
                except NoScriptError:
                    return self.run(self.saving())
                except SessionStoreUnavailable:
                    self.unavailable = True
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
        Choose a new key for the same session; the next save moves it there, all at once.

        Nothing changes before: when that save does not happen, the session stays under its old key.
        """
        self.run(self.cycling())

    async def acycle_key(self) -> None:
        await self.arun(self.cycling())

    def delete(self, session_key: str | None = None) -> None:
        """End the session of ``session_key``, without it this one. It's no error if there is none."""
        self.run(self.deleting(session_key))

    async def adelete(self, session_key: str | None = None) -> None:
        await self.arun(self.deleting(session_key))

    @classmethod
    def clear_expired(cls) -> None:
        """End every session whose deadline has passed. ``manage.py clearsessions`` calls this."""
        try:
            for _ in cleaner.expired():
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
    except Exception:  # It may be any code, and an engine that can't be imported is not ours to judge.
        return False
