"""How many were online: the picture above the list of sessions, and a page for a day, a week or a month."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date, datetime, time, timedelta
from itertools import groupby
from typing import Any, NamedTuple

from django.contrib.admin.views.main import ORDER_VAR
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.urls import URLPattern, path
from django.utils import timezone
from django.utils.dateparse import parse_date
from django.utils.formats import date_format, get_format, number_format
from django.utils.translation import gettext, gettext_lazy

from django_redsess import online
from django_redsess.admin import chart
from django_redsess.admin.lists import ListAdmin
from django_redsess.conf import conf
from django_redsess.online.samples import KEPT_SECONDS, Present, Sample

RANGES = {
    "day": (24, gettext_lazy("Day")),
    "week": (7 * 24, gettext_lazy("Week")),
    "month": (31 * 24, gettext_lazy("Month")),
}
"""The ranges of the page: their hours and names."""

DAYS_KEPT = KEPT_SECONDS // (24 * 3600)


class TableRow(NamedTuple):
    """An hour or a day of the table: its name, where it leads, and counts as text."""

    name: str
    day: str
    counts: Sequence[str]


class NumbersMixin(ListAdmin):
    """The part of ``OnlineSessionAdmin`` that shows how many were online."""

    numbers_template = "admin/django_redsess/onlinesession/numbers.html"

    class Media:
        js = ("django_redsess/refresh.js",)

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view(self.numbers_view)
        return [path("numbers/", view, name="django_redsess_onlinesession_numbers"), *super().get_urls()]

    def present(self, request: HttpRequest) -> dict[str, Any]:
        """
        Return what stands above the list: the time of its data, and the small picture.

        The template calls this after the list was counted, which removes due sessions: so both numbers agree.
        """
        picture, at = "", timezone.now()
        # Above the results of a search or filter there is no picture: it would be of all sessions.
        if set(request.GET) <= {ORDER_VAR}:
            samples, now = online.until_now()
            picture, at = chart.draw(samples, now, small=True), now.at
        return {"picture": picture, "at": at, "as_of": _as_of(at), "header": conf.PASSIVE_HEADER}

    def numbers_view(self, request: HttpRequest) -> HttpResponse:
        """Show how many were online in the last day, week or month, or on one day."""
        if request.method not in ("GET", "HEAD"):
            return HttpResponseNotAllowed(["GET", "HEAD"])
        if not self.has_view_permission(request):
            raise PermissionDenied
        today = timezone.localdate()
        day = _day_asked_for(request, today)
        name = request.GET.get("range", "")
        name = name if name in RANGES else "day"
        hours, _ = RANGES[name]
        bounds = (_midnight(day), _midnight(day + timedelta(days=1)) - timedelta(milliseconds=1)) if day else None
        samples, now = online.until_now(hours=hours, day=bounds)
        earlier = (day or today) - timedelta(days=1)
        by_day, has_days = not day and name != "day", bool(day) or name == "day"
        # Of a day that is over, nobody who is online now is part.
        counted = [*samples, now] if samples and (not day or day == today) else samples
        later = day + timedelta(days=1) if day and day < today else None
        context = {
            "picture": chart.draw(samples, now, hours=hours, day=bounds),
            "rows": _rows(counted, by_day=by_day, today=day or today),
            "by_day": by_day,
            "day": day,
            "heading": chart.title_of(hours, bounds),
            "ranges": [(each, words, not day and each == name) for each, (_, words) in RANGES.items()],
            "earlier": earlier if has_days and earlier > today - timedelta(days=DAYS_KEPT) else None,
            "later": later,
            "as_of": _as_of(now.at),
            "at": now.at,
            "zone": timezone.get_current_timezone_name(),
        }
        return self.page(request, self.numbers_template, gettext("Online over time"), context)


def _day_asked_for(request: HttpRequest, today: date) -> date | None:
    try:
        day = parse_date(request.GET.get("day", ""))
    except ValueError:
        return None
    return day if day and today - timedelta(days=DAYS_KEPT) < day <= today else None


def _midnight(day: date) -> datetime:
    return timezone.make_aware(datetime.combine(day, time.min), timezone.get_current_timezone())


def _rows(samples: Sequence[Sample | Present], *, by_day: bool, today: date) -> list[TableRow]:
    """Return the most and the fewest of each day, or of each hour; the latest first. Hours of another day name it."""
    rows = []
    timed = [(timezone.localtime(sample.at), sample) for sample in samples]
    for _, part in groupby(timed, key=lambda each: each[0].strftime("%Y%m%d" if by_day else "%Y%m%d%H%z")):
        (first, sample), *others = part
        of_part = [sample, *(other for _, other in others)]
        form = get_format("TIME_FORMAT") if first.date() == today else f"D {get_format('TIME_FORMAT')}"
        name = chart.day_name(first) if by_day else date_format(first.replace(minute=0), form)
        counts = [
            *_ends(each.signed_in for each in of_part),
            *_ends(each.guests for each in of_part),
        ]
        rows.append(TableRow(name, first.date().isoformat() if by_day else "", counts))
    return rows[::-1]


def _ends(counts: Iterable[int]) -> list[str]:
    found = list(counts)
    return [number_format(number, use_l10n=True, force_grouping=True) for number in (max(found), min(found))]


def _as_of(at: datetime) -> str:
    """Return a time of day as the language writes it, with seconds and zone."""
    local = timezone.localtime(at)
    form = get_format("TIME_FORMAT").replace("P", "g:i a")
    return f"{date_format(local, form if 's' in form else form.replace('i', 'i:s'))} {local.tzname()}"
