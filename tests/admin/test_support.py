"""
What a support team can do about users who are not signed in, and which internal notes are read by whom.

Three people ask: a superuser, a member of the support group, and a member of staff who may see sessions only.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from django_redsess import online
from django_redsess.signals import sessions_ended
from tests.helpers.admin_pages import CONFIRM, LIST, MARKUP, Page, answer, asked, staff, support_member, told, words
from tests.helpers.online import sign_in

pytestmark = pytest.mark.django_db

BLOCKED = LIST + "blocked/"
NOTE = "Case 4711: <b>called back</b> & verified"


@pytest.fixture
def support() -> Client:
    return support_member(Client())


@pytest.fixture
def viewer() -> Client:
    return staff(Client(), "view_onlinesession", "view_signin", name="vera")


def block(user: User, **said: Any) -> None:
    online.block(user, until=timezone.now() + timedelta(hours=1), **said)


def page(client: Client, url: str, **query: Any) -> Page:
    return Page(client.get(url, query))


def test_the_support_finds_and_blocks_and_lifts_whoever_is_not_signed_in(support, users) -> None:
    found = page(support, LIST, q="BOB")
    assert "bob is not signed in." in found.text
    # Who may not see users has no link to the account, and does not learn whether it is active.
    assert {"Open the account", "Deactivate the account"}.isdisjoint(found.links)
    question = support.get(found.links["Block the user"])
    assert (asked(question), question.context["title"]) == (0, "Block the user")
    # It returns to the search, which says so.
    response = answer(support, question, block=f"24 {users['bob'].pk}", message="Call us.", note=NOTE)
    assert "bob can’t sign in until" in told(response)
    found = Page(response)
    assert response.request["QUERY_STRING"] == "q=BOB"
    assert "bob is not signed in. Blocked until" in found.text
    assert f"Call us. Internal note: {NOTE}" in found.text.replace("us.Internal", "us. Internal")
    assert "Block the user" not in found.links
    fields = {"user": users["bob"].pk, "_changelist_filters": "q=BOB"}
    response = support.post(LIST + "unblock/", fields, follow=True)
    assert told(response) == "bob can sign in again."
    assert page(support, LIST, q="BOB").links["Block the user"]


def test_nobody_else_learns_who_is_not_signed_in(viewer, users) -> None:
    block(users["bob"], message="Call us.")
    for query in ({"q": "bob"}, {"user": users["bob"].pk}):
        found = page(viewer, LIST, **query)
        assert "is not signed in" not in found.text
        assert "Blocked" not in found.text
    assert "found by administrators who may view or block users" in page(viewer, LIST, q="bob").text


def test_superusers_are_found_and_not_blocked_by_the_support(support, admin_client) -> None:
    root = User.objects.create_superuser("root")
    found = page(support, LIST, q="root")
    assert "root is not signed in." in found.text
    assert "Block the user" not in found.links
    assert support.post(LIST + "end/", {"block": f"1 {root.pk}"}).status_code == 403
    assert page(admin_client, LIST, q="root").links["Block the user"]


def test_who_has_no_buttons_for_a_superuser_reads_why(support, viewer, admin_client, users) -> None:
    why, root = "Only superusers can end the sessions of superusers", User.objects.create_superuser("root")
    sign_in(str(users["bob"].pk))
    for _ in range(2):
        # First as a user who is not signed in.
        assert why in page(support, LIST, q="root").text
        for client, term in ((support, "bob"), (admin_client, "root"), (viewer, "root")):
            assert why not in page(client, LIST, q=term).text
        sign_in(str(root.pk))


def test_the_first_three_are_shown_and_whoever_has_the_very_name_beside_others_who_are_signed_in(
    support, users, new_session
) -> None:
    for name in ("lea", "lea1", "lea2", "lea3"):
        User.objects.create_user(name)
    found = page(support, LIST, q="lea")
    assert found.text.count("is not signed in.") == 3
    assert "More users match who are not signed in." in found.text
    sign_in(new_session, str(User.objects.get(username="lea2").pk))
    found = page(support, LIST, q="Lea")
    assert found.names == ["lea2"]
    assert found.text.count("is not signed in.") == 1
    assert "lea is not signed in." in found.text
    assert "is not signed in." not in page(support, LIST, q="lea2").text


@pytest.mark.parametrize("name", ["bob", MARKUP])
def test_a_filter_by_users_names_them_as_the_list_does(admin_client, support, viewer, users, sids, name) -> None:
    bob, alice = users["bob"], users["alice"]
    User.objects.filter(pk=bob.pk).update(username=name)
    shown = words(name)
    for client in (admin_client, support, viewer):
        assert f"Filters: {shown}." in page(client, LIST, user=bob.pk).text
    both = [bob.pk, alice.pk]
    for client in (admin_client, support):
        assert f"Filters: {shown}, alice." in page(client, LIST, user=both).text
        assert f"Filters: {shown}, alice" in page(client, CONFIRM, user=both).text
    online.end(*sids.values())
    # Of who has no session, those are named whom the administrator may see or block.
    for client, named in ((admin_client, shown), (support, shown), (viewer, f"user {bob.pk}")):
        assert f"Filters: {named}." in page(client, LIST, user=bob.pk).text
    assert "Filters: user 900." in page(support, LIST, user="900").text


def test_the_note_of_a_block_is_read_by_those_who_may_write_it(support, admin_client, users) -> None:
    block(users["bob"], message="Call us.", internal_note=NOTE)
    blocks_only = staff(Client(), "view_onlinesession", "block_user", name="lifts only")
    of_bob = f"/admin/auth/user/{users['bob'].pk}/change/"
    for client, reads in ((admin_client, True), (support, True), (blocks_only, False)):
        for url in (BLOCKED, f"{LIST}?q=bob"):
            text = Page(client.get(url)).text
            assert "Call us." in text
            assert (NOTE in text) == reads, url
    assert NOTE in Page(admin_client.get(of_bob)).text
    assert NOTE in Page(admin_client.get(f"{CONFIRM}?user={users['bob'].pk}")).text


def test_no_user_is_told_of_a_note(client, users) -> None:
    users["bob"].set_password("Kein-Wort-3")
    users["bob"].save()
    block(users["bob"], message="Call us.", internal_note=NOTE)
    response = client.post("/login/", {"username": "bob", "password": "Kein-Wort-3"})
    assert "Call us." in response.text
    assert "4711" not in response.text


def test_receivers_get_the_note_of_those_that_were_kicked(support, users, sids) -> None:
    ended = list[Any]()

    def receive(sender: Any, sessions: Any, **named: Any) -> None:
        ended.extend(sessions)

    sessions_ended.connect(receive)
    answer(support, support.get(f"{CONFIRM}?sid={sids['bob']}"), note=NOTE, message="Call us.")
    online.end(sids["alice"])
    assert [(each.user_id, each.internal_note) for each in ended] == [
        (str(users["bob"].pk), NOTE),
        (str(users["alice"].pk), ""),
    ]
