"""Ending sessions in the admin: the views that end them, and what they say of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, cast

from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.auth.models import AbstractBaseUser
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, path
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext, gettext_lazy, ngettext
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_POST, require_safe

from django_redsess import online
from django_redsess.admin import blocking, log_entries, own_sessions, pages
from django_redsess.admin.end_form import EndForm, Progress, progress_of, signed_progress
from django_redsess.admin.question import QuestionAdmin
from django_redsess.admin.users import deactivate_user
from django_redsess.exceptions import SessionStoreUnavailable
from django_redsess.models import OnlineSession
from django_redsess.online import EndedCount, EndedList, labels
from django_redsess.online.browsers import browser_name
from django_redsess.online.ending import BulkEnding, confirmed_too_few, least_confirmed
from django_redsess.online.labels import server_time
from django_redsess.online.listing import SIDS_MAX
from django_redsess.querysets import SessionQuerySet
from django_redsess.responses import unavailable_response
from django_redsess.signals import EndedSession

END_MAX = 50_000  # After so many sessions a request stops, and its page offers to continue.
END_SECONDS = 5.0  # After so long a request stops, too.
NAMES_MAX = 3  # A message names so many users.

hides_password = sensitive_post_parameters("password")


class EndingAdmin(QuestionAdmin):
    """
    The part of ``OnlineSessionAdmin`` that ends sessions: it asks first, ends them batch by batch, and says what ended.

    Where a rule in Python decides about each session, or a search found them, the sessions are read first and ended one
    by one.
    """

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view
        return [
            path("confirm/", view(require_safe(self.confirm_view)), name="django_redsess_onlinesession_confirm"),
            path("end/", view(require_POST(hides_password(self.end_view))), name="django_redsess_onlinesession_end"),
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
        sid = request.GET.get("sid")
        return self.ask(request, {"query": pages.without_return_page(request.GET)} if sid is None else {"sids": sid})

    def end_view(self, request: HttpRequest) -> HttpResponse:
        """End the sessions that were confirmed, and save that in the users' histories."""
        self._require_permission(request)
        form = EndForm(request.POST)
        if not form.is_valid():
            return self.ask(request, request.POST.dict(), form)
        end = self._end_by_sid if form.cleaned_data["sids"] else self._end_by_query
        if form.cleaned_data["deactivate"]:
            end = self._deactivate
        elif form.cleaned_data["block"]:
            end = self._block
        try:
            return end(request, form)
        except SessionStoreUnavailable as error:
            # No error that would leave this view: with ATOMIC_REQUESTS, it would undo the lines in the histories.
            return unavailable_response(request, error)

    def _end_by_sid(self, request: HttpRequest, form: EndForm) -> HttpResponse:
        data, own_sid = form.cleaned_data, pages.own_sid_of(request)
        chosen = dict.fromkeys(data["sids"].split()[:SIDS_MAX])
        # A session may have got another sid since the page was shown, the administrator's own too.
        current = [session.sid for session in online.find(list(chosen), follow=True)]
        found = {session.sid: session for session in self.look_up(request, *current)}
        if own_sessions.include_other_own(request, found.values()) and (
            question := own_sessions.ask_for_password(self, request)
        ):
            return question
        gone = len(chosen) - len(found)
        if own_sid in found and not data["own"]:
            if len(found) == 1:
                return self.ask(request, data, form)
            del found[own_sid]
        sids, ended = self.end_found(request, found.values(), data["message"], data["note"])
        response = self._answer(request, self._text_of(request, ended, found), ended.confirmed_by)
        self._report_protected(request, len(found) - len(sids))
        self._report_gone(request, gone + len(sids) - len(ended))
        return response

    def end_found(
        self, request: HttpRequest, found: Iterable[OnlineSession], message: str, note: str = ""
    ) -> tuple[list[str], EndedList]:
        """
        End those of the sessions ``found`` that the administrator may end, and save that in the users' histories.

        The users read ``message``. Only the histories have ``note``. Return their sids, and the sessions that were
        there. If the request's own is one of these, it is signed out.
        """
        superusers = self._protected_user_ids(request)
        sids = [session.sid for session in found if self.has_end_permission(request, session)]
        # A guest may sign in as a superuser meanwhile: the script looks again.
        with log_entries.saving_ends(request, message, note):
            ended = online.end(*sids, message=message, keep_users=superusers)
        self._sign_out_if_own(request, ended)
        return sids, ended

    def end_of_user(self, request: HttpRequest, user_id: str, message: str, note: str = "") -> EndedList:
        """
        End the sessions of a user that the administrator may end, but for the request's own, and save that.

        ``message`` and ``note`` are as in :meth:`end_found`. Raises PermissionDenied if the user is protected, as
        superusers are from all others.
        """
        if user_id in self._protected_user_ids(request):
            raise PermissionDenied("You may not end the sessions of this user.")
        matching = self.sessions(request).of_users([user_id])
        if matching.sids is not None:
            # The site's own list names its sessions, or has guests only.
            others = filter(partial(self._may_end_other, request), matching)
            _, ended = self.end_found(request, others, message, note)
            return ended
        _, latest = online.count_at(matching.session_filter)
        work = self._work(request, matching, {"message": message, "latest": latest}, Progress())
        with log_entries.saving_ends(request, message, note):
            return work.run()

    def block(
        self, request: HttpRequest, user: AbstractBaseUser, until: datetime, message: str, note: str = ""
    ) -> EndedCount:
        """
        Block ``user``, end all sessions of the user, and save both in the user's history.

        See :meth:`to_block` for who may be blocked. Only the history has ``note``. The other arguments and the errors
        are those of :func:`django_redsess.online.block`.
        """
        with log_entries.saving_ends(request, message, note) as done:
            try:
                return online.block(user, until=until, message=message, by=cast(AbstractBaseUser, request.user))
            finally:
                if done.blocked:
                    log_entries.save_block(request, user, until, message, note)

    def _end_by_query(self, request: HttpRequest, form: EndForm) -> HttpResponse:
        data = form.cleaned_data
        matching, progress = self._matching(request, data["query"]), progress_of(request, data)
        if own_sessions.match_other_own(request, matching) and (
            question := own_sessions.ask_for_password(self, request)
        ):
            return question
        is_ours = data["latest"] is not None and (data["progress"] or matching.found_sids is None)
        if not is_ours or matching.sids is not None or progress is None:
            # This form is not from our page, or the query now means something else.
            return self.ask(request, data)
        # The message about one session names its browser. A second row may be the administrator's own, which stays.
        rows = {session.sid: session for session in matching[:2]} if progress.total == 1 else {}
        if self._are_everyones(request, matching) and not self.has_end_all_permission(request):
            raise PermissionDenied
        work = self._work(request, matching, data, progress)
        with log_entries.saving_ends(request, data["message"], data["note"]) as done:
            ended = done.kicked
            replicas = least_confirmed(progress.confirmed_by, work.run(seconds=END_SECONDS, limit=END_MAX).confirmed_by)
            if work.done and data["own"]:
                own = filter(partial(self.has_end_permission, request), self._own_among(request, matching))
                batch = online.end(*(each.sid for each in own), message=data["message"])
                replicas = least_confirmed(replicas, batch.confirmed_by)
        so_far = progress.ended + len(ended)
        if not work.done:
            progress = Progress(so_far, max(so_far, progress.total), work.place, replicas)
            signed = signed_progress(request, data["query"], data["latest"], progress)
            rest = EndForm(initial={**data, "progress": signed})
            return self._question(request, {"ended": so_far, "number": progress.total, "continues": True, "form": rest})
        self._sign_out_if_own(request, ended)
        if not so_far:
            messages.warning(request, gettext("There is no session here that you can end."))
        # Whose sessions the requests before this one have ended is not known here.
        text = count_text(so_far) if progress.ended else self._text_of(request, ended, rows)
        return self._answer(request, text, replicas)

    def _work(
        self, request: HttpRequest, matching: SessionQuerySet, data: dict[str, Any], progress: Progress
    ) -> BulkEnding:
        def choose(sessions: list[online.Session]) -> list[str]:
            return [row.sid for row in matching.rows_of(sessions) if self._may_end_other(request, row)]

        return BulkEnding(
            matching.session_filter,
            message=data["message"],
            latest=data["latest"],
            keep=[pages.own_sid_of(request) or ""],
            keep_users=self._protected_user_ids(request),
            choose=choose if self.asks_each else None,
            by_seen=matching.by_seen,
            limit=progress.total - progress.ended if progress.total else None,
            place=progress.place,
        )

    def _deactivate(self, request: HttpRequest, form: EndForm) -> HttpResponse:
        """Ask once more. Then deactivate the account, end all sessions of its user, and say so."""
        data = form.cleaned_data
        user = self._to_deactivate(request, data["deactivate"])
        if user is None:
            raise PermissionDenied
        if not data["is_confirmed"]:
            return self.ask_to_deactivate(request, user, data)
        ended, replicas, is_outage = deactivate_user(request, user, data["message"], data["note"])
        name = pages.name_html(str(user))
        if is_outage:
            text = gettext(
                "The account of %(user)s was deactivated: nobody can sign in with it. But its sessions could not "
                "be ended, because the server of the sessions does not answer. Look again in a while."
            )
            return self._question(request, {"outage": pages.fill_html(text, user=name)})
        messages.success(request, pages.fill_html(gettext("The account of %(user)s was deactivated."), user=name))
        return self._answer(request, ended_text(ended), replicas)

    def _block(self, request: HttpRequest, form: EndForm) -> HttpResponse:
        """Block the user, end all sessions of the user, and say so."""
        time, user_id = blocking.parse_button(form.cleaned_data["block"])
        data, user = form.cleaned_data, self.to_block(request, user_id)
        if user is None:
            raise PermissionDenied
        until = server_time() + time
        ended = self.block(request, user, until, data["message"], data["note"])
        name = pages.name_html(str(user))
        text = gettext("%(user)s can’t sign in until %(time)s.")
        messages.success(request, pages.fill_html(text, user=name, time=labels.exactly(until)))
        return self._answer(request, user_text(ended, name), ended.confirmed_by)

    def _sign_out_if_own(self, request: HttpRequest, ended: Sequence[EndedSession]) -> None:
        if pages.own_sid_of(request) in {session.sid for session in ended}:
            # Messages may be kept in the session. They would be saved to one that has ended.
            request.session.flush()

    def _text_of(
        self, request: HttpRequest, ended: Sequence[EndedSession], rows: Mapping[str, OnlineSession]
    ) -> SafeString:
        # An administrator who ended their own session reads this on the sign-in page: it names nobody.
        return count_text(len(ended)) if pages.own_sid_of(request) is None else ended_text(ended, rows)

    def _answer(self, request: HttpRequest, text: SafeString, replicas: int | None) -> HttpResponse:
        """Say what has ended, in ``text``, with a warning if too few replicas have it. Return to the list."""
        if text:
            told = format_html("{} {}", text, labels.confirmation_text(replicas)) if replicas is not None else text
            messages.add_message(request, messages.WARNING if confirmed_too_few(replicas) else messages.SUCCESS, told)
        return self._back(request)

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
        messages.warning(request, text % {"count": pages.shown_number(count)})


def count_text(count: int) -> SafeString:
    """Say how many sessions have ended; nothing for none."""
    if not count:
        return SafeString()
    text = ngettext("%(count)s session was ended.", "%(count)s sessions were ended.", count)
    return pages.fill_html(text, count=pages.shown_number(count))


def user_text(count: int, name: SafeString) -> SafeString:
    """Say how many sessions of one user have ended; nothing for none."""
    if not count:
        return SafeString()
    text = ngettext("%(count)s session of %(user)s was ended.", "%(count)s sessions of %(user)s were ended.", count)
    return pages.fill_html(text, count=pages.shown_number(count), user=name)


def ended_text(ended: Sequence[EndedSession], rows: Mapping[str, OnlineSession] | None = None) -> SafeString:
    """
    Say how many sessions have ended, and whose they were, as HTML.

    Names are as the list shows them. ``rows`` are the sessions by sid: if one has ended, it says of which browser.
    """
    if len(ended) == 1 and (row := (rows or {}).get(ended[0].sid)) is not None:
        client = ", ".join(filter(None, (browser_name(row.user_agent), row.address)))
        if client:
            text = gettext("The session of a guest was ended: %(client)s.")
            if row.user_id:
                text = gettext("The session of %(user)s was ended: %(client)s.")
            return pages.fill_html(text, user=pages.name_html(str(row)), client=pages.name_html(client))
    user_ids = list(dict.fromkeys(session.user_id for session in ended if session.user_id))
    if len(user_ids) == 1 and all(session.user_id for session in ended):
        return user_text(len(ended), pages.names_html(*user_ids))
    if not user_ids:
        return count_text(len(ended))
    names, more = pages.names_html(*user_ids[:NAMES_MAX]), len(user_ids) - NAMES_MAX
    if more > 0:
        text = ngettext("Users: %(users)s and %(count)s more.", "Users: %(users)s and %(count)s more.", more)
        users = pages.fill_html(text, users=names, count=pages.shown_number(more))
    else:
        users = pages.fill_html(gettext("Users: %(users)s."), users=names)
    return format_html("{} {}", count_text(len(ended)), users)
