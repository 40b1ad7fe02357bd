"""The models of the admin pages. They have no tables: their rows are read from Redis. Public."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.base_user import AbstractBaseUser
from django.db import models
from django.utils.functional import cached_property
from django.utils.translation import gettext_lazy as _

from django_redsess import online as online_sessions
from django_redsess import viewed as viewed_items
from django_redsess.backend import require_app
from django_redsess.querysets import RankingQuerySet, SessionQuerySet, key_of, visible

__all__ = ["OnlineSession", "PopularItem"]

# Otherwise Django says that the model has no app_label.
require_app()


class _NoRows(models.Manager[Any]):
    """A manager without rows, for code that reads every model from the database, such as ``dumpdata``."""

    def get_queryset(self) -> models.QuerySet[Any]:
        return super().get_queryset().none()


class OnlineSession(models.Model):
    """A live session. The manager ``OnlineSession.online`` lists the signed-in sessions."""

    sid = models.CharField(_("session"), max_length=20, primary_key=True)
    user_id = models.TextField(_("user"))
    created_at = models.DateTimeField(_("signed in"), null=True)
    last_seen_at = models.DateTimeField(_("last seen"))
    expires_at = models.DateTimeField(_("expires"))
    address = models.TextField(_("address"))
    user_agent = models.TextField(_("user agent"))

    none = _NoRows()
    online = models.Manager.from_queryset(SessionQuerySet)()

    user: AbstractBaseUser | None
    session: online_sessions.Session
    is_own = links_user = False
    page: Any = None
    """The data of the page of this session."""
    described = ""
    """Browser and address, which tell it apart from other sessions of the same user in a list."""
    place = ""
    """The place of its address as text, if a page shows it."""
    end_url = ""
    """The page that asks whether to end it, for an administrator who may."""
    newest: Any = None
    """The name and the page of the item that was viewed last, if a list shows it."""
    shows_newest_below = False

    class Meta:
        managed = False
        verbose_name = _("online session")
        verbose_name_plural = _("online sessions")
        base_manager_name = default_manager_name = "none"
        default_permissions = ("view",)
        permissions = (
            ("end_onlinesession", _("Can end online sessions")),
            ("end_all_onlinesession", _("Can end everyone else's online sessions at once")),
            ("block_user", _("Can block users for a time")),
            ("export_onlinesession", _("Can export online sessions")),
            ("view_session_data", _("Can view the data of online sessions")),
        )

    def __str__(self) -> str:
        if self.user is not None:
            return str(self.user)
        return str(_("deleted user %s") % self.user_id) if self.user_id else str(_("guest"))

    @classmethod
    def of(cls, session: online_sessions.Session, user: AbstractBaseUser | None) -> OnlineSession:
        """Return the row of ``session``. ``user`` is None for a guest, and for a deleted user."""
        row = cls(**{field.attname: getattr(session, field.attname) for field in cls._meta.concrete_fields})
        row.user, row.session = user, session
        row._state.adding = False
        return row


class PopularItem(models.Model):
    """An item that was viewed. The manager ``PopularItem.viewed`` lists the items, the most viewed first."""

    item = models.CharField(_("item"), max_length=64, primary_key=True)
    views = models.PositiveBigIntegerField(_("views"))

    none = _NoRows()
    viewed = models.Manager.from_queryset(RankingQuerySet)()

    share: float
    """The item's share of all views, from 0 to 1."""
    of_most: float
    """Its views as a part of those of the most viewed item, from 0 to 1."""
    object: Any = None
    """The item's object, if ``RankingQuerySet.resolving()`` found one."""

    class Meta:
        managed = False
        verbose_name = _("most viewed item")
        verbose_name_plural = _("most viewed items")
        base_manager_name = default_manager_name = "none"
        default_permissions = ("view",)
        permissions = (("reset_popularitem", _("Can reset the views of items")),)

    def __str__(self) -> str:
        return visible(self.item)

    @property
    def pk(self) -> str:  # Django's own pk is a property, too.
        """The item as a form can carry it."""
        return key_of(self.item)

    @cached_property
    def rank(self) -> int:
        """The item's rank among all items. The most viewed has rank 1. Items with equal views share a rank."""
        return viewed_items.rank(self.views)

    @classmethod
    def of(cls, entry: viewed_items.ViewCount, *, of_views: int, most: int, thing: Any = None) -> PopularItem:
        """
        Return the row of ``entry``. ``thing`` is the item's object.

        ``of_views`` is the number of all views, ``most`` that of the most viewed item.
        """
        row = cls(item=entry.item, views=entry.views)
        # The others were counted earlier. By now this item may have more views.
        row.share, row.of_most = entry.views / max(of_views, entry.views), entry.views / max(most, entry.views)
        row.object = thing
        row._state.adding = False
        return row
