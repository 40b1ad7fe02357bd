"""Ending sessions in the admin: who may end which, the question and its form, the view that ends, and the answer."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from typing import Any, NamedTuple, cast

from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.views.main import ChangeList
from django.contrib.auth.models import AbstractBaseUser
from django.core import signing
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import URLPattern, path
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext, gettext_lazy, ngettext
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_POST, require_safe

from django_redsess import online
from django_redsess.admin import blocking, log_entries, own_sessions, pages
from django_redsess.admin.end_form import EndForm
from django_redsess.admin.end_texts import count_text, ended_text, user_text
from django_redsess.admin.filters import chosen
from django_redsess.admin.users import deactivate, may_change_users, may_deactivate, visible_users
from django_redsess.exceptions import SessionStoreUnavailable
from django_redsess.models import OnlineSession
from django_redsess.online import EndedCount, EndedList, labels
from django_redsess.online.ending import BulkEnding, least, too_few
from django_redsess.online.labels import when
from django_redsess.permissions import rules
from django_redsess.querysets import SessionQuerySet
from django_redsess.responses import unavailable
from django_redsess.signals import EndedSession

END_MAX = 50_000  # After so many sessions a request stops, and its page offers to continue.
END_SECONDS = 5.0  # After so long a request stops, too.
SIDS_MAX = 1000  # The most sessions that a request can end by their sids.
ROWS_MAX = 10  # The question shows so many of the sessions.
PARTS_MAX = 5  # To find these rows, so many times as many sessions are read: some may stay.
CHECKED_MAX = 1000  # More sessions of a user, or of superusers, are not read one by one.

hides_password = sensitive_post_parameters("password")


class Progress(NamedTuple):
    """
    How far the ending of a list is that takes several requests: ``ended`` of ``total`` sessions.

    ``place`` is where to go on: see :class:`django_redsess.online.ending.BulkEnding`. ``confirmed_by`` is the least
    number of replicas that have confirmed, or None.
    """

    ended: int = 0
    total: int = 0
    place: tuple[int, str, str] | None = None
    confirmed_by: int | None = None


class EndingAdmin(pages.ListAdmin):
    """
    The part of ``OnlineSessionAdmin`` that ends sessions: it asks first, ends them batch by batch, and says what ended.

    Where a rule in Python decides about each session, or a search found them, the sessions are read first and ended one
    by one.
    """

    end_template = "admin/django_redsess/onlinesession/end_confirmation.html"

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
            return unavailable(request, error)

    def _end_by_sid(self, request: HttpRequest, form: EndForm) -> HttpResponse:
        data, own_sid = form.cleaned_data, pages.own_sid_of(request)
        chosen = dict.fromkeys(data["sids"].split()[:SIDS_MAX])
        # A session may have got another sid since the page was shown, the administrator's own too.
        current = [session.sid for session in online.find(list(chosen), follow=True)]
        found = {session.sid: session for session in self.look_up(request, *current)}
        if own_sessions.has_others(request, found.values()) and (question := own_sessions.ask(self, request)):
            return question
        gone = len(chosen) - len(found)
        if own_sid in found and not data["own"]:
            if len(found) == 1:
                return self.ask(request, data, form)
            del found[own_sid]
        sids, ended = self.end_found(request, found.values(), data["message"])
        response = self._answer(request, self._text_of(request, ended, found), ended.confirmed_by)
        self._report_protected(request, len(found) - len(sids))
        self._report_gone(request, gone + len(sids) - len(ended))
        return response

    def end_found(
        self, request: HttpRequest, found: Iterable[OnlineSession], message: str
    ) -> tuple[list[str], EndedList]:
        """
        End those of the sessions ``found`` that the administrator may end, and save that in the users' histories.

        Return their sids, and the sessions that were there. If the request's own is one of these, it is signed out.
        """
        superusers = self._protected_user_ids(request)
        sids = [session.sid for session in found if self.has_end_permission(request, session)]
        # A guest may sign in as a superuser meanwhile: the script looks again.
        with log_entries.saving_ends(request, message):
            ended = online.end(*sids, message=message, keep_users=superusers)
        self._sign_out_if_own(request, ended)
        return sids, ended

    def end_of_user(self, request: HttpRequest, user_id: str, message: str) -> EndedList:
        """
        End the sessions of a user that the administrator may end, but for the request's own, and save that.

        Raises PermissionDenied if the user is protected, as superusers are from all others.
        """
        if user_id in self._protected_user_ids(request):
            raise PermissionDenied("You may not end the sessions of this user.")
        matching = self.sessions(request).of_users([user_id])
        if matching.sids is not None:
            # The site's own list names its sessions, or has guests only.
            _, ended = self.end_found(request, filter(partial(self._may_end_other, request), matching), message)
            return ended
        _, latest = online.count_at(matching.session_filter)
        work = self._work(request, matching, {"message": message, "latest": latest}, Progress())
        with log_entries.saving_ends(request, message):
            return work.run()

    def block(self, request: HttpRequest, user: AbstractBaseUser, until: datetime, message: str) -> EndedCount:
        """
        Block ``user``, end all sessions of the user, and save both in the user's history.

        See :meth:`to_block` for who may be blocked. Arguments and errors are those of
        :func:`django_redsess.online.block`.
        """
        with log_entries.saving_ends(request, message) as done:
            try:
                return online.block(user, until=until, message=message, by=cast(AbstractBaseUser, request.user))
            finally:
                if done.blocked:
                    log_entries.save_block(request, user, until, message)

    def _end_by_query(self, request: HttpRequest, form: EndForm) -> HttpResponse:
        data = form.cleaned_data
        matching, progress = self._matching(request, data["query"]), progress_of(request, data)
        if own_sessions.has_others_matching(request, matching) and (question := own_sessions.ask(self, request)):
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
        with log_entries.saving_ends(request, data["message"]) as done:
            ended = done.kicked
            replicas = least(progress.confirmed_by, work.run(seconds=END_SECONDS, limit=END_MAX).confirmed_by)
            if work.done and data["own"]:
                own = filter(partial(self.has_end_permission, request), self._own_among(request, matching))
                batch = online.end(*(each.sid for each in own), message=data["message"])
                replicas = least(replicas, batch.confirmed_by)
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
        """Deactivate the account, end all sessions of its user, and say so."""
        message, user = form.cleaned_data["message"], self._to_deactivate(request, form.cleaned_data["deactivate"])
        if user is None:
            raise PermissionDenied
        ended, replicas, is_outage = deactivate(request, user, message)
        name = pages.name_html(str(user))
        if is_outage:
            text = gettext(
                "The account of %(user)s was deactivated: nobody can sign in with it. But its sessions could not "
                "be ended, because the server of the sessions does not answer. Look again in a while."
            )
            return self._question(request, {"outage": pages.filled(text, user=name)})
        messages.success(request, pages.filled(gettext("The account of %(user)s was deactivated."), user=name))
        return self._answer(request, ended_text(ended), replicas)

    def _block(self, request: HttpRequest, form: EndForm) -> HttpResponse:
        """Block the user, end all sessions of the user, and say so."""
        time, user_id = blocking.chosen(form.cleaned_data["block"])
        message, user = form.cleaned_data["message"], self.to_block(request, user_id)
        if user is None:
            raise PermissionDenied
        until = datetime.now(UTC) + time
        ended = self.block(request, user, until, message)
        name = pages.name_html(str(user))
        text = gettext("%(user)s can’t sign in until %(time)s.")
        messages.success(request, pages.filled(text, user=name, time=labels.exactly(until)))
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

    def ask(self, request: HttpRequest, choice: dict[str, Any], form: EndForm | None = None) -> HttpResponse:
        """Show which sessions would end, with their exact number: ``choice`` has ``sids``, or the list's ``query``."""
        self._require_permission(request)
        about: dict[str, Any] = {}
        if "query" in choice and not choice.get("sids"):
            listed = self.changelist_of(request, str(choice["query"]))
            matching, about = _sessions_of(listed), _about(listed)
            if self._are_everyones(request, matching) and not self.has_end_all_permission(request):
                messages.warning(request, pages.missing("end_all_onlinesession"))
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
        return {
            "latest": at,
            "protected": protected,
            "own": is_own,
            "number": number,
            # What a search has found ends up to this number. All other sessions end by their list, to the last.
            "is_least": not asked.names_client and asked.active_seconds is not None and matching.is_cut,
            "asks_each": self.asks_each or (self._has_custom_rule and protected),
            "one_user": pages.names_of(*user_ids) if len(user_ids) == 1 else "",
            **self._rows(request, _in_parts(matching), number, total),
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
                "signed_in": when(session.login_at) if session.login_at else "",
                "seen": when(session.seen_at),
                "is_own": session.sid == pages.own_sid_of(request),
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
        text = labels.blocked(online.block_of(user))
        return {"to_block": user, "blocks": blocking.choices(user_id, ends=ends), "block_text": text}

    def _sids_of(self, request: HttpRequest, matching: SessionQuerySet) -> list[str] | None:
        # The sids to ask about, if a filter names them or a search has found at most 1 000. A search that is repeated
        # after the question could find sessions that nobody was asked about.
        if matching.sids is None and ((found := matching.found_sids) is None or len(found) > SIDS_MAX):
            return None
        return [session.sid for session in matching[:SIDS_MAX] if self.has_view_permission(request, session)]

    def _matching(self, request: HttpRequest, query: str) -> SessionQuerySet:
        return _sessions_of(self.changelist_of(request, query))

    def _back(self, request: HttpRequest) -> HttpResponse:
        return HttpResponseRedirect(pages.return_page_of(request).url(self.admin_site))

    def _question(self, request: HttpRequest, context: dict[str, Any]) -> HttpResponse:
        page = pages.return_page_of(request)
        context = {"return_parameters": page.parameters, "back": page.url(self.admin_site), **context}
        return self.page(request, self.end_template, context.pop("title", gettext("End sessions")), context)

    def _answer(self, request: HttpRequest, text: SafeString, replicas: int | None) -> HttpResponse:
        """Say what has ended, in ``text``, with a warning if too few replicas have it. Return to the list."""
        if text:
            told = format_html("{} {}", text, labels.confirmed(replicas)) if replicas is not None else text
            messages.add_message(request, messages.WARNING if too_few(replicas) else messages.SUCCESS, told)
        return self._back(request)

    def _report_gone(self, request: HttpRequest, count: int) -> None:
        if count > 0:
            text = ngettext(
                "%(count)s session was not ended: it was over already.",
                "%(count)s sessions were not ended: they were over already.",
                count,
            )
            messages.warning(request, text % {"count": pages.shown_number(count)})

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
        return rules().may_end_everyones(request.user) and self.has_end_permission(request)

    def sessions(self, request: HttpRequest) -> SessionQuerySet:
        """Return the sessions of ``get_queryset()``: those that the administrator may see, without guests'."""
        return cast(SessionQuerySet, self.get_queryset(request))

    def look_up(self, request: HttpRequest, *sids: str) -> list[OnlineSession]:
        """Return those of the sessions ``sids`` that the administrator may see, guests' too."""
        found = self.sessions(request).with_guests().filter(sid__in=sids)
        return [session for session in found if self.has_view_permission(request, session)]

    def _require_permission(self, request: HttpRequest) -> None:
        if not (self.has_end_permission(request) and self.has_view_permission(request)):
            raise PermissionDenied

    def _protected_user_ids(self, request: HttpRequest) -> list[str]:
        """Return the ids of users whose sessions the administrator may not end. A subclass's rule needs none."""
        return [] if self._has_own_rule else list(rules().protected_users(request.user))

    def _to_deactivate(self, request: HttpRequest, user_id: str) -> AbstractBaseUser | None:
        """Return the user whose account the administrator may deactivate, and all of whose sessions they may end."""
        user = may_deactivate(request, self.admin_site, user_id)
        return user if user is not None and self._may_end_all_of(request, user) else None

    def to_block(self, request: HttpRequest, user_id: str) -> AbstractBaseUser | None:
        """Return the user whom the administrator may block, and all of whose sessions they may end."""
        user = blocking.may_block(request, self, user_id)
        return user if user is not None and self._may_end_all_of(request, user) else None

    def _may_end_all_of(self, request: HttpRequest, user: AbstractBaseUser) -> bool:
        user_id = online.user_id_of(user)
        if not blocking.rule_for_sessions(request, self)(user_id, user):
            return False
        if not self.asks_each:
            return True
        sessions = list(OnlineSession.online.of_users([user_id])[: CHECKED_MAX + 1])
        return len(sessions) <= CHECKED_MAX and all(
            self.has_view_permission(request, session) and self.has_end_permission(request, session)
            for session in sessions
        )

    @property
    def _has_own_rule(self) -> bool:
        return type(self).has_end_permission is not EndingAdmin.has_end_permission

    @property
    def _has_custom_rule(self) -> bool:
        return self._has_own_rule or rules().ends_by_own_rule

    @property
    def asks_each(self) -> bool:
        """Whether rules of the site's own are asked about each session."""
        # A script can't apply a subclass's rules for single sessions. It does apply what get_queryset() leaves out.
        sees_by_each = type(self).has_view_permission is not EndingAdmin.has_view_permission
        return self._has_own_rule or sees_by_each or rules().asks_each

    def _are_everyones(self, request: HttpRequest, matching: SessionQuerySet) -> bool:
        # No search and no filter leaves out users. Guests may come with them.
        whole, asked = self.sessions(request).session_filter, matching.session_filter
        same = asked._replace(guests=whole.guests) == whole and (asked.guests != "only" or whole.guests == "only")
        return same and matching.sids is None

    def _may_end_other(self, request: HttpRequest, session: OnlineSession) -> bool:
        may = self.has_view_permission(request, session) and self.has_end_permission(request, session)
        return may and session.sid != pages.own_sid_of(request)

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


def signed_progress(request: HttpRequest, query: Any, latest: object, progress: Progress) -> str:
    """Return ``progress`` as a signed text for the next page's form: nobody can forge it."""
    return signing.dumps(progress, salt=_salt(request, query, latest))


def progress_of(request: HttpRequest, data: dict[str, Any]) -> Progress | None:
    """Return the progress that the form's ``data`` contain; None if the signature is not ours, or for another list."""
    if not data["progress"]:
        return Progress()
    try:
        return Progress(*signing.loads(data["progress"], salt=_salt(request, data["query"], data["latest"])))
    except signing.BadSignature:
        return None


def _salt(request: HttpRequest, query: Any, latest: object) -> str:
    return f"django_redsess.ending {request.user.pk} {latest} {str(query).strip()}"


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
    by_others = chosen(listed, but=pages.USER) if len(listed.queryset.session_filter.user_ids or ()) == 1 else filters
    return {"term": listed.query, "filters": by_others, **everyone}


def _in_parts(matching: SessionQuerySet) -> Iterator[OnlineSession]:
    for start in range(0, PARTS_MAX * ROWS_MAX, ROWS_MAX):
        part = list(matching[start : start + ROWS_MAX])
        yield from part
        if len(part) < ROWS_MAX:
            return
