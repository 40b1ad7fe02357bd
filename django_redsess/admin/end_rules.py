"""Who may end which session in the admin."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from django.contrib import admin
from django.contrib.auth import get_user_model
from django.core.exceptions import FieldDoesNotExist, PermissionDenied
from django.http import HttpRequest
from django.utils.translation import gettext, gettext_lazy

from django_redsess import online
from django_redsess.admin.deactivating import may_deactivate
from django_redsess.admin.lists import ListAdmin
from django_redsess.models import OnlineSession
from django_redsess.online.queries import USERS_MAX

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser

    from django_redsess.querysets.sessions import SessionQuerySet

MISSING = {
    "end_onlinesession": gettext_lazy(
        "Ending sessions takes the permission “%(permission)s”. Ask an administrator for it."
    ),
    "end_all_onlinesession": gettext_lazy(
        "Ending everyone else's sessions takes the permission “%(permission)s”. Ask an administrator for it."
    ),
    "view_session_data": gettext_lazy(
        "Seeing the values takes the permission “%(permission)s”. Ask an administrator for it."
    ),
}

CHECKED_MAX = 1000
"""More sessions of a user, or of superusers, are not read one by one."""


class EndRulesMixin(ListAdmin):
    """The rules of ``OnlineSessionAdmin`` about which sessions an administrator may see and end."""

    def has_end_permission(self, request: HttpRequest, obj: OnlineSession | None = None) -> bool:
        """
        Tell whether the administrator may end sessions, or the session ``obj``. Only superusers end superusers' ones.

        A subclass may have another rule. It is asked about each session, which is slower for long lists.
        """
        may_end = request.user.has_perm("django_redsess.end_onlinesession")
        return may_end and (_is_superuser(request.user) or obj is None or not _is_superuser(obj.user))

    def has_end_all_permission(self, request: HttpRequest) -> bool:
        """Tell whether the administrator may end everyone else's sessions at once, and not only a part of the list."""
        may_end_all = request.user.has_perm("django_redsess.end_all_onlinesession")
        return may_end_all and self.has_end_permission(request)

    def sessions(self, request: HttpRequest) -> SessionQuerySet:
        """Return the sessions of ``get_queryset()``: those that the administrator may see, without guests'."""
        return cast("SessionQuerySet", self.get_queryset(request))

    def look_up(self, request: HttpRequest, *sids: str) -> list[OnlineSession]:
        """Return those of the sessions ``sids`` that the administrator may see, guests' too."""
        found = self.sessions(request).with_guests().filter(sid__in=sids)
        return [session for session in found if self.has_view_permission(request, session)]

    def _require_permission(self, request: HttpRequest) -> None:
        if not (self.has_end_permission(request) and self.has_view_permission(request)):
            raise PermissionDenied

    def _protected_user_ids(self, request: HttpRequest) -> list[str]:
        """Return the ids of superusers whose sessions the administrator may not end. A subclass's rule needs none."""
        if self._has_custom_rule or _is_superuser(request.user):
            return []
        try:
            get_user_model()._meta.get_field("is_superuser")
        except FieldDoesNotExist:
            return []
        users = get_user_model()._base_manager.filter(is_superuser=True).only("pk")
        found = [online.user_id_of(user) for user in users[: USERS_MAX + 1]]
        if len(found) > USERS_MAX:
            raise PermissionDenied(gettext("There are too many superusers to leave out: ask one of them."))
        return found

    def _to_deactivate(self, request: HttpRequest, user_id: str) -> AbstractBaseUser | None:
        """Return the user whose account the administrator may deactivate, and all of whose sessions they may end."""
        user = may_deactivate(request, self.admin_site, user_id)
        return user if user is not None and self._may_end_all_of(request, online.user_id_of(user)) else None

    def _may_end_all_of(self, request: HttpRequest, user_id: str) -> bool:
        all_of_user = OnlineSession.online.of_users([user_id])
        visible = self.sessions(request).of_users([user_id])
        # get_queryset() of a subclass may leave out some of them.
        if visible.sids is not None or visible.session_filter != all_of_user.session_filter:
            return False
        if not self._asks_each:
            return True
        sessions = list(all_of_user[: CHECKED_MAX + 1])
        return len(sessions) <= CHECKED_MAX and all(
            self.has_view_permission(request, session) and self.has_end_permission(request, session)
            for session in sessions
        )

    @property
    def _has_custom_rule(self) -> bool:
        return type(self).has_end_permission is not EndRulesMixin.has_end_permission

    @property
    def _asks_each(self) -> bool:
        # A script can't apply a subclass's rules for single sessions. It does apply what get_queryset() leaves out.
        return self._has_custom_rule or type(self).has_view_permission is not admin.ModelAdmin.has_view_permission

    def _are_everyones(self, request: HttpRequest, matching: SessionQuerySet) -> bool:
        # No search and no filter leaves out users. Guests may come with them.
        whole, asked = self.sessions(request).session_filter, matching.session_filter
        same = asked._replace(guests=whole.guests) == whole and (asked.guests != "only" or whole.guests == "only")
        return same and matching.sids is None

    def _may_end_other(self, request: HttpRequest, session: OnlineSession) -> bool:
        may = self.has_view_permission(request, session) and self.has_end_permission(request, session)
        return may and session.sid != own_sid_of(request)

    def _own_among(self, request: HttpRequest, matching: SessionQuerySet) -> list[OnlineSession]:
        # The administrator's own session was seen just now: any filter by time includes it.
        own, user_ids = self.look_up(request, own_sid_of(request) or ""), matching.session_filter.user_ids
        if matching.session_filter.guests == "only":
            return []
        if (found := matching.found_sids) is not None:
            return [session for session in own if session.sid in found]
        if matching.session_filter.names_client:
            return own if matching.filter(sid=own_sid_of(request)).exists() else []
        return [session for session in own if user_ids is None or session.user_id in user_ids]

    def _count_protected(self, request: HttpRequest, matching: SessionQuerySet) -> int:
        """Count the sessions of superusers among those that match, if the administrator may not end them."""
        superusers, session_filter = self._protected_user_ids(request), matching.session_filter
        if session_filter.user_ids is not None:
            superusers = [user_id for user_id in superusers if user_id in session_filter.user_ids]
        if not superusers or session_filter.guests == "only":
            return 0
        if (found := matching.found_sids) is not None:
            of_them = OnlineSession.online.of_users(superusers)
            # Reading all that a search has found takes half a second. Superusers usually have fewer sessions.
            if of_them.count() <= CHECKED_MAX:
                found_sids = set(found)
                return sum(session.sid in found_sids for session in of_them)
            return sum(session.user_id in superusers for session in matching)
        of_superusers = session_filter._replace(user_ids=tuple(superusers), guests=False)
        return online.count(**of_superusers._asdict())


def missing(codename: str) -> str:
    """Return a sentence for an administrator who lacks this permission: what it is for, its name, and who gives it."""
    return str(MISSING[codename]) % {"permission": dict(OnlineSession._meta.permissions)[codename]}


def own_sid_of(request: HttpRequest) -> str | None:
    """Return the sid of the session that ``request`` came with; None if another engine keeps it."""
    return getattr(request.session, "stored_sid", None)


def _is_superuser(user: object) -> bool:
    return bool(getattr(user, "is_superuser", False))
