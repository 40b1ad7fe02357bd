"""
Users in the admin: their last sign-ins, their limits, deactivating an account.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any, NamedTuple

from django.contrib.admin.sites import AdminSite
from django.contrib.admin.utils import quote
from django.db import router, transaction
from django.http import HttpRequest
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.text import Truncator
from django.utils.translation import gettext

from django_redsess import past_sign_ins
from django_redsess.admin import log_entries
from django_redsess.admin.access import Access, access_to_sessions, named_users, visible_users
from django_redsess.admin.pages import (
    MESSAGE_MAX,
    NAME_MAX,
    address_html,
    end_html,
    fill_html,
    how_ended_html,
    link_html,
    message_html,
    moment_html,
    note_html,
    paragraph_html,
    place_html,
    sender_html,
    sessions_url,
    table_html,
)
from django_redsess.exceptions import SessionStoreUnavailable
from django_redsess.models import OnlineSession
from django_redsess.online import labels
from django_redsess.online.browsers import browser_name
from django_redsess.online.ending import BulkEnding
from django_redsess.online.labels import shortly
from django_redsess.online.listing import USERS_MAX, SessionFilter
from django_redsess.session import user_limit
from django_redsess.session.store import user_id_of
from django_redsess.signals import EndedSession

LIVE_MAX = 500  # The sign-ins of a page are compared with so many live sessions.

SIGN_INS_SHOWN = 5
"""How many of the last sign-ins the pages of a session and of a user show."""


def recent_sign_ins(request: HttpRequest, site: AdminSite, user_id: str) -> past_sign_ins.UserSignIns | None:
    """Return the last sign-ins of a user; None if the administrator may not see them, or the site keeps none."""
    found = past_sign_ins.sign_ins_for_admin(request, site, user_id, limit=SIGN_INS_SHOWN)
    if found is None:
        return None
    access = access_to_sessions(request, site)
    return found._replace(sign_ins=with_readable_notes(found.sign_ins, request, site, access))


def with_readable_notes(
    sign_ins: Iterable[past_sign_ins.PastSignIn], request: HttpRequest, site: AdminSite, access: Access | None
) -> list[past_sign_ins.PastSignIn]:
    """
    Return the sign-ins without the internal notes that the administrator may not read.

    ``access`` is that to sessions, or None if the administrator may see none.
    """
    sign_ins = list(sign_ins)
    noted = {each.user_id for each in sign_ins if each.internal_note}
    users = named_users(request, site, noted) if noted and access else {}

    def readable(each: past_sign_ins.PastSignIn) -> str:
        return access.readable_note(each, each.ended_by, users.get(each.user_id)) if access else ""

    return [each._replace(internal_note=readable(each)) if each.internal_note else each for each in sign_ins]


def name_among(users: Mapping[str, object], user_id: str) -> str:
    """Return the name of the user with this primary key; a text with the key if the user is not in ``users``."""
    found = users.get(user_id)
    name = gettext("user %(id)s") % {"id": user_id} if found is None else str(found)
    return Truncator(name).chars(NAME_MAX)


def sign_ins_table(request: HttpRequest, site: AdminSite, of_user: past_sign_ins.UserSignIns) -> SafeString:
    """Return the last sign-ins of a user as a table, with a link to all."""
    if not of_user.sign_ins:
        return format_html("{}", gettext("No sign-in is recorded."))
    headings = [gettext("Signed in"), gettext("Where from"), gettext("Ended"), gettext("How it ended")]
    names = names_of_enders(request, site, of_user.sign_ins)
    live = live_urls(request, site, of_user.sign_ins)
    rows = [
        (
            shortly(each.created_at),
            sender_html(each),
            end_html(each, live.get(name_of_sign_in(each), "")),
            how_ended_html(each, names[each.ended_by])
            + message_html(each.message)
            + note_html(each.internal_note, MESSAGE_MAX),
        )
        for each in past_sign_ins.with_places(of_user.sign_ins)
    ]
    return table_html(headings, rows) + paragraph_html(link_html(of_user.url, gettext("All sign-ins of this user")))


def last_sign_in_html(request: HttpRequest, site: AdminSite, of_user: past_sign_ins.UserSignIns) -> SafeString:
    """Return sentences about the last sign-in of a user who is not signed in, with a link to all of them."""
    if not of_user.sign_ins:
        return SafeString()
    [last] = past_sign_ins.with_places(of_user.sign_ins[:1])
    text = gettext("Last signed in %(time)s, with %(browser)s.")
    if last.address:
        text = gettext("Last signed in %(time)s from %(address)s (%(browser)s).")
    browser = labels.or_not_stored(browser_name(last.user_agent))
    address = address_html(last.address) + place_html(last.place)
    parts = [fill_html(text, time=moment_html(last.created_at), address=address, browser=browser)]
    if last.ended_at:
        name = names_of_enders(request, site, of_user.sign_ins[:1])[last.ended_by]
        how = fill_html(past_sign_ins.end_text(last), name=name)
        parts.append(fill_html(gettext("How it ended: %(how)s (%(time)s)."), how=how, time=end_html(last)))
    parts.append(link_html(of_user.url, gettext("All sign-ins of this user")))
    return format_html_join(" ", "{}", ((part,) for part in parts))


def name_of_sign_in(sign_in: past_sign_ins.PastSignIn | OnlineSession) -> tuple[str, datetime | None]:
    """Return a key that is the same for a live session and its sign-in, and for no others."""
    return sign_in.user_id, sign_in.created_at


def live_urls(
    request: HttpRequest, site: AdminSite, sign_ins: Iterable[past_sign_ins.PastSignIn]
) -> dict[tuple[str, datetime | None], str]:
    """
    Return the URLs of the pages of the sessions that live, by :func:`name_of_sign_in`.

    Sessions that the administrator may not see are left out, and all but the newest 500 of these users.
    """
    user_ids = {each.user_id for each in sign_ins if not each.ended_at}
    if not user_ids or (access := access_to_sessions(request, site)) is None:
        return {}
    found = access.sessions().of_users(list(user_ids)[:USERS_MAX])[:LIVE_MAX]
    return {
        name_of_sign_in(session): sessions_url("change", site, quote(session.sid))
        for session in found
        if access.may_see(session)
    }


def names_of_enders(
    request: HttpRequest, site: AdminSite, sign_ins: Iterable[past_sign_ins.PastSignIn]
) -> dict[str, str]:
    """Return the names of the users who ended these, by primary key. A hidden user has the key as name."""
    user_ids = {each.ended_by for each in sign_ins}
    others = user_ids - {"", *(each.user_id for each in sign_ins)}
    users = named_users(request, site, others) if others else {}
    return {user_id: name_among(users, user_id) for user_id in user_ids}


def limit_of_user(request: HttpRequest, site: AdminSite, user_id: str) -> str:
    """
    Describe the limit of a user's sessions. ``""`` if the administrator may not see the user.

    They must not learn whether a user has this id, nor what the limit may reveal, such as who is staff.
    """
    return user_limit.describe(visible_users(request, site, {user_id}).get(user_id))


class DeactivationEnds(NamedTuple):
    """
    The ``sessions`` that have ended with a deactivation.

    ``confirmed_by`` is the least number of replicas that have confirmed, or None. ``is_outage``: an outage has left
    other sessions.
    """

    sessions: list[EndedSession]
    confirmed_by: int | None
    is_outage: bool


def deactivate_user(request: HttpRequest, user: Any, message: str, note: str) -> DeactivationEnds:
    """
    Deactivate ``user``, then end all sessions of the user.

    ``message`` is shown on the devices of the user. ``note`` is for administrators.
    """
    using, done = router.db_for_write(type(user), instance=user), list[DeactivationEnds]()

    def end_after_commit() -> None:
        done.append(_end_user_sessions(request, user_id_of(user), message, note))

    with transaction.atomic(using=using):
        # Sessions end after the commit: before it, the user could sign in again. This callback runs before that of
        # END_ON_DEACTIVATION, which has another message.
        transaction.on_commit(end_after_commit, using=using)
        user.is_active = False
        user.save(update_fields=["is_active"])
        log_entries.save_deactivation(request, user, message, note)
    if not done:
        # The request has a transaction of its own (ATOMIC_REQUESTS). Its commit ends them once more.
        end_after_commit()
    return done[0]


def _end_user_sessions(request: HttpRequest, user_id: str, message: str, note: str) -> DeactivationEnds:
    work = BulkEnding(SessionFilter((user_id,)), message=message)
    with log_entries.saving_ends(request, message, note) as done, suppress(SessionStoreUnavailable):
        work.end_within()
    return DeactivationEnds(done.kicked, work.confirmed_by, not work.done)
