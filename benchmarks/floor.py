"""
A session engine that keeps sessions in a dict. It measures what Django's own part of every session engine costs.

Sessions are kept serialized, as every store outside the process must keep them. They never expire.
"""

from __future__ import annotations

from typing import Any

from django.contrib.sessions.backends.base import CreateError, SessionBase, UpdateError

SESSIONS: dict[str, bytes] = {}
"""Session key → serialized data."""


class SessionStore(SessionBase):
    """Django's session API over that dict."""

    def exists(self, session_key: str) -> bool:
        return session_key in SESSIONS

    def load(self) -> dict[str, Any]:
        stored = SESSIONS.get(self.session_key or "")
        if stored is None:
            self._session_key = None
            return {}
        data: dict[str, Any] = self.serializer().loads(stored)
        return data

    def create(self) -> None:
        self._session_key = self._get_new_session_key()  # type: ignore[attr-defined]
        self.save(must_create=True)
        self.modified = True

    def save(self, must_create: bool = False) -> None:
        if self.session_key is None:
            return self.create()
        if must_create and self.session_key in SESSIONS:
            raise CreateError
        data = self._get_session(no_load=must_create)  # type: ignore[attr-defined]
        if not must_create and self.session_key not in SESSIONS:
            raise UpdateError
        SESSIONS[self.session_key] = self.serializer().dumps(data)

    def delete(self, session_key: str | None = None) -> None:
        SESSIONS.pop(session_key or self.session_key or "", None)

    @classmethod
    def clear_expired(cls) -> None:
        pass
