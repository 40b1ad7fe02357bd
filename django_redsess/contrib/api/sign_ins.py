"""Past sign-ins, for programs of administrators: by the site's rules, with the filters of the page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Annotated, Any, Literal
from urllib.parse import urlencode

from django.http import HttpRequest
from ninja import Query, Router
from pydantic import AfterValidator, Field, create_model

from django_redsess.admin import OnlineSessionAdmin
from django_redsess.admin.access import Access
from django_redsess.contrib.api.administration import administrating, read_visible_page, sites_with
from django_redsess.contrib.api.authentication import for_asker
from django_redsess.contrib.api.problems import ProblemError
from django_redsess.contrib.api.schemas import TEXT_MAX, OfUsers, Searched, SignInList, Text, answers
from django_redsess.contrib.history import filters
from django_redsess.contrib.history.models import SignIn
from django_redsess.models import OnlineSession
from django_redsess.online.fields import describe_sign_ins
from django_redsess.permissions import rules
from django_redsess.problems import WRONG_VALUE

CHOICES: dict[str, tuple[Iterable[str], str]] = {
    filters.WHEN: (filters.DatesFilter.texts, "Begun today, yesterday, or in the last 7 days."),
    filters.REASON: (filters.ReasonFilter.table, "Whose sessions ended so. `unknown`: nobody recorded it."),
    filters.STATE: (filters.StateFilter.table, "Whose sessions live, or have ended."),
    filters.WHO: (
        filters.WhoEndedFilter.table,
        "Whose sessions were ended by `staff`, which is anybody but their user; by the user who signed out, "
        "`user_here`, or on another device, `user_elsewhere`; or by `nobody`: time, a limit, the site or a command.",
    ),
    filters.DEVICE: (filters.DeviceFilter.table, "`true`: on a device that was new to the user."),
    filters.UNPROVEN: (filters.UnprovenFilter.table, "`true`: used without the proof of the device."),
    "browser": (filters.SignInBrowserFilter.table, "With this browser."),
    "system": (filters.SignInSystemFilter.table, "On this operating system."),
}
"""The choices and descriptions of the page's filters that have choices."""


def _check_day(text: str) -> str:
    if not filters.is_date(text):
        raise ValueError("a date, such as 2031-04-01")
    return text


Day = Annotated[str, AfterValidator(_check_day), Field(json_schema_extra={"format": "date"})]


class Searching(OfUsers):
    """The page's filters without choices."""

    q: Searched = Field("", description="What is searched for: a user name, an address, a network.")
    ended_by: Annotated[Text, Field(max_length=TEXT_MAX)] = Field(
        "", description="Whose sessions this user has ended, apart from the user's own: a primary key as text."
    )
    since: Day | None = Field(None, description="On this day or later.")
    until: Day | None = Field(None, description="On this day or earlier.")
    active_on: Day | None = Field(
        None,
        description="Begun on this day or earlier, and last seen on it or later. Of a session that lives, it is not "
        "recorded when it was seen: it counts until today.",
    )


_choices: dict[str, Any] = {
    name: (Literal[tuple(choices)] | None, Field(None, description=about)) for name, (choices, about) in CHOICES.items()
}
SignInsQuery: Any = create_model("SignInsQuery", __base__=Searching, **_choices)

router = Router(tags=["Everyone's sessions"])
router.add_decorator(for_asker)


@router.get("sign-ins", response=answers(SignInList, 403, 404, 414))
def list_sign_ins(request: HttpRequest, asked: Query[SignInsQuery]) -> Any:
    """
    List sign-ins, with those whose sessions have ended.

    The latest come first. Needs the permission `view_signin`.
    """
    sites = sites_with(request, SignIn)
    # The import registers the page, and a site may have none.
    from django_redsess.contrib.history.admin import SignInAdmin

    sign_ins_admin, permission = SignInAdmin(SignIn, sites[0]), f"{SignIn._meta.app_label}.view_signin"
    with administrating(request, sites, permission, may_see=rules().may_see_sign_in(request.user)):
        return _sign_in_list(request, sign_ins_admin, asked)


def _sign_in_list(request: HttpRequest, sign_ins_admin: Any, asked: Any) -> dict[str, Any]:
    position = asked.read_cursor(2)
    listed = sign_ins_admin.changelist_of(request, urlencode(asked.filters, doseq=True))
    if listed is None:
        raise ProblemError(WRONG_VALUE, "The page of sign-ins refuses this query.")

    def read_after(position: Sequence[int] | None, limit: int) -> tuple[list[Any], Sequence[int] | None]:
        rows = listed.queryset
        if position is not None:
            login_ms, row_id = position
            rows = rows.filter(login_ms__lte=login_ms).exclude(login_ms=login_ms, id__gte=row_id)
        found = list(rows[: limit + 1])
        return found[:limit], _position_of(found[limit - 1]) if len(found) > limit else None

    may_see = partial(rules().may_see_sign_in, request.user) if rules().sees_sign_ins_by_own_rule else None
    page = read_visible_page(read_after, position, asked.limit, may_see=may_see, position_of=_position_of)
    # Not the site's own ModelAdmin: its rules are for its pages.
    access = Access(OnlineSessionAdmin(OnlineSession, sign_ins_admin.admin_site), request)
    users = sign_ins_admin.add_names(request, page.rows, access)
    return {
        "sign_ins": describe_sign_ins((row.past for row in page.rows), users),
        "next_cursor": asked.make_cursor(page.last),
        "looked_through": page.looked_through,
    }


def _position_of(row: SignIn) -> tuple[int, int]:
    return row.login_ms, row.pk
