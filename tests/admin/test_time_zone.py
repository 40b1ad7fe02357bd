"""In which time zone administrators read times on our pages, and on no other."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.contrib.auth.models import User
from django.utils import timezone
from django.utils.formats import date_format

from django_redsess.contrib.history.models import SignIn
from tests.helpers.admin_pages import LIST, Page

pytestmark = pytest.mark.django_db

COOKIE, SCRIPT = "redsess_time_zone", "django_redsess/zone.js"
SIGN_INS = "/admin/redsess_history/signin/"


def in_lima(user: User) -> str:
    return "America/Lima"


def times_of(page: Any) -> set[str]:
    """Return the zones of the times on a page, as offsets."""
    return set(re.findall(r'datetime="[^"]*([+-]\d\d:\d\d)"', page.text))


@pytest.mark.parametrize("path", [LIST, LIST + "confirm/", SIGN_INS])
def test_times_are_in_the_zone_of_the_browser(admin_client, admin_user, settings, path) -> None:
    SignIn.objects.get_or_create(user=admin_user, login_ms=1_700_000_000_000)
    page = admin_client.get(path)
    assert times_of(page) == {"+00:00"}
    assert SCRIPT in page.text
    admin_client.cookies[COOKIE] = "Asia/Tokyo"
    assert times_of(admin_client.get(path)) == {"+09:00"}
    assert timezone.get_current_timezone_name() == "UTC"
    settings.REDSESS = {**settings.REDSESS, "USER_TIME_ZONE": f"{__name__}.in_lima"}
    page = admin_client.get(path)
    assert times_of(page) == {"-05:00"}
    assert SCRIPT not in page.text


def test_a_day_is_one_of_the_zone_of_the_browser(admin_client) -> None:
    admin_client.cookies[COOKIE] = "Pacific/Kiritimati"
    today = datetime.now(ZoneInfo("Pacific/Kiritimati")).date()
    page = Page(admin_client.get(LIST + "numbers/", {"day": today.isoformat()}))
    assert f"Sessions on {date_format(today, 'D N j, Y')}" in page.text


def test_other_pages_of_the_admin_stay_in_the_zone_of_the_site(admin_client, admin_user) -> None:
    admin_client.cookies[COOKIE] = "Asia/Tokyo"
    User.objects.filter(pk=admin_user.pk).update(last_login=datetime(2026, 1, 1, 12, tzinfo=UTC))
    page = admin_client.get(f"/admin/auth/user/{admin_user.pk}/change/").text
    assert "12:00:00" in page
    assert "21:00:00" not in page
    assert SCRIPT not in page
