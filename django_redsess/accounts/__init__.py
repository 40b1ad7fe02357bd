"""
End a user's sessions when the account changes.

Public: ``logout_everywhere`` and its async variant ``alogout_everywhere``, ``without_limit``.

Django's signals report each saved or deleted user: see ``signals``. The sessions end once the database has committed
the change. ``QuerySet.update()`` sends no signals: call :func:`logout_everywhere` for each user. ``views`` and ``urls``
are the self-service pages.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from django.contrib.auth import SESSION_KEY
from django.http import HttpRequest

from django_redsess.exceptions import SessionNotProven
from django_redsess.online.ending import end_all_of_users
from django_redsess.session.store import session_of, user_id_of
from django_redsess.session.user_limit import without_limit
from django_redsess.signals import Reason, request_answered
from django_redsess.transport.replicas import EndedCount
from django_redsess.transport.steps import Steps, adrive, drive

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser

__all__ = ["alogout_everywhere", "logout_everywhere", "without_limit"]


def _logout_everywhere(user: AbstractBaseUser, *, keep: str | None = None, message: str = "") -> Steps[EndedCount]:
    return (yield from end_everywhere(user_id_of(user), request_answered(), keep=keep, message=message))


def logout_everywhere(user: AbstractBaseUser, *, keep: str | None = None, message: str = "") -> EndedCount:
    """
    End the sessions of ``user``, except the one whose sid is ``keep``. Return how many have ended.

    If the present request is in one of them, it continues as a guest's request. If it is in the session that is kept,
    this session gets a new key, which makes a copy of its cookie worthless. ``message`` is shown on the user's
    other devices, at most 200 characters. Without a message nothing is shown there. The signal ``sessions_ended`` has
    the reason ``invalidated``; with :func:`django_redsess.online.end_user` it is ``kicked``.

    Raises ValueError for a longer message, and for a user without a primary key. Raises SessionStoreUnavailable in an
    outage.
    """
    return drive(_logout_everywhere(user, keep=keep, message=message))


async def alogout_everywhere(user: AbstractBaseUser, *, keep: str | None = None, message: str = "") -> EndedCount:
    """Await what :func:`logout_everywhere` returns."""
    return await adrive(_logout_everywhere(user, keep=keep, message=message))


def end_everywhere(user_id: str, request: HttpRequest | None, *, keep: str | None, message: str) -> Steps[EndedCount]:
    """End the sessions of a user. If ``request`` is in one of them, it continues as a guest's request."""
    session = session_of(request)
    # The present session is flushed below: otherwise its save would find it gone, and fail the request.
    is_own = False
    if session is not None and session.stored_sid not in (None, keep):
        # A request that can't prove its device does not use its session. That ends with the others.
        with suppress(SessionNotProven):
            is_own = str((yield from session.opening()).get(SESSION_KEY)) == user_id
    ended = yield from end_all_of_users([user_id], Reason.INVALIDATED, keep=keep, message=message)
    if session is not None and is_own:
        yield from session.flushing()
    return ended
