"""Ending sessions in the admin: the view that ends them, and its messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, cast

from django.contrib import messages
from django.contrib.auth.models import AbstractBaseUser
from django.core.exceptions import PermissionDenied
from django.http import HttpResponse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext, ngettext

from django_redsess import online
from django_redsess.accounts import reauthentication
from django_redsess.admin import blocking, log_entries, pages
from django_redsess.admin.access import Access, user_to_deactivate
from django_redsess.admin.question import (
    EndForm,
    ask_before_end,
    ask_to_deactivate,
    count_to_end,
    own_among,
    redirect_back,
    render_question,
    report_gone,
    sessions_to_end,
)
from django_redsess.admin.users import deactivate_user
from django_redsess.exceptions import SessionStoreUnavailable
from django_redsess.models import OnlineSession
from django_redsess.online import EndedCount, EndedList, labels
from django_redsess.online.browsers import browser_name
from django_redsess.online.ending import BulkEnding, ListPosition, confirmed_too_few, least_confirmed
from django_redsess.online.labels import server_time
from django_redsess.online.listing import SIDS_MAX, count_with_time
from django_redsess.permissions import is_own_session
from django_redsess.querysets import SessionQuerySet
from django_redsess.responses import unavailable_response
from django_redsess.session.store import user_id_of
from django_redsess.signals import EndedSession

END_MAX = 50_000  # After so many sessions, a request stops and asks about the rest.
END_SECONDS = 5.0  # After so long a request stops, too.
NAMES_MAX = 3  # A message names so many users.

TEMPLATE = "admin/django_redsess/onlinesession/password.html"
NOT_REPEATED = ("csrfmiddlewaretoken", "username", "password")


def end_view(access: Access) -> HttpResponse:
    """End the sessions that were confirmed, and save that in the users' histories."""
    access.require_end()
    form = EndForm(access.request.POST)
    if not form.is_valid():
        return ask_before_end(access, access.request.POST.dict(), form)
    end = _end_chosen if form.cleaned_data["sids"] else _end_matching
    if form.cleaned_data["deactivate"]:
        end = _deactivate
    elif form.cleaned_data["block"]:
        end = _block_and_end
    try:
        return end(access, form)
    except SessionStoreUnavailable as error:
        # With ATOMIC_REQUESTS, an error that leaves the view would undo the lines in the histories.
        return unavailable_response(access.request, error)


def _end_chosen(access: Access, form: EndForm) -> HttpResponse:
    data, own_sid = form.cleaned_data, access.own_sid
    chosen = dict.fromkeys(data["sids"].split()[:SIDS_MAX])
    # A session may have got another sid since the page was shown. So may the administrator's own.
    current = [session.sid for session in online.find(list(chosen), follow=True)]
    found = {session.sid: session for session in access.look_up(*current)}
    if include_other_own(access, found.values()) and (question := _ask_for_password(access)):
        return question
    gone = len(chosen) - len(found)
    if own_sid in found and not data["own"]:
        if len(found) == 1:
            return ask_before_end(access, data, form)
        del found[own_sid]
    sids, ended = end_found(access, found.values(), data["to_users"], data["note"])
    _report_ended(access, _text_of(access, ended, found), ended.confirmed_by)
    _report_protected(access, len(found) - len(sids))
    report_gone(access, gone + len(sids) - len(ended))
    return redirect_back(access)


def _end_matching(access: Access, form: EndForm) -> HttpResponse:
    data = form.cleaned_data
    matching = sessions_to_end(access, data["query"])
    if match_other_own(access, matching) and (question := _ask_for_password(access)):
        return question
    is_counted = data["latest"] is not None and (data["number"] is not None or matching.found_sids is None)
    if not is_counted or matching.sids is not None:
        # The form is not from our page, or the query now means something else.
        return ask_before_end(access, {**data, "position": ""})
    if access.are_everyones(matching) and not access.may_end_all():
        raise PermissionDenied
    # A message about a single session names its browser. The second row may be the own session, which stays.
    rows = {session.sid: session for session in matching[:2]} if data["number"] == 1 else {}
    work = _work(access, matching, data["to_users"], data["latest"], limit=data["number"], position=data["position"])
    with log_entries.saving_ends(access.request, data["to_users"], data["note"]) as done:
        ended = done.kicked
        work.end_within(seconds=END_SECONDS, limit=END_MAX)
        is_over = work.done or not count_to_end(access, data["query"])
        if is_over:
            # Let it see that nothing is left to end.
            work.end_within()
        replicas = work.confirmed_by
        if is_over and data["own"]:
            own = filter(access.may_end, own_among(access, matching))
            batch = online.end(*(each.sid for each in own), message=data["to_users"])
            replicas = least_confirmed(replicas, batch.confirmed_by)
    if not is_over:
        _report_ended(access, _text_of(access, ended, rows), replicas)
        # A rule in Python may keep more sessions than a request can read, so the next one goes on where this one
        # stopped. Without such a rule it begins anew: ended sessions are in no list.
        position = ":".join(map(str, work.position)) if access.asks_each else ""
        return ask_before_end(access, {**data, "position": position})
    _sign_out_if_own(access, ended)
    if not ended and not data["position"]:
        messages.warning(access.request, gettext("There is no session here that you can end."))
    _report_ended(access, _text_of(access, ended, rows), replicas)
    return redirect_back(access)


def _work(
    access: Access,
    matching: SessionQuerySet,
    message: str,
    latest: int,
    *,
    limit: int | None = None,
    position: ListPosition | None = None,
) -> BulkEnding:
    def choose(sessions: list[online.Session]) -> list[str]:
        return [row.sid for row in matching.rows_of(sessions) if access.may_end_other(row)]

    return BulkEnding(
        matching.session_filter,
        message=message,
        latest=latest,
        keep=[access.own_sid or ""],
        keep_user_ids=access.protected_user_ids(),
        choose=choose if access.asks_each else None,
        by_seen=matching.by_seen,
        limit=limit,
        position=position,
    )


def end_found(
    access: Access, found: Iterable[OnlineSession], message: str, note: str = ""
) -> tuple[list[str], EndedList]:
    """
    End those of the sessions ``found`` that the administrator may end, and save that in the users' histories.

    Users read ``message``. ``note`` is for administrators. Return the sids that were to end, and the sessions that
    have ended. If the request's own session is one of them, the administrator is signed out.
    """
    superusers = access.protected_user_ids()
    sids = [session.sid for session in found if access.may_end(session)]
    # A guest may have signed in as a superuser meanwhile: the script checks again.
    with log_entries.saving_ends(access.request, message, note):
        ended = online.end(*sids, message=message, keep_user_ids=superusers)
    _sign_out_if_own(access, ended)
    return sids, ended


def end_sessions_of_user(access: Access, user_id: str, message: str, note: str = "") -> EndedList:
    """
    End the sessions of a user that the administrator may end, except the request's own. Save that in the history.

    ``message`` and ``note`` are as in :func:`end_found`. Raises PermissionDenied if the user is protected: by default,
    superusers are protected from all others.
    """
    if user_id in access.protected_user_ids():
        raise PermissionDenied("You may not end the sessions of this user.")
    matching = access.sessions().of_users([user_id])
    if matching.sids is not None:
        # get_queryset() of the site names sids, or has guests only.
        _, ended = end_found(access, filter(access.may_end_other, matching), message, note)
        return ended
    _, latest = count_with_time(matching.session_filter)
    with log_entries.saving_ends(access.request, message, note):
        return _work(access, matching, message, latest).end_within()


def block_user_until(
    access: Access, user: AbstractBaseUser, until: datetime, message: str, note: str = ""
) -> EndedCount:
    """
    Block ``user``, end all sessions of the user, and save both in the user's history.

    Ask :func:`blocking.user_to_block` first. ``note`` is for administrators. For the other arguments and the errors,
    see :func:`django_redsess.online.block`.
    """
    with log_entries.saving_ends(access.request, message, note) as done:
        try:
            by = cast(AbstractBaseUser, access.request.user)
            return online.block(user, until=until, message=message, by=by, internal_note=note)
        finally:
            if done.blocked:
                log_entries.save_block(access.request, user, until, message, note)


def _deactivate(access: Access, form: EndForm) -> HttpResponse:
    """Ask once more. Then deactivate the account, and end all sessions of its user."""
    data = form.cleaned_data
    user = user_to_deactivate(access, data["deactivate"])
    if user is None:
        raise PermissionDenied
    if not data["is_confirmed"]:
        return ask_to_deactivate(access, user, data)
    ended = deactivate_user(access.request, user, data["to_users"], data["note"])
    name = pages.name_html(str(user))
    if ended.is_outage:
        text = gettext(
            "The account of %(user)s was deactivated: nobody can sign in with it. But its sessions could not "
            "be ended, because the server of the sessions does not answer. Look again in a while."
        )
        return render_question(access, {"outage": pages.fill_html(text, user=name)})
    text = gettext("The account of %(user)s was deactivated.")
    messages.success(access.request, pages.fill_html(text, user=name))
    _report_ended(access, ended_text(ended.sessions), ended.confirmed_by)
    return redirect_back(access)


def _block_and_end(access: Access, form: EndForm) -> HttpResponse:
    """Block the user, and end all sessions of the user."""
    time, user_id = blocking.parse_button(form.cleaned_data["block"])
    data, user = form.cleaned_data, blocking.user_to_block(access, user_id)
    if user is None:
        raise PermissionDenied
    until = server_time() + time
    ended = block_user_until(access, user, until, data["to_users"], data["note"])
    name = pages.name_html(str(user))
    text = gettext("%(user)s can’t sign in until %(time)s.")
    messages.success(access.request, pages.fill_html(text, user=name, time=labels.exactly(until)))
    _report_ended(access, user_text(ended, name), ended.confirmed_by)
    return redirect_back(access)


# An administrator enters the password again to end other sessions of their own. Otherwise a copied cookie could end
# sessions here that it can't end on the self-service pages.


def include_other_own(access: Access, sessions: Iterable[OnlineSession]) -> bool:
    """Tell whether any of ``sessions`` is another session of the administrator than the present one."""
    user: Any = access.request.user
    return any(is_own_session(user, session) and session.sid != access.own_sid for session in sessions)


def match_other_own(access: Access, matching: SessionQuerySet) -> bool:
    """Tell whether another session of the administrator than the present one matches, whenever it was last seen."""
    user: Any = access.request.user
    asked, user_id = matching.session_filter, user_id_of(user)
    if asked.guests == "only" or (asked.user_ids is not None and user_id not in asked.user_ids):
        return False
    own = OnlineSession.online.of_users([user_id])
    if matching.sids is None and not asked.needs_search:
        return include_other_own(access, own)
    return include_other_own(access, matching.filter(sid__in=[session.sid for session in own]))


def _ask_for_password(access: Access) -> HttpResponse | None:
    """Return the page that asks for the password; None if it need not. Its form repeats the request."""
    request, user = access.request, cast(Any, access.request.user)
    form = reauthentication.ask_password(request, user)
    if form is None:
        return None
    context = {
        "form": form,
        "username": user.get_username(),
        "repeated": [(name, each) for name, sent in request.POST.lists() if name not in NOT_REPEATED for each in sent],
        "back": pages.return_page_of(request).url(access.site),
    }
    page = access.admin.render_page(request, TEMPLATE, gettext("End sessions"), context)
    if form.is_locked:
        page.status_code = 429
        page["Retry-After"] = str(reauthentication.RECENT_SECONDS)
    return page


def _sign_out_if_own(access: Access, ended: Sequence[EndedSession]) -> None:
    if access.own_sid in {session.sid for session in ended}:
        # Messages may be kept in the session: they would be saved to an ended one.
        access.request.session.flush()


def _text_of(access: Access, ended: Sequence[EndedSession], rows: Mapping[str, OnlineSession]) -> SafeString:
    # After the end of the own session, the sign-in page shows this: it must name nobody.
    return count_text(len(ended)) if access.own_sid is None else ended_text(ended, rows)


def _report_ended(access: Access, text: SafeString, replicas: int | None) -> None:
    """Show ``text`` as a message, as a warning if too few replicas have the ends."""
    if text:
        told = format_html("{} {}", text, labels.confirmation_text(replicas)) if replicas is not None else text
        messages.add_message(
            access.request, messages.WARNING if confirmed_too_few(replicas) else messages.SUCCESS, told
        )


def _report_protected(access: Access, count: int) -> None:
    if not count:
        return
    if access.ends_by_own_rule:
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
    messages.warning(access.request, text % {"count": pages.shown_number(count)})


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
