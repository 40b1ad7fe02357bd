"""The search box of the admin's list of sessions."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from django.contrib import messages
from django.contrib.admin.utils import NotRelationField, get_fields_from_path
from django.contrib.admin.views.main import PAGE_VAR, SEARCH_VAR, ChangeList
from django.contrib.auth import get_user_model
from django.core.exceptions import FieldDoesNotExist
from django.db.models.constants import LOOKUP_SEP
from django.http import HttpRequest
from django.utils.text import Truncator
from django.utils.translation import gettext

from django_redsess import online
from django_redsess.admin import links
from django_redsess.admin.endings import EndSessionsMixin
from django_redsess.admin.filters import BROWSER, EVERYONE, GUESTS, USER, WHO, ids_of, users_admin, visible_users
from django_redsess.admin.links import query_of
from django_redsess.admin.returning import end_url
from django_redsess.conf import conf
from django_redsess.models import OnlineSession
from django_redsess.online.browsers import BROWSERS
from django_redsess.session.networks import network_of

if TYPE_CHECKING:
    from django.db.models import Model, QuerySet

    from django_redsess.querysets.sessions import SessionQuerySet

ABSENT_MAX = 3
"""An empty list names so many users who are not signed in."""

SEARCH_MAX = 200
"""The longest text that is searched for: each word nests the database's query deeper."""

# Four numbers, or two colons.
_LIKE_ADDRESS = re.compile(r"\[?(\d+(\.\d+){3}|[\da-f.]*:[\da-f.]*:)[\da-f.:\]]*(/\d*)?", re.IGNORECASE)


class AbsentUser(NamedTuple):
    """A user who is not signed in. ``deactivate_url`` is ``""`` for who may not deactivate the account."""

    name: str
    is_active: bool
    url: str
    deactivate_url: str


class SearchMixin(EndSessionsMixin):
    """The part of ``OnlineSessionAdmin`` that searches: by session id, address or network, user, and browser."""

    search_fields = ("user",)

    def get_changelist_instance(self, request: HttpRequest) -> ChangeList:
        found = super().get_changelist_instance(request)
        found.search_help_text = str(self.search_help_text or self._search_help(request))
        if request.GET.get(WHO) in (GUESTS, EVERYONE):
            # Django has counted signed-in sessions: without any, it would offer no actions.
            listed = cast("SessionQuerySet", found.root_queryset)
            visitors = listed.only_guests() if request.GET[WHO] == GUESTS else listed.with_guests()
            found.full_result_count = visitors.count()
            found.show_admin_actions = bool(found.full_result_count)
        return found

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[OnlineSession], search_term: str
    ) -> tuple[QuerySet[OnlineSession], bool]:
        """Find a session by its whole id, sessions by address or network, or those of the users who match."""
        sessions: SessionQuerySet = queryset  # type: ignore[assignment]
        term = search_term.strip()
        if not term:
            return sessions, False
        by_sid = (sessions if sessions.session_filter.guests else sessions.with_guests()).filter(sid=term)
        if any(self.has_view_permission(request, session) for session in by_sid):
            return by_sid, False
        if len(term) > SEARCH_MAX:
            return sessions.none(), False
        if network := network_of(term):
            return sessions.of_network(network.text), False
        return sessions.of_users(ids_of(request, self._users_of(request, term), sessions)), False

    def absent_users(self, request: HttpRequest, changelist: ChangeList) -> list[AbsentUser]:
        """
        Return up to 3 users whom an empty list asks for, and who are not signed in.

        None if there are more, for administrators who may not see users, and where a site does not list all sessions.
        """
        term, user_ids = changelist.query.strip(), request.GET.getlist(USER)
        of_users = users_admin(request, self.admin_site)
        if changelist.result_count or of_users is None or len(term) > SEARCH_MAX or not (term or user_ids):
            return []
        if term:
            users = list(self._users_of(request, term)[: ABSENT_MAX + 1])
        else:
            users = list(visible_users(request, self.admin_site, set(user_ids[: ABSENT_MAX + 1])).values())
        users = [user for user in users if of_users.has_view_or_change_permission(request, user)]
        every, listed = OnlineSession.online.all(), self.sessions(request)
        if len(users) > ABSENT_MAX or listed.sids is not None or listed.session_filter != every.session_filter:
            return []
        return [self._absent(request, user) for user in users if not every.of_users([online.user_id_of(user)]).exists()]

    def search_notes(self, changelist: ChangeList) -> list[str]:
        """Return sentences that say what the search can't find."""
        term, asked, notes = changelist.query.strip(), changelist.queryset.session_filter, list[str]()
        if not changelist.result_count and _LIKE_ADDRESS.fullmatch(term[:SEARCH_MAX]) and network_of(term) is None:
            notes.append(gettext("This is neither an address nor a network, such as 198.51.100.7 or 198.51.100.0/24."))
        if asked.guests and (asked.browser is not None or asked.system is not None):
            notes.append(gettext("The browsers of guests are not stored."))
        if asked.guests and asked.network is not None and not conf.INDEX_ADDRESSES:
            notes.append(
                gettext("The addresses of guests are not stored without %(setting)s.") % {"setting": "INDEX_ADDRESSES"}
            )
        return notes

    def query_by_browser(self, request: HttpRequest, changelist: ChangeList) -> str:
        """
        Return the query string that finds browsers by the searched text, if it finds no user but browsers; else ``""``.

        The query string has a filter in place of the search. A search that meant users now and browsers later could end
        other sessions than the page showed.
        """
        term = changelist.query.strip()
        if changelist.result_count or not term or len(term) > SEARCH_MAX or network_of(term) or BROWSER in request.GET:
            return ""
        query = request.GET.copy()
        query.pop(SEARCH_VAR, None)
        query.pop(PAGE_VAR, None)
        # The filter has a choice of this name.
        query[BROWSER] = next((name for name in BROWSERS if name.lower() == term.lower()), term)
        if not self._matching(request, query.urlencode()).exists():
            return ""
        text = gettext("Nobody who is signed in matches “%(term)s”. These are the sessions whose browser matches.")
        messages.info(request, text % {"term": Truncator(term).chars(60)})
        return query.urlencode()

    def _users_of(self, request: HttpRequest, term: str) -> QuerySet[Any]:
        users: QuerySet[Any] = get_user_model()._base_manager.all()
        of_users = users_admin(request, self.admin_site)
        if of_users is not None:
            users = of_users.get_queryset(request)
        if of_users is not None and of_users.get_search_fields(request):
            users, _ = of_users.get_search_results(request, users, term)
        else:
            # By searching other fields, an administrator who may not see users could guess them letter by letter.
            users = users.filter(**{f"{get_user_model().USERNAME_FIELD}__icontains": term})
        return users.order_by("pk")

    def _absent(self, request: HttpRequest, user: Any) -> AbsentUser:
        is_active, deactivate_url, user_id = getattr(user, "is_active", True), "", online.user_id_of(user)
        if is_active and self.has_end_permission(request) and self._to_deactivate(request, user_id):
            deactivate_url = end_url(request, self.admin_site, query=query_of([user_id]))
        return AbsentUser(str(user), is_active, links.admin_url(user, self.admin_site), deactivate_url)

    def _search_help(self, request: HttpRequest) -> str:
        of_users = users_admin(request, self.admin_site)
        user_model = get_user_model()
        fields = (of_users.get_search_fields(request) if of_users else ()) or (user_model.USERNAME_FIELD,)
        names = dict.fromkeys(_name_of(user_model, str(field)) for field in fields)
        # A theme may show the beginning only: who knows the page of users expects the rest.
        text = gettext("Search by address, network (198.51.100.0/24), browser, session id or user (%(fields)s)")
        return text % {"fields": ", ".join(name for name in names if name)}


def _name_of(model: type[Model], search_field: str) -> str:
    # The first character and the last part may say how Django compares.
    path = search_field.lstrip("^=@")
    while path:
        try:
            field = get_fields_from_path(model, path)[-1]
        except (FieldDoesNotExist, NotRelationField):
            path = path.rpartition(LOOKUP_SEP)[0]
        else:
            return str(getattr(field, "verbose_name", ""))
    return ""
