"""
Charts of how many were active and signed in: above the list of sessions, and a page for a day, a week or a month.

A chart is SVG in the page, without scripts or files. It can be read without colours.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from itertools import groupby
from math import ceil
from typing import Any, NamedTuple

from django.contrib.admin.views.main import ORDER_VAR
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.utils import timezone
from django.utils.dateparse import parse_date
from django.utils.formats import date_format, get_format
from django.utils.safestring import SafeString
from django.utils.translation import gettext, gettext_lazy, ngettext

from django_redsess import times
from django_redsess.admin.access import Access
from django_redsess.admin.pages import shown_number
from django_redsess.conf import conf
from django_redsess.online.labels import known_server_day, known_server_time
from django_redsess.online.sampling import KEPT_SECONDS, Present, Sample, count_evicted, samples_until_now, slot_of

# The coordinates of the lines. The browser stretches them to the width of the page, and keeps the height.
WIDTH, HEIGHT, SMALL_HEIGHT = 1000, 160, 44

POINTS_MAX = 288

# A cleaner that is restarted misses a minute or two: a longer pause is a gap in the line.
GAP = timedelta(minutes=10)

# In pixels: the narrowest page (360) without its margins, a character of a label, and the space around a label.
NARROWEST, CHARACTER, SPACE = 330, 7.5, 10


class _Count(NamedTuple):
    at: datetime
    number: int


class _Plot(NamedTuple):
    """The range of the chart: the time from ``start`` to ``end``, and counts from 0 to ``top`` in ``height`` pixels."""

    start: datetime
    end: datetime
    top: int
    height: int
    now: datetime

    # Coordinates are text: a template would format numbers for the language, as "12,5" or "1.000".
    def x(self, at: datetime, *, width: int = WIDTH) -> str:
        return f"{(at - self.start) / (self.end - self.start) * width:.1f}"

    def y(self, number: int) -> str:
        return f"{self.height - number / self.top * self.height:.1f}"

    def time_text(self, at: datetime) -> str:
        """Return ``at`` as text, with its day unless that is the last one of the chart."""
        local, last_day = timezone.localtime(at), timezone.localdate(self.end)
        if (days := (last_day - local.date()).days) == 1:
            return gettext("yesterday, %(time)s") % {"time": date_format(local, "TIME_FORMAT")}
        if days == 0:
            return date_format(local, "TIME_FORMAT")
        # A week has two days of the same name as the last one.
        return date_format(local, f"D {get_format('TIME_FORMAT')}" if days < 7 else "DATETIME_FORMAT")

    def runs(self, counts: Sequence[_Count]) -> Iterator[list[_Count]]:
        """Split the counts at gaps, and thin out each part."""
        starts = [i for i in range(1, len(counts)) if self._is_gap(counts[i - 1].at, counts[i].at)]
        # All counts would take 50 kB. For each five minutes of a day, the highest count is drawn: no peak is lost.
        seconds = (self.end - self.start).total_seconds() / POINTS_MAX
        for start, end in zip([0, *starts], [*starts, len(counts)], strict=True):
            parts = groupby(counts[start:end], key=lambda count: count.at.timestamp() // seconds)
            highest = [max(part, key=lambda count: count.number) for _, part in parts]
            # The last count is always drawn: the caption names it.
            yield highest if highest[-1] == counts[end - 1] else [*highest, counts[end - 1]]

    def _is_gap(self, earlier: datetime, later: datetime) -> bool:
        return later - earlier > max(GAP, 1.5 * slot_of(self.now - earlier))


def draw(
    samples: Sequence[Sample | Present],
    now: Present,
    *,
    hours: int = 24,
    day: tuple[datetime, datetime] | None = None,
    small: bool = False,
) -> SafeString | str:
    """
    Draw how many were active, how many signed in and how many guests, in the current language and time zone.

    ``samples`` are in the order of :func:`django_redsess.online.samples`, the earliest first. Where they don't tell how
    many were active, that line has a gap. The chart covers the last ``hours``, and its lines end with who is here
    ``now``; or it covers a ``day``, from one time to another. ``small`` makes it at most 140 pixels high. Returns a
    ``<figure>``, of which a page can have only one (it contains ids), or ``""`` if the samples are too few for a line.
    """
    start, end = day or (now.at - timedelta(hours=hours), now.at)
    sampled = [sample for sample in samples if start <= sample.at <= end]
    # The line would be a dot.
    if not sampled or sampled[-1].at - sampled[0].at < (end - start) / POINTS_MAX:
        return ""
    points = sampled if day else [*sampled, now]
    active = [_Count(point.at, point.active) for point in points if point.active is not None]
    step, top = _scale(max(max(point.signed_in, point.guests, point.active or 0) for point in points))
    plot = _Plot(start, end, top, SMALL_HEIGHT if small else HEIGHT, now.at)
    levels = [(plot.y(number), shown_number(number)) for number in range(0, top + 1, top if small else step)]
    margin = 10 + CHARACTER * max(len(label) for _, label in levels)
    gone = count_evicted(sampled)
    has_stopped = not day and now.at - sampled[-1].at > GAP
    context: dict[str, Any] = {
        "title": title_of(hours, day),
        "is_now": not day,
        "small": small,
        "height": plot.height,
        "whole_height": plot.height + (32 if small else 40),
        "ticks": (plot.height, plot.height + 5, plot.height + 21),
        "start": _time_text(start, "SHORT_DATETIME_FORMAT"),
        "end": _time_text(end, "SHORT_DATETIME_FORMAT"),
        "margin": f"{margin:.0f}",
        "view_box": f"0 0 {WIDTH} {plot.height}",
        "levels": levels,
        "times": [(plot.x(at, width=100), label) for at, label in _times(plot, NARROWEST - margin)],
        "sampled_until": plot.time_text(sampled[-1].at) if has_stopped else "",
        "active": _line(plot, active) if active else None,
        "signed_in": _line(plot, [_Count(point.at, point.signed_in) for point in points]),
        "guests": _line(plot, [_Count(point.at, point.guests) for point in points]),
        "evicted": [shown_number(count) for count in gone] if any(gone) and not small else None,
    }
    return render_to_string("django_redsess/online_chart.html", context)


def title_of(hours: int, day: tuple[datetime, datetime] | None) -> str:
    """Return the title of a chart: see :func:`draw`."""
    if day:
        return gettext("Sessions on %(day)s") % {"day": day_name(day[0])}
    if hours <= 48:
        text = ngettext("Sessions in the last hour", "Sessions in the last %(counter)s hours", hours)
        return text % {"counter": hours} if hours > 1 else text
    days = hours // 24
    return ngettext("Sessions in the last day", "Sessions in the last %(counter)s days", days) % {"counter": days}


def counts_heading(signed_in: int, active: int) -> str:
    """Return the heading of a page: how many are signed in, and how many of them are active."""
    shown = {
        "signed_in": ngettext("%(count)s signed in", "%(count)s signed in", signed_in)
        % {"count": shown_number(signed_in)},
        "active": ngettext("%(count)s active now", "%(count)s active now", active) % {"count": shown_number(active)},
    }
    return gettext("%(signed_in)s, %(active)s") % shown


def day_name(at: datetime) -> str:
    """Return the day of ``at`` as text: day of the week and date."""
    return _time_text(at, f"D {get_format('DATE_FORMAT')}")


def _scale(peak: int) -> tuple[int, int]:
    """Return the smallest step of 1, 2, 5, 10, 20, 50, … of which four reach ``peak``, and the highest level."""
    steps = (first * 10**zeros for zeros in range(len(str(peak))) for first in (1, 2, 5))
    step = next(step for step in steps if step * 4 >= peak)
    return step, step * max(1, ceil(peak / step))


def _times(plot: _Plot, pixels: float) -> list[tuple[datetime, str]]:
    """Choose the full hours or the days to label, so that the labels fit into ``pixels``."""
    span = plot.end - plot.start
    hourly = span <= timedelta(hours=48)
    form = "TIME_FORMAT" if hourly else "D" if span <= timedelta(days=7) else "MONTH_DAY_FORMAT"
    # In every time zone, a full hour is at a full quarter of an hour of UTC.
    quarters = range(ceil(plot.start.timestamp() / 900), int(plot.end.timestamp() // 900) + 1)
    local = [timezone.localtime(datetime.fromtimestamp(quarter * 900, UTC)) for quarter in quarters]
    # When summer time ends, an hour comes twice, the second time with fold set: label it once.
    full = [(at, _time_text(at, form)) for at in local if at.minute == 0 and not at.fold and (hourly or at.hour == 0)]
    room = pixels / (SPACE + CHARACTER * max((len(label) for _, label in full), default=0))
    steps = (1, 2, 3, 4, 6, 12, 24) if hourly else (24, 48, 96, 192, 288)
    every = next((every for every in steps if span / timedelta(hours=every) <= room), steps[-1])
    # A label at an end of the axis would be cut in half.
    ends = span * 0.04
    within = [each for each in full if plot.start + ends < each[0] < plot.end - ends]
    return [(at, label) for at, label in within if (at.toordinal() * 24 + at.hour) % every == 0]


def _line(plot: _Plot, counts: list[_Count]) -> dict[str, str]:
    """Return the paths of a line, and the numbers that the caption names."""
    lines, areas, dots = [], [], []
    for run in plot.runs(counts):
        points = [f"{plot.x(count.at)} {plot.y(count.number)}" for count in run]
        lines.append(f"M{' '.join(points)}")
        areas.append(f"M{plot.x(run[0].at)} {plot.height} {' '.join(points)}V{plot.height}Z")
        # A dot for a part that is too short for a line, and for the newest count: a path of no length with round ends.
        if len(run) < 3 or run[-1] == counts[-1]:
            dots.append(f"M{points[-1]}h0")
    most, least = max(counts, key=lambda count: count.number), min(counts, key=lambda count: count.number)
    words = {"last": counts[-1], "most": most, "least": least}
    return (
        {"line": "".join(lines), "area": "".join(areas), "dots": "".join(dots)}
        | {name: shown_number(count.number) for name, count in words.items()}
        | {f"{name}_at": plot.time_text(count.at) for name, count in words.items()}
    )


def _time_text(at: datetime, form: str) -> str:
    return date_format(timezone.localtime(at), form)


RANGES = {
    "day": (24, gettext_lazy("Day")),
    "week": (7 * 24, gettext_lazy("Week")),
    "month": (31 * 24, gettext_lazy("Month")),
}
"""The ranges of the page: their hours and names."""

NUMBERS_TEMPLATE = "admin/django_redsess/onlinesession/numbers.html"
DAYS_KEPT = KEPT_SECONDS // (24 * 3600)


def list_head(request: HttpRequest) -> dict[str, Any]:
    """
    Return what stands above the list: the time of its data, the small chart, and the numbers of ``now``.

    Call it after the list was counted, which removes due sessions. Then both numbers agree.
    """
    picture, at, now = "", known_server_time(), None
    # Results of a search or filter have no chart above them: it would show all sessions.
    if set(request.GET) <= {ORDER_VAR}:
        samples, now = samples_until_now()
        picture, at = draw(samples, now, small=True), now.at
    return {"picture": picture, "now": now, "at": at, "as_of": _as_of(at), "header": conf.PASSIVE_HEADER}


def numbers_view(access: Access) -> HttpResponse:
    """Show how many were active and signed in during the last day, week or month, or on one day."""
    if not access.may_see():
        raise PermissionDenied
    asked, today = access.request.GET, known_server_day()
    day = _day_asked_for(asked.get("day", ""), today)
    name = asked.get("range", "")
    name = name if name in RANGES else "day"
    hours, _ = RANGES[name]
    bounds = (times.midnight(day), times.midnight(day + timedelta(days=1)) - timedelta(milliseconds=1)) if day else None
    samples, now = samples_until_now(hours=hours, day=bounds)
    earlier, by_day = (day or today) - timedelta(days=1), not day and name != "day"
    # A past day does not include the present numbers.
    counted = [*samples, now] if samples and (not day or day == today) else samples
    name_of_page = gettext("Online over time")
    context = {
        "name_of_page": name_of_page,
        "picture": draw(samples, now, hours=hours, day=bounds),
        "rows": _table_rows(counted, by_day=by_day, today=day or today),
        "by_day": by_day,
        "day": day,
        "heading": title_of(hours, bounds),
        "ranges": [(each, words, not day and each == name) for each, (_, words) in RANGES.items()],
        "earlier": earlier if not by_day and earlier > today - timedelta(days=DAYS_KEPT) else None,
        "later": day + timedelta(days=1) if day and day < today else None,
        "as_of": _as_of(now.at),
        "at": now.at,
        "zone": timezone.get_current_timezone_name(),
    }
    title = name_of_page if day or now.active is None else counts_heading(now.signed_in, now.active)
    return access.admin.render_page(access.request, NUMBERS_TEMPLATE, title, context)


def _day_asked_for(text: str, today: date) -> date | None:
    try:
        day = parse_date(text)
    except ValueError:
        return None
    return day if day and today - timedelta(days=DAYS_KEPT) < day <= today else None


def _table_rows(samples: Sequence[Sample | Present], *, by_day: bool, today: date) -> list[dict[str, Any]]:
    """Return the highest and lowest counts of each day or hour, the latest first. Hours of another day name the day."""
    rows = []
    timed = [(timezone.localtime(sample.at), sample) for sample in samples]
    for _, part in groupby(timed, key=lambda each: each[0].strftime("%Y%m%d" if by_day else "%Y%m%d%H%z")):
        times, of_part = zip(*part, strict=True)
        form = get_format("TIME_FORMAT") if times[0].date() == today else f"D {get_format('TIME_FORMAT')}"
        name = day_name(times[0]) if by_day else date_format(times[0].replace(minute=0), form)
        numbers = ([getattr(each, name) for each in of_part] for name in ("active", "signed_in", "guests"))
        known = [[number for number in each if number is not None] for each in numbers]
        counts = [shown_number(of(each)) if each else "-" for each in known for of in (max, min)]
        rows.append({"name": name, "day": times[0].date().isoformat() if by_day else "", "counts": counts})
    return rows[::-1]


def _as_of(at: datetime) -> str:
    """Return a time of day as the language writes it, with seconds and zone."""
    local = timezone.localtime(at)
    form = get_format("TIME_FORMAT").replace("P", "g:i a")
    return f"{date_format(local, form if 's' in form else form.replace('i', 'i:s'))} {local.tzname()}"
