"""The admin pages: who is online, and ending their sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from django.contrib import admin, messages
from django.contrib.admin.views.main import ORDER_VAR, ChangeList
from django.contrib.auth import get_user_model
from django.http import HttpRequest, HttpResponse
from django.template.defaultfilters import filesizeformat
from django.utils.functional import SimpleLazyObject
from django.utils.html import format_html
from django.utils.text import capfirst
from django.utils.translation import gettext, gettext_lazy, ngettext

from django_redsess import online
from django_redsess.admin import chart, naming, session_page
from django_redsess.admin.endings import EndingMixin, own_sid_of
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
from django_redsess.admin.items import PopularItemAdmin
from django_redsess.admin.session_page import query_of, url_of
from django_redsess.backend import is_in_use
from django_redsess.models import OnlineSession
from django_redsess.online import presentation
from django_redsess.online.presentation import when
from django_redsess.online.queries import USERS_MAX
from django_redsess.querysets import items
from django_redsess.querysets.sessions import users_by_id
from django_redsess.session import limits
from django_redsess.transport.keys import is_sid

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser
    from django.db.models import QuerySet

    from django_redsess.querysets.sessions import SessionQuerySet

__all__ = ["OnlineSessionAdmin", "PopularItemAdmin", "UserSessionsMixin"]

SEARCH_MAX = 200
"""The longest text that is searched for: each word makes the database's query deeper."""


OF_USERS = ("online_sessions", "online_sessions_to_end")
"""What the page of a user shows, without and with a button."""


@admin.register(OnlineSession)
class OnlineSessionAdmin(EndingMixin):
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
        return self._marked(request).counting_once()

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
        # An address that asks for it all the same is refused, and not answered with everybody.
        may_see_users = users_admin(request, self.admin_site) is not None
        return [each for each in super().get_list_filter(request) if may_see_users or each is not StaffFilter]

    def get_changelist_instance(self, request: HttpRequest) -> ChangeList:
        found = super().get_changelist_instance(request)
        of_users = users_admin(request, self.admin_site)
        text = gettext("Search by user name or session id")
        if of_users is not None and of_users.get_search_fields(request):
            text = gettext("Search as on the page of users, or by session id")
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
            # Whoever searches wants to see what is found.
            "chart": self._picture if set(request.GET) <= {ORDER_VAR} else "",
            "limit": self._limit_of_one(request),
            "has_end_permission": self.has_end_permission(request),
        }
        return super().changelist_view(request, {**context, **(extra_context or {})})

    def render_change_form(self, request: HttpRequest, context: Any, *args: Any, **kwargs: Any) -> HttpResponse:
        context["has_end_permission"] = self.has_end_permission(request, context["original"])
        return super().render_change_form(request, context, *args, **kwargs)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[OnlineSession], search_term: str
    ) -> tuple[QuerySet[OnlineSession], bool]:
        """Look the term up among the users first, as their own admin page does; list the sessions of those found."""
        sessions: SessionQuerySet = queryset  # type: ignore[assignment]
        term = search_term.strip()
        if not term:
            return sessions, False
        by_sid = sessions.with_guests().filter(sid=term)
        if is_sid(term) and any(self.has_view_permission(request, session) for session in by_sid):
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
            # Who may not see users would learn their other fields by searching, letter by letter.
            users = users.filter(**{f"{get_user_model().USERNAME_FIELD}__icontains": term})
        return sessions.of_users(ids_of(request, users.order_by("pk"))), False

    def _picture(self) -> str:
        # Called by the template, after the list was counted and what was due is gone: so both tell the same.
        return chart.draw(*online.until_now())

    def _limit_of_one(self, request: HttpRequest) -> str:
        # Of the list of one user's sessions. There may be none: whether there is that user is not for all to know.
        match request.GET.getlist(USER):
            case [user_id] if users_admin(request, self.admin_site) is not None:
                return limits.describe(users_by_id({user_id}).get(user_id))
        return ""

    def _others(self, request: HttpRequest, session: OnlineSession) -> list[OnlineSession]:
        of_user = self.sessions(request).of_users([session.user_id])[: session_page.OTHERS_MAX + 1]
        others = [other for other in of_user if other.sid != session.sid and self.has_view_permission(request, other)]
        return others[: session_page.OTHERS_MAX]

    def _marked(self, request: HttpRequest) -> SessionQuerySet:
        links_users = users_admin(request, self.admin_site) is not None
        return OnlineSession.online.marking(own_sid_of(request), links_users=links_users)

    @admin.display(description=gettext_lazy("user"))
    def user(self, session: OnlineSession) -> str:
        """Link to the user's own page, where there is one, and mark the session of whoever looks."""
        url = naming.admin_url(session.user, self.admin_site) if session.links_user and session.user else ""
        shown = format_html('<a href="{}">{}</a>', url, session) if url else str(session)
        if session.is_own:
            return format_html('{} <strong class="redsess-own">{}</strong>', shown, gettext("you"))
        return shown

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
        """Name browser and system, with the whole user agent on hover."""
        return format_html(
            '<span title="{}">{}</span>', session.user_agent, presentation.browser_name(session.user_agent)
        )

    @admin.display(description=gettext_lazy("size"))
    def size(self, session: OnlineSession) -> str:
        # It may break: the list has many columns.
        return filesizeformat(session.session.size).replace("\xa0", " ")

    @admin.display(description=gettext_lazy("viewed"))
    def newest_item(self, session: OnlineSession) -> str:
        return items.shown(session.session.newest_item)

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


class UserSessionsMixin(admin.ModelAdmin):  # type: ignore[type-arg]  # not subscriptable at run time
    """
    For the admin of your user model: the user's sessions on the user's page, and an action that ends them.

    ``class UserAdmin(UserSessionsMixin, django.contrib.auth.admin.UserAdmin)``. It shows them to those who may view
    online sessions, and offers to end them to those who may do that.
    """

    class Media:
        css = {"all": ("django_redsess/admin.css",)}

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        # None says that there are to be no actions at all.
        if self.actions is not None:
            self.actions = [*self.actions, "end_sessions"]

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        # Where a page has no fieldsets of its own, Django shows every readonly field there is.
        fieldsets: list[tuple[Any, Any]] = [
            (title, {**options, "fields": [name for name in options["fields"] if name not in OF_USERS]})
            for title, options in super().get_fieldsets(request, obj)
        ]
        sessions = self._sessions_admin
        if obj is not None and sessions is not None and sessions.has_view_permission(request):
            # What is shown of it is asked for without the request.
            obj.redsess_sessions = sessions.sessions(request).of_users([online.user_id_of(obj)])
            may_end = sessions.has_end_permission(request)
            fieldsets.append((gettext("Sessions"), {"fields": [OF_USERS[may_end]]}))
        return fieldsets

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return [*super().get_readonly_fields(request, obj), *OF_USERS]

    def has_end_sessions_permission(self, request: HttpRequest) -> bool:
        sessions = self._sessions_admin
        if sessions is None:
            return False
        return sessions.has_view_permission(request) and sessions.has_end_permission(request)

    @admin.action(
        description=gettext_lazy("End all sessions of selected users"),
        permissions=["end_sessions"],
    )
    def end_sessions(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        """Ask whether to end all sessions of these users."""
        users = list(queryset.only("pk")[: USERS_MAX + 1])
        if len(users) > USERS_MAX:
            text = gettext("The sessions of at most %(limit)d users can be ended at once. Choose fewer.")
            messages.error(request, text % {"limit": USERS_MAX})
            return None
        sessions = cast(EndingMixin, self._sessions_admin)
        return sessions.ask(request, {"query": query_of([online.user_id_of(user) for user in users])})

    @admin.display(description=gettext_lazy("online sessions"))
    def online_sessions(self, user: AbstractBaseUser) -> str:
        """Tell how many there are and may be, and link to them."""
        return self._sessions_of(user, may_end=False)

    @admin.display(description=gettext_lazy("online sessions"))
    def online_sessions_to_end(self, user: AbstractBaseUser) -> str:
        """Do as :meth:`online_sessions` does, with a button that ends them."""
        return self._sessions_of(user, may_end=True)

    @property
    def _sessions_admin(self) -> EndingMixin | None:
        return cast("EndingMixin | None", self.admin_site._registry.get(OnlineSession))

    def _sessions_of(self, user: AbstractBaseUser, *, may_end: bool) -> str:
        user_id, limit = online.user_id_of(user), session_page.paragraph(limits.describe(user))
        sessions: SessionQuerySet = getattr(user, "redsess_sessions", OnlineSession.online.of_users([user_id]))
        count, query = sessions.count(), query_of([user_id])
        if not count:
            return format_html("{}{}", gettext("This user is not signed in."), limit)
        text = ngettext("%(count)d session", "%(count)d sessions", count) % {"count": count}
        shown = format_html('<a href="{}?{}">{}</a>', url_of("changelist", self.admin_site), query, text)
        if may_end:
            url, label = url_of("confirm", self.admin_site), gettext("End all of them")
            shown += format_html(' <a class="button redsess-button" href="{}?{}">{}</a>', url, query, label)
        return shown + limit
