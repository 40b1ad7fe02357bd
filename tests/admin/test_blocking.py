"""Ending a user's sessions and blocking the user, and the page of who is blocked."""

from __future__ import annotations

import html
import re
from datetime import timedelta
from typing import Any

import lxml.html
import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from django_redsess import online
from tests.helpers.admin_pages import (
    CONFIRM,
    END,
    LIST,
    MARKUP,
    Page,
    answer,
    asked,
    left,
    sent_by,
    staff,
    told,
)
from tests.helpers.online import sign_in

pytestmark = pytest.mark.django_db

BLOCKED, UNBLOCK = LIST + "blocked/", LIST + "unblock/"

MAY = ("view_onlinesession", "end_onlinesession", "block_user")


def offered(response: Any) -> list[str]:
    """The values of the buttons that block."""
    found = re.findall(r'<button type="submit" name="block" value="([^"]*)"', response.text)
    return [html.unescape(value) for value in found]


def lift_form(response: Any) -> dict[str, str]:
    """What the one form that lifts a block would send; nothing where there is none."""
    forms = [form for form in lxml.html.fromstring(response.text).iter("form") if form.get("action") == UNBLOCK]
    buttons = response.text.count(">Lift</button>")
    assert len(forms) == buttons <= 1
    return dict(sent_by(forms[0])) if forms else {}


def question_about(client: Client, user: User) -> Any:
    return client.get(f"{CONFIRM}?user={user.pk}")


def block(user: User, **words: Any) -> None:
    online.block(user, until=timezone.now() + timedelta(hours=1), **words)


def test_the_user_is_blocked_for_the_chosen_time_and_all_sessions_end(
    admin_client, admin_user, users, sids, new_session
) -> None:
    bob = users["bob"]
    more = sign_in(new_session, str(bob.pk))[0]
    response = admin_client.get(f"{CONFIRM}?sid={sids['bob']}")
    assert offered(response) == [f"1 {bob.pk}", f"24 {bob.pk}", f"168 {bob.pk}"]
    response = answer(admin_client, response, block=f"24 {bob.pk}", message="Call us.")
    assert not {sids["bob"], more} & left()
    assert {sids["alice"], sids["carol"]} < left()
    [found] = online.blocked()
    assert (found.user_id, found.message, found.by) == (str(bob.pk), "Call us.", str(admin_user.pk))
    assert abs(found.until - timezone.now() - timedelta(days=1)) < timedelta(minutes=1)
    assert "bob can’t sign in until" in told(response)
    assert "2 sessions of bob were ended." in told(response)
    lines = [(line.user, line.object_id, line.change_message) for line in LogEntry.objects.order_by("pk")]
    assert [line[:2] for line in lines] == [(admin_user, str(bob.pk))] * 2
    assert lines[0][2].startswith("Blocked until ")
    assert lines[1][2] == "Ended 2 sessions. Message: Call us."


def test_who_is_not_signed_in_is_blocked_from_an_empty_search(admin_client, users) -> None:
    page = Page(admin_client.get(LIST, {"q": "bob"}))
    response = admin_client.get(page.links["Block the user"])
    assert asked(response) == 0
    # Nobody who is signed in reads the message.
    assert "on the next page" not in response.text
    of_user = f"/admin/auth/user/{users['bob'].pk}/change/"
    assert offered(admin_client.get(Page(admin_client.get(of_user)).links["Block the user"])) == offered(response)
    answer(admin_client, response, block=offered(response)[0], reason="lost_device", message="Call us.")
    found = online.block_of(users["bob"])
    assert (found.message_code, found.message) == ("lost_device", "This device was reported lost. Call us.")
    assert "Block the user" not in Page(admin_client.get(of_user)).links
    # It says so, wherever one looks for the user.
    for url in (f"{LIST}?q=bob", page.links["Block the user"], of_user):
        assert re.search(r"Blocked until .* Call us\.", Page(admin_client.get(url)).text)


def test_the_page_lists_who_is_blocked_and_lifts(admin_client, admin_user, users) -> None:
    assert "Nobody is blocked." in Page(admin_client.get(BLOCKED)).text
    users["carol"].username = MARKUP
    users["carol"].save()
    block(users["bob"], message=MARKUP, by=admin_user)
    online.block(users["carol"], until=timezone.now() + timedelta(days=1))
    assert Page(admin_client.get(LIST)).links["Blocked users"] == BLOCKED
    response = admin_client.get(BLOCKED)
    [table] = Page(response).tables
    assert [row[0] for row in table[1:]] == ["bob", MARKUP]
    assert table[1][2:4] == [" ".join(MARKUP.split()), str(admin_user)]
    assert table[2][2:4] == ["-", "-"]
    assert MARKUP not in response.text
    for said in ("bob can sign in again.", "bob was not blocked any more."):
        response = admin_client.post(UNBLOCK, {"user": users["bob"].pk}, follow=True)
        assert told(response) == said
    assert [each.user_id for each in online.blocked()] == [str(users["carol"].pk)]
    assert LogEntry.objects.get().change_message == "Lifted the block."


@pytest.mark.parametrize("where", ["search", "question", "user", "blocked"])
def test_a_block_is_lifted_where_it_is_shown_and_one_returns_there(admin_client, users, where) -> None:
    bob = users["bob"]
    block(bob, message="Call us.")
    of_user = f"/admin/auth/user/{bob.pk}/change/"
    url = {"search": f"{LIST}?q=bob", "question": f"{CONFIRM}?user={bob.pk}", "user": of_user, "blocked": BLOCKED}[
        where
    ]
    form = lift_form(admin_client.get(url))
    response = admin_client.post(UNBLOCK, form, follow=True)
    assert told(response) == "bob can sign in again."
    assert response.redirect_chain[-1][0] == url
    assert online.block_of(bob) is None
    assert lift_form(admin_client.get(url)) == {}


def test_who_may_not_lift_a_block_has_no_button(users) -> None:
    root = User.objects.create_superuser("root")
    block(root)
    client = staff(Client(), *MAY, "view_user")
    for url in (f"{LIST}?q=root", f"/admin/auth/user/{root.pk}/change/", BLOCKED):
        response = client.get(url)
        assert "Blocked" in Page(response).text
        assert lift_form(response) == {}, url


def test_the_page_has_pages(admin_client) -> None:
    for number in range(101):
        online.block(User(pk=number + 1000), until=timezone.now() + timedelta(hours=1 + number))
    first = Page(admin_client.get(BLOCKED))
    [table] = first.tables
    assert (len(table), table[1][0]) == (101, "deleted user 1000")
    [table] = Page(admin_client.get(BLOCKED + first.links["Next page"])).tables
    assert [row[0] for row in table[1:]] == ["deleted user 1100"]
    for given in ("0", "-1", "x", "9999", "²"):
        assert admin_client.get(BLOCKED, {"page": given}).status_code == 200


def test_it_takes_a_permission_of_its_own_besides_those_to_see_and_to_end(users, sids) -> None:
    bob = str(users["bob"].pk)
    for number, (permissions, sees) in enumerate(((MAY[:2], False), (MAY[1:], False), ((MAY[0], MAY[2]), True))):
        client = staff(Client(), *permissions, name=f"staff{number}")
        assert client.post(END, {"block": f"1 {bob}"}).status_code == 403
        assert client.get(BLOCKED).status_code == (200 if sees else 403)
    assert not offered(question_about(staff(Client(), *MAY[:2], name="ends"), users["bob"]))
    assert online.blocked() == []
    assert sids["bob"] in left()
    client = staff(Client(), *MAY)
    answer(client, question_about(client, users["bob"]), block=f"1 {bob}")
    assert online.block_of(users["bob"])
    # Nobody else learns that there is a user who is not signed in.
    assert offered(question_about(client, users["bob"]))
    assert not offered(question_about(staff(Client(), *MAY[:2], name="no block"), users["bob"]))
    assert client.post(UNBLOCK, {"user": bob}).status_code == 302
    assert online.block_of(users["bob"]) is None
    client = staff(Client(), *MAY[:2], name="no lift")
    block(users["bob"])
    assert client.post(UNBLOCK, {"user": bob}).status_code == 403
    assert online.block_of(users["bob"])


def test_only_superusers_block_superusers_and_nobody_oneself(admin_client, admin_user, new_session) -> None:
    root = User.objects.create_superuser("root")
    new_session(str(root.pk))
    other = new_session(str(admin_user.pk)).sid
    client = staff(Client(), *MAY, "view_user")
    assert not offered(question_about(client, root))
    assert client.post(END, {"block": f"1 {root.pk}"}).status_code == 403
    assert not offered(admin_client.get(f"{CONFIRM}?sid={other}"))
    assert admin_client.post(END, {"block": f"1 {admin_user.pk}"}).status_code == 403
    assert online.blocked() == []
    answer(admin_client, question_about(admin_client, root), block=f"1 {root.pk}")
    assert online.block_of(root)
    [table] = Page(client.get(BLOCKED)).tables
    assert table[1][-1] == ""
    assert client.post(UNBLOCK, {"user": root.pk}).status_code == 403
    assert online.block_of(root)


def test_what_is_no_button_blocks_nobody(admin_client, users, sids) -> None:
    bob = users["bob"].pk
    for value in (f"2 {bob}", f"{bob}", "1 nobody", "1 0", "1 \0", f"-1 {bob}", "1 " + "9" * 30):
        assert admin_client.post(END, {"sids": sids["bob"], "block": value}).status_code in (200, 403)
    response = question_about(admin_client, users["bob"])
    answer(admin_client, response, block=f"1 {bob}", message="x" * 201)
    assert admin_client.get(UNBLOCK).status_code == 405
    assert online.blocked() == []
    assert len(left()) == 4
