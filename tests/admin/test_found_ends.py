"""Ending what a search has found by looking through the newest sessions, if a form can't name them all."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.http import HttpRequest
from django.test import Client

from django_redsess import online
from django_redsess.admin import OnlineSessionAdmin, ending
from django_redsess.online import searching
from tests.helpers.admin_pages import CONFIRM, LIST, Page, answer, asked, left, milliseconds_ago, staff, told
from tests.helpers.behind import make_seen

pytestmark = [pytest.mark.django_db, pytest.mark.on_cluster, pytest.mark.usefixtures("partitions")]

FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0"
CHROME = (
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0.0.0 Safari/537.36"
)


@pytest.fixture(autouse=True)
def firefox_only(monkeypatch) -> None:
    """The list has sessions of Firefox only: there is no index of browsers."""
    every = OnlineSessionAdmin.get_queryset
    monkeypatch.setattr(
        OnlineSessionAdmin, "get_queryset", lambda self, request: every(self, request).of_browser("Firefox")
    )


@pytest.fixture(autouse=True)
def more_than_a_form_names(monkeypatch) -> None:
    monkeypatch.setattr(ending, "SIDS_MAX", 0)


def arrive(name: str, agent: str = FIREFOX) -> str:
    """Sign a user in with a browser, and return the sid."""
    user, is_new = User.objects.get_or_create(username=name)
    if is_new:
        user.set_password("secret")
        user.save()
    browser = Client(headers={"user-agent": agent})
    browser.post("/login/", {"username": name, "password": "secret"})
    return str(browser.session.sid)


@pytest.fixture
def found(admin_client) -> dict[str, str]:
    return {name: arrive(name) for name in ("anna", "ben", "cleo", "dora")}


@pytest.mark.parametrize("query", ["", "?o=2", "?o=-3", "?active=5m", "?who=everyone", "?q=n"])
def test_what_was_found_ends_and_nothing_else(admin_client, found, query) -> None:
    chrome, own = arrive("anna", CHROME), admin_client.session.sid
    response = admin_client.get(CONFIRM + query)
    shown = {sid for name, sid in found.items() if "q=n" not in query or "n" in name}
    assert asked(response) == len(shown)
    answer(admin_client, response)
    assert left() == {chrome, own, *found.values()} - shown


def test_who_arrives_after_the_question_stays(admin_client, found) -> None:
    response = admin_client.get(CONFIRM)
    late = arrive("late")
    assert told(answer(admin_client, response)).startswith("4 sessions were ended. Users: ")
    assert late in left()


def test_who_was_seen_just_in_time_is_ended_though_the_question_was_open_for_long(admin_client, redis, found) -> None:
    make_seen(redis, found["anna"], milliseconds_ago(299))
    make_seen(redis, found["ben"], milliseconds_ago(900))
    response = admin_client.get(CONFIRM + "?active=5m")
    assert asked(response) == 3
    # As if two minutes had passed.
    make_seen(redis, found["anna"], milliseconds_ago(299.5))
    answer(admin_client, response)
    assert found["anna"] not in left()
    assert found["ben"] in left()


def test_no_more_end_than_the_question_has_counted(admin_client, monkeypatch, found) -> None:
    monkeypatch.setattr(searching, "SCAN_LIMIT", 3)
    monkeypatch.setattr(ending, "END_MAX", 1)
    monkeypatch.setattr("django_redsess.online.ending.AT_ONCE_MAX", 1)
    response = admin_client.get(CONFIRM)
    assert asked(response) == 3
    response, requests = answer(admin_client, response), 1
    while "so far" in Page(response).text:
        response, requests = answer(admin_client, response), requests + 1
    assert requests >= 3
    assert told(response) == "3 sessions were ended."
    # With three gone, the search would reach the first one.
    assert left() == {found["anna"], admin_client.session.sid}


def test_it_is_looked_for_twice_at_most(admin_client, monkeypatch, found) -> None:
    looked = []
    before = searching.Wanted.__init__
    monkeypatch.setattr(searching.Wanted, "__init__", lambda self, each: (looked.append(each), before(self, each))[1])
    monkeypatch.setattr("django_redsess.online.ending.AT_ONCE_MAX", 1)
    response = admin_client.get(CONFIRM)
    looked.clear()
    admin_client.post(f"{LIST}end/", Page(response).fields)
    assert left() == {admin_client.session.sid}
    assert len(looked) <= 2


def test_a_superusers_session_stays(client, found) -> None:
    User.objects.create_superuser("root", password="secret")
    browser = Client(headers={"user-agent": FIREFOX})
    browser.post("/login/", {"username": "root", "password": "secret"})
    staff(client, "view_onlinesession", "end_onlinesession", "end_all_onlinesession")
    response = client.get(CONFIRM)
    assert asked(response) == 4
    assert "1 more is a superuser's" in Page(response).text
    answer(client, response)
    assert browser.session.sid in left()
    assert not set(found.values()) & left()


def test_counting_superusers_sessions_reads_no_others(client, monkeypatch, found, few_on_a_page) -> None:
    arrive("root")
    User.objects.filter(username="root").update(is_superuser=True)
    staff(client, "view_onlinesession", "end_onlinesession", "end_all_onlinesession")
    monkeypatch.setattr(ending, "ROWS_MAX", 2)
    limits, page_of = [], online.page_of
    monkeypatch.setattr(
        online, "page_of", lambda *args, **kwargs: (limits.append(args[2]), page_of(*args, **kwargs))[1]
    )
    assert asked(client.get(CONFIRM)) == 4
    assert limits
    assert max(limits) == 2
    limits.clear()
    monkeypatch.setattr(ending, "CHECKED_MAX", 0)
    assert asked(client.get(CONFIRM)) == 4
    assert max(limits) == 5


def test_the_own_session_stays_or_ends_as_the_box_says(found) -> None:
    User.objects.create_superuser("root", password="secret")
    browser = Client(headers={"user-agent": FIREFOX})
    browser.post("/login/", {"username": "root", "password": "secret"})
    own = browser.session.sid
    response = browser.get(CONFIRM)
    assert asked(response) == 4
    assert 'name="own"' in response.text
    answer(browser, response)
    assert own in left()
    arrive("anna")
    answer(browser, browser.get(CONFIRM), own="on")
    assert own not in left()


def test_a_rule_of_the_sites_own_is_asked_about_each(admin_client, monkeypatch, found) -> None:
    def rule(self: Any, request: HttpRequest, obj: Any = None) -> bool:
        return obj is None or str(obj) != "ben"

    monkeypatch.setattr(OnlineSessionAdmin, "has_end_permission", rule)
    response = admin_client.get(CONFIRM)
    assert "Each session is checked" in Page(response).text
    answer(admin_client, response)
    assert left() == {found["ben"], admin_client.session.sid}


def test_a_form_that_counted_nothing_asks_again(admin_client, found) -> None:
    fields = {**Page(admin_client.get(CONFIRM)).fields, "progress": ""}
    assert asked(admin_client.post(f"{LIST}end/", fields)) == 4
    assert set(found.values()) < left()
