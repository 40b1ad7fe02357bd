"""A user's sessions in the admin of users."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from django.contrib import admin, messages
from django.http import HttpRequest, HttpResponse
from django.utils.html import format_html
from django.utils.translation import gettext, gettext_lazy, ngettext

from django_redsess import online
from django_redsess.admin import session_page
from django_redsess.admin.ending import EndingAdmin
from django_redsess.admin.links import end_url, query_of, url_of
from django_redsess.models import OnlineSession
from django_redsess.online.listing import USERS_MAX
from django_redsess.session import user_limit

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser
    from django.db.models import QuerySet

    from django_redsess.querysets import SessionQuerySet

SESSION_FIELDS = ("online_sessions", "online_sessions_to_end")
"""The fields that show a user's sessions: without and with a button that ends them."""


class UserSessionsMixin(admin.ModelAdmin):  # type: ignore[type-arg]  # not subscriptable at run time
    """
    For the admin of your user model: show the user's sessions on the user's page, and add an action that ends them.

    Use it as ``class UserAdmin(UserSessionsMixin, django.contrib.auth.admin.UserAdmin)``. Administrators who may view
    online sessions see them. Those who may end online sessions also get a button and the action.
    """

    class Media:
        css = {"all": ("django_redsess/admin.css",)}

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        # None stands for no actions at all.
        if self.actions is not None:
            self.actions = [*self.actions, "end_sessions"]

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        # A page without fieldsets shows all readonly fields: take ours out, and add the one that is allowed.
        fieldsets: list[tuple[Any, Any]] = [
            (title, {**options, "fields": [name for name in options["fields"] if name not in SESSION_FIELDS]})
            for title, options in super().get_fieldsets(request, obj)
        ]
        sessions = self._sessions_admin
        if obj is not None and sessions is not None and sessions.has_view_permission(request):
            # Django calls the methods that show a field without the request.
            obj.redsess_sessions = sessions.sessions(request).of_users([online.user_id_of(obj)])
            query = query_of([online.user_id_of(obj)])
            obj.redsess_end_url = end_url(request, self.admin_site, query=query)
            may_end = sessions.has_end_permission(request)
            fieldsets.append((gettext("Sessions"), {"fields": [SESSION_FIELDS[may_end]]}))
        return fieldsets

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return [*super().get_readonly_fields(request, obj), *SESSION_FIELDS]

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
        sessions = cast(EndingAdmin, self._sessions_admin)
        return sessions.ask(request, {"query": query_of([online.user_id_of(user) for user in users])})

    @admin.display(description=gettext_lazy("online sessions"))
    def online_sessions(self, user: AbstractBaseUser) -> str:
        """Show how many sessions the user has and may have, with a link to them."""
        return self._sessions_html(user, may_end=False)

    @admin.display(description=gettext_lazy("online sessions"))
    def online_sessions_to_end(self, user: AbstractBaseUser) -> str:
        """Show the same as :meth:`online_sessions`, with a button that ends them."""
        return self._sessions_html(user, may_end=True)

    @property
    def _sessions_admin(self) -> EndingAdmin | None:
        return cast("EndingAdmin | None", self.admin_site._registry.get(OnlineSession))

    def _sessions_html(self, user: AbstractBaseUser, *, may_end: bool) -> str:
        user_id, limit = online.user_id_of(user), session_page.paragraph(user_limit.describe(user))
        sessions: SessionQuerySet = getattr(user, "redsess_sessions", OnlineSession.online.of_users([user_id]))
        count, query = sessions.count(), query_of([user_id])
        if not count:
            return format_html("{}{}", gettext("This user is not signed in."), limit)
        text = ngettext("%(count)d session", "%(count)d sessions", count) % {"count": count}
        html = format_html('<a href="{}?{}">{}</a>', url_of("changelist", self.admin_site), query, text)
        if may_end:
            url = getattr(user, "redsess_end_url", f"{url_of('confirm', self.admin_site)}?{query}")
            label = gettext("End all of them")
            html += format_html(' <a class="button redsess-button" href="{}">{}</a>', url, label)
        return html + limit
