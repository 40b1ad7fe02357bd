"""A sign-in form that tells users when they have too many sessions, or are blocked. Public."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import SESSION_KEY
from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.forms import AuthenticationForm
from django.core.exceptions import ValidationError

from django_redsess import online
from django_redsess.backend import SessionStore
from django_redsess.conf import REFUSE
from django_redsess.exceptions import SignInRefused
from django_redsess.session import user_limit
from django_redsess.session.blocks import refusal_in_words
from django_redsess.session.store import session_of, user_id_of
from django_redsess.user_messages import isolated

__all__ = ["SessionLimitAuthenticationForm"]


class SessionLimitAuthenticationForm(AuthenticationForm):
    """
    Django's sign-in form, with an error for blocked users, and one for users who have reached their limit of sessions.

    See :func:`django_redsess.online.block`, and ``MAX_SESSIONS_PER_USER`` for the limit. The limit is an error only if
    ``SESSION_LIMIT_POLICY`` is ``"refuse"``. With an error, the guest's session stays. If a user signs in twice at the
    same moment, ``login()`` may still refuse one of the two sign-ins.

    A subclass may set its own text in ``error_messages["session_limit"]``. ``%(maximum)d`` is the limit. For the admin,
    set the site's ``login_form`` to ``class AdminForm(SessionLimitAuthenticationForm, AdminAuthenticationForm)``.
    """

    def confirm_login_allowed(self, user: AbstractBaseUser) -> None:
        """
        Raise ValidationError if ``user`` may not sign in.

        Its code is ``session_limit`` if the user has too many sessions, ``blocked`` if the user is blocked, or one of
        Django's form. Raises SessionStoreUnavailable in an outage.
        """
        super().confirm_login_allowed(user)  # type: ignore[arg-type]
        session = session_of(self.request)
        try:
            # Compared with None, because an empty session is falsy.
            (SessionStore() if session is None else session).refuse_blocked(user_id_of(user))
        except SignInRefused as refused:
            raise ValidationError(refusal_in_words(refused, isolated), code="blocked") from refused
        limit = user_limit.limit_of(user)
        if limit is None or limit.policy != REFUSE:
            return
        user_id = user_id_of(user)
        data: Any = getattr(self.request, "session", {})
        # A user who signs in again in the same session needs no further session.
        own = str(data.get(SESSION_KEY)) == user_id
        if not own and online.count(user_ids=[user_id]) >= limit.maximum:
            # With several base classes, error_messages may come from another one.
            text = self.error_messages.get("session_limit", user_limit.REFUSED)
            raise ValidationError(text, code="session_limit", params={"maximum": limit.maximum})
