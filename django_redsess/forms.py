"""A form to sign in with that knows of the limit of sessions. Public."""

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
    Django's form to sign in, with an error for who has as many sessions as are allowed, where another is refused.

    So people read that in the form, and keep what they had as guests. It only asks beforehand: of two who sign in at
    the same moment, ``login()`` may still refuse one.

    A form that is derived from it may have its own words in ``error_messages["session_limit"]``; they get ``maximum``.
    For the admin: ``class AdminForm(SessionLimitAuthenticationForm, AdminAuthenticationForm)``, and its class as
    ``login_form`` of the admin site.
    """

    def confirm_login_allowed(self, user: AbstractBaseUser) -> None:
        """Raise ValidationError with the code ``session_limit``, besides what Django's form raises."""
        super().confirm_login_allowed(user)  # type: ignore[arg-type]
        limit = limits.limit_of(user)
        if limit is None or limit.policy != limits.REFUSE:
            return
        user_id = online.user_id_of(user)
        session: Any = getattr(self.request, "session", {})
        # Who signs in again in the same session needs no other.
        own = str(session.get(SESSION_KEY)) == user_id
        if not own and online.count(user_ids=[user_id]) >= limit.maximum:
            # Beside another form, whose messages go before ours or not.
            text = self.error_messages.get("session_limit", limits.REFUSED)
            raise ValidationError(text, code="session_limit", params={"maximum": limit.maximum})
