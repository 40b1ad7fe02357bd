"""Blocks in the admin: who may block whom, for how long, and the page of users who are blocked."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.contrib import messages
from django.contrib.auth.models import AbstractBaseUser
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.safestring import SafeString
from django.utils.translation import gettext, gettext_lazy

from django_redsess import online
from django_redsess.admin import history, pages
from django_redsess.admin.users import is_in_reach, users_admin
from django_redsess.online import labels
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


def has_permission(request: HttpRequest) -> bool:
    return request.user.has_perm("django_redsess.block_user")


def may_block(request: HttpRequest, user_id: str) -> AbstractBaseUser | None:
    """
    Return the user with this primary key if the administrator may block the user, and lift the block, else None.

    Nobody blocks oneself. Only superusers block superusers.
    """
    user = users_by_id({user_id}).get(user_id) if has_permission(request) else None
    return user if user is not None and is_in_reach(request, user) else None


def lift(request: HttpRequest, user: AbstractBaseUser) -> bool:
    """Lift the block of ``user``, and save that in the user's history. Return whether there was one."""
    was_blocked = online.unblock(user)
    if was_blocked:
        history.save_lift(request, online.user_id_of(user), user)
    return was_blocked


def choices(user_id: str, *, ends: bool) -> list[tuple[str, str]]:
    """Return the values of the buttons that block this user, and their texts. ``ends`` says that sessions end."""
    return [(f"{hours} {user_id}", str(text)) for hours, text in (HOURS if ends else HOURS_WITHOUT_END).items()]


def chosen(value: str) -> tuple[timedelta, str]:
    """Return for how long, and the primary key of the user, of a button. Raises PermissionDenied for another value."""
    hours, _, user_id = value.partition(" ")
    if hours not in HOURS:
        raise PermissionDenied
    return timedelta(hours=int(hours)), user_id


def blocked_view(sessions: Any, request: HttpRequest) -> HttpResponse:
    """Show who is blocked: the page of ``sessions``, the admin of sessions."""
    if not (has_permission(request) and sessions.has_view_permission(request)):
        raise PermissionDenied
    given = request.GET.get("page", "")
    number = min(max(1, int(given)), 50) if given.isascii() and given.isdecimal() and len(given) < 4 else 1
    start = (number - 1) * PER_PAGE
    found = online.blocked(offset=start, limit=PER_PAGE)
    users = users_by_id({user_id for each in found for user_id in (each.user_id, each.by) if user_id})
    rows = [
        {
            "user": _named(request, sessions, users, each.user_id),
            "user_id": each.user_id,
            "until": labels.exactly(each.until),
            "message": each.message,
            "by": _named(request, sessions, users, each.by) if each.by else "",
            "may_lift": (user := users.get(each.user_id)) is not None and is_in_reach(request, user),
        }
        for each in found
    ]
    context = {
        "rows": rows,
        "earlier": number - 1,
        "later": number + 1 if len(found) == PER_PAGE and number < 50 else 0,
    }
    return sessions.page(request, TEMPLATE, gettext("Blocked users"), context)  # type: ignore[no-any-return]


def unblock_view(sessions: Any, request: HttpRequest) -> HttpResponse:
    """Lift the block of one user, and return to the page."""
    if not (has_permission(request) and sessions.has_view_permission(request)):
        raise PermissionDenied
    user_id = request.POST.get("user", "")
    user = may_block(request, user_id)
    if user is None:
        raise PermissionDenied
    name = pages.name_html(str(user))
    if lift(request, user):
        messages.success(request, pages.filled(gettext("%(user)s can sign in again."), user=name))
    else:
        messages.info(request, pages.filled(gettext("%(user)s was not blocked any more."), user=name))
    return HttpResponseRedirect(pages.url_of("blocked", sessions.admin_site))


TEMPLATE = "admin/django_redsess/onlinesession/blocked.html"


def _named(request: HttpRequest, sessions: Any, users: dict[str, AbstractBaseUser], user_id: str) -> SafeString:
    user = users.get(user_id)
    name = pages.name_html(str(user) if user is not None else gettext("deleted user %s") % user_id)
    if user is None or users_admin(request, sessions.admin_site) is None:
        return name
    url = pages.admin_url(user, sessions.admin_site)
    return pages.link(url, name) if url else name
