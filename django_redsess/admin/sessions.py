"""The admin's list of sessions, its search, and the page of a session."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from django.contrib import admin, messages
from django.contrib.admin.views.main import ChangeList
from django.contrib.auth import get_user_model
from django.http import HttpRequest, HttpResponse
from django.template.defaultfilters import filesizeformat
from django.utils.functional import SimpleLazyObject
from django.utils.html import format_html
from django.utils.text import capfirst
from django.utils.translation import gettext, gettext_lazy

from django_redsess import online
from django_redsess.admin import links, session_page
from django_redsess.admin.end_rules import own_sid_of
from django_redsess.admin.endings import EndSessionsMixin
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
from django_redsess.admin.numbers import NumbersMixin
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

SEARCH_MAX = 200
"""The longest text that is searched for: each word nests the database's query deeper."""


@admin.register(OnlineSession)
class OnlineSessionAdmin(NumbersMixin, EndSessionsMixin):
    """The list of who is online, and the page of a session. A subclass may set the rules: who sees and ends which."""

    list_display = ("user", "signed_in", "seen", "expires", "client", "size", "newest_item")
    list_display_links = ("seen",)
    ordering = ("-login_at",)
    list_filter = (WhoFilter, ActiveFilter, StaffFilter, UserFilter)
    search_fields = ("user",)
    actions = ("end_selected",)
    fieldsets = (
        (None, {"fields": ("user", "login_at", "seen", "address", "browser", "user_agent", "size", "sid")}),
        (gettext_lazy("When it ends"), {"fields": ("deadlines",)}),
        (gettext_lazy("Viewed items"), {"fields": ("viewed_items",)}),
        (gettext_lazy("Data"), {"fields": ("data",)}),
        (gettext_lazy("Other sessions of this user"), {"fields": ("other_sessions",)}),
    )
    readonly_fields = ("user", "seen", "browser", "size", "deadlines", "viewed_items", "data", "other_sessions")
    change_list_template = "admin/django_redsess/onlinesession/change_list.html"

    def get_queryset(self, request: HttpRequest) -> QuerySet[OnlineSession]:
        return self._sessions_for(request).counting_once()

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> OnlineSession | None:
        found = self.look_up(request, object_id)
        if not found:
            return None
        [session] = found
        session.details = online.details(session.sid)
        session.shows_values = request.user.has_perm("django_redsess.view_session_data")
        session.others = SimpleLazyObject(lambda: self._others(request, session))
        return session

    def get_list_filter(self, request: HttpRequest) -> Any:
        # Django refuses a URL that names a filter which is not in this list.
        may_see_users = users_admin(request, self.admin_site) is not None
        return [each for each in super().get_list_filter(request) if may_see_users or each is not StaffFilter]

    def get_changelist_instance(self, request: HttpRequest) -> ChangeList:
        found = super().get_changelist_instance(request)
        of_users = users_admin(request, self.admin_site)
        text = gettext("Search by user name or session id")
        if of_users is not None and of_users.get_search_fields(request):
            text = gettext("Search as in the list of users, or by session id")
        found.search_help_text = str(self.search_help_text or text)
        return found

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
            "present": partial(self.present, request),
            "limit": self._limit_of_user(request),
            "has_end_permission": self.has_end_permission(request),
        }
        return super().changelist_view(request, {**context, **(extra_context or {})})

    def render_change_form(self, request: HttpRequest, context: Any, *args: Any, **kwargs: Any) -> HttpResponse:
        context["has_end_permission"] = self.has_end_permission(request, context["original"])
        return super().render_change_form(request, context, *args, **kwargs)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[OnlineSession], search_term: str
    ) -> tuple[QuerySet[OnlineSession], bool]:
        """Search the users as their own admin page does, then list their sessions. A whole sid finds its session."""
        sessions: SessionQuerySet = queryset  # type: ignore[assignment]
        term = search_term.strip()
        if not term:
            return sessions, False
        by_sid = sessions.with_guests().filter(sid=term)
        if any(self.has_view_permission(request, session) for session in by_sid):
            return by_sid, False
        if len(term) > SEARCH_MAX:
            return sessions.none(), False
        of_users = users_admin(request, self.admin_site)
        users: QuerySet[Any] = get_user_model()._base_manager.all()
        if of_users is not None:
            users = of_users.get_queryset(request)
        if of_users is not None and of_users.get_search_fields(request):
            users, _ = of_users.get_search_results(request, users, term)
        else:
            # By searching other fields, an administrator who may not see users could guess them letter by letter.
            users = users.filter(**{f"{get_user_model().USERNAME_FIELD}__icontains": term})
        return sessions.of_users(ids_of(request, users.order_by("pk"))), False

    def _limit_of_user(self, request: HttpRequest) -> str:
        # Only for administrators who may see users: others must not learn whether there is a user with this id.
        match request.GET.getlist(USER):
            case [user_id] if users_admin(request, self.admin_site) is not None:
                return limits.describe(users_by_id({user_id}).get(user_id))
        return ""

    def _others(self, request: HttpRequest, session: OnlineSession) -> list[OnlineSession]:
        of_user = self.sessions(request).of_users([session.user_id])[: session_page.OTHERS_MAX + 1]
        others = [other for other in of_user if other.sid != session.sid and self.has_view_permission(request, other)]
        return others[: session_page.OTHERS_MAX]

    def _sessions_for(self, request: HttpRequest) -> SessionQuerySet:
        links_users = users_admin(request, self.admin_site) is not None
        return OnlineSession.online.marking(own_sid_of(request), links_users=links_users)

    @admin.display(description=gettext_lazy("user"))
    def user(self, session: OnlineSession) -> str:
        """Link to the user's page, if there is one, and mark the administrator's own session."""
        url = links.admin_url(session.user, self.admin_site) if session.links_user and session.user else ""
        name = format_html('<a href="{}">{}</a>', url, session) if url else str(session)
        if session.is_own:
            return format_html('{} <strong class="redsess-own">{}</strong>', name, gettext("you"))
        return name

    @admin.display(description=gettext_lazy("signed in"), ordering="login_at")
    def signed_in(self, session: OnlineSession) -> str | None:
        return when(session.login_at) if session.login_at else None

    @admin.display(description=gettext_lazy("last seen"), ordering="seen_at")
    def seen(self, session: OnlineSession) -> str:
        return when(session.seen_at)

    @admin.display(description=gettext_lazy("expires"))
    def expires(self, session: OnlineSession) -> str:
        return when(session.expires_at)

    @admin.display(description=gettext_lazy("client"))
    def client(self, session: OnlineSession) -> str:
        return format_html("<bdi>{}</bdi><br>{}", session.address, self.browser(session))

    @admin.display(description=gettext_lazy("browser"))
    def browser(self, session: OnlineSession) -> str:
        """Name the browser and its system, with the whole user agent on hover."""
        return format_html(
            '<span title="{}">{}</span>', session.user_agent, presentation.browser_name(session.user_agent)
        )

    @admin.display(description=gettext_lazy("size"))
    def size(self, session: OnlineSession) -> str:
        # A plain space lets the line break: the list has many columns.
        return filesizeformat(session.session.size).replace("\xa0", " ")

    @admin.display(description=gettext_lazy("viewed"))
    def newest_item(self, session: OnlineSession) -> str:
        return items.visible(session.session.newest_item)

    @admin.display(description=gettext_lazy("deadlines"))
    def deadlines(self, session: OnlineSession) -> str:
        return session_page.deadlines(session.session, session.details)

    @admin.display(description=gettext_lazy("newest first"))
    def viewed_items(self, session: OnlineSession) -> str:
        return session_page.viewed_items(session.session)

    @admin.display(description=gettext_lazy("keys"))
    def data(self, session: OnlineSession) -> str:
        return session_page.data(session.details, with_values=session.shows_values)

    @admin.display(description=gettext_lazy("newest sign-in first"))
    def other_sessions(self, session: OnlineSession) -> str:
        others = session_page.other_sessions(session, self.admin_site)
        return format_html("{}{}", others, session_page.paragraph(limits.describe(session.user)))
