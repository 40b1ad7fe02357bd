"""Who may see, end, block and deactivate whom: the rules as the pages of the admin and the JSON API ask them."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, cast

from django.contrib.admin.sites import AdminSite
from django.contrib.auth.models import AbstractBaseUser
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest

from django_redsess import online
from django_redsess.models import OnlineSession
from django_redsess.permissions import keeps_all_of, rules, unstored_session
from django_redsess.querysets import SessionQuerySet

if TYPE_CHECKING:
    from django_redsess.admin.sessions import OnlineSessionAdmin

CHECKED_MAX = 1000  # More sessions of a user, or of superusers, are not read one by one.


class Access:
    """
    What the administrator of ``request`` may do with sessions.

    ``admin`` is an ``OnlineSessionAdmin``. It asks the rules of the site. A subclass may have rules of its own.
    """

    def __init__(self, admin: OnlineSessionAdmin, request: HttpRequest) -> None:
        self.admin, self.request = admin, request

    @property
    def site(self) -> AdminSite:
        return self.admin.admin_site

    @property
    def own_sid(self) -> str | None:
        """The sid of the session that the request came with; None if another engine keeps it."""
        return getattr(self.request.session, "stored_sid", None)

    def sessions(self) -> SessionQuerySet:
        """Return the sessions of ``get_queryset()``: those that the administrator may see, without guests'."""
        return cast(SessionQuerySet, self.admin.get_queryset(self.request))

    @cached_property
    def _listed(self) -> SessionQuerySet:
        # Asked once: get_queryset() of a site may query a database. Nothing is read by this one.
        return self.sessions()

    def look_up(self, *sids: str) -> list[OnlineSession]:
        """Return those of the sessions ``sids`` that the administrator may see, guests' too."""
        found = self.sessions().with_guests().filter(sid__in=sids)
        return [session for session in found if self.may_see(session)]

    def may_see(self, session: OnlineSession | None = None) -> bool:
        """Tell whether the administrator may see ``session``. Without it: sessions at all."""
        return self.admin.has_view_permission(self.request, session)

    def may_end(self, session: OnlineSession | None = None) -> bool:
        """Tell whether the administrator may end ``session``. Without it: sessions at all."""
        return self.admin.has_end_permission(self.request, session)

    def may_end_other(self, session: OnlineSession) -> bool:
        """Tell whether the administrator may see and end ``session``, and is not working in it."""
        return self.may_see(session) and self.may_end(session) and session.sid != self.own_sid

    def may_end_everyones(self) -> bool:
        """Tell whether the administrator may end everyone else's sessions at once."""
        return self.admin.has_end_all_permission(self.request)

    def require_end(self) -> None:
        """Raise PermissionDenied if the administrator may not see and end sessions at all."""
        if not (self.may_end() and self.may_see()):
            raise PermissionDenied

    @property
    def ends_by_own_rule(self) -> bool:
        """Whether this site, or its admin of sessions, has its own rule for ending a session."""
        return self.admin.ends_by_own_rule or rules().ends_by_own_rule

    @property
    def asks_each(self) -> bool:
        """Whether a rule in Python is asked about each session of a long list."""
        # A script can't apply a subclass's rules for single sessions. It does apply what get_queryset() leaves out.
        return self.admin.ends_by_own_rule or self.admin.sees_by_own_rule or rules().asks_each

    def protected_users(self) -> list[str]:
        """Return the ids of users whose sessions the administrator may not end. A subclass's rule needs none."""
        return [] if self.admin.ends_by_own_rule else list(rules().protected_users(self.request.user))

    def are_everyones(self, matching: SessionQuerySet) -> bool:
        """Tell whether ``matching`` are all sessions that the administrator sees: no search and no filter."""
        # Guests may come with them.
        whole, asked = self._listed.session_filter, matching.session_filter
        same = asked._replace(guests=whole.guests) == whole and (asked.guests != "only" or whole.guests == "only")
        return same and matching.sids is None

    def may_end_new_of(self, user_id: str, user: AbstractBaseUser | None) -> bool:
        """
        Tell whether the administrator may see and end the sessions of a user that begin from now on.

        ``user`` is None for a deleted user. A rule that decides about a session is asked about one that is not stored.
        """
        # get_queryset() of a subclass may leave out some of them.
        if not keeps_all_of(self._listed, user_id):
            return False
        if not (self.asks_each or rules().ends_by_own_rule):
            return True
        session = unstored_session(user_id, user)
        return self.may_see(session) and self.may_end(session)

    def may_end_all_of(self, user: AbstractBaseUser) -> bool:
        """Tell whether the administrator may see and end all sessions of ``user``. Of more than 1 000: False."""
        user_id = online.user_id_of(user)
        if not self.may_end_new_of(user_id, user):
            return False
        if not self.asks_each:
            return True
        sessions = list(OnlineSession.online.of_users([user_id])[: CHECKED_MAX + 1])
        return len(sessions) <= CHECKED_MAX and all(
            self.may_see(session) and self.may_end(session) for session in sessions
        )


def access_to_sessions(request: HttpRequest, site: AdminSite) -> Access | None:
    """Return what the administrator may do by the admin of sessions in ``site``. None without it, or without a view."""
    admin = site._registry.get(OnlineSession)
    access = None if admin is None else Access(cast("OnlineSessionAdmin", admin), request)
    return access if access is not None and access.may_see() else None
