"""The list of sign-ins ends the sessions that it lists."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from django_redsess import online
from django_redsess.contrib.history import admin as pages
from django_redsess.contrib.history.models import SignIn
from django_redsess.contrib.history.receivers import row_of_beginning
from tests.admin.visits import from_place
from tests.contrib.history.rows import LIST, row
from tests.helpers.admin_pages import Page, answer, asked, left, staff, told

pytestmark = pytest.mark.django_db

FROM_THERE = {"q": "198.51.100.0/24", "state": "living"}
END = f"{LIST}end/"


@pytest.fixture
def users() -> dict[str, User]:
    return {name: User.objects.create_user(name) for name in ("alice", "bob", "carol")}


@pytest.fixture
def live(users: dict[str, User], new_session: Any) -> dict[str, str]:
    """The sids of a session of each user, with their rows: alice and bob are in one network, carol is not."""
    sids = {}
    for name, address in (("alice", "198.51.100.7"), ("bob", "198.51.100.9"), ("carol", "192.0.2.7")):
        session = from_place(new_session(str(users[name].pk)), address)
        row_of_beginning(users[name].pk, online.get(session.sid).created_at, address, "").save()
        sids[name] = session.sid
    return sids


def end_link(client: Client, **query: str) -> str:
    """The link that ends what the list shows, or ``""``."""
    return next((url for _, url in Page(client.get(LIST, query)).all_links if url.startswith(END)), "")


def test_sessions_from_a_network_are_ended_and_others_stay(admin_client, users, live) -> None:
    # Its end was missed.
    row(users["alice"], ago=timedelta(days=1), address="198.51.100.7")
    question = admin_client.get(end_link(admin_client, **FROM_THERE))
    assert asked(question) == 2
    response = answer(admin_client, question, message="Please call us.")
    assert {live["alice"], live["bob"]} & left() == set()
    assert live["carol"] in left()
    # Back at the list, with its search and filter.
    [(url, _)] = response.redirect_chain
    assert url == f"{LIST}?q=198.51.100.0%2F24&state=living"
    assert "2 sessions were ended." in told(response)


def test_only_a_part_of_those_who_are_signed_in_is_ended(admin_client, live) -> None:
    assert end_link(admin_client, **FROM_THERE)
    before = left()
    for query in ({}, {"state": "living"}, {"q": "198.51.100.0/24"}, {**FROM_THERE, "state": "ended"}):
        assert end_link(admin_client, **query) == "", query
        response = admin_client.get(END, query, follow=True)
        assert (asked(response), left()) == (0, before), query
        assert "There is no session here that you can end." in told(response)
    assert end_link(admin_client, state="living", q="203.0.113.0/24") == ""
    assert end_link(admin_client, state="living", browser="Firefox") == ""


def test_it_takes_the_permission_to_end_sessions(live) -> None:
    seeing = "view_signin", "view_onlinesession"
    for number, permissions in enumerate([seeing, ("view_signin", "end_onlinesession"), ("end_onlinesession",)]):
        client = staff(Client(), *permissions, name=f"staff {number}")
        if "view_signin" in permissions:
            assert end_link(client, **FROM_THERE) == ""
        assert client.get(END, FROM_THERE).status_code == 403
    client = staff(Client(), *seeing, "end_onlinesession")
    assert asked(client.get(end_link(client, **FROM_THERE))) == 2


def test_a_superuser_stays_when_another_member_of_staff_ends(users, live) -> None:
    User.objects.filter(pk=users["bob"].pk).update(is_superuser=True)
    client = staff(Client(), "view_signin", "view_onlinesession", "end_onlinesession")
    question = client.get(end_link(client, **FROM_THERE))
    assert asked(question) == 1
    answer(client, question)
    assert (live["alice"] in left(), live["bob"] in left()) == (False, True)


def test_of_more_than_can_be_asked_about_the_newest_end_first(admin_client, users, live, monkeypatch) -> None:
    monkeypatch.setattr(pages, "SIDS_MAX", 1)
    monkeypatch.setattr(pages, "READ_AT_ONCE", 1)
    for hours in range(1, 4):
        # Their ends were missed.
        row(users["alice"], address="198.51.100.8", ago=timedelta(hours=-hours))
    page = Page(admin_client.get(LIST, FROM_THERE))
    assert "The newest of those that are listed. It asks first." in page.text
    for ended in ({"bob"}, {"bob", "alice"}):
        answer(admin_client, admin_client.get(end_link(admin_client, **FROM_THERE)))
        assert {name for name, sid in live.items() if sid not in left()} == ended
        SignIn.objects.filter(user=users["bob"]).delete()


def test_without_a_session_there_is_no_question(admin_client, users) -> None:
    row(users["alice"], address="198.51.100.7")
    response = admin_client.get(end_link(admin_client, **FROM_THERE), follow=True)
    assert "There is no session here that you can end." in told(response)
    assert response.redirect_chain[0][0].startswith(LIST)
