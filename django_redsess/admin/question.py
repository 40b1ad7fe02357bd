"""The question whether to end sessions: which ones, how many, and what else may be done with their user."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any

from django.contrib import messages
from django.contrib.admin.views.main import ChangeList
from django.contrib.auth.models import AbstractBaseUser
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.translation import gettext, ngettext

from django_redsess import online
from django_redsess.admin import blocking, pages
from django_redsess.admin.end_form import EndForm, Progress, signed_progress
from django_redsess.admin.filters import selected_choices
from django_redsess.admin.rules import CHECKED_MAX, RulesAdmin
from django_redsess.admin.users import may_change_users, visible_users
from django_redsess.models import OnlineSession
from django_redsess.online import labels
from django_redsess.online.browsers import browser_name
from django_redsess.online.labels import when
from django_redsess.online.listing import SIDS_MAX
from django_redsess.permissions import rules
from django_redsess.querysets import SessionQuerySet

ROWS_MAX = 10  # The question shows so many of the sessions.
PARTS_MAX = 5  # To find these rows, so many times as many sessions are read: some may stay.
COUNTED_MAX = 1000  # The users of so many sessions are counted.


class QuestionAdmin(RulesAdmin):
    """The part of ``OnlineSessionAdmin`` that asks before sessions end."""

    end_template = "admin/django_redsess/onlinesession/end_confirmation.html"
    deactivate_template = "admin/django_redsess/onlinesession/deactivate_confirmation.html"

    def ask(self, request: HttpRequest, choice: dict[str, Any], form: EndForm | None = None) -> HttpResponse:
        """Show which sessions would end, with their exact number: ``choice`` has ``sids``, or the list's ``query``."""
        self._require_permission(request)
        about: dict[str, Any] = {}
        if "query" in choice and not choice.get("sids"):
            listed = self.changelist_of(request, str(choice["query"]))
            matching, about = _sessions_of(listed), _about(listed)
            if self._are_everyones(request, matching) and not self.has_end_all_permission(request):
                messages.warning(request, pages.missing_permission("end_all_onlinesession"))
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
        if not (context["number"] or context["own"]):
            if context.get("to_block"):
                context = {**context, "title": gettext("Block the user")}
            elif context.get("to_deactivate"):
                context = {**context, "title": gettext("Deactivate the account")}
        counted_now = {"latest": latest, "progress": progress if latest else ""}
        if form is None:
            form = EndForm(initial={**choice, **counted_now})
        else:
            form.data = {**request.POST.dict(), **counted_now}
        return self._question(request, {**context, "form": form})

    def ask_to_deactivate(self, request: HttpRequest, user: AbstractBaseUser, data: Mapping[str, Any]) -> HttpResponse:
        """Ask a second time, about the account of ``user`` only. ``data`` are those of the first question's form."""
        page, user_id = pages.return_page_of(request), online.user_id_of(user)
        words = {"message": data["message"], "note": data["note"]}
        context = {
            "to_deactivate": pages.name_html(str(user)),
            "number": OnlineSession.online.of_users([user_id]).count(),
            **words,
            "repeated": {**page.parameters, **words, "deactivate": user_id, "is_confirmed": "on"},
            "back": page.url(self.admin_site),
        }
        return self.render_page(request, self.deactivate_template, gettext("Deactivate the account"), context)

    def _context_of_sids(self, request: HttpRequest, sids: Sequence[str]) -> dict[str, Any]:
        # A session may have got another sid since the list was shown.
        found = self.look_up(request, *(session.sid for session in online.find(sids, follow=True)))
        own_sid = pages.own_sid_of(request)
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
            **self._users(request, found, number),
            **self._deactivation(request, {session.user_id for session in found}, len(protected)),
            **self._blocking(request, {session.user_id for session in found}, len(protected), ends=bool(number)),
        }

    def _context_of_query(self, request: HttpRequest, matching: SessionQuerySet) -> dict[str, Any]:
        asked = matching.session_filter
        total, at = online.count_at(asked.of_any_client)
        if asked.names_client:
            total = matching.count()
        protected = self._count_protected(request, matching)
        is_own = bool(self._own_among(request, matching))
        number = max(0, total - protected - is_own)
        # Not for a user without a session: that would tell which user ids exist.
        user_ids = (asked.user_ids or ()) if total else ()
        is_of_one = len(user_ids) == 1
        listed = _in_parts(matching) if is_of_one or number < 2 else list(matching[:COUNTED_MAX])
        return {
            "latest": at,
            "protected": protected,
            "own": is_own,
            "number": number,
            # What a search has found ends up to this number. All other sessions end by their list, to the last.
            "is_least": not asked.names_client and asked.active_seconds is not None and matching.is_cut,
            "asks_each": self.asks_each or (self._has_custom_rule and protected),
            **self._rows(request, listed, number, total),
            **({"one_user": pages.names_html(*user_ids)} if is_of_one else self._users(request, listed, number)),
            # Asked of those who may change the user only: who has no session is told to nobody else.
            **self._deactivation(request, asked.user_ids or (), protected),
            **self._blocking(request, asked.user_ids or (), protected, ends=bool(number)),
        }

    def _rows(self, request: HttpRequest, sessions: Iterable[OnlineSession], number: int, total: int) -> dict[str, Any]:
        # Those that end. Those that stay have rows only if none ends.
        may_show = partial(self._may_end_other if number else self.has_view_permission, request)
        rows = [
            {
                "session": session,
                "browser": _browser_of(session),
                "signed_in": when(session.created_at) if session.created_at else "",
                "seen": when(session.last_seen_at),
                "is_own": session.sid == pages.own_sid_of(request),
                "is_protected": not self.has_end_permission(request, session),
            }
            for session in islice(filter(may_show, sessions), ROWS_MAX)
        ]
        return {"rows": rows, "more": max(0, (number or total) - len(rows)), "custom_rule": self._has_custom_rule}

    def _users(self, request: HttpRequest, sessions: Iterable[OnlineSession], number: int) -> dict[str, Any]:
        """Count the users of those that end: ``number``, of which ``sessions`` are at most the first 1 000."""
        if number < 2:
            return {}
        ends = [session.user_id for session in sessions if self._may_end_other(request, session)]
        user_ids, is_least = set(ends) - {""}, len(ends) < number
        if len(user_ids) == 1 and "" not in ends and not is_least:
            return {"one_user": pages.names_html(*user_ids)}
        text = ngettext("%(count)s session", "%(count)s sessions", number) % {"count": pages.shown_number(number)}
        return {"users": len(user_ids), "users_are_least": is_least, "has_guests": "" in ends, "sessions": text}

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

    def _blocking(
        self, request: HttpRequest, user_ids: Collection[str], protected: int, *, ends: bool
    ) -> dict[str, Any]:
        # As for deactivating. Who has no session is told only to who may see the user.
        if len(user_ids) != 1 or "" in user_ids or protected or not rules().may_block(request.user):
            return {}
        [user_id] = user_ids
        if not ends and user_id not in visible_users(request, self.admin_site, {user_id}):
            return {}
        user = self.to_block(request, user_id)
        if user is None:
            return {}
        fields = {**pages.return_page_of(request).parameters, blocking.ASKED: "1"}
        block = blocking.shown_block(request, self, user, fields)
        return {"to_block": user, "blocks": blocking.block_buttons(user_id, ends=ends), "block_of_user": block}

    def _sids_of(self, request: HttpRequest, matching: SessionQuerySet) -> list[str] | None:
        # The sids to ask about, if a filter names them or a search has found at most 1 000. A search that is repeated
        # after the question could find sessions that nobody was asked about.
        if matching.sids is None and ((found := matching.found_sids) is None or len(found) > SIDS_MAX):
            return None
        return [session.sid for session in matching[:SIDS_MAX] if self.has_view_permission(request, session)]

    def _matching(self, request: HttpRequest, query: str) -> SessionQuerySet:
        return _sessions_of(self.changelist_of(request, query))

    def _own_among(self, request: HttpRequest, matching: SessionQuerySet) -> list[OnlineSession]:
        # The administrator's own session was seen just now: any filter by time includes it.
        own, user_ids = self.look_up(request, pages.own_sid_of(request) or ""), matching.session_filter.user_ids
        if matching.session_filter.guests == "only":
            return []
        if (found := matching.found_sids) is not None:
            return [session for session in own if session.sid in found]
        if matching.session_filter.names_client:
            return own if matching.filter(sid=pages.own_sid_of(request)).exists() else []
        return [session for session in own if user_ids is None or session.user_id in user_ids]

    def _count_protected(self, request: HttpRequest, matching: SessionQuerySet) -> int:
        """Count the sessions of superusers among those that match, if the administrator may not end them."""
        superusers, session_filter = self._protected_user_ids(request), matching.session_filter
        if session_filter.user_ids is not None:
            superusers = [user_id for user_id in superusers if user_id in session_filter.user_ids]
        if not superusers or session_filter.guests == "only":
            return 0
        if (found := matching.found_sids) is not None:
            of_them = OnlineSession.online.of_users(superusers)
            # Reading all that a search has found takes half a second. Superusers usually have fewer sessions.
            if of_them.count() <= CHECKED_MAX:
                found_sids = set(found)
                return sum(session.sid in found_sids for session in of_them)
            return sum(session.user_id in superusers for session in matching)
        of_superusers = session_filter._replace(user_ids=tuple(superusers), guests=False)
        return online.count(**of_superusers._asdict())

    def _question(self, request: HttpRequest, context: dict[str, Any]) -> HttpResponse:
        page = pages.return_page_of(request)
        context = {"return_parameters": page.parameters, "back": page.url(self.admin_site), **context}
        return self.render_page(request, self.end_template, context.pop("title", gettext("End sessions")), context)

    def _back(self, request: HttpRequest) -> HttpResponse:
        return HttpResponseRedirect(pages.return_page_of(request).url(self.admin_site))

    def _report_gone(self, request: HttpRequest, count: int) -> None:
        if count > 0:
            text = ngettext(
                "%(count)s session was not ended: it was over already.",
                "%(count)s sessions were not ended: they were over already.",
                count,
            )
            messages.warning(request, text % {"count": pages.shown_number(count)})


def _sessions_of(listed: ChangeList | None) -> SessionQuerySet:
    return OnlineSession.online.none() if listed is None else listed.queryset


def _browser_of(session: OnlineSession) -> str:
    name = browser_name(session.user_agent)
    return name if session.address else labels.or_not_stored(name)


def _about(listed: ChangeList | None) -> dict[str, Any]:
    # What was searched for and filtered by, or that these are everyone's sessions.
    if listed is None:
        return {}
    filters = selected_choices(listed)
    everyone = {} if listed.query or filters else {"title": gettext("End everyone else's sessions")}
    # The question itself names a single user.
    by_others = (
        selected_choices(listed, but=pages.USER) if len(listed.queryset.session_filter.user_ids or ()) == 1 else filters
    )
    return {"term": listed.query, "filters": by_others, **everyone}


def _in_parts(matching: SessionQuerySet) -> Iterator[OnlineSession]:
    for start in range(0, PARTS_MAX * ROWS_MAX, ROWS_MAX):
        part = list(matching[start : start + ROWS_MAX])
        yield from part
        if len(part) < ROWS_MAX:
            return
