"""The question asks about the sessions that the list shows, and those that it asked about are ended."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from django.contrib.auth.models import User

from benchmarks.fill import fill
from django_redsess import online, querysets
from django_redsess.admin import OnlineSessionAdmin, filters
from django_redsess.backend import SessionStore
from django_redsess.session.record import Client as Visitor
from django_redsess.session.saving import Visit
from tests.helpers.admin_pages import CONFIRM, LIST, Page, answer, asked, left

pytestmark = [pytest.mark.django_db, pytest.mark.on_cluster]

CHROME = (
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0.0.0 Safari/537.36"
)


def arrive(session: SessionStore, address: str, user_agent: str = CHROME) -> SessionStore:
    session.visit = Visit(lambda: Visitor(address, user_agent))
    session.save()
    return session


@pytest.fixture
def chrome_of_bob(new_session: Any, users: dict[str, User]) -> str:
    return str(arrive(new_session(str(users["bob"].pk)), "192.0.2.1").sid)


def rule_of(monkeypatch: pytest.MonkeyPatch, **condition: Any) -> None:
    """The site's list has only the sessions that match ``condition``."""
    every = OnlineSessionAdmin.get_queryset
    monkeypatch.setattr(
        OnlineSessionAdmin, "get_queryset", lambda self, request: every(self, request).filter(**condition)
    )


QUERIES = ["", "browser=Chrome", "user=BOB", "who=guests", "active=5m&browser=Chrome", "browser=Firefox", "q=bob"]


@pytest.mark.parametrize("way", ["rule", "address"])
@pytest.mark.parametrize("query", QUERIES)
def test_filters_count_where_the_sids_are_named(
    admin_client, users, sids, chrome_of_bob, monkeypatch, query, way
) -> None:
    named = [sids["alice"], sids["bob"], chrome_of_bob]
    query = query.replace("BOB", str(users["bob"].pk))
    if way == "rule":
        rule_of(monkeypatch, sid__in=named)
    else:
        query = f"sid__in={','.join(named)}&{query}"
    before, shown = left(), set(Page(admin_client.get(f"{LIST}?{query}")).sids)
    response = admin_client.get(f"{CONFIRM}?{query}", follow=True)
    assert asked(response) == len(shown)
    answer(admin_client, response)
    assert before - left() == shown


@pytest.mark.parametrize("query", ["q=192.0.2.0/24", "q=192.0.2.0/24&active=5m", "browser=Chrome"])
def test_who_matches_only_after_the_question_stays(admin_client, users, new_session, settings, query) -> None:
    settings.REDSESS = {**settings.REDSESS, "INDEX_ADDRESSES": True}
    alice = arrive(new_session(str(users["alice"].pk)), "192.0.2.7")
    bob = arrive(new_session(str(users["bob"].pk)), "198.51.100.7", "Lynx")
    response = admin_client.get(f"{CONFIRM}?{query}")
    assert asked(response) == 1
    arrive(alice, "198.51.100.8", "Lynx")
    arrive(bob, "192.0.2.1")
    answer(admin_client, response)
    assert left() == {bob.sid, admin_client.session.sid}


@pytest.mark.parametrize("query", ["q=alice", "user=1", "staff=1"])
def test_guests_are_none_of_the_users(admin_client, sids, new_session, query) -> None:
    new_session(colour="blue")
    assert Page(admin_client.get(f"{LIST}?who=guests&{query}")).sids == []
    response = admin_client.get(f"{CONFIRM}?who=guests&{query}", follow=True)
    assert "There is no session here that you can end." in Page(response).text
    assert len(left()) == 5


def test_a_list_of_some_users_has_no_guests(admin_client, users, sids, new_session, monkeypatch) -> None:
    new_session(colour="blue")
    rule_of(monkeypatch, user_id=str(users["alice"].pk))
    response = admin_client.get(f"{CONFIRM}?who=guests", follow=True)
    assert "There is no session here that you can end." in Page(response).text


def test_a_search_that_is_refused_asks_about_nothing(admin_client, sids) -> None:
    response = admin_client.get(f"{CONFIRM}?q=a%00", follow=True)
    assert asked(response) == 0
    assert "There is no session here that you can end." in Page(response).text
    assert "Null characters are not allowed." in Page(response).text
    assert len(left()) == 4


# Numbers that may be too low.


@pytest.mark.parametrize(
    "query", ["user=1&o=-4", "user=1&user=2", "user=1&active=1d", "user=1&active=1d&browser=Chrome"]
)
def test_a_number_of_the_latest_sign_ins_only_says_so(admin_client, redis, query) -> None:
    fill(redis, 5100, viewed=0, users=1)
    page = Page(admin_client.get(f"{LIST}?{query}"))
    assert 4500 < page.count < 5100
    assert f"At least {page.count:,} online sessions" in page.text
    response = admin_client.post(f"{LIST}export/?{query}", {"format": "json"})
    exported = json.loads(response.getvalue())
    assert (exported["count"], exported["is_all"]) == (page.count, False)
    assert re.search(r"-(part|of-newest-[0-9]+)\.json", response.headers["Content-Disposition"])
    response = admin_client.get(f"{CONFIRM}?{query}")
    says_more = "More may end: only the latest sign-ins were counted." in Page(response).text
    answer(admin_client, response)
    ended = 5101 - online.count()
    assert says_more if ended > asked(response) else ended == asked(response)


@pytest.mark.parametrize("query", ["user=1", "user=1&user=2", "user=1&active=1d"])
def test_a_number_that_is_exact_is_shown_as_exact(admin_client, redis, query) -> None:
    fill(redis, 100, viewed=0, users=1)
    assert "At least" not in Page(admin_client.get(f"{LIST}?{query}")).text
    response = admin_client.post(f"{LIST}export/?{query}", {"format": "json"})
    assert json.loads(response.getvalue())["is_all"]
    assert re.search(r"sessions-[0-9-]+\.json", response.headers["Content-Disposition"])
    assert "More may end" not in Page(admin_client.get(f"{CONFIRM}?{query}")).text


def test_more_users_than_are_searched_are_at_least_so_many(admin_client, sids, monkeypatch) -> None:
    for module in (filters, querysets):
        monkeypatch.setattr(module, "USERS_MAX", 2)
    for query, limited in (("q=a", True), ("q=alice", False)):
        assert ("At least" in Page(admin_client.get(f"{LIST}?{query}")).text) == limited
        exported = json.loads(admin_client.post(f"{LIST}export/?{query}", {"format": "json"}).getvalue())
        assert exported["is_all"] != limited
