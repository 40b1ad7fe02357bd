"""The admin's list of sessions, with its columns, its search, and the URLs of all pages about sessions."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any, NamedTuple, cast

from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.utils import unquote
from django.contrib.admin.views.main import ERROR_FLAG, PAGE_VAR, SEARCH_VAR, ChangeList
from django.contrib.auth import get_user_model
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.http.response import HttpResponseBase
from django.urls import URLPattern, path
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import Truncator
from django.utils.translation import gettext, gettext_lazy, ngettext
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_POST, require_safe

from django_redsess.admin import blocking, filters, pages, session_page
from django_redsess.admin.access import Access, user_to_deactivate, users_admin, visible_users
from django_redsess.admin.blocking import blocked_view, unblock_view
from django_redsess.admin.chart import counts_heading, list_head, numbers_view
from django_redsess.admin.ending import end_view
from django_redsess.admin.export import export_view
from django_redsess.admin.question import ask_before_end, confirm_view, sessions_to_end
from django_redsess.admin.users import last_sign_in_html, limit_of_user, recent_sign_ins
from django_redsess.conf import conf
from django_redsess.models import OnlineSession
from django_redsess.online import labels
from django_redsess.online.browsers import BROWSERS, browser_name
from django_redsess.online.labels import when
from django_redsess.online.listing import SIDS_MAX, SessionFilter, moving_from
from django_redsess.online.sampling import Present
from django_redsess.permissions import is_superuser, keeps_all_of, rules
from django_redsess.querysets import SessionQuerySet, visible
from django_redsess.session import binding
from django_redsess.session.client import parse_network
from django_redsess.session.store import session_of, user_id_of

BROWSER_MAX = 60  # A longer name is cut: the name of an unknown browser is its whole user agent.


class _Labelled(NamedTuple):
    """A row for a check box, whose label is ``str()`` of the row."""

    pk: str
    text: str

    def __str__(self) -> str:
        return self.text


def _describe_rows(rows: Iterable[OnlineSession]) -> None:
    seen: Counter[tuple[str, str]] = Counter()
    for row in rows:
        browser = Truncator(browser_name(row.user_agent)).chars(BROWSER_MAX)
        row.described = ", ".join(filter(None, (browser, row.address)))
        # Sessions of a user in the same kind of browser are numbered.
        same = (str(row), row.described)
        seen[same] += 1
        if seen[same] > 1:
            row.described = f"{row.described} ({seen[same]})".strip()


def _row_name(session: OnlineSession) -> str:
    return f"{session}: {session.described}" if session.described else str(session)


ABSENT_MAX = 3  # An empty list names so many users who are not signed in.
SEARCH_MAX = 200  # The longest search text: each word nests the database's query deeper.

# Four numbers, or two colons.
_LIKE_ADDRESS = re.compile(r"\[?(\d+(\.\d+){3}|[\da-f.]*:[\da-f.]*:)[\da-f.:\]]*(/\d*)?", re.IGNORECASE)


@admin.register(OnlineSession)
class OnlineSessionAdmin(pages.ListAdmin):
    """
    The list of who is signed in, and the page of a session.

    A subclass may have its own rules for who sees, ends and exports which sessions. ``list_display`` has the columns.
    """

    list_display = ("user", "client", "signed_in", "seen", "end")
    search_fields = ("user",)
    ordering = ("-created_at",)
    list_filter = (
        filters.ActiveFilter,
        filters.GuestsFilter,
        filters.StaffFilter,
        filters.NetworkFilter,
        filters.BrowserFilter,
        filters.SystemFilter,
        filters.DeviceBoundFilter,
        filters.UserFilter,
    )
    actions = ("end_selected",)
    fieldsets = session_page.FIELDSETS
    readonly_fields = session_page.READONLY_FIELDS
    # On a session's page, only the user agent may be empty.
    empty_value_display = gettext_lazy("not stored")
    paginator = pages.ReachablePages
    change_list_template = "admin/django_redsess/onlinesession/change_list.html"

    class Media:
        css = {"all": ("django_redsess/admin-list.css",)}
        js = ("django_redsess/refresh.js",)

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        box = super().action_checkbox

        # The box of Django or of a theme. Its label gets what tells several rows of a user apart.
        @wraps(box)
        def action_checkbox(session: OnlineSession) -> SafeString:
            return box(_Labelled(session.pk, _row_name(session)))

        self.action_checkbox = action_checkbox  # type: ignore[assignment, method-assign]

    def get_urls(self) -> list[URLPattern]:
        def url_for(name: str, allows: Any, view: Callable[[Access], HttpResponseBase]) -> URLPattern:
            @sensitive_post_parameters("password")
            def answer(request: HttpRequest) -> HttpResponseBase:
                return view(Access(self, request))

            checked: Callable[..., HttpResponseBase] = self.admin_site.admin_view(allows(answer))
            return path(f"{name}/", checked, name=f"django_redsess_onlinesession_{name}")

        return [
            url_for("confirm", require_safe, confirm_view),
            url_for("end", require_POST, end_view),
            url_for("blocked", require_safe, blocked_view),
            url_for("unblock", require_POST, unblock_view),
            url_for("numbers", require_safe, numbers_view),
            url_for("export", require_POST, export_view),
            *super().get_urls(),
        ]

    def has_module_permission(self, request: HttpRequest) -> bool:
        return super().has_module_permission(request) or self.has_view_permission(request)

    def has_view_permission(self, request: HttpRequest, obj: OnlineSession | None = None) -> bool:
        """Tell whether the administrator may see sessions, or the session ``obj``, by the rules of this site."""
        return rules().may_see(request.user, obj)

    def has_end_permission(self, request: HttpRequest, obj: OnlineSession | None = None) -> bool:
        """
        Tell whether the administrator may end sessions, or the session ``obj``, by the rules of this site.

        A subclass may have another rule for its pages. It is asked about each session, which is slower for long lists.
        """
        return rules().may_end(request.user, obj)

    def has_end_all_permission(self, request: HttpRequest) -> bool:
        """Tell whether the administrator may end everyone else's sessions at once, and not only a part of the list."""
        return rules().may_end_all(request.user) and self.has_end_permission(request)

    @property
    def sees_by_own_rule(self) -> bool:
        """Whether a subclass has its own ``has_view_permission``."""
        return type(self).has_view_permission is not OnlineSessionAdmin.has_view_permission

    @property
    def ends_by_own_rule(self) -> bool:
        """Whether a subclass has its own ``has_end_permission``."""
        return type(self).has_end_permission is not OnlineSessionAdmin.has_end_permission

    def has_export_permission(self, request: HttpRequest) -> bool:
        """Tell whether the administrator may export the list: all sessions that match, in one file."""
        return self.has_view_permission(request) and rules().may_export(request.user)

    def get_queryset(self, request: HttpRequest) -> QuerySet[OnlineSession]:
        own_sid, links_users = Access(self, request).own_sid, users_admin(request, self.admin_site) is not None
        sessions = OnlineSession.online.marked_for(own_sid, links_users=links_users).counting_once()
        return rules().visible_sessions(request.user, sessions)

    def get_list_filter(self, request: HttpRequest) -> Any:
        # Django refuses a URL that names a filter which is not in this list.
        hidden = set[Any]()
        if users_admin(request, self.admin_site) is None:
            hidden.add(filters.StaffFilter)
        if binding.guard is None:
            hidden.add(filters.DeviceBoundFilter)
        return [each for each in super().get_list_filter(request) if each not in hidden]

    def get_ordering(self, request: HttpRequest) -> tuple[str, ...]:
        return ("-last_seen_at",) if filters.orders_by_seen_only(request) else self.ordering

    def get_sortable_by(self, request: HttpRequest) -> tuple[str, ...]:
        return ("seen",) if filters.orders_by_seen_only(request) else ("signed_in", "seen")

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        if request.method == "GET" and session_of(request) is None:
            text = gettext("SESSION_ENGINE is another engine: this page does not know who is signed in.")
            messages.warning(request, text)
        users, query = request.GET.getlist(pages.USER), request.GET.copy()
        for name in (PAGE_VAR, ERROR_FLAG):
            query.pop(name, None)
        context = {
            "limit": limit_of_user(request, self.admin_site, users[0]) if len(users) == 1 else "",
            "has_export_permission": self.has_export_permission(request),
            "has_block_permission": rules().may_see_block(request.user),
            "export_url": "admin:django_redsess_onlinesession_export",
            "export_query": query.urlencode(),
        }
        response = super().changelist_view(request, {**context, **(extra_context or {})})
        changelist = (getattr(response, "context_data", None) or {}).get("cl")
        if changelist is None:  # A redirect, or the question of an action.
            return response
        if by_client := self.query_by_client(request, changelist):
            return self.redirect_to_list(by_client)
        self.complete_rows(request, changelist.result_list, changelist.list_display)
        response.context_data |= self._list_context(request, changelist)  # type: ignore[attr-defined]
        return response

    def _list_context(self, request: HttpRequest, changelist: ChangeList) -> dict[str, Any]:
        sessions: SessionQuerySet = changelist.queryset
        above, absent = list_head(request), self.absent_users(request, changelist)
        shown = [row.user for row in changelist.result_list] + [each["user"] for each in absent["absent_users"]]
        return {
            "present": above,
            "title": self._title(changelist, above["now"]),
            "chosen": filters.selected_choices(changelist),
            "looked_through": sessions.looked_through,
            "search_notes": [*self.search_notes(changelist), *self._notes_on_rights(request, shown)],
            **absent,
            "without_search_query": changelist.get_query_string(remove=[SEARCH_VAR]),
            **self._end_links(request, changelist),
        }

    def _title(self, changelist: ChangeList, now: Present | None) -> str:
        sessions, count = changelist.queryset, changelist.result_count
        shown = {"count": pages.shown_number(count)}
        if sessions.is_cut:
            return ngettext("At least %(count)s session", "At least %(count)s sessions", count) % shown
        if changelist.query or changelist.has_active_filters or sessions.session_filter.guests:
            found = ngettext("%(count)s matching session", "%(count)s matching sessions", count) % shown
            return found if count else gettext("No matching session")
        # A subclass may list a part of the sessions. The picture counts all.
        is_of_all = sessions.sids is None and sessions.session_filter == SessionFilter()
        active = now.active if now and is_of_all else None
        return counts_heading(count, sessions.active().count() if active is None else active)

    def _end_links(self, request: HttpRequest, changelist: ChangeList) -> dict[str, str]:
        # Links below the list, or the permission that the administrator lacks.
        if not self.has_end_permission(request):
            return {"missing": pages.missing_permission("end_onlinesession")}
        access = Access(self, request)
        if access.are_everyones(changelist.queryset) and not access.may_end_all():
            return {"missing": pages.missing_permission("end_all_onlinesession")}
        if not (changelist.query or changelist.has_active_filters):
            return {"end_all_url": pages.end_url(request, self.admin_site)}
        # With a search or a filter: all matching sessions, on all pages.
        these = pages.end_url(request, self.admin_site, query=request.GET.urlencode())
        return {"end_these_url": these} if changelist.result_count else {}

    def get_list_display(self, request: HttpRequest) -> Any:
        columns = super().get_list_display(request)
        return columns if self.has_end_permission(request) else [column for column in columns if column != "end"]

    def complete_rows(self, request: HttpRequest, rows: Iterable[OnlineSession], columns: Iterable[Any]) -> None:
        """Add to the rows what columns show: links, places, names of items, and texts that tell rows apart."""
        rows, columns = list(rows), set(columns)
        _describe_rows(rows)
        if columns & {"client", "address_link"}:
            pages.set_places(rows)
        if "end" in columns:
            for row in rows:
                if self.has_end_permission(request, row):
                    row.end_url = pages.end_url(request, self.admin_site, sid=row.sid)
        items = {row.session.newest_item for row in rows} - {""}
        if items and columns & {"seen", "newest_item"}:
            found = pages.item_links(request, self.admin_site, items)
            for row in rows:
                item = row.session.newest_item
                row.newest = found.get(item, pages.ItemLink(visible(item), "")) if item else None
                row.shows_newest_below = "newest_item" not in columns

    @admin.display(description=gettext_lazy("user"))
    def user(self, session: OnlineSession) -> str:
        """Name the user, and mark the own session. Screen readers also read the text that tells rows apart."""
        html = format_html("<bdi>{}</bdi>{}", session, pages.own_mark_html(session))
        if session.described:
            html += format_html(' <span class="redsess-heard"><bdi>{}</bdi></span>', session.described)
        return html

    @admin.display(description=gettext_lazy("user"))
    def account(self, session: OnlineSession) -> str:
        """Link to the user's page, if there is one, and mark the own session."""
        url = pages.admin_url(session.user, self.admin_site) if session.links_user and session.user else ""
        name = pages.link_html(url, str(session)) if url else str(session)
        return format_html("{}{}", name, pages.own_mark_html(session))

    @admin.display(description=gettext_lazy("where from"))
    def client(self, session: OnlineSession) -> str:
        """Show the browser, and the address as a link to its sessions, with its place."""
        browser, address = self.browser(session), self.address_link(session)
        if not (session.user_agent and session.address):
            shown = browser if session.user_agent else address + pages.bound_mark_html(session)
            return shown if session.user_agent or session.address else pages.labelled_html(gettext("where from"), shown)
        return format_html("<div>{}<br>{}</div>", browser, address)

    @admin.display(description=gettext_lazy("address"))
    def address_link(self, session: OnlineSession) -> str:
        """Show the address as a link to all sessions from it, with its place."""
        return pages.address_link_html(session, self.admin_site) or labels.or_not_stored("")

    @admin.display(description=gettext_lazy("browser"))
    def browser(self, session: OnlineSession) -> str:
        """
        Name the browser and its system, with a picture of the device, and the whole user agent on hover.

        A mark follows if the session is bound to the device.
        """
        name = pages.client_html(session.user_agent) or labels.or_not_stored("")
        html = format_html('<span title="{}">{}</span>', session.user_agent, name)
        return html + pages.bound_mark_html(session)

    @admin.display(description=gettext_lazy("signed in"), ordering="created_at")
    def signed_in(self, session: OnlineSession) -> str:
        return pages.labelled_html(gettext("signed in"), when(session.created_at) if session.created_at else "-")

    @admin.display(description=gettext_lazy("last seen"), ordering="last_seen_at")
    def seen(self, session: OnlineSession) -> str:
        """Show when the session was last seen, and the item that was viewed last, unless it has a column."""
        time = pages.labelled_html(gettext("last seen"), when(session.last_seen_at))
        if not (session.newest and session.shows_newest_below):
            return time
        item = pages.labelled_html(gettext("viewed"), pages.item_name_html(session.newest))
        return format_html(
            '<div>{}<br><span class="redsess-newest" title="{}">{}</span></div>', time, session.newest.name, item
        )

    @admin.display(description=gettext_lazy("expires"))
    def expires(self, session: OnlineSession) -> str:
        return pages.labelled_html(gettext("expires"), when(session.expires_at))

    @admin.display(description=gettext_lazy("viewed"), empty_value="-")
    def newest_item(self, session: OnlineSession) -> str:
        """Name the item that was viewed last, with a link to its page."""
        return pages.item_name_html(session.newest) if session.newest else ""

    @admin.display(description=gettext_lazy("end"), empty_value="-")
    def end(self, session: OnlineSession) -> str:
        """Link to the page that asks whether to end the session."""
        if not session.end_url:
            return ""
        label = gettext("End the session of %(session)s") % {"session": _row_name(session)}
        return pages.end_link_html(session.end_url, label)

    def get_changelist_instance(self, request: HttpRequest) -> ChangeList:
        found = super().get_changelist_instance(request)
        found.search_help_text = str(self.search_help_text or self._search_help(request))
        if request.GET.get(pages.GUESTS) in (pages.ONLY, pages.TOO):
            # Django has counted signed-in sessions. If there were none, it would offer no actions.
            listed = cast(SessionQuerySet, found.root_queryset)
            visitors = listed.only_guests() if request.GET[pages.GUESTS] == pages.ONLY else listed.with_guests()
            found.full_result_count = visitors.count()
            found.show_admin_actions = bool(found.full_result_count)
        return found

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[OnlineSession], search_term: str
    ) -> tuple[QuerySet[OnlineSession], bool]:
        """Find a session by its whole id, sessions by address or network, or sessions of matching users."""
        sessions: SessionQuerySet = queryset  # type: ignore[assignment]
        term = search_term.strip()
        if not term:
            return sessions, False
        by_sid = (sessions if sessions.session_filter.guests else sessions.with_guests()).filter(sid=term)
        if any(self.has_view_permission(request, session) for session in by_sid):
            return by_sid, False
        if len(term) > SEARCH_MAX:
            return sessions.none(), False
        if network := parse_network(term):
            return sessions.of_network(network.text), False
        return sessions.of_users(
            filters.user_ids_for(request, filters.search_users(request, self.admin_site, term), sessions)
        ), False

    def absent_users(self, request: HttpRequest, changelist: ChangeList) -> dict[str, Any]:
        """
        Return the first 3 users who match the search or filter and are not signed in, for the template.

        They are those of an empty list. Beside rows, it is the user whose whole name was searched for. Users of whom
        the administrator must not know are left out: see :func:`blocking.findable_users`.
        """
        term, user_ids = changelist.query.strip(), request.GET.getlist(pages.USER)[: ABSENT_MAX + 1]
        finds = users_admin(request, self.admin_site) is not None or rules().may_see_block(request.user)
        is_asked = term or (user_ids and not changelist.result_count)
        found: list[Any] = []
        if finds and is_asked and len(term) <= SEARCH_MAX:
            if term:
                users = filters.search_users(request, self.admin_site, term)
                if changelist.result_count:
                    users = users.filter(**{f"{get_user_model().USERNAME_FIELD}__iexact": term})
                user_ids = [user_id_of(user) for user in users[: ABSENT_MAX + 1]]
            named, listed = blocking.findable_users(request, self.admin_site, set(user_ids)), self.get_queryset(request)
            found = [
                named[user_id]
                for user_id in user_ids
                # A part of a user's sessions does not say whether the user is signed in.
                if user_id in named and keeps_all_of(cast(SessionQuerySet, listed), user_id)
                if not OnlineSession.online.of_users([user_id]).exists()
            ]
        return {
            "absent_users": [self._absent_user(request, user) for user in found[:ABSENT_MAX]],
            "more_absent": len(found) > ABSENT_MAX,
            "finds_absent": finds,
        }

    def search_notes(self, changelist: ChangeList) -> list[str]:
        """Return sentences that say what the search can't find."""
        term, asked, notes = changelist.query.strip(), changelist.queryset.session_filter, list[str]()
        if asked.networks is not None and (network := parse_network(term)) and network.text != term:
            notes.append(gettext("Sessions from %(network)s.") % {"network": network.text})
        if name := moving_from():
            text = gettext(
                "Sessions move here from %(name)s. Those that have not moved are not listed. They end with all "
                "sessions of their user, and when all are ended."
            )
            notes.append(text % {"name": name})
        if not changelist.result_count and _LIKE_ADDRESS.fullmatch(term[:SEARCH_MAX]) and parse_network(term) is None:
            notes.append(gettext("This is neither an address nor a network, such as 198.51.100.7 or 198.51.100.0/24."))
        if asked.guests and (asked.browser is not None or asked.system is not None):
            notes.append(gettext("The browsers of guests are not stored."))
        if asked.guests and asked.networks is not None:
            notes.append(gettext("The addresses of guests are not stored."))
        return notes

    def _notes_on_rights(self, request: HttpRequest, users: Iterable[Any]) -> list[str]:
        """Return why there is no button for some of these ``users``. A rule of the site's own is not known."""
        access = Access(self, request)
        may_act = access.may_end() or rules().may_block(request.user)
        if not may_act or access.ends_by_own_rule or is_superuser(request.user) or not any(map(is_superuser, users)):
            return []
        return [gettext("Only superusers can end the sessions of superusers, and block them.")]

    def query_by_client(self, request: HttpRequest, changelist: ChangeList) -> QueryDict | None:
        """
        Return the query that finds clients by the searched text, if the text matches no user; else None.

        The text is the name of a list of networks, or matches browsers. The query has a filter in place of the search.
        A search that meant users now and browsers later could end sessions that the page did not show.
        """
        term = changelist.query.strip()
        if changelist.result_count or not term or len(term) > SEARCH_MAX or parse_network(term):
            return None
        text = gettext("Nobody who is signed in matches “%(term)s”. These are the sessions whose browser matches.")
        # The filters may have the name as a choice.
        choice, given = filters.BROWSER, next((name for name in BROWSERS if name.lower() == term.lower()), term)
        for name in conf.NETWORKS:
            if name.lower() == term.lower():
                text = gettext(
                    "Nobody who is signed in matches “%(term)s”. This is the list of networks with this name."
                )
                choice, given = filters.NETWORK, name
        if choice in request.GET:
            return None
        query = request.GET.copy()
        query.pop(SEARCH_VAR, None)
        query.pop(PAGE_VAR, None)
        query[choice] = given
        if not sessions_to_end(Access(self, request), query.urlencode()).exists():
            return None
        messages.info(request, text % {"term": Truncator(term).chars(60)})
        return query

    def _absent_user(self, request: HttpRequest, user: Any) -> dict[str, Any]:
        access, user_id, deactivate_url = Access(self, request), user_id_of(user), ""
        # Whether an account is active, is told only to those who may see the user.
        is_seen = user_id in visible_users(request, self.admin_site, {user_id})
        is_active = not is_seen or getattr(user, "is_active", True)
        if is_active and access.may_end() and user_to_deactivate(access, user_id):
            deactivate_url = pages.end_url(request, self.admin_site, query=pages.users_query([user_id]))
        of_user = recent_sign_ins(request, self.admin_site, user_id)
        return {
            "user": user,
            "name": str(user),
            "is_active": is_active,
            "last": last_sign_in_html(request, self.admin_site, of_user) if of_user else "",
            "block": blocking.shown_block(access, user),
            "url": pages.admin_url(user, self.admin_site) if is_seen else "",
            "deactivate_url": deactivate_url,
            "block_url": blocking.question_url(access, user),
        }

    def _search_help(self, request: HttpRequest) -> str:
        # The fields come last: a theme may cut the text.
        text = gettext("Search by address, network (198.51.100), browser, session id or user (%(fields)s)")
        return text % {"fields": filters.searched_fields(request, self.admin_site)}

    @admin.action(description=gettext_lazy("End selected sessions"), permissions=["end"])
    def end_selected(self, request: HttpRequest, queryset: QuerySet[OnlineSession]) -> HttpResponse:
        """Ask whether to end the selected sessions, or all that match the list's query."""
        access = Access(self, request)
        if request.POST.get("select_across") == "1":
            return ask_before_end(access, {"query": request.GET.urlencode()})
        chosen = request.POST.getlist(ACTION_CHECKBOX_NAME)
        return ask_before_end(access, {"sids": " ".join(chosen[:SIDS_MAX])})

    # The page of a session.

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> OnlineSession | None:
        return session_page.read_for_page(Access(self, request), object_id)

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        fieldsets = cast("list[tuple[Any, Any]]", super().get_fieldsets(request, obj))
        hidden = [] if obj is None else session_page.hidden_fields(obj)
        return [
            (title, {**options, "fields": [field for field in options["fields"] if field not in hidden]})
            for title, options in fieldsets
        ]

    def render_change_form(self, request: HttpRequest, context: Any, *args: Any, **kwargs: Any) -> HttpResponse:
        context |= session_page.page_context(Access(self, request), context["original"])
        return super().render_change_form(request, context, *args, **kwargs)

    def history_view(self, request: HttpRequest, object_id: str, extra_context: Any = None) -> HttpResponse:
        """Redirect to the history of the session's user, which names who ended sessions of the user."""
        session = self.get_object(request, unquote(object_id))
        if session is None:
            return self._get_obj_does_not_exist_redirect(request, self.opts, object_id)
        return HttpResponseRedirect(session_page.history_url(session))

    def _get_obj_does_not_exist_redirect(self, request: HttpRequest, opts: Any, object_id: str) -> HttpResponse:
        # Django would speak of a database, and redirect to the index.
        return session_page.redirect_from_gone(Access(self, request), unquote(object_id))

    @admin.display(description=gettext_lazy("Size"))
    def size(self, session: OnlineSession) -> str:
        """Show the size of the data before compression, in whole KiB."""
        if session.session.size is None:
            return gettext("The data can't be read.")
        return session_page.size_text(session.session.size)
