"""
The administrator's own sessions, other than the present one: they end after the password was given again.

Else a copied cookie of a member of staff would end here what it can't on the self-service pages.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext

from django_redsess import online
from django_redsess.accounts import reauthentication
from django_redsess.admin import pages
from django_redsess.models import OnlineSession
from django_redsess.permissions import is_own_session
from django_redsess.querysets import SessionQuerySet

TEMPLATE = "admin/django_redsess/onlinesession/password.html"

NOT_REPEATED = ("csrfmiddlewaretoken", "username", "password")


def include_other_own(request: HttpRequest, sessions: Iterable[OnlineSession]) -> bool:
    """Tell whether any of ``sessions`` is the administrator's own, and not the present one."""
    user: Any = request.user
    own_sid = pages.own_sid_of(request)
    return any(is_own_session(user, session) and session.sid != own_sid for session in sessions)


def match_other_own(request: HttpRequest, matching: SessionQuerySet) -> bool:
    """Tell whether any of the sessions that match, at any time, is the administrator's own, and not the present one."""
    asked, user_id = matching.session_filter, _id_of(request)
    if asked.guests == "only" or (asked.user_ids is not None and user_id not in asked.user_ids):
        return False
    own = OnlineSession.online.of_users([user_id])
    if matching.sids is None and not asked.names_client:
        return include_other_own(request, own)
    return include_other_own(request, matching.filter(sid__in=[session.sid for session in own]))


def ask_for_password(admin: Any, request: HttpRequest) -> HttpResponse | None:
    """Return the page that asks for the password, if it must. Its form repeats ``request``, with the password."""
    user: Any = request.user
    form = reauthentication.ask_password(request, user)
    if form is None:
        return None
    context = {
        "form": form,
        "username": user.get_username(),
        "repeated": [(name, each) for name, sent in request.POST.lists() if name not in NOT_REPEATED for each in sent],
        "back": pages.return_page_of(request).url(admin.admin_site),
    }
    page: HttpResponse = admin.render_page(request, TEMPLATE, gettext("End sessions"), context)
    if form.is_locked:
        page.status_code = 429
        page["Retry-After"] = str(reauthentication.RECENT_SECONDS)
    return page


def _id_of(request: HttpRequest) -> str:
    user: Any = request.user
    return online.user_id_of(user)
