"""The rules of the site as the admin's pages of sessions ask them: who may see, end, block and deactivate whom."""

from __future__ import annotations

from typing import cast

from django.contrib.auth.models import AbstractBaseUser
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest

from django_redsess import online
from django_redsess.admin import blocking, pages
from django_redsess.admin.users import user_to_deactivate
from django_redsess.models import OnlineSession
from django_redsess.permissions import rules
from django_redsess.querysets import SessionQuerySet

CHECKED_MAX = 1000  # More sessions of a user, or of superusers, are not read one by one.


class RulesAdmin(pages.ListAdmin):
    """The part of ``OnlineSessionAdmin`` that asks the rules of this site, or what a subclass has in their place."""

    def has_module_permission(self, request: HttpRequest) -> bool:
        return super().has_module_permission(request) or self.has_view_permission(request)

    def has_view_permission(self, request: HttpRequest, obj: OnlineSession | None = None) -> bool:
        """Tell whether the administrator may see sessions, or the session ``obj``, by the rules of this site."""
        return rules().may_see(request.user, obj)

    def has_end_permission(self, request: HttpRequest, obj: OnlineSession | None = None) -> bool:
        """
        Tell whether the administrator may end sessions, or the session ``obj``, by the rules of this site.

        A subclass may have another rule for its pages. It is asked about each session, which is slower for long lists.
        """
        return rules().may_end(request.user, obj)

    def has_end_all_permission(self, request: HttpRequest) -> bool:
        """Tell whether the administrator may end everyone else's sessions at once, and not only a part of the list."""
        return rules().may_end_everyones(request.user) and self.has_end_permission(request)

    @property
    def _has_own_rule(self) -> bool:
        return type(self).has_end_permission is not RulesAdmin.has_end_permission

    @property
    def _has_custom_rule(self) -> bool:
        return self._has_own_rule or rules().ends_by_own_rule

    @property
    def asks_each(self) -> bool:
        """Whether rules of the site's own are asked about each session."""
        # A script can't apply a subclass's rules for single sessions. It does apply what get_queryset() leaves out.
        sees_by_each = type(self).has_view_permission is not RulesAdmin.has_view_permission
        return self._has_own_rule or sees_by_each or rules().asks_each

    def sessions(self, request: HttpRequest) -> SessionQuerySet:
        """Return the sessions of ``get_queryset()``: those that the administrator may see, without guests'."""
        return cast(SessionQuerySet, self.get_queryset(request))

    def look_up(self, request: HttpRequest, *sids: str) -> list[OnlineSession]:
        """Return those of the sessions ``sids`` that the administrator may see, guests' too."""
        found = self.sessions(request).with_guests().filter(sid__in=sids)
        return [session for session in found if self.has_view_permission(request, session)]

    def _require_permission(self, request: HttpRequest) -> None:
        if not (self.has_end_permission(request) and self.has_view_permission(request)):
            raise PermissionDenied

    def _protected_user_ids(self, request: HttpRequest) -> list[str]:
        """Return the ids of users whose sessions the administrator may not end. A subclass's rule needs none."""
        return [] if self._has_own_rule else list(rules().protected_users(request.user))

    def _may_end_other(self, request: HttpRequest, session: OnlineSession) -> bool:
        may = self.has_view_permission(request, session) and self.has_end_permission(request, session)
        return may and session.sid != pages.own_sid_of(request)

    def _are_everyones(self, request: HttpRequest, matching: SessionQuerySet) -> bool:
        # No search and no filter leaves out users. Guests may come with them.
        whole, asked = self.sessions(request).session_filter, matching.session_filter
        same = asked._replace(guests=whole.guests) == whole and (asked.guests != "only" or whole.guests == "only")
        return same and matching.sids is None

    def _to_deactivate(self, request: HttpRequest, user_id: str) -> AbstractBaseUser | None:
        """Return the user whose account the administrator may deactivate, and all of whose sessions they may end."""
        user = user_to_deactivate(request, self.admin_site, user_id)
        return user if user is not None and self._may_end_all_of(request, user) else None

    def to_block(self, request: HttpRequest, user_id: str) -> AbstractBaseUser | None:
        """Return the user whom the administrator may block, and all of whose sessions they may end."""
        user = blocking.user_to_block(request, self, user_id)
        return user if user is not None and self._may_end_all_of(request, user) else None

    def _may_end_all_of(self, request: HttpRequest, user: AbstractBaseUser) -> bool:
        user_id = online.user_id_of(user)
        if not blocking.rule_for_sessions(request, self)(user_id, user):
            return False
        if not self.asks_each:
            return True
        sessions = list(OnlineSession.online.of_users([user_id])[: CHECKED_MAX + 1])
        return len(sessions) <= CHECKED_MAX and all(
            self.has_view_permission(request, session) and self.has_end_permission(request, session)
            for session in sessions
        )
