"""The question asks about the sessions that the list shows, and those that it asked about are ended."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from django.http import HttpRequest

from benchmarks.fill import fill
from django_redsess import online, querysets
from django_redsess.admin import ending, filters, question
from django_redsess.online import searching
from tests.admin.visits import CHROME, arrive, from_place
from tests.helpers.admin_pages import (
    CONFIRM,
    LIST,
    Page,
    answer,
    asked,
    have_own_rule,
    left,
    milliseconds_ago,
    staff,
    told,
)
from tests.helpers.store import make_seen

pytestmark = [pytest.mark.django_db, pytest.mark.on_cluster]


@pytest.mark.parametrize("way", ["rule", "address"])
@pytest.mark.parametrize("query", ["", "user=BOB", "guests=only", "active=5m&browser=Chrome", "browser=Firefox"])
def test_filters_count_where_sids_are_named(admin_client, users, sids, new_session, list_only, query, way) -> None:
    chrome = from_place(new_session(str(users["bob"].pk)), "192.0.2.1", CHROME).sid
    named = [sids["alice"], sids["bob"], chrome]
    query = query.replace("BOB", str(users["bob"].pk))
    if way == "rule":
        list_only(lambda sessions: sessions.filter(sid__in=named))
    else:
        query = f"sid__in={','.join(named)}&{query}"
    before, shown = left(), set(Page(admin_client.get(f"{LIST}?{query}")).sids)
    response = admin_client.get(f"{CONFIRM}?{query}", follow=True)
    assert asked(response) == len(shown)
    answer(admin_client, response)
    assert before - left() == shown


@pytest.mark.parametrize("query", ["q=192.0.2.0/24", "browser=Chrome"])
def test_who_matches_only_after_the_question_stays(admin_client, users, new_session, query) -> None:
    alice = from_place(new_session(str(users["alice"].pk)), "192.0.2.7", CHROME)
    bob = from_place(new_session(str(users["bob"].pk)), "198.51.100.7", "Lynx")
    response = admin_client.get(f"{CONFIRM}?{query}")
    assert asked(response) == 1
    from_place(alice, "198.51.100.8", "Lynx")
    from_place(bob, "192.0.2.1", CHROME)
    answer(admin_client, response)
    assert left() == {bob.sid, admin_client.session.sid}


def test_guests_are_none_of_the_users(admin_client, users, sids, new_session, list_only) -> None:
    def finds_none(query: str) -> None:
        assert Page(admin_client.get(f"{LIST}?guests=only{query}")).sids == []
        response = admin_client.get(f"{CONFIRM}?guests=only{query}", follow=True)
        assert "no session here" in told(response)

    new_session(colour="blue")
    for query in ("&q=alice", "&user=1", "&staff=true"):
        finds_none(query)
    list_only(lambda sessions: sessions.filter(user_id=str(users["alice"].pk)))
    finds_none("")
    assert len(left()) == 5


LONG = [
    pytest.param(query, marks=pytest.mark.slow)
    for query in ("user=1&o=-4", "user=1&user=2", "user=1&active=1d&browser=Chrome")
]


@pytest.mark.slow
@pytest.mark.parametrize("query", ["user=1&active=1d", *LONG])
def test_a_number_of_the_latest_sign_ins_only_says_so(admin_client, redis, query) -> None:
    assert "At least" not in Page(admin_client.get(f"{LIST}?{query}")).text
    assert json.loads(admin_client.post(f"{LIST}export/?{query}", {"format": "json"}).getvalue())["is_all"]
    assert "More may end" not in Page(admin_client.get(f"{CONFIRM}?{query}")).text
    fill(redis, 5100, viewed=0, users=1)
    page = Page(admin_client.get(f"{LIST}?{query}"))
    assert 4500 < page.count < 5100
    assert f"At least {page.count:,} sessions" in page.text
    response = admin_client.post(f"{LIST}export/?{query}", {"format": "json"})
    exported = json.loads(response.getvalue())
    assert (exported["count"], exported["is_all"]) == (page.count, False)
    assert re.search(r"-(part|of-newest-[0-9]+)\.json", response.headers["Content-Disposition"])
    response = admin_client.get(f"{CONFIRM}?{query}")
    says_more = "More may end: only the latest sign-ins were counted." in Page(response).text
    answer(admin_client, response)
    ended = 5101 - online.count()
    assert says_more if ended > asked(response) else ended == asked(response)


def test_more_users_than_are_searched_are_at_least_so_many_and_those_listed_are_ended(
    admin_client, sids, monkeypatch
) -> None:
    for module in (filters, querysets):
        monkeypatch.setattr(module, "USERS_MAX", 2)
    for query, limited in (("q=alice", False), ("q=a", True)):
        page = Page(admin_client.get(f"{LIST}?{query}"))
        assert ("At least" in page.text) == limited
        question = admin_client.get(f"{CONFIRM}?{query}")
        assert ["More than 2 users match" in message for message in Page(question).messages] == [True] * limited
        exported = json.loads(admin_client.post(f"{LIST}export/?{query}", {"format": "json"}).getvalue())
        assert exported["is_all"] != limited
    shown = set(page.sids) - {admin_client.session.sid}
    assert asked(question) == len(shown)
    answer(admin_client, question)
    assert left() == {*sids.values(), admin_client.session.sid} - shown


@pytest.fixture
def found(list_only, admin_client, monkeypatch) -> dict[str, str]:
    """The sessions of four with Firefox, whom the list has to search for: more than a form names."""
    # There is no index of browsers.
    list_only(lambda sessions: sessions.of_browser("Firefox"))
    monkeypatch.setattr(question, "SIDS_MAX", 0)
    return {name: arrive(name).session.sid for name in ("anna", "ben", "cleo", "dora")}


@pytest.mark.parametrize("query", ["", "?o=-3", "?active=5m", "?guests=true", "?q=n"])
def test_what_was_found_ends_and_nothing_else(partitions, admin_client, found, query) -> None:
    chrome, own = arrive("anna", CHROME).session.sid, admin_client.session.sid
    response = admin_client.get(CONFIRM + query)
    shown = {sid for name, sid in found.items() if "q=n" not in query or "n" in name}
    assert asked(response) == len(shown)
    answer(admin_client, response)
    assert left() == {chrome, own, *found.values()} - shown


def test_who_was_seen_just_in_time_is_ended_after_long_and_late_arrivals_stay(admin_client, redis, found) -> None:
    make_seen(redis, found["anna"], milliseconds_ago(299))
    make_seen(redis, found["ben"], milliseconds_ago(900))
    response = admin_client.get(CONFIRM + "?active=5m")
    assert asked(response) == 3
    # As if two minutes had passed.
    make_seen(redis, found["anna"], milliseconds_ago(299.5))
    late = arrive("late").session.sid
    assert told(answer(admin_client, response)).startswith("3 sessions were ended. Users: ")
    assert left() == {found["ben"], late, admin_client.session.sid}


def test_no_more_end_than_the_question_has_counted(partitions, admin_client, monkeypatch, found) -> None:
    monkeypatch.setattr(searching, "SCAN_LIMIT", 3)
    response = admin_client.get(CONFIRM)
    assert asked(response) == 3
    # The search reaches the first one by now.
    monkeypatch.setattr(searching, "SCAN_LIMIT", 10)
    assert told(answer(admin_client, response)).startswith("3 sessions were ended.")
    assert left() == {found["anna"], admin_client.session.sid}


def test_what_a_request_does_not_get_done_the_next_question_asks_about(
    partitions, admin_client, monkeypatch, found
) -> None:
    monkeypatch.setattr(ending, "END_MAX", 1)
    monkeypatch.setattr("django_redsess.online.ending.AT_ONCE_MAX", 1)
    response = admin_client.get(CONFIRM)
    for number in (4, 3, 2, 1):
        assert asked(response) == number
        response = answer(admin_client, response)
        assert "ended" in told(response)
    assert response.redirect_chain
    assert left() == {admin_client.session.sid}


@pytest.mark.parametrize("checked", [1000, 0])
def test_a_superusers_session_stays(client, monkeypatch, found, checked) -> None:
    # Superusers with more sessions than that are counted in another way.
    monkeypatch.setattr(question, "CHECKED_MAX", checked)
    browser = arrive("root", is_superuser=True)
    staff(client, "view_onlinesession", "end_onlinesession", "end_all_onlinesession")
    response = client.get(CONFIRM)
    assert asked(response) == 4
    assert "1 more is a superuser's" in Page(response).text
    answer(client, response)
    assert browser.session.sid in left()
    assert not set(found.values()) & left()


def test_the_own_session_stays_or_ends_as_the_box_says(found) -> None:
    browser = arrive("root", is_superuser=True)
    own = browser.session.sid
    response = browser.get(CONFIRM)
    assert asked(response) == 4
    assert 'name="own"' in response.text
    # A form that counted nothing asks again.
    assert asked(answer(browser, response, number="")) == 4
    assert {own, *found.values()} < left()
    answer(browser, response)
    assert own in left()
    arrive("anna")
    answer(browser, browser.get(CONFIRM), own="on")
    assert own not in left()


def test_a_rule_of_the_sites_own_is_asked_about_each(admin_client, monkeypatch, found) -> None:
    def rule(self: Any, request: HttpRequest, obj: Any = None) -> bool:
        return obj is None or str(obj) != "ben"

    have_own_rule(monkeypatch, "has_end_permission", rule)
    response = admin_client.get(CONFIRM)
    assert "Each session is checked" in Page(response).text
    answer(admin_client, response)
    assert left() == {found["ben"], admin_client.session.sid}
