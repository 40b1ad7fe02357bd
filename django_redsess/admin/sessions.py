"""The admin's list of sessions, its search, and the page of a session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin, messages
from django.contrib.admin.views.main import ORDER_VAR, ChangeList
from django.contrib.auth import get_user_model
from django.http import HttpRequest, HttpResponse
from django.template.defaultfilters import filesizeformat
from django.utils.html import format_html
from django.utils.text import capfirst
from django.utils.translation import gettext, gettext_lazy

from django_redsess import online
from django_redsess.admin import chart, links
from django_redsess.admin.end_rules import own_sid_of
from django_redsess.admin.filters import (
    USER,
    ActiveFilter,
    StaffFilter,
    UserFilter,
    WhoFilter,
    ids_of,
    only_by_seen,
    users_admin,
)
from django_redsess.admin.session_fields import SessionFieldsMixin
from django_redsess.backend import is_in_use
from django_redsess.models import OnlineSession
from django_redsess.online import presentation
from django_redsess.online.presentation import when
from django_redsess.querysets import items
from django_redsess.querysets.sessions import users_by_id
from django_redsess.session import limits

if TYPE_CHECKING:
    from django.db.models import QuerySet

    from django_redsess.querysets.sessions import SessionQuerySet


@admin.register(OnlineSession)
class OnlineSessionAdmin(SessionFieldsMixin):
    """The list of who is online, and the page of a session. A subclass may set the rules: who sees and ends which."""

    list_display = ("user", "signed_in", "seen", "expires", "client", "size", "newest_item")
    list_display_links = ("seen",)
    ordering = ("-login_at",)
    list_filter = (WhoFilter, ActiveFilter, StaffFilter, UserFilter)
    search_fields = ("user",)
    actions = ("end_selected",)
    change_list_template = "admin/django_redsess/onlinesession/change_list.html"

    def get_queryset(self, request: HttpRequest) -> QuerySet[OnlineSession]:
        return self._sessions_for(request).counting_once()

    def get_list_filter(self, request: HttpRequest) -> Any:
        # Django refuses a URL that names a filter which is not in this list.
        may_see_users = users_admin(request, self.admin_site) is not None
        return [each for each in super().get_list_filter(request) if may_see_users or each is not StaffFilter]

    def get_ordering(self, request: HttpRequest) -> tuple[str, ...]:
        return ("-seen_at",) if only_by_seen(request) else self.ordering

    def get_sortable_by(self, request: HttpRequest) -> tuple[str, ...]:
        return ("seen",) if only_by_seen(request) else ("signed_in", "seen")

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        if request.method == "GET" and not is_in_use():
            messages.warning(
                request, gettext("SESSION_ENGINE is another engine: this page does not know who is signed in.")
            )
        context = {
            "title": capfirst(self.opts.verbose_name_plural),
            # A search or filter shows its results only.
            "chart": self._chart if set(request.GET) <= {ORDER_VAR} else "",
            "limit": self._limit_of_user(request),
            "has_end_permission": self.has_end_permission(request),
        }
        return super().changelist_view(request, {**context, **(extra_context or {})})

    def _chart(self) -> str:
        # The template calls this after the list was counted, which removes due sessions: so both numbers agree.
        return chart.draw(*online.until_now())

    def _limit_of_user(self, request: HttpRequest) -> str:
        # Only for administrators who may see users: others must not learn whether there is a user with this id.
        match request.GET.getlist(USER):
            case [user_id] if users_admin(request, self.admin_site) is not None:
                return limits.describe(users_by_id({user_id}).get(user_id))
        return ""

    def _sessions_for(self, request: HttpRequest) -> SessionQuerySet:
        links_users = users_admin(request, self.admin_site) is not None
        return OnlineSession.online.marking(own_sid_of(request), links_users=links_users)
