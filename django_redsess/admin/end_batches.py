"""
Ending sessions in the admin: the action, the page that asks first, and the view that ends them, batch by batch.

Where a rule in Python decides about each session, or a search found them, the sessions are read first and ended one by
one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.urls import URLPattern, path
from django.utils.safestring import SafeString
from django.utils.translation import gettext, gettext_lazy

from django_redsess import online
from django_redsess.admin import history
from django_redsess.admin.end_confirmation import (
    SIDS_MAX,
    EndQuestionMixin,
    count_text,
    end_url,
    ended_text,
    without_return_page,
)
from django_redsess.admin.end_form import EndForm, Progress, progress_of, signed_progress
from django_redsess.admin.end_permissions import deactivate, own_sid_of
from django_redsess.admin.links import query_of
from django_redsess.conf import conf
from django_redsess.models import OnlineSession
from django_redsess.online import EndedList
from django_redsess.online.ending import BulkEnding, end_batch, least, recheck_replicas
from django_redsess.session.script_calls import AT_ONCE_MAX
from django_redsess.signals import EndedSession

if TYPE_CHECKING:
    from django.db.models import QuerySet

    from django_redsess.querysets import SessionQuerySet


class OneByOneEnding:
    """
    End the sessions of a queryset, as :class:`django_redsess.online.ending.BulkEnding` does, but ask about each.

    ``may_end`` decides about a session. ``kept`` counts those that it has kept. A request that goes on where another
    one stopped starts with the other's ``kept``. The keyword arguments are those of :func:`end_batch`.
    """

    def __init__(
        self,
        sessions: SessionQuerySet,
        may_end: Callable[[OnlineSession], bool],
        kept: int,
        *,
        message: str,
        latest: int,
        keep_users: Collection[str],
    ) -> None:
        # In this order, a session that signs in or is seen meanwhile moves to a place that was read already, or to one
        # that will be. If a session that is kept is seen meanwhile, one other may be skipped: it is still in the list.
        self._sessions = sessions.order_by("seen_at" if sessions.session_filter.only_by_seen else "-login_at")
        self._may_end = may_end
        self._options: dict[str, Any] = {"message": message, "latest": latest, "keep_users": keep_users}
        self.kept, self.done = kept, False

    def end_batch(self) -> EndedList:
        """Read up to 250 sessions, and end those that may be ended."""
        page = list(self._sessions[self.kept : self.kept + AT_ONCE_MAX])
        self.done = not page
        if self.done:
            return recheck_replicas()
        ended = end_batch([session.sid for session in page if self._may_end(session)], **self._options)
        self.kept += len(page) - len(ended)
        return ended


class FoundEnding:
    """
    End the sessions that a search has found by looking through the newest: see ``SessionQuerySet.looked_through``.

    The search is repeated once, when this is made. At most ``limit`` sessions end, the latest first: with some of the
    newest gone, a search reaches older ones, which nobody has counted. The other arguments are those of
    :class:`OneByOneEnding`.
    """

    def __init__(
        self,
        sessions: SessionQuerySet,
        may_end: Callable[[OnlineSession], bool],
        limit: int,
        **options: Any,
    ) -> None:
        self._options, seconds = options, sessions.session_filter.active_seconds
        asked_at = datetime.fromtimestamp(options["latest"] / 1000, UTC)
        # As in BulkEnding: the last seconds are counted back from the question, and later sign-ins stay.
        since = None if seconds is None else asked_at - timedelta(seconds=seconds)
        found = [
            session
            for session in sessions.newest()
            if (since is None or session.seen_at >= since) and (session.login_at or asked_at) <= asked_at
        ]
        self._left = [session.sid for session in found if may_end(session)][:limit]
        self.done = False

    def end_batch(self) -> EndedList:
        """End up to 250 of the sessions."""
        self.done = not self._left
        if self.done:
            return recheck_replicas()
        sids, self._left = self._left[:AT_ONCE_MAX], self._left[AT_ONCE_MAX:]
        return end_batch(sids, **self._options)


END_MAX = 50_000
"""After so many sessions a request stops, and its page offers to continue."""

END_SECONDS = 5.0
"""After so long a request stops, too."""


class EndSessionsMixin(EndQuestionMixin):
    """The part of ``OnlineSessionAdmin`` that ends sessions."""

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view
        # The first asks, by GET. The second ends sessions, by POST only.
        return [
            path("confirm/", view(self.confirm_view), name="django_redsess_onlinesession_confirm"),
            path("end/", view(self.end_view), name="django_redsess_onlinesession_end"),
            *super().get_urls(),
        ]

    def render_change_form(self, request: HttpRequest, context: Any, *args: Any, **kwargs: Any) -> HttpResponse:
        session: OnlineSession = context["original"]
        context["end_url"] = end_url(request, self.admin_site, sid=session.sid)
        if session.user_id:
            context["end_user_url"] = end_url(request, self.admin_site, query=query_of([session.user_id]))
        return super().render_change_form(request, context, *args, **kwargs)

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
        return self.ask(request, {"query": without_return_page(request.GET)} if sid is None else {"sids": sid})

    def end_view(self, request: HttpRequest) -> HttpResponse:
        """End the sessions that were confirmed, and save that in the users' histories."""
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        self._require_permission(request)
        form = EndForm(request.POST)
        if not form.is_valid():
            return self.ask(request, request.POST.dict(), form)
        if form.cleaned_data["deactivate"]:
            return self._deactivate(request, form)
        if form.cleaned_data["sids"]:
            return self._end_by_sid(request, form)
        return self._end_by_query(request, form)

    def _end_by_sid(self, request: HttpRequest, form: EndForm) -> HttpResponse:
        data, own_sid, superusers = form.cleaned_data, own_sid_of(request), self._protected_user_ids(request)
        chosen = dict.fromkeys(data["sids"].split()[:SIDS_MAX])
        # A session may have got another sid since the page was shown, the administrator's own too.
        current = [session.sid for session in online.find(list(chosen), follow=True)]
        over = [] if conf.CONFIRM_ENDS is None else [sid for sid in chosen if sid not in current]
        found = {session.sid: session for session in self.look_up(request, *current)}
        gone = len(chosen) - len(found)
        if own_sid in found and not data["own"]:
            if len(found) == 1:
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
        text = count_text(len(again)) if data["again"] else self._text_of(request, ended, found)
        response = self._answer(request, text, replicas, {**data, "sids": " ".join(again)})
        self._report_protected(request, len(found) - len(sids))
        if not data["again"]:
            self._report_gone(request, gone + len(sids) - len(ended))
        return response

    def _end_by_query(self, request: HttpRequest, form: EndForm) -> HttpResponse:
        data = form.cleaned_data
        matching, progress = self._matching(request, data["query"]), progress_of(request, data)
        is_ours = data["latest"] is not None and (data["progress"] or matching.found_sids is None)
        if not is_ours or matching.sids is not None or progress is None:
            # This form is not from our page, or the query now means something else.
            return self.ask(request, data)
        # The message about one session names its browser. A second row may be the administrator's own, which stays.
        rows = {session.sid: session for session in matching[:2]} if progress.total == 1 else {}
        if self._are_everyones(request, matching) and not self.has_end_all_permission(request):
            raise PermissionDenied
        work = self._work(request, matching, data, progress)
        started, ended, replicas = time.monotonic(), list[EndedSession](), progress.confirmed_by
        while not work.done and len(ended) < END_MAX and time.monotonic() - started < END_SECONDS:
            batch = work.end_batch()
            ended += batch
            replicas = least(replicas, batch.confirmed_by)
        if work.done and data["own"]:
            batch = self._end_own(request, matching, data["message"])
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
        # Whose sessions the requests before this one have ended is not known here.
        text = count_text(so_far) if progress.ended else self._text_of(request, ended, rows)
        return self._answer(request, text, replicas, {**data, "progress": signed})

    def _work(
        self, request: HttpRequest, matching: SessionQuerySet, data: dict[str, Any], progress: Progress
    ) -> BulkEnding | OneByOneEnding | FoundEnding:
        keep_users = self._protected_user_ids(request)
        options: dict[str, Any] = {"message": data["message"], "latest": data["latest"], "keep_users": keep_users}
        may_end = partial(self._may_end_other, request)
        if matching.found_sids is not None:
            return FoundEnding(matching, may_end, progress.total - progress.ended, **options)
        if self._asks_each:
            return OneByOneEnding(matching, may_end, progress.kept, **options)
        return BulkEnding(matching.session_filter, keep=[own_sid_of(request) or ""], **options)

    def _end_own(self, request: HttpRequest, matching: SessionQuerySet, message: str) -> EndedList:
        own = self._own_among(request, matching)
        may = any(self.has_end_permission(request, session) for session in own)
        return online.end(*([own_sid_of(request) or ""] if may else []), message=message)

    def _deactivate(self, request: HttpRequest, form: EndForm) -> HttpResponse:
        data = form.cleaned_data
        user = self._to_deactivate(request, data["deactivate"])
        if user is None:
            raise PermissionDenied
        result = deactivate(request, user, data["message"])
        history.save_ends(request, result.ended, data["message"])
        return self._answer_deactivation(request, user, result, data["message"])

    def _sign_out_if_own(self, request: HttpRequest, ended: Sequence[EndedSession]) -> None:
        if own_sid_of(request) in {session.sid for session in ended}:
            # Messages may be kept in the session. They would be saved to one that has ended.
            request.session.flush()

    def _text_of(
        self, request: HttpRequest, ended: Sequence[EndedSession], rows: Mapping[str, OnlineSession]
    ) -> SafeString:
        # An administrator who ended their own session reads this on the sign-in page: it names nobody.
        return count_text(len(ended)) if own_sid_of(request) is None else ended_text(ended, rows)
