"""The rights of an administrator over sessions and users: the pages of the admin and the JSON API ask this module."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, cast

from django.contrib import admin
from django.contrib.admin.sites import AdminSite
from django.contrib.auth import get_user_model
from django.contrib.auth.models import AbstractBaseUser
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest

from django_redsess.models import OnlineSession
from django_redsess.permissions import keeps_all_of, rules, unstored_session
from django_redsess.querysets import SessionQuerySet, users_by_id
from django_redsess.session.store import user_id_of

if TYPE_CHECKING:
    from django_redsess.admin.sessions import OnlineSessionAdmin

CHECKED_MAX = 1000  # If a user, or superusers, have more sessions, these are not read one by one.


class Noted(Protocol):
    """A block, or a sign-in of the past, with an internal note about its user."""

    @property
    def user_id(self) -> str: ...

    @property
    def internal_note(self) -> str: ...


class Access:
    """
    What the administrator of ``request`` may do with sessions.

    ``admin`` is an ``OnlineSessionAdmin``, which asks the rules of the site, or a subclass with its own rules.
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
        """Return the signed-in sessions that the administrator may see, by ``get_queryset()``."""
        return cast(SessionQuerySet, self.admin.get_queryset(self.request))

    @cached_property
    def _listed(self) -> SessionQuerySet:
        # Only its conditions are used. They are asked for once: get_queryset() of a site may query a database.
        return self.sessions()

    def look_up(self, *sids: str) -> list[OnlineSession]:
        """Return the sessions with these ``sids`` that the administrator may see, guests' sessions too."""
        found = self.sessions().with_guests().filter(sid__in=sids)
        return [session for session in found if self.may_see(session)]

    def may_see(self, session: OnlineSession | None = None) -> bool:
        """Tell whether the administrator may see ``session``; for None, whether they may see any sessions."""
        return self.admin.has_view_permission(self.request, session)

    def may_end(self, session: OnlineSession | None = None) -> bool:
        """Tell whether the administrator may end ``session``; for None, whether they may end any sessions."""
        return self.admin.has_end_permission(self.request, session)

    def may_end_other(self, session: OnlineSession) -> bool:
        """Tell whether the administrator may see and end ``session``, and it is not the present one."""
        return self.may_see(session) and self.may_end(session) and session.sid != self.own_sid

    def may_end_all(self) -> bool:
        """Tell whether the administrator may end everyone else's sessions at once."""
        return self.admin.has_end_all_permission(self.request)

    def require_end(self) -> None:
        """Raise PermissionDenied unless the administrator may see and end sessions."""
        if not (self.may_end() and self.may_see()):
            raise PermissionDenied

    @property
    def ends_by_own_rule(self) -> bool:
        """Whether this site, or its admin of sessions, has its own rule for ending a session."""
        return self.admin.ends_by_own_rule or rules().ends_by_own_rule

    @property
    def asks_each(self) -> bool:
        """Whether a rule in Python is asked about each session of a long list."""
        # A script applies the conditions of get_queryset(). It can't apply a rule in Python.
        return self.admin.ends_by_own_rule or self.admin.sees_by_own_rule or rules().asks_each

    def protected_user_ids(self) -> list[str]:
        """Return the ids of users whose sessions the administrator may not end: none if a subclass has its own rule."""
        return [] if self.admin.ends_by_own_rule else list(rules().protected_user_ids(self.request.user))

    def are_everyones(self, matching: SessionQuerySet) -> bool:
        """Tell whether ``matching`` has no search and no filter, except that guests may be included."""
        whole, asked = self._listed.session_filter, matching.session_filter
        same = asked._replace(guests=whole.guests) == whole and (asked.guests != "only" or whole.guests == "only")
        return same and matching.sids is None

    def may_end_new_of(self, user_id: str, user: AbstractBaseUser | None) -> bool:
        """
        Tell whether the administrator may see and end the sessions of a user that begin from now on.

        ``user`` is None for a deleted user. A rule that decides about a session is asked about one that is not stored.
        """
        # get_queryset() of a subclass may leave out some sessions of the user.
        if not keeps_all_of(self._listed, user_id):
            return False
        if not (self.asks_each or rules().ends_by_own_rule):
            return True
        session = unstored_session(user_id, user)
        return self.may_see(session) and self.may_end(session)

    def may_end_all_of(self, user: AbstractBaseUser) -> bool:
        """
        Tell whether the administrator may see and end all sessions of ``user``.

        False if more than 1 000 sessions would have to be checked one by one.
        """
        user_id = user_id_of(user)
        if not self.may_end_new_of(user_id, user):
            return False
        if not self.asks_each:
            return True
        sessions = list(OnlineSession.online.of_users([user_id])[: CHECKED_MAX + 1])
        return len(sessions) <= CHECKED_MAX and all(
            self.may_see(session) and self.may_end(session) for session in sessions
        )

    def readable_note(self, noted: Noted, author_id: str, user: AbstractBaseUser | None) -> str:
        """
        Return the internal note of ``noted``, about ``user``; ``""`` if the administrator may not read it.

        ``author_id`` is the primary key, as text, of who has written it.

        Who may write such a note may read it: who may see and end all sessions of ``user``. Nobody reads what others
        have noted about them.
        """
        if not noted.internal_note or user is None or not keeps_all_of(self._listed, noted.user_id):
            return ""
        if noted.user_id == user_id_of(cast(AbstractBaseUser, self.request.user)) != author_id:
            return ""
        session = unstored_session(noted.user_id, user)
        may_read = self.may_see() and self.may_end() and self.may_see(session) and self.may_end(session)
        return noted.internal_note if may_read else ""


def access_to_sessions(request: HttpRequest, site: AdminSite) -> Access | None:
    """Return the access by the admin of sessions in ``site``; None if there is none, or it shows no sessions."""
    admin = site._registry.get(OnlineSession)
    access = None if admin is None else Access(cast("OnlineSessionAdmin", admin), request)
    return access if access is not None and access.may_see() else None


def users_admin(request: HttpRequest, site: AdminSite) -> admin.ModelAdmin[Any] | None:
    """Return the admin of users in ``site``, or None if the administrator may not see users there."""
    found = site._registry.get(get_user_model())
    return found if found is not None and found.has_view_or_change_permission(request) else None


def visible_users(request: HttpRequest, site: AdminSite, user_ids: set[str]) -> dict[str, AbstractBaseUser]:
    """Fetch the users with these primary keys whom the administrator may see in the admin of users."""
    of_users = users_admin(request, site)
    if of_users is None:
        return {}
    users = users_by_id(user_ids, among=of_users.get_queryset(request))
    return {key: user for key, user in users.items() if of_users.has_view_or_change_permission(request, user)}


def hidden_users(
    request: HttpRequest, site: AdminSite, user_ids: set[str], users: Mapping[str, AbstractBaseUser]
) -> set[str]:
    """
    Return which of ``user_ids`` a rule in the admin of users hides from the administrator.

    A rule is its own ``get_queryset()``, or, for administrators who may see users, the permission to see a single user.
    ``users`` are the users who exist, by primary key.
    """
    of_users = site._registry.get(get_user_model())
    if of_users is None:
        return set()
    shown = user_ids
    if leaves_out_users(of_users):
        shown = set(users_by_id(user_ids, among=of_users.get_queryset(request)))
    if of_users.has_view_or_change_permission(request):
        may_see = of_users.has_view_or_change_permission
        shown = {each for each in shown if each not in users or may_see(request, users[each])}
    return user_ids - shown


def leaves_out_users(of_users: admin.ModelAdmin[Any]) -> bool:
    """Tell whether the admin of users may hide users by a ``get_queryset()`` of its own."""
    return type(of_users).get_queryset is not admin.ModelAdmin.get_queryset


def named_users(request: HttpRequest, site: AdminSite, user_ids: set[str]) -> dict[str, AbstractBaseUser]:
    """
    Fetch the users with these primary keys whose names the administrator reads on our pages.

    A user whom a rule hides is left out: see :func:`hidden_users`. Administrators who may not open the admin of users
    read names nevertheless, as in the list of sessions: a support team needs them.
    """
    users = users_by_id(user_ids)
    hidden = hidden_users(request, site, user_ids, users)
    return {key: user for key, user in users.items() if key not in hidden}


def may_change_users(request: HttpRequest, site: AdminSite) -> bool:
    """Tell whether the administrator may change users in ``site``, though perhaps not each of them."""
    users = site._registry.get(get_user_model())
    return users is not None and users.has_change_permission(request)


def user_to_deactivate(access: Access, user_id: str) -> AbstractBaseUser | None:
    """
    Return the user with this primary key if the administrator may deactivate the account, else None.

    The rules of this site have to allow it, the user's page has to let them change "active", and they have to be
    allowed to end all sessions of the user.
    """
    request, users = access.request, access.site._registry.get(get_user_model())
    user: Any = users.get_object(request, user_id) if users is not None else None
    if users is None or user is None or not rules().may_deactivate(request.user, user):
        return None
    if not users.has_change_permission(request, user):
        return None
    # The form leaves out fields that are read-only or hidden for this administrator.
    form = users.get_form(request, user, change=True)
    return user if "is_active" in form.base_fields and access.may_end_all_of(user) else None
