"""The model that the admin shows. It has no table: its rows are read from Redis."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db import models
from django.utils.translation import gettext_lazy as _

from django_redsess.queryset import SessionQuerySet

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser

    from django_redsess import online as online_sessions


class _NoRows(models.Manager["OnlineSession"]):
    """For all that asks every model for its rows, such as ``dumpdata``: there are none in the database."""

    def get_queryset(self) -> models.QuerySet[OnlineSession]:
        return super().get_queryset().none()


class OnlineSession(models.Model):
    """A session. ``OnlineSession.online`` lists those in which somebody is signed in."""

    sid = models.CharField(_("session"), max_length=20, primary_key=True)
    user_id = models.TextField(_("user"))
    login_at = models.DateTimeField(_("signed in"), null=True)
    seen_at = models.DateTimeField(_("last seen"))
    expires_at = models.DateTimeField(_("expires"))
    address = models.TextField(_("address"))
    user_agent = models.TextField(_("user agent"))

    none = _NoRows()
    online = models.Manager.from_queryset(SessionQuerySet)()

    user: AbstractBaseUser | None
    session: online_sessions.Session
    is_own = links_user = False
    shows_values = False
    details: online_sessions.Details | None = None

    class Meta:
        managed = False
        verbose_name = _("online session")
        verbose_name_plural = _("online sessions")
        base_manager_name = default_manager_name = "none"
        default_permissions = ("view",)
        permissions = (
            ("end_onlinesession", _("Can end online sessions")),
            ("view_session_data", _("Can view the data of online sessions")),
        )

    def __str__(self) -> str:
        if self.user is not None:
            return str(self.user)
        return str(_("deleted user %s") % self.user_id) if self.user_id else str(_("guest"))

    @classmethod
    def of(cls, session: online_sessions.Session, user: AbstractBaseUser | None) -> OnlineSession:
        """Make the row of ``session``, whose user is ``user`` (None for a guest, and when it was deleted)."""
        row = cls(**{field.attname: getattr(session, field.attname) for field in cls._meta.concrete_fields})
        row.user, row.session = user, session
        row._state.adding = False
        return row
