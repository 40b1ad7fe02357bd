"""What becomes of a session: sign-in, another key, its end. Steps, as in :mod:`django_redsess.transport.steps`."""

from __future__ import annotations

from typing import Any

from django_redsess.exceptions import SessionStoreUnavailable
from django_redsess.session import operations
from django_redsess.session.saving import SessionSaving, user_of
from django_redsess.signals import Reason
from django_redsess.transport.keys import bucket_of, new_key, sid_of
from django_redsess.transport.steps import Steps, T, adrive, drive


class SessionLifecycle(SessionSaving):
    """All that a session does. ``SessionStore`` drives its steps, as Django's session API."""

    def signed_in(self, limit: operations.Limit | None = None) -> None:
        """
        Tell that somebody just signed in: the next save gives a new login time, to the same user too.

        That save ends other sessions of the user above ``limit``; or it raises SessionLimitReached.
        """
        self._signs_in = True
        self._limit = limit
        user_id = user_of(self.__dict__.get("_session_cache", {}))
        if user_id and self._rotates_from is not None:
            # Now, so that who is told of the sign-in after us finds the key that the cookie will have.
            self._move_home(user_id)
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
        self.modified = self._signs_in = self._replaces = False
        self.__dict__.pop("_session_cache", None)

    def flushing(self) -> Steps[None]:
        """Do as Django's ``flush()`` does."""
        self.clear()
        yield from self._deleting(None)
        self._session_key = None

    def _cycling(self) -> Steps[None]:
        yield from self.opening()
        if self.session_key is not None:
            self._rotates_from = self._rotates_from or self.session_key
            self._session_key = new_key(bucket_of(self._rotates_from))
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
        yield from operations.end([sid_of(session_key)], reason, follow=own)

    def run(self, steps: Steps[T]) -> T:
        """Drive ``steps``; remember an outage."""
        self.fail_at_once()
        try:
            return drive(steps)
        except SessionStoreUnavailable:
            self.unavailable = True
            raise

    async def arun(self, steps: Steps[T]) -> T:
        """Do as :meth:`run` does, awaiting each step."""
        self.fail_at_once()
        try:
            return await adrive(steps)
        except SessionStoreUnavailable:
            self.unavailable = True
            raise

    def fail_at_once(self) -> None:
        """Raise SessionStoreUnavailable where an operation of this request has before: it waits for that once."""
        if self.unavailable:
            raise SessionStoreUnavailable("The session could not be read or saved a moment ago.")


def session_of(request: Any) -> SessionLifecycle | None:
    """Return the session of ``request``; None where it has none, or one of another engine."""
    session = getattr(request, "session", None)
    return session if isinstance(session, SessionLifecycle) else None
