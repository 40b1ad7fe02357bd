"""The admin's list of sessions, and the page of a session."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from django.contrib import admin, messages
from django.contrib.admin.views.main import SEARCH_VAR, ChangeList
from django.http import HttpRequest, HttpResponse
from django.utils.formats import number_format
from django.utils.translation import gettext, ngettext

from django_redsess.admin.columns import ColumnsMixin
from django_redsess.admin.end_rules import missing, own_sid_of
from django_redsess.admin.filters import (
    EVERYONE,
    USER,
    WHO,
    ActiveFilter,
    BrowserFilter,
    StaffFilter,
    SystemFilter,
    UserFilter,
    WhoFilter,
    chosen,
    limit_of_user,
    only_by_seen,
    users_admin,
)
from django_redsess.admin.numbers import NumbersMixin
from django_redsess.admin.returning import end_url
from django_redsess.admin.searching import SearchMixin
from django_redsess.admin.session_fields import SessionFieldsMixin
from django_redsess.backend import is_in_use
from django_redsess.conf import conf
from django_redsess.models import OnlineSession

if TYPE_CHECKING:
    from django.db.models import QuerySet

    from django_redsess.querysets.sessions import SessionQuerySet


@admin.register(OnlineSession)
class OnlineSessionAdmin(NumbersMixin, ColumnsMixin, SearchMixin, SessionFieldsMixin):  # type: ignore[misc]  # Media
    """The list of who is online, and the page of a session. A subclass may set the rules: who sees and ends which."""

    ordering = ("-login_at",)
    list_filter = (WhoFilter, ActiveFilter, StaffFilter, BrowserFilter, SystemFilter, UserFilter)
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
        users = request.GET.getlist(USER)
        context = {
            "present": partial(self.present, request),
            "limit": limit_of_user(request, self.admin_site, users[0]) if len(users) == 1 else "",
        }
        response = super().changelist_view(request, {**context, **(extra_context or {})})
        changelist = (getattr(response, "context_data", None) or {}).get("cl")
        if changelist is None:  # A redirect, or the question of an action.
            return response
        if query := self.query_by_browser(request, changelist):
            return self.to_list(query)
        self.complete(request, changelist.result_list, changelist.list_display)
        response.context_data |= self._about(request, changelist)  # type: ignore[attr-defined]
        return response

    def _about(self, request: HttpRequest, changelist: ChangeList) -> dict[str, Any]:
        # What the page says about the list, apart from its rows.
        sessions: SessionQuerySet = changelist.queryset
        looked, asked = sessions.looked_through, sessions.session_filter
        count = changelist.result_count
        is_narrowed = bool(changelist.query or changelist.has_active_filters)
        title = ngettext("%(count)s online session", "%(count)s online sessions", count)
        if sessions.is_cut:
            title = ngettext("At least %(count)s online session", "At least %(count)s online sessions", count)
        elif is_narrowed and not count:
            # "0 online sessions" would say that nobody is online.
            title = gettext("No matching session")
        return {
            "title": title % {"count": number_format(count, force_grouping=True)},
            "chosen": chosen(changelist),
            "looked_through": looked,
            "index_helps": request.user.is_superuser and asked.network is not None and not conf.INDEX_ADDRESSES,
            "search_notes": self.search_notes(changelist),
            "absent_users": self.absent_users(request, changelist),
            "may_see_users": users_admin(request, self.admin_site) is not None,
            "with_guests_query": changelist.get_query_string({WHO: EVERYONE})
            if conf.INDEX_ADDRESSES and asked.network is not None and not asked.guests
            else "",
            "without_search_query": changelist.get_query_string(remove=[SEARCH_VAR]) if changelist.query else "",
            **self._ends(request, changelist),
        }

    def _ends(self, request: HttpRequest, changelist: ChangeList) -> dict[str, str]:
        # Links below the list, or who may do that.
        if not self.has_end_permission(request):
            return {"missing": missing("end_onlinesession")}
        if self._are_everyones(request, changelist.queryset) and not self.has_end_all_permission(request):
            return {"missing": missing("end_all_onlinesession")}
        if not (changelist.query or changelist.has_active_filters):
            return {"end_all_url": end_url(request, self.admin_site)}
        # Of a search or a filter: all that it lists, on all pages.
        query = request.GET.urlencode()
        return {"end_these_url": end_url(request, self.admin_site, query=query)} if changelist.result_count else {}

    def _sessions_for(self, request: HttpRequest) -> SessionQuerySet:
        links_users = users_admin(request, self.admin_site) is not None
        return OnlineSession.online.marking(own_sid_of(request), links_users=links_users)
