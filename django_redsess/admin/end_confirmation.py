"""
The page that asks before sessions are ended, what is said afterwards, and where the administrator then returns to.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from django.contrib import messages
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.sites import AdminSite
from django.contrib.admin.utils import quote, unquote
from django.contrib.admin.views.main import SEARCH_VAR, ChangeList
from django.contrib.auth import get_user_model
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.urls import NoReverseMatch, reverse
from django.utils.formats import number_format
from django.utils.html import conditional_escape, format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe
from django.utils.text import Truncator
from django.utils.translation import gettext, ngettext

from django_redsess import online
from django_redsess.admin.end_form import EndForm, Progress, signed_progress
from django_redsess.admin.end_permissions import AllEnded, EndRulesMixin, may_change_users, missing, own_sid_of
from django_redsess.admin.filters import USER, chosen
from django_redsess.admin.links import query_of
from django_redsess.models import OnlineSession
from django_redsess.online import labels
from django_redsess.online.ending import too_few
from django_redsess.online.labels import when
from django_redsess.online.listing import SessionFilter
from django_redsess.querysets import users_by_id
from django_redsess.session import notice
from django_redsess.signals import EndedSession

if TYPE_CHECKING:
    from django_redsess.querysets import SessionQuerySet


FILTERS = "_changelist_filters"
"""The parameter with the query string of the list to return to. Django's admin has the same name for it."""

PAGE = "_return_to"
"""The parameter that names another page to return to: the list of users, or a user's page."""

FILTERS_MAX = 2000
"""A longer query string is dropped: web servers refuse long URLs."""

USERS, USER_PAGE = "users", "user:"


class ReturnPage(NamedTuple):
    """
    The page to return to.

    ``filters`` is the query string of its list. ``page`` is ``""`` for the list of sessions, ``"users"`` for the list
    of users, and ``"user:"`` with the primary key for a user's page. Both may come from a URL: they never name another
    page than these.
    """

    filters: str = ""
    page: str = ""

    @property
    def parameters(self) -> dict[str, str]:
        """The parameters of a URL, or the hidden fields of a form, that :func:`return_page_of` reads."""
        return {name: value for name, value in {FILTERS: self.filters, PAGE: self.page}.items() if value}

    def url(self, site: AdminSite) -> str:
        """Return the URL of the page in ``site``."""
        users = get_user_model()._meta
        try:
            if self.page.startswith(USER_PAGE):
                url = _reverse(site, f"{users.app_label}_{users.model_name}_change", quote(self.page[len(USER_PAGE) :]))
                # A user's page carries the query string of the list that it was reached from.
                return _with_query(url, _encoded({FILTERS: self.filters}) if self.filters else "")
            if self.page == USERS:
                return _with_query(_reverse(site, f"{users.app_label}_{users.model_name}_changelist"), self.filters)
        except NoReverseMatch:  # No such page, or users have none in this site.
            return _url_of_list(site)
        return _with_query(_url_of_list(site), self.filters)


def return_page_of(request: HttpRequest) -> ReturnPage:
    """
    Return the page to return to.

    From a list it is that list as ``request`` shows it. From a session's page it is the list that the page was reached
    from. From a user's page it is that page. The pages that ask and end pass on what they came with.
    """
    match = request.resolver_match
    users, sessions = get_user_model()._meta, OnlineSession._meta
    of_user = f"{users.app_label}_{users.model_name}"
    lists = {f"{of_user}_changelist": USERS, f"{sessions.app_label}_{sessions.model_name}_changelist": ""}
    name = match.url_name if match else None
    if name in lists:
        return ReturnPage(_checked(request.GET.urlencode()), lists[name])
    given = request.POST if request.method == "POST" else request.GET
    filters = _checked(given.get(FILTERS, ""))
    if match and name == f"{of_user}_change":
        return ReturnPage(filters, USER_PAGE + unquote(match.kwargs["object_id"]))
    return ReturnPage(filters, given.get(PAGE, "")[:FILTERS_MAX])


def end_url(request: HttpRequest, site: AdminSite, *, sid: str | None = None, query: str | None = None) -> str:
    """
    Return the URL of the page that asks whether to end the session ``sid``.

    Without ``sid``, it asks about all sessions that match ``query``: a query string of the list. Without both, about
    everyone's. It returns to the page that ``request`` shows.
    """
    parameters = QueryDict(query or "", mutable=True)
    if sid is not None:
        parameters["sid"] = sid
    for name, value in return_page_of(request).parameters.items():
        parameters[name] = value
    return _with_query(_reverse(site, "django_redsess_onlinesession_confirm"), parameters.urlencode())


def without_return_page(query: QueryDict) -> str:
    """Return the query string of ``query`` without the parameters that say where to return to."""
    kept = query.copy()
    for name in (FILTERS, PAGE):
        kept.pop(name, None)
    return kept.urlencode()


def _checked(query: str) -> str:
    # Encoded again, it is a query string whatever it was.
    return QueryDict(query).urlencode() if len(query) <= FILTERS_MAX else ""


def _encoded(parameters: dict[str, str]) -> str:
    query = QueryDict(mutable=True)
    query.update(parameters)
    return query.urlencode()


def _with_query(url: str, query: str) -> str:
    return f"{url}?{query}" if query else url


def _url_of_list(site: AdminSite) -> str:
    return _reverse(site, "django_redsess_onlinesession_changelist")


def _reverse(site: AdminSite, name: str, *args: str) -> str:
    return reverse(f"admin:{name}", args=args, current_app=site.name)


NAMES_MAX = 3
"""A message names so many users."""

NAME_MAX = 100
"""A longer name is cut after so many characters."""


class EndAnswersMixin(EndRulesMixin):
    """The part of ``OnlineSessionAdmin`` that says what has ended, and leads back."""

    end_template = "admin/django_redsess/onlinesession/end_confirmation.html"

    def _back(self, request: HttpRequest) -> HttpResponse:
        return HttpResponseRedirect(return_page_of(request).url(self.admin_site))

    def _question(self, request: HttpRequest, context: dict[str, Any]) -> HttpResponse:
        page = return_page_of(request)
        context = {"return_parameters": page.parameters, "back": page.url(self.admin_site), **context}
        return self.page(request, self.end_template, context.pop("title", gettext("End sessions")), context)

    def _answer(
        self, request: HttpRequest, text: SafeString, replicas: int | None, again: dict[str, Any]
    ) -> HttpResponse:
        """Say what has ended, in ``text``. If too few replicas have confirmed it, show a form that looks ``again``."""
        if not text:
            return self._back(request)
        text = format_html("{} {}", text, labels.confirmed(replicas)) if replicas is not None else text
        if not too_few(replicas):
            messages.success(request, text)
        elif own_sid_of(request) is None:  # Signed out.
            messages.warning(request, text)
        else:
            form = EndForm(initial={**again, "again": True, "own": False, "deactivate": ""})
            return self._question(request, {"unconfirmed": text, "number": 1, "continues": True, "form": form})
        return self._back(request)

    def _answer_deactivation(self, request: HttpRequest, user: Any, result: AllEnded, message: str) -> HttpResponse:
        """Say that the account of ``user`` was deactivated, and how many sessions have ended."""
        name, query = _name_html(str(user)), query_of([online.user_id_of(user)])
        again: dict[str, Any] = {"query": query, "message": message}
        if result.is_outage:
            text = filled(
                gettext(
                    "The account of %(user)s was deactivated: nobody can sign in with it. But its sessions could not "
                    "be ended, because the server of the sessions does not answer. Look again in a while."
                ),
                user=name,
            )
            # Without a time, this form asks the question again.
            context = {"unconfirmed": text, "number": 1, "continues": True, "form": EndForm(initial=again)}
            return self._question(request, context)
        messages.success(request, filled(gettext("The account of %(user)s was deactivated."), user=name))
        if too_few(result.confirmed_by):
            _, latest = online.census(SessionFilter((online.user_id_of(user),)))
            progress = Progress(len(result.ended), len(result.ended))
            again |= {"latest": latest, "progress": signed_progress(request, query, latest, progress)}
        return self._answer(request, ended_text(result.ended), result.confirmed_by, again)

    def _report_gone(self, request: HttpRequest, count: int) -> None:
        if count > 0:
            text = ngettext(
                "%(count)s session was not ended: it was over already.",
                "%(count)s sessions were not ended: they were over already.",
                count,
            )
            messages.warning(request, text % {"count": number_format(count, force_grouping=True)})

    def _report_protected(self, request: HttpRequest, count: int) -> None:
        if not count:
            return
        if self._has_custom_rule:
            text = ngettext(
                "%(count)s session was not ended: you may not end it.",
                "%(count)s sessions were not ended: you may not end them.",
                count,
            )
        else:
            text = ngettext(
                "%(count)s session was not ended: it is a superuser's, and only superusers can end it.",
                "%(count)s sessions were not ended: they are superusers', and only superusers can end them.",
                count,
            )
        messages.warning(request, text % {"count": number_format(count, force_grouping=True)})


def count_text(count: int) -> SafeString:
    """Say how many sessions have ended; nothing for none."""
    if not count:
        return SafeString()
    text = ngettext("%(count)s session was ended.", "%(count)s sessions were ended.", count)
    return filled(text, count=number_format(count, force_grouping=True))


def ended_text(ended: Sequence[EndedSession], rows: Mapping[str, OnlineSession] | None = None) -> SafeString:
    """
    Say how many sessions have ended, and whose they were, as HTML.

    Names are as the list shows them. ``rows`` are the sessions by sid: if one has ended, it says of which browser.
    """
    if len(ended) == 1 and (row := (rows or {}).get(ended[0].sid)) is not None:
        client = ", ".join(filter(None, (labels.browser_name(row.user_agent), row.address)))
        if client and row.user_id:
            text = gettext("The session of %(user)s was ended: %(client)s.")
            return filled(text, user=_name_html(str(row)), client=_name_html(client))
        if client:
            return filled(gettext("The session of a guest was ended: %(client)s."), client=_name_html(client))
    user_ids = list(dict.fromkeys(session.user_id for session in ended if session.user_id))
    if not user_ids:
        return count_text(len(ended))
    names, shown = names_of(*user_ids[:NAMES_MAX]), number_format(len(ended), force_grouping=True)
    if len(user_ids) == 1 and all(session.user_id for session in ended):
        text = ngettext(
            "%(count)s session of %(user)s was ended.", "%(count)s sessions of %(user)s were ended.", len(ended)
        )
        return filled(text, count=shown, user=names)
    more = len(user_ids) - NAMES_MAX
    if more > 0:
        text = ngettext("Users: %(users)s and %(count)s more.", "Users: %(users)s and %(count)s more.", more)
        users = filled(text, users=names, count=number_format(more, force_grouping=True))
    else:
        users = filled(gettext("Users: %(users)s."), users=names)
    return format_html("{} {}", count_text(len(ended)), users)


def filled(text: str, **values: str) -> SafeString:
    """Return the translated ``text`` as HTML, with its placeholders filled."""
    escaped = {name: conditional_escape(value) for name, value in values.items()}
    return mark_safe(conditional_escape(text) % escaped)  # noqa: S308  # all parts are escaped


def names_of(*user_ids: str) -> SafeString:
    """Return the names of these users as the list shows them, as HTML."""
    users, names = users_by_id(set(user_ids)), []
    for user_id in user_ids:
        row = OnlineSession(user_id=user_id)
        row.user = users.get(user_id)
        names.append((_name_html(str(row)),))
    return format_html_join(", ", "{}", names)


def _name_html(name: str) -> SafeString:
    # <bdi> keeps a name that is written from right to left from reordering the text beside it.
    return format_html("<bdi>{}</bdi>", Truncator(notice.clean(name)).chars(NAME_MAX))


SIDS_MAX = 1000
"""The most sessions that a request can end by their sids."""

ROWS_MAX = 10
"""The question shows so many of the sessions."""

PARTS_MAX = 5
"""To find these rows, so many times as many sessions are read: some may stay."""


class EndQuestionMixin(EndAnswersMixin):
    """The part of ``OnlineSessionAdmin`` that asks before it ends sessions."""

    def ask(self, request: HttpRequest, choice: dict[str, Any], form: EndForm | None = None) -> HttpResponse:
        """Show which sessions would end, with their exact number: ``choice`` has ``sids``, or the list's ``query``."""
        self._require_permission(request)
        about: dict[str, Any] = {}
        if "query" in choice and not choice.get("sids"):
            listed = self._listed(request, str(choice["query"]))
            matching, about = _sessions_of(listed), _about(listed)
            if self._are_everyones(request, matching) and not self.has_end_all_permission(request):
                messages.warning(request, missing("end_all_onlinesession"))
                return self._back(request)
            if (sids := self._sids_of(request, matching)) is None:
                context = self._context_of_query(request, matching)
                return self._ask_about(request, choice, about | context, form)
            choice = {"sids": " ".join(sids)}
        context = self._context_of_sids(request, choice.get("sids", "").split()[:SIDS_MAX])
        if context["found"]:
            return self._ask_about(request, choice, about | context, form)
        self._report_gone(request, context["gone"])
        if not context["gone"]:
            messages.warning(request, gettext("There is no session here that you can end."))
        return self._back(request)

    def _ask_about(
        self, request: HttpRequest, choice: dict[str, Any], context: dict[str, Any], form: EndForm | None
    ) -> HttpResponse:
        latest = context.get("latest") or ""
        progress = signed_progress(request, choice.get("query", ""), latest, Progress(total=context["number"]))
        if context.get("to_deactivate") and not (context["number"] or context["own"]):
            context = {**context, "title": gettext("Deactivate the account")}
        counted_now = {"latest": latest, "progress": progress if latest else ""}
        if form is None:
            form = EndForm(initial={**choice, **counted_now})
        else:
            form.data = {**request.POST.dict(), **counted_now}
        return self._question(request, {**context, "form": form})

    def _context_of_sids(self, request: HttpRequest, sids: Sequence[str]) -> dict[str, Any]:
        # A session may have got another sid since the list was shown.
        found = self.look_up(request, *(session.sid for session in online.find(sids, follow=True)))
        own_sid = own_sid_of(request)
        protected = {session.sid for session in found if not self.has_end_permission(request, session)}
        number = sum(session.sid not in {*protected, own_sid} for session in found)
        return {
            "found": found,
            "gone": len(set(sids)) - len(found),
            "protected": len(protected),
            "own": any(session.sid == own_sid for session in found),
            "number": number,
            "asks_each": self._has_custom_rule and protected,
            **self._rows(request, found, number, len(found)),
            **self._deactivation(request, {session.user_id for session in found}, len(protected)),
        }

    def _context_of_query(self, request: HttpRequest, matching: SessionQuerySet) -> dict[str, Any]:
        asked = matching.session_filter
        total, at = online.census(asked.of_any_client)
        if asked.names_client:
            total = matching.count()
        protected = self._count_protected(request, matching)
        is_own = bool(self._own_among(request, matching))
        number = max(0, total - protected - is_own)
        # Not for a user without a session: that would tell which user ids exist.
        user_ids = (asked.user_ids or ()) if total else ()
        return {
            "latest": at,
            "protected": protected,
            "own": is_own,
            "number": number,
            # What a search has found ends up to this number. All other sessions end by their list, to the last.
            "is_least": not asked.names_client and asked.active_seconds is not None and matching.is_cut,
            "asks_each": self._asks_each,
            "one_user": names_of(*user_ids) if len(user_ids) == 1 else "",
            **self._rows(request, _in_parts(matching), number, total),
            # Asked of those who may change the user only: who has no session is told to nobody else.
            **self._deactivation(request, asked.user_ids or (), protected),
        }

    def _rows(self, request: HttpRequest, sessions: Iterable[OnlineSession], number: int, total: int) -> dict[str, Any]:
        # Those that end. Those that stay have rows only if none ends.
        may_show = partial(self._may_end_other if number else self.has_view_permission, request)
        rows = [
            {
                "session": session,
                "browser": _browser_of(session),
                "signed_in": when(session.login_at) if session.login_at else "",
                "seen": when(session.seen_at),
                "is_own": session.sid == own_sid_of(request),
                "is_protected": not self.has_end_permission(request, session),
            }
            for session in islice(filter(may_show, sessions), ROWS_MAX)
        ]
        return {"rows": rows, "more": max(0, (number or total) - len(rows)), "custom_rule": self._has_custom_rule}

    def _deactivation(self, request: HttpRequest, user_ids: Collection[str], protected: int) -> dict[str, Any]:
        # Offered for one user whose sessions may all be ended.
        if len(user_ids) != 1 or "" in user_ids or protected:
            return {}
        if not may_change_users(request, self.admin_site):
            return {"others_deactivate": True}
        user = self._to_deactivate(request, *user_ids)
        if user is None or not user.is_active:
            return {}
        return {"to_deactivate": user, "to_deactivate_id": online.user_id_of(user)}

    def _sids_of(self, request: HttpRequest, matching: SessionQuerySet) -> list[str] | None:
        # The sids to ask about, if a filter names them or a search has found at most 1 000. A search that is repeated
        # after the question could find sessions that nobody was asked about.
        if matching.sids is None and ((found := matching.found_sids) is None or len(found) > SIDS_MAX):
            return None
        return [session.sid for session in matching[:SIDS_MAX] if self.has_view_permission(request, session)]

    def _matching(self, request: HttpRequest, query: str) -> SessionQuerySet:
        return _sessions_of(self._listed(request, query))

    def _listed(self, request: HttpRequest, query: str) -> ChangeList | None:
        # Read the query as the list does, with its search and filters. None if the list refuses it.
        original, method = request.GET, request.method
        request.GET, request.method = QueryDict(query), "GET"
        try:
            listed = self.get_changelist_instance(request)
            # With a search that its form refuses, Django's list says so and shows all.
            return None if request.GET.get(SEARCH_VAR, "").strip() and not listed.query else listed
        except IncorrectLookupParameters:
            return None
        finally:
            request.GET, request.method = original, method


def _sessions_of(listed: ChangeList | None) -> SessionQuerySet:
    return OnlineSession.online.none() if listed is None else listed.queryset


def _browser_of(session: OnlineSession) -> str:
    name = labels.browser_name(session.user_agent)
    return name if session.address else labels.stored(name)


def _about(listed: ChangeList | None) -> dict[str, Any]:
    # What was searched for and filtered by, or that these are everyone's sessions.
    if listed is None:
        return {}
    filters = chosen(listed)
    everyone = {} if listed.query or filters else {"title": gettext("End everyone else's sessions")}
    # The question itself names a single user.
    by_others = chosen(listed, but=USER) if len(listed.queryset.session_filter.user_ids or ()) == 1 else filters
    return {"term": listed.query, "filters": by_others, **everyone}


def _in_parts(matching: SessionQuerySet) -> Iterator[OnlineSession]:
    for start in range(0, PARTS_MAX * ROWS_MAX, ROWS_MAX):
        part = list(matching[start : start + ROWS_MAX])
        yield from part
        if len(part) < ROWS_MAX:
            return
