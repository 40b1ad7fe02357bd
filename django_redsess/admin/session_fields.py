"""The fields of a session's page in the admin."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.utils.functional import SimpleLazyObject
from django.utils.html import format_html
from django.utils.translation import gettext_lazy

from django_redsess import online
from django_redsess.admin import session_page
from django_redsess.admin.endings import EndSessionsMixin
from django_redsess.models import OnlineSession
from django_redsess.session import limits


class SessionFieldsMixin(EndSessionsMixin):
    """The part of ``OnlineSessionAdmin`` that shows one session."""

    fieldsets = (
        (None, {"fields": ("account", "login_at", "seen", "address", "browser", "user_agent", "size", "sid")}),
        (gettext_lazy("When it ends"), {"fields": ("deadlines",)}),
        (gettext_lazy("Viewed items"), {"fields": ("viewed_items",)}),
        (gettext_lazy("Data"), {"fields": ("data",)}),
        (gettext_lazy("Other sessions of this user"), {"fields": ("other_sessions",)}),
    )
    readonly_fields = ("account", "seen", "browser", "size", "deadlines", "viewed_items", "data", "other_sessions")

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> OnlineSession | None:
        found = self.look_up(request, object_id)
        if not found:
            return None
        [session] = found
        session.details = online.details(session.sid)
        session.shows_values = request.user.has_perm("django_redsess.view_session_data")
        session.others = SimpleLazyObject(lambda: self._others(request, session))
        return session

    def render_change_form(self, request: HttpRequest, context: Any, *args: Any, **kwargs: Any) -> HttpResponse:
        context["has_end_permission"] = self.has_end_permission(request, context["original"])
        return super().render_change_form(request, context, *args, **kwargs)

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

    def _others(self, request: HttpRequest, session: OnlineSession) -> list[OnlineSession]:
        of_user = self.sessions(request).of_users([session.user_id])[: session_page.OTHERS_MAX + 1]
        others = [other for other in of_user if other.sid != session.sid and self.has_view_permission(request, other)]
        return others[: session_page.OTHERS_MAX]
