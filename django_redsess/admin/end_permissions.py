"""Who may end which session in the admin, and who may deactivate a user's account and end all sessions of the user."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, cast

from django.contrib import admin
from django.contrib.admin.sites import AdminSite
from django.contrib.auth import get_user_model
from django.core.exceptions import FieldDoesNotExist, PermissionDenied
from django.core.paginator import Paginator
from django.db import router, transaction
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.translation import gettext, gettext_lazy

from django_redsess import online
from django_redsess.admin import history
from django_redsess.exceptions import SessionStoreUnavailable
from django_redsess.models import OnlineSession
from django_redsess.online.ending import BulkEnding, least
from django_redsess.online.listing import USERS_MAX, SessionFilter
from django_redsess.signals import EndedSession

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser

    from django_redsess.querysets import SessionQuerySet


class AllEnded(NamedTuple):
    """
    The sessions of a user that have ended.

    ``confirmed_by`` is the least number of replicas that have confirmed, or None. ``is_outage`` tells that not all
    sessions could be ended.
    """

    ended: list[EndedSession]
    confirmed_by: int | None
    is_outage: bool


def may_change_users(request: HttpRequest, site: AdminSite) -> bool:
    """Tell whether the administrator may change users in ``site``, though perhaps not each of them."""
    users = site._registry.get(get_user_model())
    return users is not None and users.has_change_permission(request)


def may_deactivate(request: HttpRequest, site: AdminSite, user_id: str) -> AbstractBaseUser | None:
    """
    Return the user with this primary key if the administrator may deactivate the account, else None.

    They may if the user's page in ``site`` would let them change "active". Nobody can deactivate their own account.
    Only superusers deactivate superusers.
    """
    users = site._registry.get(get_user_model())
    user: Any = users.get_object(request, user_id) if users is not None else None
    if users is None or user is None or user.pk == request.user.pk:
        return None
    if getattr(user, "is_superuser", False) and not getattr(request.user, "is_superuser", False):
        return None
    if not users.has_change_permission(request, user):
        return None
    # The form leaves out read-only fields, and those that the page does not show to this administrator.
    form = users.get_form(request, user, change=True)
    return user if "is_active" in form.base_fields else None


def deactivate(request: HttpRequest, user: Any, message: str) -> AllEnded:
    """Deactivate ``user``, then end all sessions of the user. ``message`` is shown on the devices of the user."""
    using, done = router.db_for_write(type(user), instance=user), list[AllEnded]()

    def end() -> None:
        done.append(_end_all(online.user_id_of(user), message))

    with transaction.atomic(using=using):
        # Sessions end after the commit: until then, the user could sign in again. This runs before the signal of
        # END_ON_DEACTIVATION, whose message is another one.
        transaction.on_commit(end, using=using)
        user.is_active = False
        user.save(update_fields=["is_active"])
        history.save_deactivation(request, user, message)
    if not done:
        # The request has a transaction of its own (ATOMIC_REQUESTS). Its commit ends them once more.
        end()
    return done[0]


def _end_all(user_id: str, message: str) -> AllEnded:
    work = BulkEnding(SessionFilter((user_id,)), message=message)
    ended: list[EndedSession] = []
    replicas: int | None = None
    try:
        while not work.done:
            batch = work.end_batch()
            ended += batch
            replicas = least(replicas, batch.confirmed_by)
    except SessionStoreUnavailable:
        return AllEnded(ended, replicas, is_outage=True)
    return AllEnded(ended, replicas, is_outage=False)


class NearestPage(Paginator):  # type: ignore[type-arg]  # not subscriptable at run time
    """Show the last page in place of one beyond it: rows go away while an administrator turns pages."""

    def validate_number(self, number: Any) -> int:
        return max(1, min(int(number), self.num_pages))


class ListAdmin(admin.ModelAdmin):  # type: ignore[type-arg]  # not subscriptable at run time
    """A list of rows that are viewed only. Subclasses add actions, which ask first."""

    list_per_page = 100
    list_max_show_all = 0
    paginator = NearestPage
    show_facets = admin.ShowFacets.NEVER

    class Media:
        css = {"all": ("django_redsess/admin.css", "django_redsess/admin-session.css")}

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def page(self, request: HttpRequest, template: str, title: str, context: dict[str, Any]) -> HttpResponse:
        """Show an admin page that is neither the list nor a row's page."""
        request.current_app = self.admin_site.name
        shared = {**self.admin_site.each_context(request), "title": title, "opts": self.opts, "media": self.media}
        return TemplateResponse(request, template, {**shared, **context})

    def to_list(self, query: str = "") -> HttpResponse:
        """Redirect to the list."""
        name = f"admin:{self.opts.app_label}_{self.opts.model_name}_changelist"
        url = reverse(name, current_app=self.admin_site.name)
        return HttpResponseRedirect(f"{url}?{query}" if query else url)


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
