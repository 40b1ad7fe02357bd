"""The picture of how many were online: what it says, and that any page can show it in any language."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from xml.etree import ElementTree

import pytest
from django.utils import timezone, translation

from django_redsess.admin import numbers as chart
from django_redsess.online.samples import Present, Sample
from django_redsess.signals import Reason

pytestmark = pytest.mark.unit

END = datetime(2100, 6, 15, 18, 0, tzinfo=UTC)


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


def draw(samples: Sequence[Sample]) -> str:
    """Draw these, and as many online now as the newest sample says."""
    return chart.draw(samples, Present(*samples[-1][:3]))


def full_day() -> list[Sample]:
    return [sample(minutes, 7, 3) for minutes in range(1440, -1, -1)]


def times(html: str) -> list[str]:
    """The labels of the axis of times."""
    return [text.text or "" for text in ElementTree.fromstring(html).findall(".//g[@text-anchor='middle']/text")]


def text_of(html: str, element: str) -> str:
    """What the picture says in words: below it (``figcaption``), or to whoever does not see it (``desc``)."""
    found = ElementTree.fromstring(html).find(f".//{element}")
    assert found is not None
    # Not all white space: numbers have some that does not break.
    return re.sub("[ \n]+", " ", "".join(found.itertext())).strip()


@pytest.mark.parametrize(("language", "grouped"), [("en", ","), ("de", "."), ("fr", "\xa0"), ("ar", "")])
def test_it_is_small_and_its_coordinates_are_numbers_in_every_language(language: str, grouped: str, settings) -> None:
    settings.USE_THOUSAND_SEPARATOR = True
    with translation.override(language):
        html = draw([sample(minutes, minutes * 7919 % 1_000_003, minutes % 567) for minutes in range(1440, -1, -1)])
    assert f"999{grouped}461" in text_of(html, "figcaption")
    assert len(html.encode()) < 15_000
    for element in ElementTree.fromstring(html).iter():
        for name in ("x", "y", "x1", "x2", "y1", "y2", "width", "height", "stroke-width", "font-size"):
            float((element.get(name) or "0").removesuffix("%"))
        for name in ("viewBox", "d"):
            for number in re.sub("[A-Za-z]", " ", element.get(name) or "").split():
                float(number)


def test_who_does_not_see_it_is_told_all_numbers_and_times() -> None:
    samples = [sample(120, 3, 9), sample(115, 31, 4), sample(110, 5, 2), sample(0, 12, 6)]
    assert text_of(draw(samples), "desc") == (
        "From 06/14/2100 6 p.m. to 06/15/2100 6 p.m.; "
        "signed in: 12 at 6 p.m., most 31 at 4:05 p.m., fewest 3 at 4 p.m.; "
        "guests: 6 at 6 p.m., most 9 at 4 p.m., fewest 2 at 4:10 p.m."
    )
    # A dip of one minute, too short to see.
    dip = full_day()
    dip[700] = sample(740, signed_in=1)
    assert "fewest 1 at 5:40 a.m." in text_of(draw(dip), "desc")


def test_times_are_those_of_the_settings_where_time_zones_are_not_used(settings) -> None:
    settings.USE_TZ = False
    settings.TIME_ZONE = "Asia/Tokyo"
    assert "to 06/16/2100 3 a.m." in text_of(draw(full_day()), "desc")


@pytest.mark.parametrize("zone", ["Europe/Berlin", "Australia/Lord_Howe"])
def test_a_night_when_clocks_change_has_each_label_once(zone: str) -> None:
    with translation.override("de"), timezone.override(zone):
        # Clocks change on Sundays.
        for day in range(2, 365, 7):
            end = datetime(2100, 1, 1, 6, 30, tzinfo=UTC) + timedelta(days=day)
            labels = times(draw([sample(9, 1, end=end), sample(0, 1, end=end)]))
            assert len(labels) == len(set(labels)) >= 5


def test_who_was_evicted_meanwhile_is_told_guests_apart() -> None:
    # What was before those hours does not count.
    html = draw([evicting(2000, 0, 0), evicting(1400, 1000, 400), evicting(700, 1000, 400), evicting(0, 4500, 3897)])
    assert "Evicted above the maximum: 3,497 guests, 3 signed in" in html
    # Nobody was; and a store that was emptied meanwhile.
    for count, guests in ((1000, 400), (0, 0)):
        assert "Evicted" not in draw([evicting(700, 1000, 400), evicting(0, count, guests)])
