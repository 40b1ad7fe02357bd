"""
Who may see, end, block and deactivate whom. Public: ``Rules``, ``rules()``.

The pages of the admin and the JSON API ask the class that ``REDSESS["PERMISSIONS"]`` names: see :func:`rules`. For
users' own sessions, see :func:`is_own_session`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from functools import cache
from typing import TYPE_CHECKING, Any

from django.contrib.auth import get_permission_codename, get_user_model
from django.contrib.auth.base_user import AbstractBaseUser
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.utils.module_loading import import_string
from django.utils.translation import gettext

from django_redsess import online
from django_redsess.conf import conf
from django_redsess.models import OnlineSession
from django_redsess.online.blocking import LONGEST, LONGEST_OF_OTHERS
from django_redsess.online.labels import known_server_time
from django_redsess.online.listing import USERS_MAX
from django_redsess.querysets import SessionQuerySet
from django_redsess.session.store import user_id_of

if TYPE_CHECKING:
    # A site may have users of its own, without the app of these.
    from django.contrib.auth.models import AnonymousUser, PermissionsMixin

    Administrator = PermissionsMixin | AnonymousUser

__all__ = ["Rules", "rules"]


class Rules:
    """
    The rules for administrators. :confval:`PERMISSIONS` names a site's own class, which derives from this one.

    The class is instantiated without arguments, once per process. In each method, ``user`` is the administrator. The
    other argument is the session or the user in question. With None, the method tells whether the administrator may do
    this at all, though perhaps not to each session or user.
    """

    def may_see(self, user: Administrator, session: OnlineSession | None = None) -> bool:
        """Tell whether ``user`` may see sessions, or ``session``. Ours asks for ``view_onlinesession``."""
        return user.has_perm("django_redsess.view_onlinesession")

    def visible_sessions(self, user: Administrator, sessions: SessionQuerySet) -> SessionQuerySet:
        """
        Return those of ``sessions`` that ``user`` may see. Ours returns all.

        The store applies this condition to lists, searches, counts and ends. ``may_see`` is called for each session
        instead; the JSON API calls it for lists and counts, too.
        """
        return sessions

    def may_export(self, user: Administrator) -> bool:
        """Tell whether ``user`` may export the list of sessions. Ours asks for ``export_onlinesession``."""
        return self.may_see(user) and user.has_perm("django_redsess.export_onlinesession")

    def may_see_data(self, user: Administrator, session: OnlineSession | None = None) -> bool:
        """Tell whether ``user`` may see the values in ``session``. Ours asks for ``view_session_data``."""
        return user.has_perm("django_redsess.view_session_data")

    def may_end(self, user: Administrator, session: OnlineSession | None = None) -> bool:
        """
        Tell whether ``user`` may end sessions, or ``session``.

        Ours asks for ``end_onlinesession``. A superuser's session is ended by superusers only.
        """
        may_end = user.has_perm("django_redsess.end_onlinesession")
        return may_end and (session is None or is_superuser(user) or not is_superuser(session.user))

    def protected_user_ids(self, user: Administrator) -> Sequence[str]:
        """
        Return the primary keys, as text, of the users whose sessions ``user`` may not end: at most 1 000.

        The store applies this condition to long lists, in place of ``may_end``. Ours returns the superusers. In a
        subclass with its own ``may_end``, it returns none, and ``may_end`` is called for each session of a list. If the
        subclass has both, ``may_end`` is called for single sessions only: both methods must agree.
        """
        if self.ends_by_own_rule or is_superuser(user) or not users_have("is_superuser"):
            return []
        users = get_user_model()._base_manager.filter(is_superuser=True).only("pk")
        found = [user_id_of(user) for user in users[: USERS_MAX + 1]]
        if len(found) > USERS_MAX:
            raise PermissionDenied(gettext("There are too many superusers to leave out: ask one of them."))
        return found

    @property
    def asks_each(self) -> bool:
        """
        Whether ``may_see`` and ``may_end`` are called for each session of a long list. Not for a subclass to override.

        True if a subclass has its own ``may_see``, or its own ``may_end`` without ``protected_user_ids``.
        """
        ends_by_each = self.ends_by_own_rule and not _overrides(self, "protected_user_ids")
        return ends_by_each or self.sees_by_own_rule

    @property
    def sees_by_own_rule(self) -> bool:
        """Whether a subclass has its own ``may_see``. Not for a subclass to override."""
        return _overrides(self, "may_see")

    @property
    def ends_by_own_rule(self) -> bool:
        """Whether a subclass has its own ``may_end``. Not for a subclass to override."""
        return _overrides(self, "may_end")

    def may_end_all(self, user: Administrator) -> bool:
        """
        Tell whether ``user`` may end everyone else's sessions at once, and not only a part of the list.

        Ours asks for ``end_all_onlinesession``.
        """
        return self.may_end(user) and user.has_perm("django_redsess.end_all_onlinesession")

    def may_see_block(self, user: Administrator, other: AbstractBaseUser | None = None) -> bool:
        """
        Tell whether ``user`` may see blocks, or the block of ``other``. Ours asks for ``block_user``.

        The rules for sessions hold besides: the block is shown if ``user`` may see and end all sessions of ``other``.
        """
        return user.has_perm("django_redsess.block_user")

    def may_block(self, user: Administrator, other: AbstractBaseUser | None = None) -> bool:
        """
        Tell whether ``user`` may block users and lift blocks, or block ``other`` and lift that block.

        Ours allows it if ``user`` may see the block. Nobody blocks oneself. Only superusers block superusers.
        """
        return self.may_see_block(user, other) and (other is None or is_in_reach(user, other))

    def longest_block(self, user: Administrator, other: AbstractBaseUser) -> timedelta:
        """
        Return for how long ``user`` may block ``other``: for a week, or longer if ``user`` may change users.

        A longer block keeps a user out for good. That is a deactivation, which needs the permission to change users.
        """
        users = get_user_model()._meta
        may_change = user.has_perm(f"{users.app_label}.{get_permission_codename('change', users)}")
        return LONGEST if may_change or is_superuser(user) else LONGEST_OF_OTHERS

    def may_deactivate(self, user: Administrator, other: AbstractBaseUser | None = None) -> bool:
        """
        Tell whether ``user`` may deactivate accounts, or that of ``other``.

        The admin of users must let ``user`` change "active", too. Ours adds that nobody deactivates their own account,
        and only superusers deactivate superusers.
        """
        return other is None or is_in_reach(user, other)

    @property
    def sees_sign_ins_by_own_rule(self) -> bool:
        """Whether a subclass has its own ``may_see_sign_in``. Not for a subclass to override."""
        return _overrides(self, "may_see_sign_in")

    def may_see_sign_in(self, user: Administrator, sign_in: Any = None) -> bool:
        """
        Tell whether ``user`` may see sign-ins of the past, or ``sign_in``, of ``django_redsess.contrib.history``.

        Ours asks for ``view_signin``.
        """
        return user.has_perm("redsess_history.view_signin")

    def visible_sign_ins(self, user: Administrator, sign_ins: QuerySet[Any]) -> QuerySet[Any]:
        """Return those of ``sign_ins`` that ``user`` may see: in lists, exports, and on other pages. Ours: all."""
        return sign_ins

    def may_export_sign_ins(self, user: Administrator) -> bool:
        """Tell whether ``user`` may export the list of sign-ins. Ours asks for ``export_signin``."""
        return self.may_see_sign_in(user) and user.has_perm("redsess_history.export_signin")


def rules() -> Rules:
    """Return the rules of this site: those that ``REDSESS["PERMISSIONS"]`` names. Raises ImportError if it is wrong."""
    return _load_rules(conf.PERMISSIONS)


@cache
def _load_rules(path: str) -> Rules:
    made: Rules = import_string(path)()
    return made


def is_own_session(user: AbstractBaseUser, session: online.Session | OnlineSession) -> bool:
    """
    Tell whether ``session`` belongs to ``user``, who may then see and end it on the self-service pages.

    A site's rules do not change this.
    """
    return session.user_id == user_id_of(user)


def keeps_all_of(sessions: SessionQuerySet, user_id: str) -> bool:
    """Tell whether ``sessions``, which an administrator may see, include all sessions of a user."""
    of_user, every = sessions.of_users([user_id]), OnlineSession.online.of_users([user_id])
    return of_user.sids is None and of_user.session_filter == every.session_filter


def unstored_session(user_id: str, user: AbstractBaseUser | None) -> OnlineSession:
    """Return a session that is not stored, to call rules with. ``user`` is None for a deleted user."""
    now = known_server_time()
    return OnlineSession.of(online.Session("", user_id, now, now, now, "", "", 0, "", device_bound=False), user)


def _overrides(own: Rules, name: str) -> bool:
    return getattr(type(own), name) is not getattr(Rules, name)


def users_have(field: str) -> bool:
    """Tell whether the user model has this field: a site's own model may lack it."""
    return field in {each.name for each in get_user_model()._meta.get_fields()}


def is_superuser(user: object) -> bool:
    return bool(getattr(user, "is_superuser", False))


def is_in_reach(user: Administrator, other: AbstractBaseUser) -> bool:
    """Tell whether ``other`` is another user, and no superuser unless ``user`` is one, too."""
    return other.pk != user.pk and (is_superuser(user) or not is_superuser(other))
