"""The fields of a session's page in the admin."""

from __future__ import annotations

from typing import Any, cast

from django.contrib import admin, messages
from django.contrib.admin.utils import unquote
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.translation import gettext, gettext_lazy

from django_redsess import online, viewed
from django_redsess.admin import links, session_page
from django_redsess.admin.export import ExportMixin
from django_redsess.admin.returning import return_page_of
from django_redsess.admin.session_page import SessionPage, page_url
from django_redsess.conf import conf
from django_redsess.models import OnlineSession


class SessionFieldsMixin(ExportMixin):
    """The part of ``OnlineSessionAdmin`` that shows one session."""

    # Of the fields, only a user agent is empty.
    empty_value_display = gettext_lazy("not stored")
    fieldsets = (
        (None, {"fields": ("owner", "origin", "times", "deadlines", "viewed_items", "other_sessions")}),
        # Django folds it without a script.
        (gettext_lazy("Data and details"), {"fields": ("data", "size", "user_agent", "sid"), "classes": ("collapse",)}),
    )
    readonly_fields = (
        *("owner", "origin", "times", "deadlines", "viewed_items", "other_sessions"),
        *("data", "size"),
    )

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> OnlineSession | None:
        found = self.look_up(request, object_id)
        if not found:
            return None
        [session] = found
        details = online.details(session.sid)
        views = viewed.recent(session.sid, limit=conf.VIEWED_PER_SESSION)
        # The lookup may add a message, which has to be there before the page is drawn.
        names = links.links_of(request, self.admin_site, {view.item for view in views}) if views else {}
        others = [(other, self.has_end_permission(request, other)) for other in self._others(request, session)]
        session.page = SessionPage(request, self.admin_site, session, details, views, names, others)
        return session

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        fieldsets = super().get_fieldsets(request, obj)
        if obj is None:
            return fieldsets
        # A guest's session has no others.
        empty = [] if obj.user_id else ["other_sessions"]
        if not obj.page.has_deadlines:
            empty.append("deadlines")
        return [
            (title, {**options, "fields": [name for name in options["fields"] if name not in empty]})
            for title, options in cast("list[tuple[Any, Any]]", fieldsets)
        ]

    def render_change_form(self, request: HttpRequest, context: Any, *args: Any, **kwargs: Any) -> HttpResponse:
        session = context["original"]
        context["has_end_permission"] = self.has_end_permission(request, session)
        named = gettext("Session of %(user)s") % {"user": session}
        context |= {"title": named if session.user_id else gettext("Session of a guest"), "subtitle": None}
        return super().render_change_form(request, context, *args, **kwargs)

    def history_view(self, request: HttpRequest, object_id: str, extra_context: Any = None) -> HttpResponse:
        """Redirect to the history of the session's user: there is who ended the user's sessions."""
        session = self.get_object(request, unquote(object_id))
        if session is None:
            return self._get_obj_does_not_exist_redirect(request, self.opts, object_id)
        url = session.page.history_url() or page_url(request, self.admin_site, session.sid)
        return HttpResponseRedirect(url)

    def _get_obj_does_not_exist_redirect(self, request: HttpRequest, opts: Any, object_id: str) -> HttpResponse:
        # Django would name a database's reasons, and lead to the index.
        present = online.find([unquote(object_id)], follow=True)
        for session in self.look_up(request, *(found.sid for found in present)):
            return HttpResponseRedirect(page_url(request, self.admin_site, session.sid))
        messages.warning(request, gettext("There is no session with this id: it is over, or the id is wrong."))
        return HttpResponseRedirect(return_page_of(request).url(self.admin_site))

    @admin.display(description=gettext_lazy("user"))
    def owner(self, session: OnlineSession) -> str:
        return session.page.owner()  # type: ignore[no-any-return]

    @admin.display(description=gettext_lazy("from"))
    def origin(self, session: OnlineSession) -> str:
        return session.page.origin()  # type: ignore[no-any-return]

    @admin.display(description=gettext_lazy("times"))
    def times(self, session: OnlineSession) -> str:
        return session.page.times()  # type: ignore[no-any-return]

    @admin.display(description=gettext_lazy("when it ends"))
    def deadlines(self, session: OnlineSession) -> str:
        return session.page.deadlines()  # type: ignore[no-any-return]

    @admin.display(description=gettext_lazy("viewed items"))
    def viewed_items(self, session: OnlineSession) -> str:
        return session.page.viewed_items()  # type: ignore[no-any-return]

    @admin.display(description=gettext_lazy("other sessions"))
    def other_sessions(self, session: OnlineSession) -> str:
        return session.page.other_sessions()  # type: ignore[no-any-return]

    @admin.display(description=gettext_lazy("data"))
    def data(self, session: OnlineSession) -> str:
        return session.page.data()  # type: ignore[no-any-return]

    def _others(self, request: HttpRequest, session: OnlineSession) -> list[OnlineSession]:
        if not session.user_id:
            return []
        of_user = self.sessions(request).of_users([session.user_id])[: session_page.OTHERS_MAX + 1]
        others = [other for other in of_user if other.sid != session.sid and self.has_view_permission(request, other)]
        return others[: session_page.OTHERS_MAX]
