"""Blocks in the admin: who may block whom, and the page of blocked users."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import timedelta
from typing import NamedTuple

from django.contrib import messages
from django.contrib.admin.sites import AdminSite
from django.contrib.auth.models import AbstractBaseUser
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext, gettext_lazy

from django_redsess import online
from django_redsess.admin import log_entries, pages
from django_redsess.admin.access import Access, access_to_sessions, hidden_users, users_admin, visible_users
from django_redsess.admin.users import name_among
from django_redsess.online import labels
from django_redsess.permissions import rules
from django_redsess.querysets import users_by_id
from django_redsess.session.store import user_id_of
from django_redsess.user_messages import isolated, message_in_words

HOURS = {
    "1": gettext_lazy("End, and block for an hour"),
    "24": gettext_lazy("End, and block for a day"),
    "168": gettext_lazy("End, and block for a week"),
}
"""The texts of the buttons that block, by hours."""

HOURS_WITHOUT_END = {
    "1": gettext_lazy("Block for an hour"),
    "24": gettext_lazy("Block for a day"),
    "168": gettext_lazy("Block for a week"),
}

PER_PAGE = 100


def users_with_shown_block(access: Access, user_ids: set[str]) -> dict[str, AbstractBaseUser | None]:
    """
    Return the users among ``user_ids`` whose blocks the administrator may see, by primary key. A deleted user is None.

    The rules of this site are asked, and the admin of users and of sessions.
    """
    request, may_see_block = access.request, rules().may_see_block
    if not may_see_block(request.user):
        return {}
    users = users_by_id(user_ids)
    hidden = hidden_users(request, access.site, user_ids, users)
    shown = {user_id: users.get(user_id) for user_id in user_ids - hidden}
    may_end = access.may_end_new_of
    return {key: user for key, user in shown.items() if may_see_block(request.user, user) and may_end(key, user)}


def user_to_unblock(access: Access, user_id: str) -> AbstractBaseUser | None:
    """Return the user with this primary key if the administrator may lift the user's block, else None."""
    user = users_with_shown_block(access, {user_id}).get(user_id)
    return user if user is not None and rules().may_block(access.request.user, user) else None


def user_to_block(access: Access, user_id: str) -> AbstractBaseUser | None:
    """Return the user if the administrator may block the user and end all of the user's sessions, else None."""
    user = user_to_unblock(access, user_id)
    return user if user is not None and access.may_end_all_of(user) else None


ASKED = "asked"
"""The field of the form that lifts a block on the page that asks whether to end sessions."""


class ShownBlock(NamedTuple):
    """
    A block as a page shows it.

    ``text`` has its end and message. ``note`` is the internal note, ``""`` for an administrator who may not read it.
    ``user`` is the user's name. ``fields`` are the hidden fields of the form that lifts it; empty if the administrator
    may not lift it.
    """

    text: SafeString
    note: str
    user: str
    fields: dict[str, str]

    @property
    def note_html(self) -> SafeString:
        return pages.note_html(self.note)


def shown_block(access: Access, user: AbstractBaseUser, fields: Mapping[str, str] | None = None) -> ShownBlock | None:
    """
    Return the block of ``user`` as a page shows it; None if there is none, or the administrator may not see it.

    ``fields`` say where the form that lifts it returns to: see :func:`unblock_view`. The default is the present page.
    """
    user_id = user_id_of(user)
    if not users_with_shown_block(access, {user_id}) or (block := online.block_of(user)) is None:
        return None
    if fields is None:
        fields = pages.return_page_of(access.request).parameters
    may_lift = rules().may_block(access.request.user, user)
    note = access.readable_note(block, block.by, user)
    until = gettext("Blocked until %(time)s.") % {"time": labels.exactly(block.until)}
    message = message_in_words(block.stored_message, isolated)
    text = format_html("{}", f"{until} {message}" if message else until)
    return ShownBlock(text, note, str(user), {**fields, "user": user_id} if may_lift else {})


def findable_users(request: HttpRequest, site: AdminSite, user_ids: set[str]) -> dict[str, AbstractBaseUser]:
    """
    Return the users among ``user_ids`` who are named to the administrator though they have no session, by primary key.

    The administrator may see them in the admin of users, or may see whether they are blocked. Of any other user, our
    pages must not tell that the user exists.
    """
    found, access = visible_users(request, site, user_ids), access_to_sessions(request, site)
    blockable = {} if access is None else users_with_shown_block(access, user_ids - found.keys())
    return found | {key: user for key, user in blockable.items() if user is not None}


def question_url(access: Access, user: AbstractBaseUser) -> str:
    """Return the URL of the page that asks for how long to block ``user``; ``""`` for who may not."""
    user_id = user_id_of(user)
    if not (access.may_end() and user_to_block(access, user_id)):
        return ""
    return pages.end_url(access.request, access.site, query=pages.users_query([user_id]))


def lift_user_block(request: HttpRequest, user: AbstractBaseUser) -> bool:
    """Lift the block of ``user``, and save that in the user's history. Return whether there was one."""
    was_blocked = online.unblock(user)
    if was_blocked:
        log_entries.save_lift(request, user_id_of(user), user)
    return was_blocked


def block_buttons(user_id: str, *, ends: bool) -> list[tuple[str, str]]:
    """Return values and texts of the buttons that block this user. ``ends``: the texts say that sessions end."""
    return [(f"{hours} {user_id}", str(text)) for hours, text in (HOURS if ends else HOURS_WITHOUT_END).items()]


def parse_button(value: str) -> tuple[timedelta, str]:
    """Return how long the button with this value blocks, and the user's primary key. Else raise PermissionDenied."""
    hours, _, user_id = value.partition(" ")
    if hours not in HOURS:
        raise PermissionDenied
    return timedelta(hours=int(hours)), user_id


def blocked_view(access: Access) -> HttpResponse:
    """Show who is blocked."""
    request = access.request
    if not (rules().may_see_block(request.user) and access.may_see()):
        raise PermissionDenied
    given = request.GET.get("page", "")
    number = min(max(1, int(given)), 50) if given.isascii() and given.isdecimal() and len(given) < 4 else 1
    start = (number - 1) * PER_PAGE
    found = online.blocked(offset=start, limit=PER_PAGE)
    users = users_with_shown_block(access, {each.user_id for each in found})
    enders = {each.by for each in found if each.user_id in users} - {""}
    named_enders = users_by_id(enders)
    hidden = hidden_users(request, access.site, enders, named_enders)
    rows = [
        {
            "user": _user_html(access, users, each.user_id),
            "until": labels.exactly(each.until),
            "message": message_in_words(each.stored_message, isolated),
            "note": pages.note_html(access.readable_note(each, each.by, users[each.user_id])),
            "by": _blocker_name(access, named_enders, hidden, each.by),
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
    return access.admin.render_page(request, TEMPLATE, gettext("Blocked users"), context)


def unblock_view(access: Access) -> HttpResponse:
    """
    Lift the block of one user, and return to where the button was pressed.

    This is the page of blocked users, unless the form names another one: see :func:`pages.return_page_of`, ``ASKED``.
    """
    request, site = access.request, access.site
    if not (rules().may_block(request.user) and access.may_see()):
        raise PermissionDenied
    user_id = request.POST.get("user", "")
    user = user_to_unblock(access, user_id)
    if user is None:
        raise PermissionDenied
    name = pages.name_html(str(user))
    if lift_user_block(request, user):
        messages.success(request, pages.fill_html(gettext("%(user)s can sign in again."), user=name))
    else:
        messages.info(request, pages.fill_html(gettext("%(user)s was not blocked any more."), user=name))
    page = pages.return_page_of(request)
    if ASKED in request.POST:
        return HttpResponseRedirect(pages.end_url(request, site, query=pages.users_query([user_id])))
    url = page.url(site) if page.parameters else pages.sessions_url("blocked", site)
    return HttpResponseRedirect(url)


TEMPLATE = "admin/django_redsess/onlinesession/blocked.html"


def _to_lift(request: HttpRequest, user: AbstractBaseUser | None) -> ShownBlock | None:
    if user is None or not rules().may_block(request.user, user):
        return None
    return ShownBlock(SafeString(), "", str(user), {"user": user_id_of(user)})


def _blocker_name(access: Access, users: Mapping[str, AbstractBaseUser], hidden: Collection[str], user_id: str) -> str:
    # A user whom a rule hides is named by the key, as where sign-ins say who ended a session.
    if user_id in hidden:
        return name_among({}, user_id)
    return _user_html(access, users, user_id) if user_id else ""


def _user_html(access: Access, users: Mapping[str, AbstractBaseUser | None], user_id: str) -> SafeString:
    user = users.get(user_id)
    name = pages.name_html(str(user) if user is not None else gettext("deleted user %s") % user_id)
    if user is None or users_admin(access.request, access.site) is None:
        return name
    url = pages.admin_url(user, access.site)
    return pages.link_html(url, name) if url else name
