"""The model that the admin shows. It has no table: its rows are read from Redis."""

from __future__ import annotations

from dataclasses import asdict
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
    """A session in which somebody is signed in. ``OnlineSession.online`` lists them."""

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

    class Meta:
        managed = False
        verbose_name = _("online session")
        verbose_name_plural = _("online sessions")
        base_manager_name = default_manager_name = "none"
        default_permissions = ("view",)
        permissions = (("end_onlinesession", _("Can end online sessions")),)

    def __str__(self) -> str:
        return str(self.user) if self.user is not None else str(_("deleted user %s") % self.user_id)

    @classmethod
    def of(cls, session: online_sessions.Session, user: AbstractBaseUser | None) -> OnlineSession:
        """Make the row of ``session``, whose user is ``user`` (None when it was deleted)."""
        row = cls(**asdict(session))
        row.user = user
        row._state.adding = False
        return row
