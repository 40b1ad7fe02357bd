"""The picture of how many were online."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from django.utils import timezone, translation

from django_redsess.admin import numbers as chart
from django_redsess.online.samples import Present, Sample
from django_redsess.signals import Reason

pytestmark = pytest.mark.unit

END = datetime(2100, 6, 15, 18, 0, tzinfo=UTC)

BLUE, ORANGE = "#2f7fc1", "#c8640f"


def sample(minutes_ago: float, signed_in: int = 0, guests: int = 0, *, end: datetime = END) -> Sample:
    return Sample(
        end - timedelta(minutes=minutes_ago), signed_in, guests, 0, dict.fromkeys(Reason, 0), dict.fromkeys(Reason, 0)
    )


def evicting(minutes_ago: float, ended: int, guests: int) -> Sample:
    """Return a sample up to which so many were evicted, of them so many guests."""
    return sample(minutes_ago, 7, 3)._replace(
        ended=dict.fromkeys(Reason, 0) | {Reason.EVICTED: ended},
        guests_ended=dict.fromkeys(Reason, 0) | {Reason.EVICTED: guests},
    )


def draw(samples: Sequence[Sample], now: Present | None = None, *, hours: int = 24, small: bool = False) -> str:
    """Draw these, and who is online now: by default as many as the newest sample says, at the same time."""
    return chart.draw(samples, now or Present(*samples[-1][:3]), hours=hours, small=small)


def full_day(signed_in: int = 7, guests: int = 3) -> list[Sample]:
    return [sample(minutes, signed_in, guests) for minutes in range(1440, -1, -1)]


def picture(html: str) -> ElementTree.Element:
    """Parse the whole of what was drawn, as XML, and return the picture in it."""
    found = ElementTree.fromstring(html).find(".//svg[@role='img']")
    assert found is not None
    return found


def path(html: str, colour: str, kind: str) -> str:
    """Return the path of a line: its ``line``, ``dots`` or ``area``."""
    lines = picture(html).find(".//svg[@class='redsess-chart-lines']")
    assert lines is not None
    [found] = [
        each.get("d", "")
        for each in lines.iter("path")
        if colour in (each.get("stroke"), each.get("fill"))
        and kind == ("area" if each.get("fill") else "dots" if each.get("stroke-width") else "line")
    ]
    return found


def points(path: str) -> list[tuple[float, float]]:
    """Read the coordinates of a path that has but points."""
    numbers = [float(number) for number in re.sub("[MLhVZ]", " ", path).split()]
    return list(zip(numbers[::2], numbers[1::2], strict=True))


def strokes(path: str) -> list[list[tuple[float, float]]]:
    return [points(part) for part in path.split("M") if part]


def dots(html: str, colour: str) -> list[list[tuple[float, float]]]:
    return strokes(path(html, colour, "dots").replace("h0", ""))


def labels(html: str, anchor: str) -> list[str]:
    """Return the texts of the axis whose labels are anchored so: ``end`` for counts, ``middle`` for times."""
    return [text.text or "" for text in axis(html, anchor)]


def axis(html: str, anchor: str) -> list[ElementTree.Element]:
    return ElementTree.fromstring(html).findall(f".//g[@text-anchor='{anchor}']/text")


def description(html: str) -> str:
    found = picture(html).find("desc")
    assert found is not None
    return re.sub("[ \n]+", " ", found.text or "").strip()


def visible_text(html: str) -> str:
    caption = ElementTree.fromstring(html).find("figcaption")
    assert caption is not None
    # Not all white space: numbers have some that does not break.
    return re.sub("[ \n]+", " ", "".join(caption.itertext()))


def test_without_enough_samples_for_a_line_there_is_no_picture() -> None:
    assert draw([], Present(END, 3, 4)) == ""
    assert draw([sample(0, 12, 5)]) == ""
    assert draw([sample(3, 12, 5), sample(0, 12, 5)]) == ""
    assert draw([sample(6, 12, 5), sample(0, 12, 5)])


def test_samples_older_than_the_hours_asked_for_are_not_drawn() -> None:
    old, now = [sample(300, 9), sample(290, 9)], Present(END, 1, 0)
    assert draw(old, now, hours=4) == ""
    assert "in the last 6 hours" in draw(old, now, hours=6)


def test_all_of_it_is_well_formed() -> None:
    assert picture(draw(full_day())).tag == "svg"


@pytest.mark.parametrize("language", ["en", "de", "fr", "ar"])
def test_coordinates_are_numbers_in_every_language(language: str, settings) -> None:
    settings.USE_THOUSAND_SEPARATOR = True
    with translation.override(language):
        html = draw([sample(minutes, minutes * 7 % 1234, minutes % 567) for minutes in range(1440, -1, -7)])
    for colour in (BLUE, ORANGE):
        assert len(points(path(html, colour, "line"))) > 200
    for element in ElementTree.fromstring(html).iter():
        for name in ("x", "y", "x1", "x2", "y1", "y2", "width", "height", "stroke-width", "font-size"):
            float((element.get(name) or "0").removesuffix("%"))
        for number in (element.get("viewBox") or "").split():
            float(number)


def test_a_line_goes_from_the_left_edge_to_the_right() -> None:
    [line] = strokes(path(draw(full_day()), BLUE, "line"))
    assert (line[0][0], line[-1][0]) == (0, 1000)
    assert line == sorted(line)


def test_more_people_are_higher_up() -> None:
    html = draw([sample(60, 1, 10), sample(55, 2, 8), sample(50, 4, 7)])
    for colour, upwards in ((BLUE, True), (ORANGE, False)):
        heights = [y for _, y in points(path(html, colour, "line"))]
        assert heights == sorted(set(heights), reverse=upwards)


def test_nobody_all_day_is_a_line_on_the_ground() -> None:
    html = draw(full_day(0, 0))
    assert labels(html, "end") == ["0", "1"]
    [ground, _] = [text.get("y") for text in axis(html, "end")]
    for colour in (BLUE, ORANGE):
        assert {y for _, y in points(path(html, colour, "line"))} == {float(ground or "")}


def test_a_gap_breaks_the_line_and_the_area() -> None:
    samples = [each for each in full_day() if not 300 < (END - each.at).total_seconds() / 60 < 360]
    html = draw(samples)
    for colour, kind in ((BLUE, "line"), (ORANGE, "line"), (BLUE, "area")):
        assert path(html, colour, kind).count("M") == 2
    before, after = strokes(path(html, BLUE, "line"))
    hour_wide = 1000 / 24
    assert after[0][0] - before[-1][0] == pytest.approx(hour_wide, abs=0.2 * hour_wide)


def test_the_area_stands_on_the_ground() -> None:
    html = draw(full_day(20))
    area = path(html, BLUE, "area")
    [ground, *_] = [float(text.get("y", "")) for text in axis(html, "end")]
    (left, lowest), *_ = points(area.split("V")[0])
    assert (left, lowest) == (0, ground)
    assert area.endswith(f"V{ground:.0f}Z")


def test_a_few_missing_minutes_do_not_break_the_line() -> None:
    assert len(strokes(path(draw([sample(minutes, 5) for minutes in range(1440, -1, -9)]), BLUE, "line"))) == 1


def test_a_sample_between_two_gaps_is_a_dot() -> None:
    html = draw([sample(720, 4, 2), *(sample(minutes, 4, 2) for minutes in range(60, -1, -1))])
    for colour in (BLUE, ORANGE):
        # And the newest.
        assert [dot[0][0] for dot in dots(html, colour)] == [500, 1000]


@pytest.mark.parametrize("minutes_ago", range(600, 605))
def test_a_peak_of_one_minute_is_drawn(minutes_ago: int) -> None:
    samples = full_day()
    samples[1440 - minutes_ago] = sample(minutes_ago, signed_in=20, guests=20)
    html = draw(samples)
    for colour in (BLUE, ORANGE):
        # 20 is the highest level of the axis.
        [x] = [x for x, y in points(path(html, colour, "line")) if y == 0]
        assert x == pytest.approx((1440 - minutes_ago) / 1.44, abs=0.1)


def test_the_line_ends_at_the_newest_number() -> None:
    samples = [*full_day(20)[:-1], sample(0, 10)]
    assert points(path(draw(samples), BLUE, "line"))[-1] == (1000, 80)


def test_a_full_day_of_ups_and_downs_stays_small() -> None:
    samples = [
        sample(minutes, minutes * 7919 % 1_000_003, minutes * 104729 % 999_983) for minutes in range(1440, -1, -1)
    ]
    for language in ("en", "de", "fr"):
        with translation.override(language):
            assert len(draw(samples).encode()) < 15_000


def test_the_description_names_all_numbers_and_times() -> None:
    samples = [sample(120, 3, 9), sample(115, 31, 4), sample(110, 5, 2), sample(0, 12, 6)]
    assert description(draw(samples)) == (
        "From 06/14/2100 6 p.m. to 06/15/2100 6 p.m.; "
        "signed in: 12 at 6 p.m., most 31 at 4:05 p.m., fewest 3 at 4 p.m.; "
        "guests: 6 at 6 p.m., most 9 at 4 p.m., fewest 2 at 4:10 p.m."
    )


def test_the_description_tells_a_dip_that_is_too_short_to_see() -> None:
    samples = full_day()
    samples[700] = sample(740, signed_in=1)
    assert "fewest 1 at 5:40 a.m." in description(draw(samples))


def test_the_picture_is_named_by_its_title_and_description() -> None:
    html = draw(full_day())
    names = (picture(html).get("aria-labelledby") or "").split()
    ids = {element.get("id"): element for element in ElementTree.fromstring(html).iter() if element.get("id")}
    assert [ids[name].tag for name in names] == ["title", "desc"]
    assert ids[names[0]].text == "Online in the last 24 hours"


def test_the_legend_tells_both_numbers_in_words() -> None:
    text = visible_text(draw([sample(115, 31, 4), sample(110, 5, 20), sample(0, 12, 6)]))
    assert "Signed in: 12 now, at most 31 at 4:05 p.m." in text
    assert "Guests: 6 now, at most 20 at 4:10 p.m." in text


def test_the_numbers_of_now_are_not_those_of_the_newest_sample() -> None:
    html = draw(full_day(14, 3), Present(END + timedelta(seconds=30), 1, 20))
    assert "Signed in: 1 now, at most 14 at" in visible_text(html)
    assert "Guests: 20 now, at most 20 at 6 p.m." in visible_text(html)
    assert "signed in: 1 at 6 p.m., most 14 at" in description(html)
    for colour, number in ((BLUE, 1), (ORANGE, 20)):
        # 20 is the highest level of the axis.
        x, y = points(path(html, colour, "line"))[-1]
        assert (x, y) == (1000, 160 - number * 8)
        assert dots(html, colour) == [[(x, y)]]


def test_since_when_nobody_has_noted_anything_is_said() -> None:
    text = visible_text(draw([sample(130, 3, 4), sample(120, 31, 4)], Present(END, 2, 5)))
    assert "Signed in: 2 now, at most 31 at 4 p.m.; no samples since 4 p.m." in text
    assert "Guests: 5 now, at most 5 at 6 p.m.; no samples since 4 p.m." in text
    assert "no samples since" not in visible_text(draw([sample(20, 31, 4), sample(9, 31, 4)], Present(END, 2, 5)))


def test_a_line_whose_samples_stopped_ends_there_and_a_dot_is_where_it_is_now() -> None:
    html = draw([sample(360 + minutes, 8) for minutes in range(600, -1, -1)], Present(END, 4, 0))
    before, now = strokes(path(html, BLUE, "line"))
    assert before[-1][0] == pytest.approx(750, abs=1)
    assert now == dots(html, BLUE)[-1] == [(1000, 80)]


def test_big_numbers_are_grouped_as_the_language_does() -> None:
    for language, separator in (("en", ","), ("de", "."), ("fr", "\xa0")):
        with translation.override(language):
            html = draw(full_day(1_000_000, 250_000))
        million = separator.join(("1", "000", "000"))
        assert labels(html, "end")[-1] == million
        assert million in visible_text(html)
        assert million in description(html)


@pytest.mark.parametrize("peak", [0, 1, 2, 3, 5, 7, 11, 21, 42, 99, 101, 1234, 1_000_000, 1_000_001, 7_654_321])
def test_the_axis_has_few_round_numbers_and_room_for_the_highest(peak: int) -> None:
    levels = [int(label.replace(",", "")) for label in labels(draw(full_day(peak, 0)), "end")]
    assert levels[0] == 0
    assert 2 <= len(levels) <= 5
    assert levels[-1] >= max(1, peak)
    # No more than half of the picture is empty, unless by a single person.
    assert levels[-1] <= max(1, 2 * peak)
    [step] = {later - earlier for earlier, later in pairwise(levels)}
    assert re.fullmatch("[125]0*", str(step))


@pytest.mark.parametrize(
    ("zone", "expected"),
    [
        ("UTC", ["20:00", "00:00", "04:00", "08:00", "12:00", "16:00"]),
        ("Europe/Berlin", ["00:00", "04:00", "08:00", "12:00", "16:00"]),
        # Full hours of people there, not of UTC.
        ("Asia/Kathmandu", ["04:00", "08:00", "12:00", "16:00", "20:00"]),
    ],
)
def test_times_are_those_of_the_current_time_zone(zone: str, expected: list[str]) -> None:
    with translation.override("de"), timezone.override(zone):
        assert labels(draw(full_day()), "middle") == expected


def test_times_are_those_of_the_settings_where_time_zones_are_not_used(settings) -> None:
    settings.USE_TZ = False
    settings.TIME_ZONE = "Asia/Tokyo"
    assert "to 06/16/2100 3 a.m." in description(draw(full_day()))


def test_a_label_is_where_its_time_is() -> None:
    html = draw(full_day())
    [noon] = [text for text in picture(html).iter("text") if text.text == "noon"]
    assert noon.get("x") == "75.0%"


def test_long_labels_are_fewer() -> None:
    counts = []
    for language in ("de", "en"):
        with translation.override(language):
            counts.append(len(labels(draw(full_day()), "middle")))
    assert counts[0] > counts[1] >= 3


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Atlantic/Azores", "Australia/Lord_Howe"])
def test_a_night_when_clocks_change_has_each_label_once(zone: str) -> None:
    with translation.override("de"), timezone.override(zone):
        # Clocks change on Sundays.
        for day in range(2, 365, 7):
            end = datetime(2100, 1, 1, 6, 30, tzinfo=UTC) + timedelta(days=day)
            texts = labels(draw([sample(9, 1, end=end), sample(0, 1, end=end)]), "middle")
            assert len(texts) == len(set(texts)) >= 5


@pytest.mark.parametrize(
    ("hours", "title"),
    [
        (1, "Online in the last hour"),
        (48, "Online in the last 48 hours"),
        (7 * 24, "Online in the last 7 days"),
        (31 * 24, "Online in the last 31 days"),
    ],
)
def test_other_spans_can_be_drawn(hours: int, title: str) -> None:
    html = draw([sample(minutes, 5, 2) for minutes in range(hours * 60, -1, -1)], hours=hours)
    assert title in visible_text(html)
    [line] = strokes(path(html, BLUE, "line"))
    assert (line[0][0], line[-1][0]) == (0, 1000)


def test_days_are_named_where_a_time_of_day_comes_twice() -> None:
    assert "at most 9 at Mon 6 p.m." in visible_text(draw([sample(1440, 9), sample(0, 1)], hours=48))


def test_the_lines_differ_without_colour() -> None:
    # In the picture and in the legend.
    legend = ElementTree.fromstring(draw(full_day())).find("figcaption")
    assert legend is not None
    for strokes in (picture(draw(full_day())), legend):
        drawn = [each for part in strokes for each in part.iter("path") if each.get("stroke-width") != "6"]
        dashed = {
            colour: {"stroke-dasharray" in each.keys() for each in drawn if each.get("stroke") == colour}
            for colour in (BLUE, ORANGE)
        }
        assert dashed == {BLUE: {False}, ORANGE: {True}}


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("background", ["#ffffff", "#121212"])
def test_the_colours_are_seen_on_light_and_dark(background: str) -> None:
    colours = set(re.findall("#[0-9a-f]{6}", draw(full_day()))) - {background}
    assert colours
    for colour in colours:
        lighter, darker = sorted((luminance(colour), luminance(background)), reverse=True)
        assert (lighter + 0.05) / (darker + 0.05) >= 3


def test_nothing_is_loaded_and_nothing_runs() -> None:
    html = draw(full_day())
    for word in ("<script", "<style", " style=", "http", "href", "src=", "url(", " on"):
        assert word not in re.sub(r">[^<]*<", "><", html)


def test_who_was_evicted_meanwhile_is_told_guests_apart() -> None:
    html = draw([evicting(2000, 0, 0), evicting(1400, 1000, 400), evicting(700, 1000, 400), evicting(0, 4500, 3897)])
    # What was before those hours does not count.
    assert "Evicted above the maximum: 3,497 guests, 3 signed in" in html
    with translation.override("de"):
        html = draw([evicting(700, 1000, 400), evicting(0, 4500, 3897)])
    assert "Über der Höchstzahl verdrängt: 3.497 Gäste, 3 angemeldet" in html


def test_where_nobody_was_evicted_nothing_is_said_of_it() -> None:
    assert "Evicted" not in draw([evicting(700, 1000, 400), evicting(0, 1000, 400)])
    # A store that was emptied meanwhile.
    assert "Evicted" not in draw([evicting(700, 1000, 400), evicting(0, 0, 0)])


# The small picture, and other ranges


def test_the_small_picture_has_the_same_lines_with_few_labels() -> None:
    samples = full_day(20)
    small, whole = draw(samples, small=True), draw(samples)
    for colour in (BLUE, ORANGE):
        [widths, others] = [[x for x, _ in points(path(html, colour, "line"))] for html in (small, whole)]
        assert widths == others
    assert labels(small, "end") == ["0", "20"]
    assert float(picture(small).get("height", "")) <= 80
    assert picture(small).find("title") is not None


def slotted(minutes: int, count: int, *, until: int) -> list[Sample]:
    """Return samples of slots of so many minutes, the last ``until`` minutes ago."""
    return [sample(until + minutes * number, 5, 2) for number in range(count, -1, -1)]


def test_samples_that_stand_for_longer_make_one_line() -> None:
    day = 1440
    samples = [
        *slotted(60, 23 * 24, until=8 * day + 60),
        *slotted(10, 6 * 144 - 1, until=2 * day + 10),
        *slotted(1, 2 * day, until=0),
    ]
    html = draw(samples, hours=31 * 24)
    assert len(strokes(path(html, BLUE, "line"))) == 1
    without_some = [each for each in samples if not 10 * day < (END - each.at).total_seconds() / 60 < 10 * day + 150]
    assert len(strokes(path(draw(without_some, hours=31 * 24), BLUE, "line"))) == 2


def test_a_day_that_is_over_has_no_now() -> None:
    day = (END - timedelta(hours=42), END - timedelta(hours=18))
    samples = [sample(60 * 42 - 10 * number, number, 1) for number in range(144)]
    html = chart.draw(samples, Present(END, 99, 99), day=day)
    assert visible_text(html).startswith(" Online on Mon June 14, 2100")
    assert "Signed in: at most 143 at 11:50 p.m." in visible_text(html)
    assert "99" not in visible_text(html)
    assert "fewest 0 at midnight" in description(html)


def test_a_month_and_a_week_have_days_as_labels() -> None:
    samples = slotted(60, 31 * 24, until=0)
    assert labels(draw(samples, hours=7 * 24), "middle") == ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue"]
    found = labels(draw(samples, hours=31 * 24), "middle")
    assert 2 <= len(found) <= 8
    assert all(re.fullmatch(r"(May|June) \d+", label) for label in found)
    autumn = datetime(2100, 11, 28, 18, tzinfo=UTC)
    hourly = [sample(60 * hours, 5, end=autumn) for hours in range(31 * 24, -1, -1)]
    # On the narrowest page, names so long would touch if they were 8 days apart.
    assert labels(draw(hourly, hours=31 * 24), "middle") == ["November 8", "November 20"]
    assert re.search(r"at most 5 at \w+ \d+, 2100", visible_text(draw(samples, hours=31 * 24)))
