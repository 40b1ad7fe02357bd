"""What pages of the core show of past sign-ins: of a session, of a user, of who is not there, and one's own."""

from __future__ import annotations

from datetime import timedelta

import lxml.html
import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from django_redsess import past_sign_ins
from django_redsess.signals import Reason
from tests.admin.visits import CHROME, FIREFOX, from_place
from tests.contrib.history.rows import LIST, ended, row
from tests.helpers.admin_pages import LIST as ONLINE
from tests.helpers.admin_pages import Page, page_of, staff
from tests.helpers.running import run_python

pytestmark = pytest.mark.django_db

OWN = "/account/sessions/"


@pytest.fixture
def lukas() -> User:
    return User.objects.create_user("lukas", email="lukas@example.com")


def pages_about(user: User, sid: str) -> dict[str, str]:
    return {"session": page_of(sid), "user": f"/admin/auth/user/{user.pk}/change/", "absent": f"{ONLINE}?q=lukas"}


def test_who_is_not_there_is_told_with_the_last_sign_in_and_who_ended_it(admin_client, admin_user, lukas) -> None:
    ended(lukas, Reason.LOGOUT, address="192.0.2.1", ago=timedelta(days=2))
    ended(
        lukas, Reason.KICKED, ended_by=str(admin_user.pk), address="198.51.100.7", agent=CHROME, ago=timedelta(days=1)
    )
    page = Page(admin_client.get(ONLINE, {"q": "lukas@"}))
    for text in ("lukas is not signed in.", "198.51.100.7 (Chrome 120 on Windows)", "ended by admin", "1 day ago"):
        assert text in page.text
    assert "192.0.2.1" not in page.text
    assert page.links["All sign-ins of this user"] == f"{LIST}?user={lukas.pk}"


def test_a_sign_in_without_an_end_or_an_address_is_told_as_it_is(admin_client, lukas) -> None:
    row(lukas, address="", agent="")
    text = Page(admin_client.get(ONLINE, {"q": "lukas"})).text
    assert "Last signed in" in text
    assert "How it ended" not in text


def test_a_session_and_a_user_have_the_last_five(admin_client, lukas, new_session) -> None:
    for number in range(6):
        ended(lukas, address=f"192.0.2.{number}", ago=timedelta(days=number + 1))
    row(lukas, address="192.0.2.200", ago=timedelta(minutes=1))
    urls = pages_about(lukas, from_place(new_session(str(lukas.pk))).sid)
    for url in (urls["session"], urls["user"]):
        page = Page(admin_client.get(url))
        [table] = [found for found in page.tables if "How it ended" in found[0]]
        addresses = [cells[1].split()[-1] for cells in table[1:]]
        assert addresses == ["192.0.2.200", *(f"192.0.2.{number}" for number in range(4))]
        assert page.links["All sign-ins of this user"] == f"{LIST}?user={lukas.pk}"


def test_a_guests_session_has_no_sign_ins(admin_client, new_session) -> None:
    assert "Last sign-ins" not in Page(admin_client.get(page_of(new_session(colour="blue").sid))).text


@pytest.mark.parametrize("permission", [True, False])
def test_only_with_the_permission(lukas, new_session, permission) -> None:
    ended(lukas, address="203.0.113.5")
    urls = pages_about(lukas, from_place(new_session(str(lukas.pk))).sid)
    more = ["view_signin"] if permission else []
    client = staff(Client(), "view_onlinesession", "view_user", *more)
    for page in ("session", "user"):
        assert ("203.0.113.5" in client.get(urls[page]).text) == permission
    other = User.objects.create_user("lukas2")
    ended(other, address="203.0.113.6")
    assert ("203.0.113.6" in client.get(ONLINE, {"q": "lukas2"}).text) == permission
    # Whoever may not see users does not learn of those who are not here.
    blind = staff(Client(), "view_onlinesession", "view_signin", name="blind")
    assert "203.0.113.6" not in blind.get(ONLINE, {"q": "lukas2"}).text


def test_who_ended_it_has_a_name_for_those_who_may_not_see_users(lukas, admin_user, new_session) -> None:
    ended(lukas, Reason.KICKED, ended_by=str(admin_user.pk))
    client = staff(Client(), "view_onlinesession", "view_signin")
    text = Page(client.get(page_of(from_place(new_session(str(lukas.pk))).sid))).text
    assert "Ended by admin (staff)" in text


def test_your_sessions_have_what_ended_lately_and_name_no_administrator(client, lukas, admin_user) -> None:
    ended(
        lukas,
        Reason.KICKED,
        ended_by=str(admin_user.pk),
        address="203.0.113.5",
        stored_message="Call us.",
        is_new_device=True,
    )
    ended(lukas, Reason.KICKED, ended_by=str(lukas.pk), ago=timedelta(days=1))
    row(lukas, address="203.0.113.99", ago=timedelta(minutes=5))
    ended(admin_user, address="203.0.113.66")
    client.force_login(lukas)
    page = Page(client.get(OWN))
    for text in (
        "Earlier sign-ins",
        "203.0.113.5",
        "Signed out by an administrator",
        "Call us.",
        "Signed out by you",
        "New device",
    ):
        assert text in page.text
    assert not any(text in page.text for text in ("203.0.113.99", "203.0.113.66", "by admin"))


@pytest.mark.parametrize(
    ("limit", "said"),
    [
        (3, "Signed out because you reached the limit of 3 devices"),
        (1, "Signed out because you reached the limit of 1 device"),
        (None, "Signed out because you signed in on another device"),
        ("no.such.function", "Signed out because you signed in on another device"),
    ],
)
def test_the_user_reads_which_limit_has_ended_a_session(client, lukas, settings, limit, said) -> None:
    ended(lukas, Reason.REPLACED)
    client.force_login(lukas)
    settings.REDSESS = {**settings.REDSESS, "MAX_SESSIONS_PER_USER": limit}
    assert said in Page(client.get(OWN)).text


asked_for: list[list[str]] = []


def lyon(addresses: list[str]) -> dict[str, str]:
    """Say where addresses are, as a site's own function does."""
    asked_for.append(sorted(addresses))
    return dict.fromkeys(addresses, "Lyon, France")


def test_places_stand_beside_addresses_and_are_asked_for_once_a_page(admin_client, lukas, settings) -> None:
    asked_for.clear()
    settings.REDSESS = {**settings.REDSESS, "PLACES": f"{__name__}.lyon"}
    ended(lukas, address="203.0.113.205")
    ended(lukas, address="203.0.113.206", ago=timedelta(days=1))
    client = Client()
    client.force_login(lukas)
    for visitor, url in ((client, OWN), (admin_client, LIST), (admin_client, f"/admin/auth/user/{lukas.pk}/change/")):
        assert Page(visitor.get(url)).text.count("Lyon, France") >= 2
    assert [each for each in asked_for if "203.0.113.205" in each] == [["203.0.113.205", "203.0.113.206"]]


@pytest.mark.parametrize("is_about", [False, True])
def test_an_end_that_nobody_knows_the_reason_of_is_a_time_only(client, lukas, is_about) -> None:
    ended(lukas, "", ended_at_is_approximate=is_about)
    client.force_login(lukas)
    [cell] = lxml.html.fromstring(client.get(OWN).text).xpath("//dt[.='Ended']/following-sibling::dd")
    [time] = cell.iter("time")
    assert cell.text_content() == time.text_content()
    assert time.text_content().startswith("about ") == is_about


def test_nothing_lately_has_no_heading(client, lukas) -> None:
    client.force_login(lukas)
    assert "Earlier sign-ins" not in Page(client.get(OWN)).text


@pytest.mark.parametrize("reason", [*Reason, ""])
def test_each_end_has_words_of_its_own(admin_client, lukas, reason) -> None:
    ended(lukas, reason)
    ended(lukas, reason, ended_by=str(lukas.pk), ago=timedelta(hours=2))
    client = Client()
    client.force_login(lukas)
    for response in (client.get(OWN), admin_client.get(LIST), admin_client.get(f"{LIST}?reason={reason or 'unknown'}")):
        assert response.status_code == 200
    assert Page(admin_client.get(f"{LIST}?user={lukas.pk}")).links["lukas"]


def test_without_a_source_pages_ask_and_say_nothing(admin_client, client, lukas, new_session, monkeypatch) -> None:
    ended(lukas, address="203.0.113.5")
    urls = pages_about(lukas, from_place(new_session(str(lukas.pk)), "192.0.2.9", FIREFOX).sid)
    client.force_login(lukas)
    monkeypatch.setattr(past_sign_ins, "_source", None)
    for visitor, url in ((admin_client, urls["session"]), (admin_client, urls["user"]), (client, OWN)):
        visitor.get(url)
        with CaptureQueriesContext(connection) as asked:
            text = visitor.get(url).text
        assert not any("signin" in each["sql"] for each in asked)
        assert not any(said in text for said in ("203.0.113.5", "last_sign_ins", "Earlier sign-ins"))


WITHOUT = """
import django
from django.conf import settings
from testproject import settings as shop
apps = [app for app in shop.INSTALLED_APPS if app != "django_redsess.contrib.history"]
settings.configure(**{name: getattr(shop, name) for name in dir(shop) if name.isupper() and name != "INSTALLED_APPS"},
                   INSTALLED_APPS=apps)
django.setup()
from django.urls import get_resolver
get_resolver().url_patterns
import sys
from django_redsess import past_sign_ins
print(past_sign_ins.ended_sign_ins("1", limit=5))
print([name for name in sys.modules if name.startswith("django_redsess.contrib.history")])
"""


@pytest.mark.unit
@pytest.mark.slow
def test_without_the_app_nothing_of_it_is_imported(tmp_path) -> None:
    assert run_python("-c", WITHOUT, REDSESS_DEMO_DIR=str(tmp_path)).strip() == "[]\n[]"
