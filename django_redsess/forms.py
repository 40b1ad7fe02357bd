"""A sign-in form that shows when a user has too many sessions. Public."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib.auth import SESSION_KEY
from django.contrib.auth.forms import AuthenticationForm
from django.core.exceptions import ValidationError

from django_redsess import online
from django_redsess.session import limits

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser

__all__ = [
    "SessionLimitAuthenticationForm",
]


class SessionLimitAuthenticationForm(AuthenticationForm):
    """
    Django's sign-in form, with an error for users who have as many sessions as ``MAX_SESSIONS_PER_USER`` allows.

    It raises the error only if ``SESSION_LIMIT_POLICY`` is ``"refuse"``. The visitors read it in the form, and keep
    their guest's session. If two people sign in at the same moment, ``login()`` may still refuse one of them.

    A subclass may set its own text in ``error_messages["session_limit"]``; ``%(maximum)d`` is the limit. For the admin,
    set ``login_form`` of the site to ``class AdminForm(SessionLimitAuthenticationForm, AdminAuthenticationForm)``.
    """

    def confirm_login_allowed(self, user: AbstractBaseUser) -> None:
        """Raise ValidationError as Django's form does, and one with the code ``session_limit``."""
        super().confirm_login_allowed(user)  # type: ignore[arg-type]
        limit = limits.limit_of(user)
        if limit is None or limit.policy != limits.REFUSE:
            return
        user_id = online.user_id_of(user)
        session: Any = getattr(self.request, "session", {})
        # A user who signs in again in the same session needs no other session.
        own = str(session.get(SESSION_KEY)) == user_id
        if not own and online.count(user_ids=[user_id]) >= limit.maximum:
            # A form that is combined with another one may have the other's error_messages.
            text = self.error_messages.get("session_limit", limits.REFUSED)
            raise ValidationError(text, code="session_limit", params={"maximum": limit.maximum})
