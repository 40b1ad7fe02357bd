"""The sessions of a user on the user's page in the admin."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.contrib.auth.models import AbstractBaseUser
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.template.response import TemplateResponse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext, gettext_lazy, ngettext, pgettext

from django_redsess.admin.access import access_to_sessions
from django_redsess.admin.blocking import question_url, shown_block
from django_redsess.admin.pages import USER, end_url, link_html, paragraph_html, sessions_url, users_query
from django_redsess.admin.question import ask_before_end
from django_redsess.admin.users import recent_sign_ins, sign_ins_table
from django_redsess.models import OnlineSession
from django_redsess.online.listing import USERS_MAX
from django_redsess.querysets import SessionQuerySet
from django_redsess.session import user_limit
from django_redsess.session.store import user_id_of

_FIELDS = ("online_sessions", "last_sign_ins")


def _put_around(response: TemplateResponse, template: str, context: dict[str, Any]) -> None:
    """Let ``template`` extend the template of ``response``, which may be of the site or of a theme."""
    page = response.resolve_template(response.template_name)
    response.context_data = {**(response.context_data or {}), **context, "redsess_page": page}
    response.template_name = template


def _button_html(url: str, text: str) -> SafeString:
    return format_html(' <a class="redsess-button" href="{}">{}</a>', url, text)


class UserSessionsMixin(admin.ModelAdmin):  # type: ignore[type-arg]  # not subscriptable at run time
    """
    For the admin of your user model: show the user's sessions on the user's page, and add an action that ends them.

    Use it as ``class UserAdmin(UserSessionsMixin, django.contrib.auth.admin.UserAdmin)``. Administrators who may view
    online sessions see them. Administrators who may end online sessions also get a button and the action. Those who may
    block users get a button for a user who is not signed in. If sign-ins are kept, administrators who may view them see
    the last five. The user's history links to both.
    """

    class Media:
        css = {"all": ("django_redsess/admin.css", "django_redsess/admin-session.css")}

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        # None stands for no actions at all.
        if self.actions is not None:
            self.actions = [*self.actions, "end_sessions"]

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        # A page without fieldsets shows all read-only fields: take ours out, and add them below if allowed.
        fieldsets: list[tuple[Any, Any]] = [
            (title, {**options, "fields": [name for name in options["fields"] if name not in _FIELDS]})
            for title, options in super().get_fieldsets(request, obj)
        ]
        fields = list[str]()
        if obj is not None and (access := access_to_sessions(request, self.admin_site)) is not None:
            user_ids = [user_id_of(obj)]
            # Django calls the method that shows the field, and passes no request.
            obj.redsess_sessions = access.sessions().of_users(user_ids)
            obj.redsess_block, obj.redsess_block_url = shown_block(access, obj), question_url(access, obj)
            if access.may_end():
                obj.redsess_end_url = end_url(request, self.admin_site, query=users_query(user_ids))
            fields.append("online_sessions")
        if obj is not None and (of_user := recent_sign_ins(request, self.admin_site, user_id_of(obj))):
            obj.redsess_sign_ins = sign_ins_table(request, self.admin_site, of_user)
            fields.append("last_sign_ins")
        return [*fieldsets, (pgettext("of this package", "Sessions"), {"fields": fields})] if fields else fieldsets

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return [*super().get_readonly_fields(request, obj), *_FIELDS]

    def render_change_form(self, request: HttpRequest, context: Any, *args: Any, **kwargs: Any) -> HttpResponse:
        response = super().render_change_form(request, context, *args, **kwargs)
        block = getattr(context.get("original"), "redsess_block", None)
        if block and block.fields and isinstance(response, TemplateResponse):
            # HTML forms can't be nested: the form that lifts the block stands behind the form of the page.
            _put_around(response, "admin/django_redsess/user_page.html", {"block_of_user": block})
        return response

    def history_view(self, request: HttpRequest, object_id: str, extra_context: Any = None) -> HttpResponse:
        """Show the history, below links to the user's sign-ins and online sessions."""
        response = super().history_view(request, object_id, extra_context)
        user = (getattr(response, "context_data", None) or {}).get("object")
        links = [] if user is None else self._links_of_history(request, user_id_of(user))
        if links and isinstance(response, TemplateResponse):
            _put_around(response, "admin/django_redsess/user_history.html", {"redsess_links": links})
        return response

    def _links_of_history(self, request: HttpRequest, user_id: str) -> list[SafeString]:
        links, of_user = list[SafeString](), recent_sign_ins(request, self.admin_site, user_id)
        if of_user is not None:
            links.append(link_html(of_user.url, gettext("Sign-ins of this user")))
        if access_to_sessions(request, self.admin_site) is not None:
            url = sessions_url("changelist", self.admin_site, query={USER: user_id})
            links.append(link_html(url, gettext("Online sessions of this user")))
        return links

    def has_end_sessions_permission(self, request: HttpRequest) -> bool:
        access = access_to_sessions(request, self.admin_site)
        return access is not None and access.may_end()

    @admin.action(description=gettext_lazy("End all sessions of selected users"), permissions=["end_sessions"])
    def end_sessions(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        """Ask whether to end all sessions of these users."""
        users = list(queryset.only("pk")[: USERS_MAX + 1])
        if len(users) > USERS_MAX:
            text = gettext("The sessions of at most %(limit)d users can be ended at once. Choose fewer.")
            messages.error(request, text % {"limit": USERS_MAX})
            return None
        access = access_to_sessions(request, self.admin_site)
        if access is None:
            raise PermissionDenied
        return ask_before_end(access, {"query": users_query([user_id_of(user) for user in users])})

    @admin.display(description=gettext_lazy("online sessions"))
    def online_sessions(self, user: AbstractBaseUser) -> str:
        """Show how many sessions the user has and may have, with a link to them, and a button if they may be ended."""
        user_id, limit = user_id_of(user), paragraph_html(user_limit.describe(user))
        block, block_url = getattr(user, "redsess_block", None), getattr(user, "redsess_block_url", "")
        if block:
            limit += render_to_string(
                "admin/django_redsess/onlinesession/block.html", {"block": block, "is_apart": True}
            )
        sessions: SessionQuerySet = getattr(user, "redsess_sessions", OnlineSession.online.of_users([user_id]))
        count = sessions.count()
        if not count:
            button = _button_html(block_url, gettext("Block the user")) if block_url and not block else ""
            return format_html("{}{}{}", gettext("This user is not signed in."), button, limit)
        text = ngettext("%(count)d session", "%(count)d sessions", count) % {"count": count}
        html = link_html(sessions_url("changelist", self.admin_site, query={USER: user_id}), text)
        if url := getattr(user, "redsess_end_url", ""):
            html += _button_html(url, gettext("End all of them"))
        return html + limit

    @admin.display(description=gettext_lazy("last sign-ins"))
    def last_sign_ins(self, user: AbstractBaseUser) -> str:
        """Show the last sign-ins of the user, with a link to all."""
        return getattr(user, "redsess_sign_ins", "")
