"""A picture of how many were online, as SVG within the page: no script, no file, and readable without colour."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import groupby
from math import ceil
from typing import Any, NamedTuple

from django.template.loader import render_to_string
from django.utils.formats import date_format, get_format, number_format
from django.utils.safestring import SafeString
from django.utils.timezone import localtime

from django_redsess.online.samples import Present, Sample, evicted

# Of the lines' own coordinates: the browser stretches them to the width there is, and leaves their height.
WIDTH, HEIGHT = 1000, 160

POINTS_MAX = 288

# A cleaner that is started anew misses a minute or two, which is no gap.
GAP = timedelta(minutes=10)

# In pixels: a page 360 wide without its margins, about a character of an axis, and the space around a label.
NARROWEST, CHARACTER, SPACE = 330, 7.5, 10


class _Count(NamedTuple):
    at: datetime
    number: int


class _Plot(NamedTuple):
    """What the picture covers: the time from ``start`` to ``end``, and counts from 0 to ``top``."""

    start: datetime
    end: datetime
    top: int

    # Coordinates are text, since a template would write numbers as the language does: 12,5 or 1.000.
    def x(self, at: datetime, *, width: int = WIDTH) -> str:
        return f"{(at - self.start) / (self.end - self.start) * width:.1f}"

    def y(self, number: int) -> str:
        return f"{HEIGHT - number / self.top * HEIGHT:.1f}"

    @property
    def time_format(self) -> str:
        # A time of day is enough where it comes once.
        return "TIME_FORMAT" if self.end - self.start <= timedelta(days=1) else f"D {get_format('TIME_FORMAT')}"

    def runs(self, counts: Sequence[_Count]) -> Iterator[list[_Count]]:
        """Split the counts where there are gaps, and thin them out in between."""
        starts = [i for i in range(1, len(counts)) if counts[i].at - counts[i - 1].at > GAP]
        # Of each five minutes of a day only the highest is drawn: no peak is lost, but a short dip may be. All of them
        # would be 50 kB.
        seconds = (self.end - self.start).total_seconds() / POINTS_MAX
        for start, end in zip([0, *starts], [*starts, len(counts)], strict=True):
            parts = groupby(counts[start:end], key=lambda count: count.at.timestamp() // seconds)
            highest = [max(part, key=lambda count: count.number) for _, part in parts]
            # The last is drawn as well, so that the line ends where the words say.
            yield highest if highest[-1] == counts[end - 1] else [*highest, counts[end - 1]]


def draw(samples: Sequence[Sample], now: Present, *, hours: int = 24) -> SafeString:
    """
    Draw how many were signed in and how many were guests, in the current language and time zone.

    ``samples`` come the earliest first, as :func:`django_redsess.online.history` returns them; the picture ends in who
    is online ``now``. ``hours`` is how much time it covers; what is older is left out. Returns a ``<figure>``, of which
    a page can have one (its parts have ids), or a ``<p>`` that says why there is nothing to see.
    """
    start = now.at - timedelta(hours=hours)
    noted = [sample for sample in samples if start <= sample.at <= now.at]
    context: dict[str, Any] = {"hours": hours}
    if noted:
        shown: list[Sample | Present] = [*noted, now]
        step, top = _scale(max(max(count.signed_in, count.guests) for count in shown))
        plot = _Plot(start, now.at, top)
        levels = [(plot.y(number), _number(number)) for number in range(0, top + 1, step)]
        margin = 10 + CHARACTER * max(len(label) for _, label in levels)
        context |= {
            "start": _time(start, "SHORT_DATETIME_FORMAT"),
            "end": _time(now.at, "SHORT_DATETIME_FORMAT"),
            "margin": f"{margin:.0f}",
            "view_box": f"0 0 {WIDTH} {HEIGHT}",
            "levels": levels,
            "times": [(plot.x(at, width=100), label) for at, label in _times(plot, NARROWEST - margin)],
            "noted_until": "" if now.at - noted[-1].at <= GAP else _time(noted[-1].at, plot.time_format),
            "signed_in": _line(plot, [_Count(count.at, count.signed_in) for count in shown]),
            "guests": _line(plot, [_Count(count.at, count.guests) for count in shown]),
            "evicted": [_number(count) for count in evicted(noted)] if any(evicted(noted)) else None,
        }
    return render_to_string("django_redsess/online_chart.html", context)


def _scale(peak: int) -> tuple[int, int]:
    """Return the least step of 1, 2, 5, 10, 20, 50, … that reaches ``peak`` four times, and the highest level."""
    steps = (first * 10**zeros for zeros in range(len(str(peak))) for first in (1, 2, 5))
    step = next(step for step in steps if step * 4 >= peak)
    return step, step * max(1, ceil(peak / step))


def _times(plot: _Plot, pixels: float) -> list[tuple[datetime, str]]:
    """Choose the full hours to label, so that the labels have room in so many pixels."""
    # In no time zone is a full hour at anything but a full quarter of an hour of UTC.
    quarters = range(ceil(plot.start.timestamp() / 900), int(plot.end.timestamp() // 900) + 1)
    local = [localtime(datetime.fromtimestamp(quarter * 900, UTC)) for quarter in quarters]
    # The hour that comes twice when summer time ends has fold set: one label is enough.
    full = [(at, _time(at)) for at in local if at.minute == 0 and not at.fold]
    room = pixels / (SPACE + CHARACTER * max((len(label) for _, label in full), default=0))
    span = plot.end - plot.start
    every = next((every for every in (1, 2, 3, 4, 6, 12) if span / timedelta(hours=every) <= room), 24)
    # At the very ends half a label would be outside.
    ends = span * 0.04
    return [each for each in full if each[0].hour % every == 0 and plot.start + ends < each[0] < plot.end - ends]


def _line(plot: _Plot, counts: list[_Count]) -> dict[str, str]:
    """Return the paths and words of a line."""
    lines, areas, dots = [], [], []
    for run in plot.runs(counts):
        points = [f"{plot.x(count.at)} {plot.y(count.number)}" for count in run]
        lines.append(f"M{' '.join(points)}")
        areas.append(f"M{plot.x(run[0].at)} {HEIGHT} {' '.join(points)}V{HEIGHT}Z")
        # What is too short for a line, and the newest. Nothing is seen of them but the ends of the stroke.
        if len(run) < 3 or run[-1] == counts[-1]:
            dots.append(f"M{points[-1]}h0")
    most, least = max(counts, key=lambda count: count.number), min(counts, key=lambda count: count.number)
    words = {"last": counts[-1], "most": most, "least": least}
    return (
        {"line": "".join(lines), "area": "".join(areas), "dots": "".join(dots)}
        | {name: _number(count.number) for name, count in words.items()}
        | {f"{name}_at": _time(count.at, plot.time_format) for name, count in words.items()}
    )


def _time(at: datetime, form: str = "TIME_FORMAT") -> str:
    return date_format(localtime(at), form)


def _number(number: int) -> str:
    return number_format(number, use_l10n=True, force_grouping=True)
