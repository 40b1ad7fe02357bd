"""Sign-ins of the past, for programs of administrators: by the rules of this site, with the filters of the page."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest

from django_redsess.contrib.api.administration import administrating, page_in_admin
from django_redsess.contrib.api.cursors import cursor_of, place_of
from django_redsess.contrib.api.descriptions import seconds
from django_redsess.contrib.api.endpoints import endpoint
from django_redsess.contrib.api.parameters import Json, Parameters
from django_redsess.contrib.api.problems import Problem, unprocessable
from django_redsess.contrib.history import filters
from django_redsess.contrib.history.models import REASONS, SignIn
from django_redsess.contrib.history.reading import past_of
from django_redsess.online import labels
from django_redsess.online.listing import USERS_MAX
from django_redsess.online.user_agents import BROWSERS, SYSTEMS
from django_redsess.permissions import rules
from django_redsess.sign_in_source import placed

CHOICES = {
    filters.WHEN: tuple(filters.DatesFilter.texts),
    filters.REASON: (*map(str, REASONS), filters.UNKNOWN),
    filters.STATE: tuple(filters.StateFilter.living),
    "is_new_device": ("true",),
    "browser": BROWSERS,
    "system": SYSTEMS,
}
"""The filters of the page, and what they take."""


def list_sign_ins(request: HttpRequest) -> Json:
    """List sign-ins, the newest first."""
    sign_ins_admin = page_in_admin(SignIn, "django_redsess.contrib.history.admin.SignInAdmin")
    with administrating(request, sign_ins_admin.admin_site, may_see=rules().may_see_sign_in(request.user)):
        return _listed(request, sign_ins_admin)


def _listed(request: HttpRequest, sign_ins_admin: Any) -> Json:
    dates = (filters.SINCE, filters.UNTIL)
    asked = Parameters(request, "q", *CHOICES, *dates, "limit", "cursor", several=("user",))
    asked.texts("user", USERS_MAX)
    asked.text("q")
    for name, choices in CHOICES.items():
        asked.choice(name, choices)
    for name in dates:
        if asked.text(name) and not filters.is_date(asked.text(name)):
            raise unprocessable(name, "a date, such as 2031-04-01")
    limit, place = asked.limit(), place_of(asked, int, int)
    listed = sign_ins_admin.changelist_of(request, urlencode(asked.filters, doseq=True))
    if listed is None:
        raise Problem(422, "The page of sign-ins refuses this query.")
    rows = listed.queryset
    if place is not None:
        login_ms, row_id = place
        rows = rows.filter(login_ms__lte=login_ms).exclude(login_ms=login_ms, id__gte=row_id)
    page = list(rows[: limit + 1])
    last = page[limit - 1] if len(page) > limit else None
    seen = [row for row in page[:limit] if rules().may_see_sign_in(request.user, row)]
    return {
        "sign_ins": _described(seen),
        "next": cursor_of(asked, None if last is None else (last.login_ms, last.pk)),
    }


def _described(rows: list[Any]) -> list[Json]:
    return [
        {
            "id": str(row.pk),
            "user_id": each.user_id,
            "ip": each.address,
            "user_agent": each.user_agent,
            "device": labels.browser_name(each.user_agent),
            "place": each.place,
            "created_at": seconds(each.created_at),
            "last_seen_at": seconds(each.last_seen_at),
            "ended_at": seconds(each.ended_at),
            "ended_is_about": each.ended_is_about,
            "reason": each.reason or None,
            "ended_by": each.by or None,
            "message": each.message,
            "is_new_device": each.is_new_device,
        }
        for row, each in zip(rows, placed(past_of(row) for row in rows), strict=True)
    ]


sign_ins = endpoint(GET=list_sign_ins)
