"""Ending sessions in the admin: what is asked before, what is done, and what is written into whose history."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.models import LogEntry
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.auth import get_user_model
from django.core.exceptions import FieldDoesNotExist, PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, QueryDict
from django.urls import URLPattern, path
from django.utils.formats import number_format
from django.utils.translation import gettext, gettext_lazy, ngettext

from django_redsess import online
from django_redsess.admin.end_form import EndForm, Progress, progress_of, signed
from django_redsess.admin.lists import ListAdmin, history_line
from django_redsess.models import OnlineSession
from django_redsess.online.ending import BulkEnding
from django_redsess.online.presentation import printable
from django_redsess.online.queries import USERS_MAX, Which
from django_redsess.querysets.sessions import users_by_id
from django_redsess.session import operations
from django_redsess.session.operations import AT_ONCE_MAX
from django_redsess.signals import Ended, Reason
from django_redsess.transport.steps import Steps, drive

if TYPE_CHECKING:
    from django.db.models import QuerySet

    from django_redsess.querysets.sessions import SessionQuerySet

NAMED_MAX = 1000
"""The most sessions that can be ended by name at once."""

END_MAX = 50_000
"""After so many sessions a request stops, and offers to continue."""

END_SECONDS = 5.0

LINES_MAX = 1000
"""Of so many users in a request each gets a line of history; of more the list gets one for each thousand."""

IDS_IN_LINE = 1000


class EndingMixin(ListAdmin):
    """The action and the pages that end sessions; a part of ``OnlineSessionAdmin``."""

    end_template = "admin/django_redsess/onlinesession/end_confirmation.html"

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view
        # One shows what would be ended, by GET; the other ends it, by POST only.
        return [
            path("confirm/", view(self.confirm_view), name="django_redsess_onlinesession_confirm"),
            path("end/", view(self.end_view), name="django_redsess_onlinesession_end"),
            *super().get_urls(),
        ]

    def has_end_permission(self, request: HttpRequest, obj: OnlineSession | None = None) -> bool:
        """
        Tell whether who asks may end sessions, or the session ``obj``: a superuser's, only another superuser.

        A subclass may have a rule of its own. It is asked about each session then, which takes a while with many.
        """
        may_end = request.user.has_perm("django_redsess.end_onlinesession")
        return may_end and (_is_superuser(request.user) or obj is None or not _is_superuser(obj.user))

    def sessions(self, request: HttpRequest) -> SessionQuerySet:
        """Return those that who asks may see: what ``get_queryset`` has, and guests' only where they are added."""
        return cast("SessionQuerySet", self.get_queryset(request))

    def look_up(self, request: HttpRequest, *sids: str) -> list[OnlineSession]:
        """Return those of these sessions, guests' too, that who asks may see."""
        found = self.sessions(request).with_guests().filter(sid__in=sids)
        return [session for session in found if self.has_view_permission(request, session)]

    @admin.action(description=gettext_lazy("End selected sessions"), permissions=["end"])
    def end_selected(self, request: HttpRequest, queryset: QuerySet[OnlineSession]) -> HttpResponse:
        """Ask whether to end these sessions, or all that match the list's query."""
        if request.POST.get("select_across") == "1":
            return self.ask(request, {"query": request.GET.urlencode()})
        return self.ask(request, {"sids": " ".join(request.POST.getlist(ACTION_CHECKBOX_NAME)[:NAMED_MAX])})

    def confirm_view(self, request: HttpRequest) -> HttpResponse:
        """Ask whether to end the session ``sid``, or else all that match the query."""
        if request.method not in ("GET", "HEAD"):
            return HttpResponseNotAllowed(["GET", "HEAD"])
        sid = request.GET.get("sid")
        return self.ask(request, {"query": request.GET.urlencode()} if sid is None else {"sids": sid})

    def end_view(self, request: HttpRequest) -> HttpResponse:
        """End what the confirmation page names, and write it into the users' history."""
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        self._require_permission(request)
        form = EndForm(request.POST)
        if not form.is_valid():
            return self.ask(request, request.POST.dict(), form)
        if form.cleaned_data["sids"]:
            return self._end_named(request, form)
        return self._end_listed(request, form)

    def ask(self, request: HttpRequest, choice: dict[str, Any], form: EndForm | None = None) -> HttpResponse:
        """Show what would be ended, with the exact number: ``choice`` has the ``sids``, or the list's ``query``."""
        self._require_permission(request)
        if "query" in choice and not choice.get("sids"):
            matching = self._matching(request, str(choice.get("query", "")))
            if matching.sids is None:
                return self._ask_about(request, choice, self._listed(request, matching.which), form)
            choice = {"sids": " ".join(matching.sids)}
        context = self._named(request, choice.get("sids", "").split()[:NAMED_MAX])
        if context["found"]:
            return self._ask_about(request, choice, context, form)
        self._tell_over(request, context["gone"])
        if not context["gone"]:
            messages.warning(request, gettext("There is no session here that you can end."))
        return self.to_list()

    def _ask_about(
        self, request: HttpRequest, choice: dict[str, Any], context: dict[str, Any], form: EndForm | None
    ) -> HttpResponse:
        latest = context.get("latest") or ""
        progress = signed(request, choice.get("query", ""), latest, Progress(total=context["number"]))
        asked_now = {"latest": latest, "progress": progress if latest else ""}
        if form is None:
            form = EndForm(initial={**choice, **asked_now})
        else:
            form.data = {**request.POST.dict(), **asked_now}
        return self._question(request, {**context, "form": form})

    def _named(self, request: HttpRequest, sids: Sequence[str]) -> dict[str, Any]:
        # Some may have got another key since.
        found = self.look_up(request, *(session.sid for session in online.find(sids, follow=True)))
        own_sid = own_sid_of(request)
        protected = {session.sid for session in found if not self.has_end_permission(request, session)}
        return {
            "found": found,
            "gone": len(set(sids)) - len(found),
            "protected": len(protected),
            "protected_sids": protected,
            "own_rule": self._has_own_rule,
            "own_sid": own_sid,
            "own": any(session.sid == own_sid for session in found),
            "number": sum(session.sid not in {*protected, own_sid} for session in found),
        }

    def _listed(self, request: HttpRequest, which: Which) -> dict[str, Any]:
        total, at = online.census(which)
        superusers = self._superuser_ids(request)
        if which.user_ids is not None:
            superusers = [user_id for user_id in superusers if user_id in which.user_ids]
        protected = online.count(user_ids=superusers, active_seconds=which.active_seconds) if superusers else 0
        is_own = bool(self._own_among(request, which))
        return {
            "latest": at,
            "protected": protected,
            "own": is_own,
            "own_sid": own_sid_of(request),
            "number": max(0, total - protected - is_own),
            "asks_each": self._asks_each,
            # Who has no session may be nobody, and whether that is so is not for all to know.
            "one_user": self._one_user(which) if total else "",
        }

    def _end_named(self, request: HttpRequest, form: EndForm) -> HttpResponse:
        given, own_sid, superusers = form.cleaned_data, own_sid_of(request), self._superuser_ids(request)
        named = set(given["sids"].split()[:NAMED_MAX])
        # Some may have got another key since; the own session is the own under that too.
        current = [session.sid for session in online.find(list(named), follow=True)]
        found = {session.sid: session for session in self.look_up(request, *current)}
        gone = len(named) - len(found)
        if own_sid in found and not given["own"]:
            if len(found) == 1:
                form.add_error("own", gettext("This is the session you are working in. Tick the box to end it."))
                return self.ask(request, given, form)
            del found[own_sid]
        sids = [sid for sid, session in found.items() if self.has_end_permission(request, session)]
        # One of a guest may become a superuser's meanwhile.
        ended = online.end(*sids, message=given["reason"], keep_users=superusers)
        self._sign_out_if_own(request, ended)
        if ended:
            self._tell_ended(request, len(ended))
        self._tell_protected(request, len(found) - len(sids))
        self._tell_over(request, gone + len(sids) - len(ended))
        self._log(request, ended, given["reason"])
        return self.to_list()

    def _end_listed(self, request: HttpRequest, form: EndForm) -> HttpResponse:
        given, own_sid, superusers = form.cleaned_data, own_sid_of(request) or "", self._superuser_ids(request)
        matching, progress = self._matching(request, given["query"]), progress_of(request, given)
        if given["latest"] is None or matching.sids is not None or progress is None:
            # Not from our page, or no longer what that was about.
            return self.ask(request, given)
        which, how = matching.which, {"message": given["reason"], "latest": given["latest"], "keep_users": superusers}
        work: BulkEnding | _EachAsked = BulkEnding(which, keep=[own_sid], **how)
        if self._asks_each:
            work = _EachAsked(matching, partial(self._may_end_other, request), progress.passed, **how)
        began, ended = time.monotonic(), list[Ended]()
        while not work.done and len(ended) < END_MAX and time.monotonic() - began < END_SECONDS:
            ended += drive(work.step())
        if (
            work.done
            and given["own"]
            and any(self.has_end_permission(request, own) for own in self._own_among(request, which))
        ):
            ended += online.end(own_sid, message=given["reason"])
        self._log(request, ended, given["reason"])
        so_far = progress.ended + len(ended)
        if not work.done:
            progress = Progress(so_far, max(so_far, progress.total), getattr(work, "passed", 0))
            rest = EndForm(initial={**given, "progress": signed(request, given["query"], given["latest"], progress)})
            return self._question(request, {"ended": so_far, "number": progress.total, "continues": True, "form": rest})
        self._sign_out_if_own(request, ended)
        self._tell_ended(request, so_far)
        return self.to_list()

    def _question(self, request: HttpRequest, context: dict[str, Any]) -> HttpResponse:
        return self.page(request, self.end_template, gettext("End sessions"), context)

    def _matching(self, request: HttpRequest, query: str) -> SessionQuerySet:
        # As the list reads it: search, filters and all.
        asked, method = request.GET, request.method
        request.GET, request.method = QueryDict(query), "GET"
        try:
            return self.get_changelist_instance(request).queryset  # type: ignore[no-any-return]
        except IncorrectLookupParameters:
            return OnlineSession.online.none()
        finally:
            request.GET, request.method = asked, method

    def _one_user(self, which: Which) -> str:
        if which.user_ids is None or len(which.user_ids) != 1:
            return ""
        [user_id] = which.user_ids
        return str(users_by_id({user_id}).get(user_id, user_id))

    def _require_permission(self, request: HttpRequest) -> None:
        if not (self.has_end_permission(request) and self.has_view_permission(request)):
            raise PermissionDenied

    def _superuser_ids(self, request: HttpRequest) -> list[str]:
        """Return the ids of those whose sessions this administrator may not end; none where a subclass decides."""
        if self._has_own_rule or _is_superuser(request.user):
            return []
        try:
            get_user_model()._meta.get_field("is_superuser")
        except FieldDoesNotExist:
            return []
        users = get_user_model()._base_manager.filter(is_superuser=True).only("pk")
        found = [online.user_id_of(user) for user in users[: USERS_MAX + 1]]
        if len(found) > USERS_MAX:
            raise PermissionDenied(gettext("There are too many superusers to leave out: ask one of them."))
        return found

    @property
    def _has_own_rule(self) -> bool:
        return type(self).has_end_permission is not EndingMixin.has_end_permission

    @property
    def _asks_each(self) -> bool:
        # No script knows the rules that a subclass has for single sessions. What its queryset leaves out, it does.
        return self._has_own_rule or type(self).has_view_permission is not admin.ModelAdmin.has_view_permission

    def _may_end_other(self, request: HttpRequest, session: OnlineSession) -> bool:
        may = self.has_view_permission(request, session) and self.has_end_permission(request, session)
        return may and session.sid != own_sid_of(request)

    def _own_among(self, request: HttpRequest, which: Which) -> list[OnlineSession]:
        # It was seen just now.
        own = self.look_up(request, own_sid_of(request) or "")
        return [session for session in own if which.user_ids is None or session.user_id in which.user_ids]

    def _sign_out_if_own(self, request: HttpRequest, ended: Sequence[Ended]) -> None:
        if own_sid_of(request) in {one.sid for one in ended}:
            # Else a message that is kept in the session would be saved to what is over.
            request.session.flush()

    def _tell_ended(self, request: HttpRequest, count: int) -> None:
        if not count:
            messages.warning(request, gettext("There is no session here that you can end."))
            return
        text = ngettext("%(count)s session was ended.", "%(count)s sessions were ended.", count)
        messages.success(request, text % {"count": number_format(count, force_grouping=True)})

    def _tell_over(self, request: HttpRequest, count: int) -> None:
        if count > 0:
            text = ngettext(
                "%(count)s session was not ended: it was over already.",
                "%(count)s sessions were not ended: they were over already.",
                count,
            )
            messages.warning(request, text % {"count": number_format(count, force_grouping=True)})

    def _tell_protected(self, request: HttpRequest, count: int) -> None:
        if count and self._has_own_rule:
            text = ngettext(
                "%(count)s session was not ended: you may not end it.",
                "%(count)s sessions were not ended: you may not end them.",
                count,
            )
            messages.warning(request, text % {"count": number_format(count, force_grouping=True)})
        elif count:
            text = ngettext(
                "%(count)s session was not ended: it is a superuser's, and only superusers can end it.",
                "%(count)s sessions were not ended: they are superusers', and only superusers can end them.",
                count,
            )
            messages.warning(request, text % {"count": number_format(count, force_grouping=True)})

    def _log(self, request: HttpRequest, ended: Sequence[Ended], reason: str) -> None:
        # On the user: an ended session has no page on which a history could be read. Guests have none either.
        # What somebody else wrote as the user of a session must not act on the database either.
        users = Counter(printable(one.user_id) for one in ended)
        guests = users.pop("", 0)
        of_list = partial(history_line, request, OnlineSession, None, self.opts.verbose_name_plural)
        lines = []
        if guests:
            text = ngettext("Ended %(count)d session of a guest.", "Ended %(count)d sessions of guests.", guests)
            lines.append(of_list(text % {"count": guests}))
        if len(users) > LINES_MAX:
            text = gettext("Ended sessions: %(count)d, of users: %(users)d. Ids of users: %(ids)s.")
            ids = list(users)
            for some in (ids[start : start + IDS_IN_LINE] for start in range(0, len(ids), IDS_IN_LINE)):
                count = sum(users[user_id] for user_id in some)
                lines.append(of_list(text % {"count": count, "users": len(some), "ids": ", ".join(some)}))
            users.clear()
        names = users_by_id(set(users))
        for user_id, count in users.items():
            text = ngettext("Ended %(count)d session.", "Ended %(count)d sessions.", count)
            shown = names.get(user_id, user_id)
            lines.append(history_line(request, get_user_model(), user_id, shown, text % {"count": count}))
        if reason:
            for line in lines:
                line.change_message += " " + gettext("Reason: %s") % reason
        LogEntry.objects.bulk_create(lines)


def own_sid_of(request: HttpRequest) -> str | None:
    """Return the sid of the session that ``request`` came with, as far as it is one of ours."""
    return getattr(request.session, "stored_sid", None)


class _EachAsked:
    """End a list as :class:`BulkEnding` does, but ask ``may_end`` about each session; ``passed`` ones stay."""

    def __init__(
        self,
        sessions: SessionQuerySet,
        may_end: Callable[[OnlineSession], bool],
        passed: int,
        *,
        message: str,
        latest: int,
        keep_users: Collection[str],
    ) -> None:
        # Who signs in or is seen meanwhile moves to where it was looked already, or will be. (Where one that stays is
        # seen meanwhile, one other may be passed over: it is there still, when somebody looks again.)
        self._sessions = sessions.order_by("seen_at" if sessions.which.only_by_seen else "-login_at")
        self._may_end = may_end
        self._how: dict[str, Any] = {"message": message, "latest": latest, "keep_users": keep_users}
        self.passed, self.done = passed, False

    def step(self) -> Steps[list[Ended]]:
        """End those of up to 250 sessions that may be ended."""
        page = list(self._sessions[self.passed : self.passed + AT_ONCE_MAX])
        self.done = not page
        sids = [session.sid for session in page if self._may_end(session)]
        ended = yield from operations.end(sids, Reason.KICKED, **self._how)
        self.passed += len(page) - len(ended)
        return ended


def _is_superuser(user: object) -> bool:
    return bool(getattr(user, "is_superuser", False))
