"""How many were online: above the list of sessions, and on the page of a day, a week or a month."""

from __future__ import annotations

import re
from datetime import date, datetime, time, timedelta
from typing import Any
from xml.etree import ElementTree

import pytest
from django.utils import timezone
from django.utils.formats import date_format

from django_redsess import cleaning
from tests.helpers.admin_pages import LIST, Page, staff
from tests.helpers.store import make_seen, note, now_of

pytestmark = [pytest.mark.django_db, pytest.mark.clock]

NUMBERS = LIST + "numbers/"


def table(page: Any) -> list[list[str]]:
    """Return the rows of the page's table of counts."""
    [rows] = Page(page).tables or [[]]
    return rows[2:]


def the_day(days_ago: int) -> date:
    return timezone.localdate() - timedelta(days=days_ago)


def name_of(day: date) -> str:
    return date_format(day, "D N j, Y")


def at(day: date, hour: int = 12, minute: int = 0) -> datetime:
    """Return a time of that day. So many hours before now may be on another day, by the hour or by summer time."""
    return timezone.make_aware(datetime.combine(day, time(hour, minute)))


def note_hours(redis: Any, *hours: float, **counts: int) -> None:
    for ago in hours:
        note(redis, now_of(redis) - timedelta(hours=ago), **counts)


def test_there_is_a_picture_of_enough_samples_above_the_whole_list(admin_client, redis) -> None:
    for minutes in ([], [0], [2, 1]):
        note_hours(redis, *(each / 60 for each in minutes))
        assert "redsess-chart" not in admin_client.get(LIST).text
    note_hours(redis, 3, 2)
    cleaning.take_sample()
    assert '<svg class="redsess-chart-picture"' in admin_client.get(LIST).text
    assert "redsess-chart" not in admin_client.get(LIST, {"guests": "true"}).text


@pytest.mark.parametrize(("language", "grouped"), [("de", "."), ("ar", "")])
def test_the_picture_is_small_and_drawn_in_every_language(
    partitions, admin_client, redis, settings, language, grouped
) -> None:
    settings.USE_THOUSAND_SEPARATOR, settings.LANGUAGE_CODE = True, language
    note_hours(redis, *(minutes / 60 for minutes in range(0, 1440, 2)), signed_in=1_999_460 // partitions)
    [picture] = re.findall("<figure.*?</figure>", admin_client.get(NUMBERS).text, re.DOTALL)
    assert f"1{grouped}999{grouped}460" in picture
    # Of so many samples, only some are drawn.
    assert len(picture.encode()) < 15_000
    # A number as it is written in a language would break the drawing.
    for element in ElementTree.fromstring(picture).iter():
        for name in ("x", "y", "x1", "x2", "y1", "y2", "width", "height", "stroke-width", "font-size"):
            float((element.get(name) or "0").removesuffix("%"))
        for name in ("viewBox", "d"):
            for number in re.sub("[A-Za-z]", " ", element.get(name) or "").split():
                float(number)


@pytest.mark.usefixtures("partitions")
def test_who_was_evicted_meanwhile_is_told_guests_apart(admin_client, admin_user, redis, new_session, settings) -> None:
    note_hours(redis, 3, 2)
    assert "Evicted" not in Page(admin_client.get(NUMBERS)).text
    settings.REDSESS = {"MAX_SESSIONS": 1}
    for session in [{"user": "1"}] * 10 + [{"colour": "blue"}] * 20:
        new_session(**session)
    cleaning.take_sample()
    admin_client.force_login(admin_user)
    # How many of the newest stay differs with the partitions.
    text = Page(admin_client.get(NUMBERS)).text
    assert re.search(r"Evicted above the maximum: 1\d guests, 1[01] signed in", text)


@pytest.mark.parametrize("query", ["", "?guests=true"])
def test_the_list_has_a_link_to_itself(admin_client, settings, query) -> None:
    settings.REDSESS = {"PASSIVE_HEADER": "X-Quiet"}
    response = admin_client.get(LIST + query)
    page = Page(response)
    assert re.search(r"As of \d+:\d\d:\d\d [ap]\.m\.", page.text)
    assert page.links["Refresh"] == LIST + query
    assert page.links["Online over time"] == NUMBERS
    # What its script sends prolongs nothing.
    assert 'data-redsess-refresh="X-Quiet"' in response.text


def test_a_week_and_a_month_have_a_row_for_each_day_with_a_link(partitions, admin_client, redis) -> None:
    for days in range(1, 30):
        for minute in (0, 1):
            note(redis, at(the_day(days), 12, minute), signed_in=days, guests=50 - days)
    for name, days in (("week", 6), ("month", 29)):
        page = admin_client.get(NUMBERS, {"range": name})
        rows = table(page)
        expected = [
            [name_of(the_day(ago)), "-", "-", *(str(n * partitions) for n in (ago, ago, 50 - ago, 50 - ago))]
            for ago in range(1, days + 1)
        ]
        # The first row is today's, who is online now.
        assert rows[1 : days + 1] == expected
        assert Page(page).links[name_of(the_day(3))] == f"?day={the_day(3)}"
        assert "redsess-chart-picture" in page.text


def test_a_day_has_a_row_for_each_hour_with_the_most_and_the_fewest(partitions, admin_client, redis) -> None:
    day = the_day(3)
    for hour, minute, count, active in ((0, 0, 3, (2, 7)), (0, 10, 9, (1, 7)), (5, 0, 4, None), (23, 50, 1, (0, 0))):
        note(redis, at(day, hour, minute), signed_in=count, guests=0, active=active)
    note(redis, at(day, 0) - timedelta(minutes=1), signed_in=77)
    note(redis, at(the_day(2), 0), signed_in=88)
    page = admin_client.get(NUMBERS, {"day": day})
    nine, three, four, one, two = (str(number * partitions) for number in (9, 3, 4, 1, 2))
    # At five, a cleaner of an earlier release has counted.
    assert table(page) == [
        ["11 p.m.", "0", "0", one, one, "0", "0"],
        ["5 a.m.", "-", "-", four, four, "0", "0"],
        ["midnight", two, one, nine, three, "0", "0"],
    ]
    assert f"Sessions on {name_of(day)}" in Page(page).text
    links = Page(page).links
    assert (links["Previous day"], links["Next day"]) == (f"?day={the_day(4)}", f"?day={the_day(2)}")


def test_active_is_drawn_and_told_only_where_it_was_counted(partitions, admin_client, redis) -> None:
    for hour in (1, 2, 3):
        note(redis, at(the_day(3), hour), signed_in=5)
        note(redis, at(the_day(2), hour), signed_in=5, active=(3, 1))
    for days, told in ((3, False), (2, True)):
        text = Page(admin_client.get(NUMBERS, {"day": the_day(days)})).text
        assert f"Signed in: at most {5 * partitions} (" in text
        assert (f"Active: at most {3 * partitions} (" in text) == ("Active:" in text) == told


@pytest.mark.parametrize(("name", "days"), [("day", 1), ("week", 1), ("week", 3), ("week", 7), ("month", 20)])
def test_the_time_of_a_peak_names_its_day(admin_client, redis, name, days) -> None:
    now = timezone.localtime(now_of(redis))
    peak = timezone.localtime(now_of(redis) - timedelta(days=days, minutes=-2))
    note(redis, peak, signed_in=77)
    note(redis, now - timedelta(minutes=1), signed_in=5)
    # Two minutes later may be the next day.
    days = (now.date() - peak.date()).days
    # A week before is a day of the same name.
    form = "P" if days < 2 else "D P" if days < 7 else "N j, Y, P"
    expected = ("yesterday, " if days == 1 else "") + date_format(peak, form)
    page = admin_client.get(NUMBERS, {"range": name})
    assert f"Signed in: 1 now, at most 77 ({expected})" in Page(page).text
    assert f"most 77 ({expected})" in page.text.partition("<desc")[2]
    if name == "day":
        assert f"at most 77 ({expected})" in Page(admin_client.get(LIST)).text


@pytest.mark.usefixtures("partitions")
def test_both_pages_are_headed_by_who_is_signed_in_and_who_is_active(admin_client, redis, new_session) -> None:
    sids = [new_session(str(number)).sid for number in range(3)]
    make_seen(redis, sids[0], int(now_of(redis).timestamp() * 1000) - 400_000)
    new_session(colour="blue")
    for url in (LIST, NUMBERS, f"{LIST}?o=3", f"{LIST}?p=1"):
        # The administrator is the fourth.
        assert "4 signed in, 3 active now" in Page(admin_client.get(url)).text, url
    for query in ("?active=5m", "?guests=true", "?q=1"):
        assert "active now" not in Page(admin_client.get(LIST + query)).text, query
    assert "active now" not in Page(admin_client.get(NUMBERS, {"day": the_day(0)})).text


def test_days_are_those_of_the_time_zone(admin_client, redis, settings) -> None:
    settings.TIME_ZONE = "Asia/Kathmandu"
    note(redis, at(the_day(3), 0), signed_in=3)
    page = admin_client.get(NUMBERS, {"day": the_day(3)})
    assert [row[0] for row in table(page)] == ["midnight"]
    assert "times of Asia/Kathmandu" in Page(page).text
    assert [row[0] for row in table(admin_client.get(NUMBERS, {"range": "week"}))][1:] == [name_of(the_day(3))]


def test_another_day_is_the_last_24_hours(admin_client) -> None:
    for day in ("", "x", "2026-02-31", "0001-01-01", "9999-12-31", "-1", "2026-1-1\0"):
        page = admin_client.get(NUMBERS, {"day": day, "range": "day"})
        assert "Sessions in the last 24 hours" in Page(page).text
        assert Page(page).links["Previous day"] == f"?day={the_day(1)}"
        assert "Next day" not in Page(page).links


def test_the_page_is_for_those_who_may_see_sessions(client) -> None:
    assert client.get(NUMBERS).status_code == 302
    staff(client)
    assert client.get(NUMBERS).status_code == 403
    staff(client, "view_onlinesession", name="viewer")
    assert client.get(NUMBERS).status_code == 200
    assert client.post(NUMBERS).status_code == 405
