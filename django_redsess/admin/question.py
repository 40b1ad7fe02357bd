"""The question before sessions end: which ones, how many, and whether to block or deactivate their user instead."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from math import isnan
from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.admin.views.main import ChangeList
from django.contrib.auth.models import AbstractBaseUser
from django.http import HttpResponse, HttpResponseRedirect
from django.utils.translation import gettext, gettext_lazy, ngettext

from django_redsess import online
from django_redsess.admin import blocking, pages
from django_redsess.admin.access import CHECKED_MAX, Access, may_change_users, user_to_deactivate
from django_redsess.admin.filters import selected_choices
from django_redsess.conf import MESSAGE_MAX, conf
from django_redsess.models import OnlineSession
from django_redsess.online import labels
from django_redsess.online.browsers import browser_name
from django_redsess.online.labels import when
from django_redsess.online.listing import SIDS_MAX, count_with_time
from django_redsess.permissions import rules
from django_redsess.querysets import SessionQuerySet
from django_redsess.session.store import user_id_of
from django_redsess.user_messages import clean_text, isolated, message_in_words, ready_message

ROWS_MAX = 10  # The question shows so many of the sessions.
PARTS_MAX = 5  # So many times as many sessions are read for these rows: some may stay.
COUNTED_MAX = 1000  # The users of so many sessions are counted.

END_TEMPLATE = "admin/django_redsess/onlinesession/end_confirmation.html"
DEACTIVATE_TEMPLATE = "admin/django_redsess/onlinesession/deactivate_confirmation.html"


def end_reasons() -> list[tuple[str, str]]:
    """Return the choices of ``END_MESSAGES``, in the administrator's language. Users read them in their own."""
    return [("", "---------"), *((code, str(text)) for code, text in conf.END_MESSAGES.items())]


class EndForm(forms.Form):
    """
    Which sessions to end, the message for their users (a reason, words of one's own, or both), and an internal note.

    The sessions are either ``sids``, or those of the list's ``query`` that began up to the time ``latest``.
    """

    sids = forms.CharField(required=False, widget=forms.HiddenInput)
    query = forms.CharField(required=False, widget=forms.HiddenInput)
    # Milliseconds of the server's clock. Sessions that began later were not counted on the page, and stay.
    latest = forms.IntegerField(required=False, min_value=0, max_value=10**15, widget=forms.HiddenInput)
    # How many sessions the page named.
    number = forms.IntegerField(required=False, min_value=0, max_value=10**15, widget=forms.HiddenInput)
    # The position where the last request stopped, if a rule in Python is asked about each session: see BulkEnding.
    position = forms.CharField(required=False, widget=forms.HiddenInput)
    reason = forms.ChoiceField(label=gettext_lazy("Reason, which the user reads"), required=False, choices=end_reasons)
    message = forms.CharField(
        label=gettext_lazy("Message to the user"),
        required=False,
        max_length=MESSAGE_MAX,
        help_text=gettext_lazy("Optional. Each user reads it on the next page they open."),
        widget=forms.TextInput(attrs={"size": 60}),
    )
    note = forms.CharField(
        label=gettext_lazy("Internal note"),
        required=False,
        max_length=MESSAGE_MAX,
        help_text=gettext_lazy("Optional. It is kept in the history in the admin only. No user is told."),
        widget=forms.TextInput(attrs={"size": 60}),
    )
    own = forms.BooleanField(
        label=gettext_lazy("End my own session too: I will be signed out"), required=False, label_suffix=""
    )

    # The primary key of the user whose account is deactivated, too. It is the value of a button.
    deactivate = forms.CharField(required=False)
    # Set by the second question, which asks about the account only.
    is_confirmed = forms.BooleanField(required=False)
    # The value of a button that blocks: see blocking.block_buttons().
    block = forms.CharField(required=False)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if not conf.END_MESSAGES:
            del self.fields["reason"]

    def clean_position(self) -> tuple[int, str, str] | None:
        """Return the position, or None for a text that is not ours: then sessions are read from the beginning."""
        number, score, sid = [*self.cleaned_data["position"].split(":", 2), "", ""][:3]
        with suppress(ValueError):
            if number.isdecimal() and not isnan(float(score)):
                return int(number), repr(float(score)), sid
        return None

    def clean(self) -> dict[str, Any]:
        """Join reason and message. ``to_users`` becomes the message for the users, as it is stored."""
        data = self.cleaned_data
        code, words = data.get("reason", ""), clean_text(data.get("message", ""))
        data["note"] = clean_text(data.get("note", ""))
        data["to_users"] = ready_message(code, words) if code else words
        return data


def confirm_view(access: Access) -> HttpResponse:
    """Ask whether to end the session ``sid``; without that parameter, all that match the query."""
    asked = access.request.GET
    sid = asked.get("sid")
    return ask_before_end(access, {"query": pages.without_return_page(asked)} if sid is None else {"sids": sid})


def ask_before_end(access: Access, choice: Mapping[str, Any], form: EndForm | None = None) -> HttpResponse:
    """
    Show which sessions would end, with their exact number.

    ``choice`` has ``sids``, or the list's ``query``, and may have values of other fields of the form. ``form`` is a
    form with errors, to be shown again.
    """
    access.require_end()
    about: dict[str, Any] = {}
    if "query" in choice and not choice.get("sids"):
        listed = access.admin.changelist_of(access.request, str(choice["query"]))
        matching, about = _sessions_of(listed), _what_was_asked(listed)
        if access.are_everyones(matching) and not access.may_end_all():
            messages.warning(access.request, pages.missing_permission("end_all_onlinesession"))
            return redirect_back(access)
        if (sids := _sids_of(access, matching)) is None:
            return _ask_about(access, choice, about | _context_of_query(access, matching), form)
        choice = {**choice, "query": "", "sids": " ".join(sids)}
    context = _context_of_sids(access, choice.get("sids", "").split()[:SIDS_MAX])
    if context["found"]:
        return _ask_about(access, choice, about | context, form)
    report_gone(access, context["gone"])
    if not context["gone"]:
        messages.warning(access.request, gettext("There is no session here that you can end."))
    return redirect_back(access)


def _ask_about(
    access: Access, choice: Mapping[str, Any], context: dict[str, Any], form: EndForm | None
) -> HttpResponse:
    if not (context["number"] or context["own"]):
        if context.get("to_block"):
            context = {**context, "title": gettext("Block the user")}
        elif context.get("to_deactivate"):
            context = {**context, "title": gettext("Deactivate the account")}
    latest = context.get("latest") or ""
    counted_now = {"latest": latest, "number": context["number"] if latest else ""}
    if form is None:
        form = EndForm(initial={**choice, **counted_now})
    else:
        form.data = {**access.request.POST.dict(), **counted_now}
    if not context["number"] and not context["own"]:
        form.fields["message"].help_text = gettext("Optional. The user reads it when a sign-in is refused.")
    return render_question(access, {**context, "form": form})


def ask_to_deactivate(access: Access, user: AbstractBaseUser, data: Mapping[str, Any]) -> HttpResponse:
    """Ask a second time, about the account of ``user`` only. ``data`` is that of the first question's form."""
    page, user_id = pages.return_page_of(access.request), user_id_of(user)
    repeated = {name: data.get(name, "") for name in ("reason", "message", "note")}
    context = {
        "to_deactivate": pages.name_html(str(user)),
        "number": OnlineSession.online.of_users([user_id]).count(),
        "message": message_in_words(data["to_users"], isolated),
        "note": data["note"],
        "repeated": {**page.parameters, **repeated, "deactivate": user_id, "is_confirmed": "on"},
        "back": page.url(access.site),
    }
    return access.admin.render_page(access.request, DEACTIVATE_TEMPLATE, gettext("Deactivate the account"), context)


def _context_of_sids(access: Access, sids: Sequence[str]) -> dict[str, Any]:
    # A session may have got another sid since the list was shown.
    found = access.look_up(*(session.sid for session in online.find(sids, follow=True)))
    own_sid = access.own_sid
    protected = {session.sid for session in found if not access.may_end(session)}
    number = sum(session.sid not in {*protected, own_sid} for session in found)
    return {
        "found": found,
        "gone": len(set(sids)) - len(found),
        "protected": len(protected),
        "own": any(session.sid == own_sid for session in found),
        "number": number,
        "asks_each": access.ends_by_own_rule and protected,
        **_question_rows(access, found, number, len(found)),
        **_users_asked_about(access, found, number),
        **_offer_deactivation(access, {session.user_id for session in found}, len(protected)),
        **_offer_block(access, {session.user_id for session in found}, len(protected), ends=bool(number)),
    }


def _context_of_query(access: Access, matching: SessionQuerySet) -> dict[str, Any]:
    asked = matching.session_filter
    total, at = count_with_time(asked.without_search)
    if asked.needs_search:
        total = matching.count()
    protected = _count_protected(access, matching)
    is_own = bool(own_among(access, matching))
    number = max(0, total - protected - is_own)
    # A user without a session is not named: that would tell which user ids exist.
    user_ids = (asked.user_ids or ()) if total else ()
    is_of_one = len(user_ids) == 1
    listed = _in_parts(matching) if is_of_one or number < 2 else list(matching[:COUNTED_MAX])
    return {
        "latest": at,
        "protected": protected,
        "own": is_own,
        "number": number,
        # A search ends no more than this number. Without a search, all sessions of a list end.
        "is_least": not asked.needs_search and asked.active_seconds is not None and matching.is_cut,
        "asks_each": access.asks_each or (access.ends_by_own_rule and protected),
        **_question_rows(access, listed, number, total),
        **({"one_user": pages.names_html(*user_ids)} if is_of_one else _users_asked_about(access, listed, number)),
        # Only who may change the user learns here that the user has no session.
        **_offer_deactivation(access, asked.user_ids or (), protected),
        **_offer_block(access, asked.user_ids or (), protected, ends=bool(number)),
    }


def _question_rows(access: Access, sessions: Iterable[OnlineSession], number: int, total: int) -> dict[str, Any]:
    # Sessions that stay have rows only if none ends.
    may_show = access.may_end_other if number else access.may_see
    shown = list(islice(filter(may_show, sessions), ROWS_MAX))
    pages.set_places(shown)
    rows = [
        {
            "session": session,
            "browser": _browser_of(session),
            "place": pages.place_html(session.place),
            "signed_in": when(session.created_at) if session.created_at else "",
            "seen": when(session.last_seen_at),
            "is_own": session.sid == access.own_sid,
            "is_protected": not access.may_end(session),
        }
        for session in shown
    ]
    return {"rows": rows, "more": max(0, (number or total) - len(rows)), "custom_rule": access.ends_by_own_rule}


def _users_asked_about(access: Access, sessions: Iterable[OnlineSession], number: int) -> dict[str, Any]:
    """Count the users of the ``number`` sessions that end. ``sessions`` are up to 1 000 of these."""
    if number < 2:
        return {}
    ends = [session.user_id for session in sessions if access.may_end_other(session)]
    user_ids, is_least = set(ends) - {""}, len(ends) < number
    if len(user_ids) == 1 and "" not in ends and not is_least:
        return {"one_user": pages.names_html(*user_ids)}
    text = ngettext("%(count)s session", "%(count)s sessions", number) % {"count": pages.shown_number(number)}
    return {"users": len(user_ids), "users_are_least": is_least, "has_guests": "" in ends, "sessions": text}


def _offer_deactivation(access: Access, user_ids: Collection[str], protected: int) -> dict[str, Any]:
    # Offered if all sessions are of one user, and none of them stays.
    if len(user_ids) != 1 or "" in user_ids or protected:
        return {}
    if not may_change_users(access.request, access.site):
        return {"others_deactivate": True}
    user = user_to_deactivate(access, *user_ids)
    if user is None or not user.is_active:
        return {}
    return {"to_deactivate": user, "to_deactivate_id": user_id_of(user)}


def _offer_block(access: Access, user_ids: Collection[str], protected: int, *, ends: bool) -> dict[str, Any]:
    # As for deactivation.
    if len(user_ids) != 1 or "" in user_ids or protected or not rules().may_block(access.request.user):
        return {}
    [user_id] = user_ids
    user = blocking.user_to_block(access, user_id)
    if user is None:
        return {}
    fields = {**pages.return_page_of(access.request).parameters, blocking.ASKED: "1"}
    block = blocking.shown_block(access, user, fields)
    return {"to_block": user, "blocks": blocking.block_buttons(user_id, ends=ends), "block_of_user": block}


def _sids_of(access: Access, matching: SessionQuerySet) -> list[str] | None:
    # The sids to ask about, if a filter names them or a search has found up to 1 000; else None. The same search after
    # the question could find sessions that the question did not name.
    if matching.sids is None and ((found := matching.found_sids) is None or len(found) > SIDS_MAX):
        return None
    return [session.sid for session in matching[:SIDS_MAX] if access.may_see(session)]


def sessions_to_end(access: Access, query: str) -> SessionQuerySet:
    return _sessions_of(access.admin.changelist_of(access.request, query))


def count_to_end(access: Access, query: str) -> int:
    """Count the sessions that match ``query`` and may end: as the question does."""
    return int(_context_of_query(access, sessions_to_end(access, query))["number"])


def own_among(access: Access, matching: SessionQuerySet) -> list[OnlineSession]:
    # The present session was seen just now: any filter by time includes it.
    own, user_ids = access.look_up(access.own_sid or ""), matching.session_filter.user_ids
    if matching.session_filter.guests == "only":
        return []
    if (found := matching.found_sids) is not None:
        return [session for session in own if session.sid in found]
    if matching.session_filter.needs_search:
        return own if matching.filter(sid=access.own_sid).exists() else []
    return [session for session in own if user_ids is None or session.user_id in user_ids]


def _count_protected(access: Access, matching: SessionQuerySet) -> int:
    """Count the matching sessions of superusers, if the administrator may not end these."""
    superusers, session_filter = access.protected_user_ids(), matching.session_filter
    if session_filter.user_ids is not None:
        superusers = [user_id for user_id in superusers if user_id in session_filter.user_ids]
    if not superusers or session_filter.guests == "only":
        return 0
    if (found := matching.found_sids) is not None:
        of_them = OnlineSession.online.of_users(superusers)
        # Superusers usually have few sessions. To read all that a search has found takes half a second.
        if of_them.count() <= CHECKED_MAX:
            found_sids = set(found)
            return sum(session.sid in found_sids for session in of_them)
        return sum(session.user_id in superusers for session in matching)
    of_superusers = session_filter._replace(user_ids=tuple(superusers), guests=False)
    return online.count(**of_superusers._asdict())


def render_question(access: Access, context: dict[str, Any]) -> HttpResponse:
    page = pages.return_page_of(access.request)
    title = context.get("title", gettext("End sessions"))
    context = {"return_parameters": page.parameters, "back": page.url(access.site), **context}
    return access.admin.render_page(access.request, END_TEMPLATE, title, context)


def redirect_back(access: Access) -> HttpResponse:
    return HttpResponseRedirect(pages.return_page_of(access.request).url(access.site))


def report_gone(access: Access, count: int) -> None:
    if count > 0:
        text = ngettext(
            "%(count)s session was not ended: it was over already.",
            "%(count)s sessions were not ended: they were over already.",
            count,
        )
        messages.warning(access.request, text % {"count": pages.shown_number(count)})


def _sessions_of(listed: ChangeList | None) -> SessionQuerySet:
    return OnlineSession.online.none() if listed is None else listed.queryset


def _browser_of(session: OnlineSession) -> str:
    name = browser_name(session.user_agent)
    return name if session.address else labels.or_not_stored(name)


def _what_was_asked(listed: ChangeList | None) -> dict[str, Any]:
    # The search and the filters, or a title that says that these are everyone's sessions.
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
