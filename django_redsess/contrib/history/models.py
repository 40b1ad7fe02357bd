"""The row of a sign-in, and the copy of a block. Public."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import models, router
from django.utils.translation import gettext_lazy as _

from django_redsess.signals import Reason
from django_redsess.times import to_aware
from django_redsess.user_messages import STORED_MAX

__all__ = ["BlockCopy", "SignIn"]

SIGNED_IN_AGAIN = "again"
"""In place of a reason: the session continues as the session of a later sign-in of its user."""

REASONS = {
    Reason.LOGOUT: _("signed out"),
    Reason.INVALIDATED: _("ended by the site"),
    Reason.EXPIRED: _("expired"),
    Reason.EVICTED: _("ended for lack of room"),
    Reason.KICKED: _("ended by somebody"),
    Reason.REPLACED: _("ended by another sign-in"),
    SIGNED_IN_AGAIN: _("signed in again"),
}

STAFF, USER_HERE, USER_ELSEWHERE, NOBODY = "staff", "user_here", "user_elsewhere", "nobody"

WHO_ENDED: Mapping[str, Any] = {
    STAFF: _("ended by staff"),
    USER_HERE: _("signed out by the user"),
    USER_ELSEWHERE: _("ended by the user, on another device"),
    NOBODY: _("ended by time, a limit or the site"),
}
"""Who ended a session. Staff is anybody but its user."""


def who_ended(user_id: str, reason: str, by: str) -> str:
    """
    Return who ended a session of the user, one of ``WHO_ENDED``; ``""`` if the reason is not known.

    ``user_id`` and ``by`` are primary keys as text, and ``by`` is ``""`` if no request of a user ended it.
    """
    if reason == Reason.LOGOUT:
        return USER_HERE
    if not by:
        return NOBODY if reason else ""
    return USER_ELSEWHERE if by == user_id else STAFF


def delete_with_user(collector: Any, field: Any, rows: Any, using: str) -> None:
    """
    Delete the ``rows`` of a deleted user: the function for Django's ``on_delete``.

    If the rows are in another database than the user,
    :func:`~django_redsess.contrib.history.receivers.delete_rows_of_user` deletes them. Django would look for them in
    the user's database.
    """
    if router.db_for_write(field.model) == using:
        models.CASCADE(collector, field, rows, using)


# Otherwise Django reads the rows before it calls this.
delete_with_user.lazy_sub_objs = True  # type: ignore[attr-defined]


class SignIn(models.Model):
    """
    A sign-in, and what became of its session.

    ``login_ms`` is its time in milliseconds since 1970, by the clock of the session store. With the user, it identifies
    the sign-in: a session that gets another key keeps both. ``ended_at`` is None while the session lives. If
    ``ended_at_is_approximate`` is set, the end was noticed later, and ``reason`` is not known. ``ended_by`` is the
    primary key of the user who ended it, and ``who_ended`` tells staff from the session's user: see ``WHO_ENDED``.
    ``stored_message`` is that of :class:`django_redsess.signals.EndedSession`: a code, own words, or both.
    ``internal_note`` is what that user has written for administrators. ``address_score`` orders addresses, so that each
    network is a range. ``client`` names browser and system. ``device_cookie`` is a hash of the device's cookie, and
    ``is_new_device`` tells whether the user had not signed in on it before. ``is_notified`` is set if the user gets a
    mail about it.

    ``unproven_at``, ``unproven_address`` and ``unproven_user_agent`` are of the last request that used the session
    without the proof of its device, and ``unproven_refused`` tells whether it was refused. ``unproven_notified_at`` is
    when the user got a mail about one.
    """

    # No constraint: a row may be written just after its user was deleted. The unique index serves the lookups by user.
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, delete_with_user, db_constraint=False, db_index=False, verbose_name=_("user")
    )
    login_ms = models.BigIntegerField(_("signed in"))
    last_seen_at = models.DateTimeField(_("last seen"), null=True)
    ended_at = models.DateTimeField(_("ended"), null=True)
    ended_at_is_approximate = models.BooleanField(_("the end is not exact"), default=False)
    reason = models.CharField(
        _("reason"), max_length=12, choices=[(str(reason), text) for reason, text in REASONS.items()], blank=True
    )
    ended_by = models.CharField(_("ended by"), max_length=255, blank=True)
    who_ended = models.CharField(max_length=14, blank=True)
    stored_message = models.CharField(_("message"), max_length=STORED_MAX, blank=True)
    address = models.CharField(_("address"), max_length=45, blank=True)
    address_score = models.BigIntegerField(null=True)
    client = models.CharField(_("device"), max_length=64, blank=True)
    user_agent = models.CharField(_("user agent"), max_length=256, blank=True)
    device_cookie = models.CharField(max_length=16, blank=True)
    is_new_device = models.BooleanField(_("new device"), null=True)
    is_notified = models.BooleanField(default=False)
    unproven_at = models.DateTimeField(_("without proof"), null=True)
    unproven_address = models.CharField(max_length=45, blank=True, default="", db_default="")
    unproven_user_agent = models.CharField(max_length=256, blank=True, default="", db_default="")
    unproven_refused = models.BooleanField(null=True)
    unproven_notified_at = models.DateTimeField(null=True)
    internal_note = models.CharField(_("internal note"), max_length=200, blank=True, default="", db_default="")

    class Meta:
        verbose_name = _("sign-in")
        verbose_name_plural = _("sign-ins")
        default_permissions = ("view",)
        permissions = (("export_signin", _("Can export sign-ins")),)
        constraints = (models.UniqueConstraint(fields=("user", "login_ms"), name="redsess_sign_in"),)
        indexes = (
            models.Index(fields=("-login_ms", "-id"), name="redsess_sign_in_time"),
            models.Index(fields=("address_score", "-login_ms"), name="redsess_sign_in_address"),
            models.Index(fields=("reason", "-login_ms", "-id"), name="redsess_sign_in_reason"),
            models.Index(fields=("who_ended", "-login_ms", "-id"), name="redsess_sign_in_who_ended"),
            models.Index(fields=("ended_by", "who_ended", "-login_ms", "-id"), name="redsess_sign_in_ended_by"),
            models.Index(fields=("client", "-login_ms", "-id"), name="redsess_sign_in_client"),
            models.Index(fields=("login_ms",), name="redsess_sign_in_open", condition=models.Q(ended_at__isnull=True)),
            models.Index(
                fields=("-login_ms", "-id"), name="redsess_sign_in_new", condition=models.Q(is_new_device=True)
            ),
            models.Index(
                fields=("-login_ms", "-id"),
                name="redsess_sign_in_unproven",
                condition=models.Q(unproven_at__isnull=False),
            ),
        )

    title = ""
    """The title of its page in the admin, with the name of the user. Not stored."""

    def __str__(self) -> str:
        # Where rows stand below their user, as before the user is deleted, the key would say nothing to the reader.
        return self.title or f"{self.created_at:%Y-%m-%d %H:%M:%S %Z}"

    @property
    def created_at(self) -> datetime:
        """When the user signed in: an aware datetime."""
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=self.login_ms)


class BlockCopy(models.Model):
    """
    A copy of a block: see :func:`django_redsess.online.block`. The server may forget the block, as after a failover.

    The fields are those of :class:`django_redsess.online.Block`.
    """

    user = models.OneToOneField(settings.AUTH_USER_MODEL, delete_with_user, db_constraint=False, primary_key=True)
    until = models.DateTimeField(db_index=True)
    stored_message = models.CharField(max_length=STORED_MAX, blank=True)
    by = models.CharField(max_length=255, blank=True)
    internal_note = models.CharField(max_length=200, blank=True, default="", db_default="")

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return f"{to_aware(self.until):%Y-%m-%d %H:%M:%S %Z}"
