"""Ending sessions in the admin: the action, the page that asks first, and the view that ends them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.options import IncorrectLookupParameters
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, QueryDict
from django.urls import URLPattern, path
from django.utils.formats import number_format
from django.utils.translation import gettext, gettext_lazy, ngettext

from django_redsess import online
from django_redsess.admin import history
from django_redsess.admin.end_form import EndForm, Progress, progress_of, signed_progress
from django_redsess.admin.end_rules import EndRulesMixin, own_sid_of
from django_redsess.admin.one_by_one import OneByOneEnding
from django_redsess.conf import conf
from django_redsess.models import OnlineSession
from django_redsess.online import presentation
from django_redsess.online.ending import BulkEnding, end_batch, least, too_few
from django_redsess.online.queries import SessionFilter
from django_redsess.querysets.sessions import users_by_id
from django_redsess.signals import EndedSession

if TYPE_CHECKING:
    from django.db.models import QuerySet

    from django_redsess.querysets.sessions import SessionQuerySet

SIDS_MAX = 1000
"""The most sessions that a request can end by their sids."""

END_MAX = 50_000
"""After so many sessions a request stops, and its page offers to continue."""

END_SECONDS = 5.0
"""After so long a request stops, too."""


class EndSessionsMixin(EndRulesMixin):
    """The part of ``OnlineSessionAdmin`` that ends sessions."""

    end_template = "admin/django_redsess/onlinesession/end_confirmation.html"

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view
        # The first asks, by GET. The second ends sessions, by POST only.
        return [
            path("confirm/", view(self.confirm_view), name="django_redsess_onlinesession_confirm"),
            path("end/", view(self.end_view), name="django_redsess_onlinesession_end"),
            *super().get_urls(),
        ]

    @admin.action(description=gettext_lazy("End selected sessions"), permissions=["end"])
    def end_selected(self, request: HttpRequest, queryset: QuerySet[OnlineSession]) -> HttpResponse:
        """Ask whether to end the selected sessions, or all that match the list's query."""
        if request.POST.get("select_across") == "1":
            return self.ask(request, {"query": request.GET.urlencode()})
        return self.ask(request, {"sids": " ".join(request.POST.getlist(ACTION_CHECKBOX_NAME)[:SIDS_MAX])})

    def confirm_view(self, request: HttpRequest) -> HttpResponse:
        """Ask whether to end the session ``sid``; without that parameter, all that match the query."""
        if request.method not in ("GET", "HEAD"):
            return HttpResponseNotAllowed(["GET", "HEAD"])
        sid = request.GET.get("sid")
        return self.ask(request, {"query": request.GET.urlencode()} if sid is None else {"sids": sid})

    def end_view(self, request: HttpRequest) -> HttpResponse:
        """End the sessions that were confirmed, and save that in the users' histories."""
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        self._require_permission(request)
        form = EndForm(request.POST)
        if not form.is_valid():
            return self.ask(request, request.POST.dict(), form)
        if form.cleaned_data["sids"]:
            return self._end_by_sid(request, form)
        return self._end_by_query(request, form)

    def ask(self, request: HttpRequest, choice: dict[str, Any], form: EndForm | None = None) -> HttpResponse:
        """Show which sessions would end, with their exact number: ``choice`` has ``sids``, or the list's ``query``."""
        self._require_permission(request)
        if "query" in choice and not choice.get("sids"):
            matching = self._matching(request, str(choice.get("query", "")))
            if matching.sids is None:
                return self._ask_about(request, choice, self._context_of_query(request, matching.session_filter), form)
            choice = {"sids": " ".join(matching.sids)}
        context = self._context_of_sids(request, choice.get("sids", "").split()[:SIDS_MAX])
        if context["found"]:
            return self._ask_about(request, choice, context, form)
        self._report_gone(request, context["gone"])
        if not context["gone"]:
            messages.warning(request, gettext("There is no session here that you can end."))
        return self.to_list()

    def _ask_about(
        self, request: HttpRequest, choice: dict[str, Any], context: dict[str, Any], form: EndForm | None
    ) -> HttpResponse:
        latest = context.get("latest") or ""
        progress = signed_progress(request, choice.get("query", ""), latest, Progress(total=context["number"]))
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
        return {
            "found": found,
            "gone": len(set(sids)) - len(found),
            "protected": len(protected),
            "protected_sids": protected,
            "custom_rule": self._has_custom_rule,
            "own_sid": own_sid,
            "own": any(session.sid == own_sid for session in found),
            "number": sum(session.sid not in {*protected, own_sid} for session in found),
        }

    def _context_of_query(self, request: HttpRequest, session_filter: SessionFilter) -> dict[str, Any]:
        total, at = online.census(session_filter)
        superusers = self._protected_user_ids(request)
        if session_filter.user_ids is not None:
            superusers = [user_id for user_id in superusers if user_id in session_filter.user_ids]
        protected = online.count(user_ids=superusers, active_seconds=session_filter.active_seconds) if superusers else 0
        is_own = bool(self._own_among(request, session_filter))
        return {
            "latest": at,
            "protected": protected,
            "own": is_own,
            "own_sid": own_sid_of(request),
            "number": max(0, total - protected - is_own),
            "asks_each": self._asks_each,
            # Not for a user without a session: that would tell which user ids exist.
            "one_user": _only_user(session_filter) if total else "",
        }

    def _end_by_sid(self, request: HttpRequest, form: EndForm) -> HttpResponse:
        data, own_sid, superusers = form.cleaned_data, own_sid_of(request), self._protected_user_ids(request)
        chosen = set(data["sids"].split()[:SIDS_MAX])
        # A session may have got another sid since the page was shown, the administrator's own too.
        current = [session.sid for session in online.find(list(chosen), follow=True)]
        over = [] if conf.CONFIRM_ENDS is None else list(chosen.difference(current))
        found = {session.sid: session for session in self.look_up(request, *current)}
        gone = len(chosen) - len(found)
        if own_sid in found and not data["own"]:
            if len(found) == 1:
                form.add_error("own", gettext("This is the session you are working in. Tick the box to end it."))
                return self.ask(request, data, form)
            del found[own_sid]
        sids = [sid for sid, session in found.items() if self.has_end_permission(request, session)]
        # A guest may sign in as a superuser meanwhile: the script looks again.
        ended = online.end(*sids, message=data["message"], keep_users=superusers)
        # Ending what is over looks again how many replicas have it.
        replicas = least(ended.confirmed_by, end_batch(over, keep_users=superusers).confirmed_by)
        history.save_ends(request, ended, data["message"])
        self._sign_out_if_own(request, ended)
        again = sorted(chosen if data["again"] else {session.sid for session in ended})
        response = self._answer(request, len(again), replicas, {**data, "sids": " ".join(again)})
        self._report_protected(request, len(found) - len(sids))
        if not data["again"]:
            self._report_gone(request, gone + len(sids) - len(ended))
        return response

    def _end_by_query(self, request: HttpRequest, form: EndForm) -> HttpResponse:
        data = form.cleaned_data
        matching, progress = self._matching(request, data["query"]), progress_of(request, data)
        if data["latest"] is None or matching.sids is not None or progress is None:
            # This form is not from our page, or the query now means something else.
            return self.ask(request, data)
        work = self._work(request, matching, data, progress)
        started, ended, replicas = time.monotonic(), list[EndedSession](), progress.confirmed_by
        while not work.done and len(ended) < END_MAX and time.monotonic() - started < END_SECONDS:
            batch = work.end_batch()
            ended += batch
            replicas = least(replicas, batch.confirmed_by)
        if work.done and data["own"]:
            own = self._own_among(request, matching.session_filter)
            if any(self.has_end_permission(request, session) for session in own):
                batch = online.end(own_sid_of(request) or "", message=data["message"])
                ended += batch
                replicas = least(replicas, batch.confirmed_by)
        history.save_ends(request, ended, data["message"])
        so_far = progress.ended + len(ended)
        if not work.done:
            progress = Progress(so_far, max(so_far, progress.total), getattr(work, "kept", 0), replicas)
            signed = signed_progress(request, data["query"], data["latest"], progress)
            rest = EndForm(initial={**data, "progress": signed})
            return self._question(request, {"ended": so_far, "number": progress.total, "continues": True, "form": rest})
        self._sign_out_if_own(request, ended)
        if not so_far:
            messages.warning(request, gettext("There is no session here that you can end."))
        signed = signed_progress(request, data["query"], data["latest"], Progress(so_far, so_far))
        return self._answer(request, so_far, replicas, {**data, "progress": signed})

    def _work(
        self, request: HttpRequest, matching: SessionQuerySet, data: dict[str, Any], progress: Progress
    ) -> BulkEnding | OneByOneEnding:
        keep_users = self._protected_user_ids(request)
        options: dict[str, Any] = {"message": data["message"], "latest": data["latest"], "keep_users": keep_users}
        if self._asks_each:
            return OneByOneEnding(matching, partial(self._may_end_other, request), progress.kept, **options)
        return BulkEnding(matching.session_filter, keep=[own_sid_of(request) or ""], **options)

    def _question(self, request: HttpRequest, context: dict[str, Any]) -> HttpResponse:
        return self.page(request, self.end_template, gettext("End sessions"), context)

    def _matching(self, request: HttpRequest, query: str) -> SessionQuerySet:
        # Read the query as the list does, with its search and filters.
        original, method = request.GET, request.method
        request.GET, request.method = QueryDict(query), "GET"
        try:
            return self.get_changelist_instance(request).queryset  # type: ignore[no-any-return]
        except IncorrectLookupParameters:
            return OnlineSession.online.none()
        finally:
            request.GET, request.method = original, method

    def _sign_out_if_own(self, request: HttpRequest, ended: Sequence[EndedSession]) -> None:
        if own_sid_of(request) in {session.sid for session in ended}:
            # Messages may be kept in the session. They would be saved to one that has ended.
            request.session.flush()

    def _answer(self, request: HttpRequest, count: int, replicas: int | None, again: dict[str, Any]) -> HttpResponse:
        """Say how many sessions have ended. If too few replicas have that, show a page whose form looks ``again``."""
        if not count:
            return self.to_list()
        text = ngettext("%(count)s session was ended.", "%(count)s sessions were ended.", count)
        text = f"{text % {'count': number_format(count, force_grouping=True)}} {presentation.confirmed(replicas)}"
        if not too_few(replicas):
            messages.success(request, text.rstrip())
        elif own_sid_of(request) is None:  # Signed out.
            messages.warning(request, text)
        else:
            form = EndForm(initial={**again, "again": True, "own": False})
            return self._question(request, {"unconfirmed": text, "number": count, "continues": True, "form": form})
        return self.to_list()

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


def _only_user(session_filter: SessionFilter) -> str:
    if session_filter.user_ids is None or len(session_filter.user_ids) != 1:
        return ""
    [user_id] = session_filter.user_ids
    return str(users_by_id({user_id}).get(user_id, user_id))
