"""
Users in the admin: who may see them there, searching for them, their last sign-ins, deactivating an account,
and the sessions on a user's page.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.sites import AdminSite
from django.contrib.admin.utils import NotRelationField, get_fields_from_path, quote
from django.contrib.auth import get_user_model
from django.contrib.auth.models import AbstractBaseUser
from django.core.exceptions import FieldDoesNotExist
from django.db import router, transaction
from django.db.models import Model, QuerySet
from django.db.models.constants import LOOKUP_SEP
from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.template.response import TemplateResponse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.text import Truncator
from django.utils.translation import gettext, gettext_lazy, ngettext

from django_redsess import online, past_sign_ins
from django_redsess.admin import log_entries
from django_redsess.admin.pages import (
    NAME_MAX,
    USER,
    address_html,
    end_html,
    end_url,
    fill_html,
    how_ended_html,
    link_html,
    message_html,
    moment_html,
    paragraph_html,
    place_html,
    sender_html,
    sessions_url,
    table_html,
    users_query,
)
from django_redsess.exceptions import SessionStoreUnavailable
from django_redsess.models import OnlineSession
from django_redsess.online import labels
from django_redsess.online.browsers import browser_name
from django_redsess.online.ending import BulkEnding
from django_redsess.online.labels import shortly
from django_redsess.online.listing import USERS_MAX, SessionFilter
from django_redsess.permissions import rules
from django_redsess.querysets import SessionQuerySet, users_by_id
from django_redsess.session import user_limit
from django_redsess.signals import EndedSession


def users_admin(request: HttpRequest, site: AdminSite) -> admin.ModelAdmin[Any] | None:
    """Return the admin of users if the administrator may see users there, else None."""
    found = site._registry.get(get_user_model())
    return found if found is not None and found.has_view_or_change_permission(request) else None


def visible_users(request: HttpRequest, site: AdminSite, user_ids: set[str]) -> dict[str, AbstractBaseUser]:
    """Fetch those of the users with these primary keys whom the administrator may see in the admin of users."""
    of_users = users_admin(request, site)
    if of_users is None:
        return {}
    users = users_by_id(user_ids, among=of_users.get_queryset(request))
    return {key: user for key, user in users.items() if of_users.has_view_or_change_permission(request, user)}


def hidden_users(
    request: HttpRequest, site: AdminSite, user_ids: set[str], users: Mapping[str, AbstractBaseUser]
) -> set[str]:
    """
    Return those of ``user_ids`` whom a rule in the admin of users hides from the administrator. Without a rule: none.

    A rule is a ``get_queryset()`` of its own, or, for administrators who may see users, the permission to see a single
    one. ``users`` are those who exist, by primary key.
    """
    of_users = site._registry.get(get_user_model())
    if of_users is None:
        return set()
    shown = user_ids
    if _leaves_out_users(of_users):
        shown = set(users_by_id(user_ids, among=of_users.get_queryset(request)))
    if of_users.has_view_or_change_permission(request):
        may_see = of_users.has_view_or_change_permission
        shown = {each for each in shown if each not in users or may_see(request, users[each])}
    return user_ids - shown


def _leaves_out_users(of_users: admin.ModelAdmin[Any]) -> bool:
    return type(of_users).get_queryset is not admin.ModelAdmin.get_queryset


def named_users(request: HttpRequest, site: AdminSite, user_ids: set[str]) -> dict[str, AbstractBaseUser]:
    """
    Fetch those of the users with these primary keys whose names the administrator reads on our pages.

    These are all but those whom a rule in the admin of users hides, see :func:`hidden_users`. Who may not open that
    admin reads names nevertheless, as in the list of sessions: a support team needs them.
    """
    users = users_by_id(user_ids)
    hidden = hidden_users(request, site, user_ids, users)
    return {key: user for key, user in users.items() if key not in hidden}


def found_users(request: HttpRequest, site: AdminSite, term: str) -> QuerySet[Any]:
    """
    Search for users by ``term``, as the admin of users does.

    Who may not see users finds them by user name only: not those whom a ``get_queryset()`` of that admin leaves out.
    """
    of_users, registered = users_admin(request, site), site._registry.get(get_user_model())
    users: QuerySet[Any] = get_user_model()._base_manager.all()
    if registered is not None and (of_users is not None or _leaves_out_users(registered)):
        users = registered.get_queryset(request)
    if of_users is not None and of_users.get_search_fields(request):
        users, _ = of_users.get_search_results(request, users, term)
    else:
        # By searching other fields, an administrator who may not see users could guess them letter by letter.
        users = users.filter(**{f"{get_user_model().USERNAME_FIELD}__icontains": term})
    return users.order_by("pk")


def search_fields(request: HttpRequest, site: AdminSite) -> str:
    """Return the names of the fields that :func:`found_users` searches, with commas."""
    of_users = users_admin(request, site)
    user_model = get_user_model()
    fields = (of_users.get_search_fields(request) if of_users else ()) or (user_model.USERNAME_FIELD,)
    names = dict.fromkeys(_name_of(user_model, str(field)) for field in fields)
    return ", ".join(name for name in names if name)


def _name_of(model: type[Model], search_field: str) -> str:
    # The first character and the last part may say how Django compares.
    lookup = search_field.lstrip("^=@")
    while lookup:
        try:
            field = get_fields_from_path(model, lookup)[-1]
        except (FieldDoesNotExist, NotRelationField):
            lookup = lookup.rpartition(LOOKUP_SEP)[0]
        else:
            return str(getattr(field, "verbose_name", ""))
    return ""


LIVE_MAX = 500  # So many live sessions are compared with the sign-ins of a page.

SIGN_INS_SHOWN = 5
"""How many of the last sign-ins the pages of a session and of a user show."""


def recent_sign_ins(request: HttpRequest, site: AdminSite, user_id: str) -> past_sign_ins.UserSignIns | None:
    """Return the last sign-ins of a user. None if the administrator may not see them, or none are kept."""
    return past_sign_ins.sign_ins_for_admin(request, site, user_id, limit=SIGN_INS_SHOWN)


def name_among(users: Mapping[str, object], user_id: str) -> str:
    """Return the name of the user with this primary key; its id if the user is not among ``users``."""
    found = users.get(user_id)
    name = gettext("user %(id)s") % {"id": user_id} if found is None else str(found)
    return Truncator(name).chars(NAME_MAX)


def sign_ins_table(request: HttpRequest, site: AdminSite, of_user: past_sign_ins.UserSignIns) -> SafeString:
    """Return the last sign-ins of a user as a table, with a link to all."""
    if not of_user.sign_ins:
        return format_html("{}", gettext("No sign-in is recorded."))
    headings = [gettext("Signed in"), gettext("Where from"), gettext("Ended"), gettext("How it ended")]
    names = names_of_enders(request, site, of_user.sign_ins)
    live = live_urls(request, site, of_user.sign_ins)
    rows = [
        (
            shortly(each.created_at),
            sender_html(each),
            end_html(each, live.get(name_of_sign_in(each), "")),
            how_ended_html(each, names[each.by]) + message_html(each.message),
        )
        for each in past_sign_ins.with_places(of_user.sign_ins)
    ]
    return table_html(headings, rows) + paragraph_html(link_html(of_user.url, gettext("All sign-ins of this user")))


def last_sign_in_html(request: HttpRequest, site: AdminSite, of_user: past_sign_ins.UserSignIns) -> SafeString:
    """Return sentences about the last sign-in of a user who is not signed in, with a link to all of them."""
    if not of_user.sign_ins:
        return SafeString()
    [last] = past_sign_ins.with_places(of_user.sign_ins[:1])
    text = gettext("Last signed in %(time)s, with %(browser)s.")
    if last.address:
        text = gettext("Last signed in %(time)s from %(address)s (%(browser)s).")
    browser = labels.or_not_stored(browser_name(last.user_agent))
    address = address_html(last.address) + place_html(last.place)
    parts = [fill_html(text, time=moment_html(last.created_at), address=address, browser=browser)]
    if last.ended_at:
        name = names_of_enders(request, site, of_user.sign_ins[:1])[last.by]
        how = fill_html(past_sign_ins.end_text(last), name=name)
        parts.append(fill_html(gettext("How it ended: %(how)s (%(time)s)."), how=how, time=end_html(last)))
    parts.append(link_html(of_user.url, gettext("All sign-ins of this user")))
    return format_html_join(" ", "{}", ((part,) for part in parts))


def name_of_sign_in(sign_in: past_sign_ins.PastSignIn | OnlineSession) -> tuple[str, datetime | None]:
    """Return what a live session and its sign-in have in common, and no others."""
    return sign_in.user_id, sign_in.created_at


def live_urls(
    request: HttpRequest, site: AdminSite, sign_ins: Iterable[past_sign_ins.PastSignIn]
) -> dict[tuple[str, datetime | None], str]:
    """
    Return the URLs of the pages of those of the sessions that live, by :func:`name_of_sign_in`.

    Only of those that the administrator may see, and of the newest 500.
    """
    sessions: Any = site._registry.get(OnlineSession)
    user_ids = {each.user_id for each in sign_ins if not each.ended_at}
    if sessions is None or not user_ids or not sessions.has_view_permission(request):
        return {}
    found = sessions.sessions(request).of_users(list(user_ids)[:USERS_MAX])[:LIVE_MAX]
    return {
        name_of_sign_in(session): sessions_url("change", site, quote(session.sid))
        for session in found
        if sessions.has_view_permission(request, session)
    }


def names_of_enders(
    request: HttpRequest, site: AdminSite, sign_ins: Iterable[past_sign_ins.PastSignIn]
) -> dict[str, str]:
    """Return the names of the users who ended these, by primary key. Who may not be seen is named by that key."""
    user_ids = {each.by for each in sign_ins}
    others = user_ids - {"", *(each.user_id for each in sign_ins)}
    users = named_users(request, site, others) if others else {}
    return {user_id: name_among(users, user_id) for user_id in user_ids}


def limit_of_user(request: HttpRequest, site: AdminSite, user_id: str) -> str:
    """
    Describe the limit of a user's sessions. ``""`` for administrators who may not see the user.

    They must not learn whether there is a user with this id, nor what the limit may tell, such as who is staff.
    """
    return user_limit.describe(visible_users(request, site, {user_id}).get(user_id))


def may_change_users(request: HttpRequest, site: AdminSite) -> bool:
    """Tell whether the administrator may change users in ``site``, though perhaps not each of them."""
    users = site._registry.get(get_user_model())
    return users is not None and users.has_change_permission(request)


def user_to_deactivate(request: HttpRequest, site: AdminSite, user_id: str) -> AbstractBaseUser | None:
    """
    Return the user with this primary key if the administrator may deactivate the account, else None.

    They may if the rules of this site say so, and the user's page in ``site`` would let them change "active".
    """
    users = site._registry.get(get_user_model())
    user: Any = users.get_object(request, user_id) if users is not None else None
    if users is None or user is None or not rules().may_deactivate(request.user, user):
        return None
    if not users.has_change_permission(request, user):
        return None
    # The form leaves out read-only fields, and those that the page does not show to this administrator.
    form = users.get_form(request, user, change=True)
    return user if "is_active" in form.base_fields else None


AllEnded = tuple[list[EndedSession], int | None, bool]


def deactivate_user(request: HttpRequest, user: Any, message: str, note: str) -> AllEnded:
    """
    Deactivate ``user``, then end all sessions of the user.

    ``message`` is shown on the devices of the user. ``note`` is saved in the user's history only.

    Return the sessions that have ended, the least number of replicas that have confirmed (or None), and whether an
    outage has left some.
    """
    using, done = router.db_for_write(type(user), instance=user), list[AllEnded]()

    def end() -> None:
        done.append(_end_user_sessions(request, online.user_id_of(user), message, note))

    with transaction.atomic(using=using):
        # Sessions end after the commit: until then, the user could sign in again. This runs before the signal of
        # END_ON_DEACTIVATION, whose message is another one.
        transaction.on_commit(end, using=using)
        user.is_active = False
        user.save(update_fields=["is_active"])
        log_entries.save_deactivation(request, user, message, note)
    if not done:
        # The request has a transaction of its own (ATOMIC_REQUESTS). Its commit ends them once more.
        end()
    return done[0]


def _end_user_sessions(request: HttpRequest, user_id: str, message: str, note: str) -> AllEnded:
    work = BulkEnding(SessionFilter((user_id,)), message=message)
    with log_entries.saving_ends(request, message, note) as done, suppress(SessionStoreUnavailable):
        work.run()
    return done.kicked, work.confirmed_by, not work.done


_FIELDS = ("online_sessions", "last_sign_ins")


def _put_around(response: TemplateResponse, template: str, context: dict[str, Any]) -> None:
    """Let ``template`` extend that of ``response``, which may be one of the site's own or of its theme."""
    page = response.resolve_template(response.template_name)
    response.context_data = {**(response.context_data or {}), **context, "redsess_page": page}
    response.template_name = template


class UserSessionsMixin(admin.ModelAdmin):  # type: ignore[type-arg]  # not subscriptable at run time
    """
    For the admin of your user model: show the user's sessions on the user's page, and add an action that ends them.

    Use it as ``class UserAdmin(UserSessionsMixin, django.contrib.auth.admin.UserAdmin)``. Administrators who may view
    online sessions see them. Those who may end online sessions also get a button and the action. Where sign-ins are
    kept, those who may view them see the last five. The user's history links to both.
    """

    class Media:
        css = {"all": ("django_redsess/admin.css", "django_redsess/admin-session.css")}

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        # None stands for no actions at all.
        if self.actions is not None:
            self.actions = [*self.actions, "end_sessions"]

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        # A page without fieldsets shows all readonly fields: take ours out, and add it where it is allowed.
        fieldsets: list[tuple[Any, Any]] = [
            (title, {**options, "fields": [name for name in options["fields"] if name not in _FIELDS]})
            for title, options in super().get_fieldsets(request, obj)
        ]
        sessions, fields = self._sessions_admin, list[str]()
        if obj is not None and sessions is not None and sessions.has_view_permission(request):
            user_ids = [online.user_id_of(obj)]
            # Django calls the method that shows the field without the request.
            obj.redsess_sessions = sessions.sessions(request).of_users(user_ids)
            obj.redsess_block = sessions.shown_block(request, obj)
            if sessions.has_end_permission(request):
                obj.redsess_end_url = end_url(request, self.admin_site, query=users_query(user_ids))
            fields.append("online_sessions")
        if obj is not None and (of_user := recent_sign_ins(request, self.admin_site, online.user_id_of(obj))):
            obj.redsess_sign_ins = sign_ins_table(request, self.admin_site, of_user)
            fields.append("last_sign_ins")
        return [*fieldsets, (gettext("Sessions"), {"fields": fields})] if fields else fieldsets

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return [*super().get_readonly_fields(request, obj), *_FIELDS]

    def render_change_form(self, request: HttpRequest, context: Any, *args: Any, **kwargs: Any) -> HttpResponse:
        response = super().render_change_form(request, context, *args, **kwargs)
        block = getattr(context.get("original"), "redsess_block", None)
        if block and block.fields and isinstance(response, TemplateResponse):
            # HTML has no form in a form: the one that lifts the block stands behind that of the page.
            _put_around(response, "admin/django_redsess/user_page.html", {"block_of_user": block})
        return response

    def history_view(self, request: HttpRequest, object_id: str, extra_context: Any = None) -> HttpResponse:
        """Show the history as ever, below links to what it does not have: the user's sign-ins, and online sessions."""
        response = super().history_view(request, object_id, extra_context)
        user = (getattr(response, "context_data", None) or {}).get("object")
        links = [] if user is None else self._links_of_history(request, online.user_id_of(user))
        if links and isinstance(response, TemplateResponse):
            _put_around(response, "admin/django_redsess/user_history.html", {"redsess_links": links})
        return response

    def _links_of_history(self, request: HttpRequest, user_id: str) -> list[SafeString]:
        of_user, sessions, links = (
            recent_sign_ins(request, self.admin_site, user_id),
            self._sessions_admin,
            list[SafeString](),
        )
        if of_user is not None:
            links.append(link_html(of_user.url, gettext("Sign-ins of this user")))
        if sessions is not None and sessions.has_view_permission(request):
            url = sessions_url("changelist", self.admin_site, query={USER: user_id})
            links.append(link_html(url, gettext("Online sessions of this user")))
        return links

    def has_end_sessions_permission(self, request: HttpRequest) -> bool:
        sessions = self._sessions_admin
        return bool(sessions and sessions.has_view_permission(request) and sessions.has_end_permission(request))

    @admin.action(description=gettext_lazy("End all sessions of selected users"), permissions=["end_sessions"])
    def end_sessions(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        """Ask whether to end all sessions of these users."""
        users = list(queryset.only("pk")[: USERS_MAX + 1])
        if len(users) > USERS_MAX:
            text = gettext("The sessions of at most %(limit)d users can be ended at once. Choose fewer.")
            messages.error(request, text % {"limit": USERS_MAX})
            return None
        query = users_query([online.user_id_of(user) for user in users])
        return self._sessions_admin.ask(request, {"query": query})  # type: ignore[no-any-return]

    @admin.display(description=gettext_lazy("online sessions"))
    def online_sessions(self, user: AbstractBaseUser) -> str:
        """Show how many sessions the user has and may have, with a link to them, and a button for who may end them."""
        user_id, limit = online.user_id_of(user), paragraph_html(user_limit.describe(user))
        if block := getattr(user, "redsess_block", None):
            limit += render_to_string(
                "admin/django_redsess/onlinesession/block.html", {"block": block, "is_apart": True}
            )
        sessions: SessionQuerySet = getattr(user, "redsess_sessions", OnlineSession.online.of_users([user_id]))
        count = sessions.count()
        if not count:
            return format_html("{}{}", gettext("This user is not signed in."), limit)
        text = ngettext("%(count)d session", "%(count)d sessions", count) % {"count": count}
        html = link_html(sessions_url("changelist", self.admin_site, query={USER: user_id}), text)
        if url := getattr(user, "redsess_end_url", ""):
            html += format_html(' <a class="redsess-button" href="{}">{}</a>', url, gettext("End all of them"))
        return html + limit

    @admin.display(description=gettext_lazy("last sign-ins"))
    def last_sign_ins(self, user: AbstractBaseUser) -> str:
        """Show the last sign-ins of the user, with a link to all."""
        return getattr(user, "redsess_sign_ins", "")

    @property
    def _sessions_admin(self) -> Any:
        return self.admin_site._registry.get(OnlineSession)
