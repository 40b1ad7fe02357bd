"""Blocks in the admin: who may block whom there, and the page of users who are blocked."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from datetime import timedelta
from typing import Any, NamedTuple

from django.contrib import messages
from django.contrib.auth.models import AbstractBaseUser
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.safestring import SafeString
from django.utils.translation import gettext, gettext_lazy

from django_redsess import online
from django_redsess.admin import log_entries, pages
from django_redsess.admin.users import hidden_users, name_among, users_admin
from django_redsess.online import labels
from django_redsess.permissions import keeps_all_of, rules, unstored_session
from django_redsess.querysets import users_by_id

HOURS = {
    "1": gettext_lazy("End, and block for an hour"),
    "24": gettext_lazy("End, and block for a day"),
    "168": gettext_lazy("End, and block for a week"),
}
"""For how many hours a button blocks, and what it says."""

HOURS_WITHOUT_END = {
    "1": gettext_lazy("Block for an hour"),
    "24": gettext_lazy("Block for a day"),
    "168": gettext_lazy("Block for a week"),
}

PER_PAGE = 100


Rule = Callable[[str, AbstractBaseUser | None], bool]
"""Takes the primary key of a user, and the user. None stands for a deleted user."""


def rule_for_sessions(request: HttpRequest, sessions: Any) -> Rule:
    """
    Return a function that tells whether the administrator may see and end all sessions of a user.

    It asks what a subclass of ``OnlineSessionAdmin`` has as rules: ``sessions`` is the admin of sessions. Without rules
    it is always True. The methods that decide about a session are asked about one that is not stored: a user who is
    blocked has none.
    """
    listed = sessions.sessions(request)

    def holds(user_id: str, user: AbstractBaseUser | None) -> bool:
        # get_queryset() of a subclass may leave out some of them.
        if not keeps_all_of(listed, user_id):
            return False
        if not (sessions.asks_each or rules().ends_by_own_rule):
            return True
        row = unstored_session(user_id, user)
        return sessions.has_view_permission(request, row) and sessions.has_end_permission(request, row)  # type: ignore[no-any-return]

    return holds


def users_with_shown_block(
    request: HttpRequest, sessions: Any, user_ids: set[str]
) -> dict[str, AbstractBaseUser | None]:
    """
    Return those of the users whose blocks the administrator may see, by primary key. None stands for a deleted user.

    The rules of this site decide, and those of its own admin of users and of ``sessions``, the admin of sessions.
    """
    may_see_block = rules().may_see_block
    if not may_see_block(request.user):
        return {}
    users = users_by_id(user_ids)
    hidden, rule = hidden_users(request, sessions.admin_site, user_ids, users), rule_for_sessions(request, sessions)
    shown = {user_id: users.get(user_id) for user_id in user_ids - hidden}
    return {key: user for key, user in shown.items() if may_see_block(request.user, user) and rule(key, user)}


def user_to_block(request: HttpRequest, sessions: Any, user_id: str) -> AbstractBaseUser | None:
    """
    Return the user with this primary key if the administrator may block the user, and lift the block, else None.

    They may if they may see a block of the user, see :func:`users_with_shown_block`, and the rules of this site say so.
    """
    user = users_with_shown_block(request, sessions, {user_id}).get(user_id)
    return user if user is not None and rules().may_block(request.user, user) else None


ASKED = "asked"
"""The field of a form that lifts a block: it stands on the page that asks whether to end sessions."""


class ShownBlock(NamedTuple):
    """
    A block as a page shows it.

    ``text`` says until when, with the message. ``user`` is the name. ``fields`` are the hidden fields of the form that
    lifts it, and none if the administrator may not.
    """

    text: str
    user: str
    fields: dict[str, str]


def shown_block(
    request: HttpRequest, sessions: Any, user: AbstractBaseUser, fields: Mapping[str, str]
) -> ShownBlock | None:
    """
    Return the block of ``user`` as a page shows it. None for no block, and for who may not see it.

    ``fields`` tell the form that lifts it where to return to: see :func:`unblock_view`.
    """
    user_id = online.user_id_of(user)
    if not users_with_shown_block(request, sessions, {user_id}) or (block := online.block_of(user)) is None:
        return None
    may_lift = rules().may_block(request.user, user)
    return ShownBlock(labels.block_text(block), str(user), {**fields, "user": user_id} if may_lift else {})


def lift_block(request: HttpRequest, user: AbstractBaseUser) -> bool:
    """Lift the block of ``user``, and save that in the user's history. Return whether there was one."""
    was_blocked = online.unblock(user)
    if was_blocked:
        log_entries.save_lift(request, online.user_id_of(user), user)
    return was_blocked


def block_buttons(user_id: str, *, ends: bool) -> list[tuple[str, str]]:
    """Return the values of the buttons that block this user, and their texts. ``ends`` says that sessions end."""
    return [(f"{hours} {user_id}", str(text)) for hours, text in (HOURS if ends else HOURS_WITHOUT_END).items()]


def parse_button(value: str) -> tuple[timedelta, str]:
    """Return for how long, and the primary key of the user, of a button. Raises PermissionDenied for another value."""
    hours, _, user_id = value.partition(" ")
    if hours not in HOURS:
        raise PermissionDenied
    return timedelta(hours=int(hours)), user_id


def blocked_view(sessions: Any, request: HttpRequest) -> HttpResponse:
    """Show who is blocked: the page of ``sessions``, the admin of sessions."""
    if not (rules().may_see_block(request.user) and sessions.has_view_permission(request)):
        raise PermissionDenied
    given = request.GET.get("page", "")
    number = min(max(1, int(given)), 50) if given.isascii() and given.isdecimal() and len(given) < 4 else 1
    start = (number - 1) * PER_PAGE
    found = online.blocked(offset=start, limit=PER_PAGE)
    users = users_with_shown_block(request, sessions, {each.user_id for each in found})
    enders = {each.by for each in found if each.user_id in users} - {""}
    named_enders = users_by_id(enders)
    hidden = hidden_users(request, sessions.admin_site, enders, named_enders)
    rows = [
        {
            "user": _named(request, sessions, users, each.user_id),
            "until": labels.exactly(each.until),
            "message": each.message,
            "by": _by(request, sessions, named_enders, hidden, each.by),
            "block": _to_lift(request, users[each.user_id]),
        }
        for each in found
        if each.user_id in users
    ]
    context = {
        "rows": rows,
        "earlier": number - 1,
        "later": number + 1 if len(found) == PER_PAGE and number < 50 else 0,
    }
    return sessions.render_page(request, TEMPLATE, gettext("Blocked users"), context)  # type: ignore[no-any-return]


def unblock_view(sessions: Any, request: HttpRequest) -> HttpResponse:
    """
    Lift the block of one user, and return to where the button was pressed.

    That is the page of blocked users, unless the form has what :func:`pages.return_page_of` reads, or ``ASKED``.
    """
    if not (rules().may_block(request.user) and sessions.has_view_permission(request)):
        raise PermissionDenied
    user_id = request.POST.get("user", "")
    user = user_to_block(request, sessions, user_id)
    if user is None:
        raise PermissionDenied
    name = pages.name_html(str(user))
    if lift_block(request, user):
        messages.success(request, pages.fill_html(gettext("%(user)s can sign in again."), user=name))
    else:
        messages.info(request, pages.fill_html(gettext("%(user)s was not blocked any more."), user=name))
    page = pages.return_page_of(request)
    if ASKED in request.POST:
        return HttpResponseRedirect(pages.end_url(request, sessions.admin_site, query=pages.users_query([user_id])))
    url = page.url(sessions.admin_site) if page.parameters else pages.sessions_url("blocked", sessions.admin_site)
    return HttpResponseRedirect(url)


TEMPLATE = "admin/django_redsess/onlinesession/blocked.html"


def _to_lift(request: HttpRequest, user: AbstractBaseUser | None) -> ShownBlock | None:
    if user is None or not rules().may_block(request.user, user):
        return None
    return ShownBlock("", str(user), {"user": online.user_id_of(user)})


def _by(
    request: HttpRequest, sessions: Any, users: Mapping[str, AbstractBaseUser], hidden: Collection[str], user_id: str
) -> str:
    # As of who has ended a session: a user whom a rule hides is named by the key.
    if user_id in hidden:
        return name_among({}, user_id)
    return _named(request, sessions, users, user_id) if user_id else ""


def _named(
    request: HttpRequest, sessions: Any, users: Mapping[str, AbstractBaseUser | None], user_id: str
) -> SafeString:
    user = users.get(user_id)
    name = pages.name_html(str(user) if user is not None else gettext("deleted user %s") % user_id)
    if user is None or users_admin(request, sessions.admin_site) is None:
        return name
    url = pages.admin_url(user, sessions.admin_site)
    return pages.link_html(url, name) if url else name
