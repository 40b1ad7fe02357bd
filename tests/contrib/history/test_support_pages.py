"""The pages of sign-ins for a support team: blocks, internal notes, and names in place of primary keys."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from django_redsess import online
from django_redsess.contrib.history.models import BlockCopy, SignIn
from django_redsess.signals import Reason
from tests.contrib.history.rows import LIST, ended, row, rows_of
from tests.helpers.admin_pages import CONFIRM, Page, answer, page_of, staff, support_member, told
from tests.helpers.admin_pages import LIST as ONLINE

pytestmark = pytest.mark.django_db

NOTE = "Case 4711: called back"


@pytest.fixture
def bob() -> User:
    return User.objects.create_user("bob")


@pytest.fixture
def support() -> Client:
    return support_member(Client())


@pytest.fixture
def viewer() -> Client:
    return staff(Client(), "view_onlinesession", "view_signin", name="vera")


def of(sign_in: SignIn) -> str:
    return f"{LIST}{sign_in.pk}/change/"


def block(user: User, **said: Any) -> None:
    online.block(user, until=timezone.now() + timedelta(hours=1), **said)


@pytest.mark.parametrize("where", ["search", "filter", "page"])
def test_a_user_is_blocked_and_let_in_where_the_sign_ins_are(support, bob, where) -> None:
    url = {"search": f"{LIST}?q=bo", "filter": f"{LIST}?user={bob.pk}", "page": of(ended(bob))}[where]
    question = support.get(Page(support.get(url)).links["Block the user"])
    assert Page(question).links["Back to the list"] == url
    response = answer(support, question, block=f"1 {bob.pk}", message="Call us.", note=NOTE)
    assert response.redirect_chain[-1][0] == url
    assert "bob can’t sign in until" in told(response)
    page = Page(response)
    assert "Blocked until" in page.text
    assert NOTE in page.text
    assert "Block the user" not in page.links
    form = next(each for each in response.text.split("<form") if "/unblock/" in each)
    fields = {"user": bob.pk, "_return_to": form.partition('name="_return_to" value="')[2].partition('"')[0]}
    filters = form.partition('name="_changelist_filters" value="')[2].partition('"')[0]
    response = support.post(ONLINE + "unblock/", {**fields, "_changelist_filters": filters}, follow=True)
    assert response.redirect_chain[-1][0] == url
    assert online.block_of(bob) is None
    assert "Block the user" in Page(response).links


def test_who_may_not_block_sees_no_block_there(viewer, bob) -> None:
    block(bob, message="Call us.", internal_note=NOTE)
    for url in (f"{LIST}?q=bob", f"{LIST}?user={bob.pk}", of(ended(bob))):
        page = Page(viewer.get(url))
        assert "Block" not in page.text, url
        assert "Call us." not in page.text


def test_a_superuser_is_not_blocked_from_there_by_the_support(support, admin_client, admin_user) -> None:
    sign_in = ended(User.objects.create_superuser("root"))
    block(sign_in.user)
    for url in (f"{LIST}?q=root", of(sign_in)):
        page = Page(support.get(url))
        assert "Blocked until" in page.text
        assert "Block the user" not in page.links
        assert "Lift" not in page.text
        assert "Lift" in Page(admin_client.get(url)).text
    # Nor does anybody block oneself.
    assert "Block the user" not in Page(admin_client.get(f"{LIST}?user={admin_user.pk}")).links


def test_the_list_leads_to_all_who_are_blocked(support, viewer) -> None:
    assert Page(support.get(LIST)).links["Blocked users"] == ONLINE + "blocked/"
    assert "Blocked users" not in Page(viewer.get(LIST)).links


def test_many_users_are_not_shown_one_by_one(support) -> None:
    for number in range(4):
        User.objects.create_user(f"lea{number}")
    assert "Block the user" not in Page(support.get(LIST, {"q": "lea"})).links
    assert "Block the user" in Page(support.get(LIST, {"q": "lea3"})).links


def test_a_filter_by_user_names_who_is_listed_or_may_be_blocked(admin_client, support, viewer, bob) -> None:
    for client, named in ((admin_client, "bob"), (support, "bob"), (viewer, f"user {bob.pk}")):
        assert f"Filters: {named}." in Page(client.get(LIST, {"user": bob.pk})).text
    row(bob)
    for client in (admin_client, support, viewer):
        assert "Filters: bob." in Page(client.get(LIST, {"user": bob.pk})).text


def test_a_note_is_read_where_the_sign_in_is_by_those_who_may_write_it(
    admin_client, support, viewer, bob, new_session
) -> None:
    sam = User.objects.get(username="sam")
    told_off = ended(bob, Reason.KICKED, ended_by=str(sam.pk), stored_message="Call us.", internal_note=NOTE)
    session = page_of(new_session(str(bob.pk)).sid)
    own_user = f"/admin/auth/user/{bob.pk}/change/"
    for client, reads in ((admin_client, True), (support, True), (viewer, False)):
        for url in (f"{LIST}?user={bob.pk}", of(told_off), session):
            text = Page(client.get(url)).text
            assert "Call us." in text
            assert (NOTE in text) == reads, url
    assert NOTE in Page(admin_client.get(own_user)).text
    client = staff(Client(), "view_onlinesession", "end_onlinesession", "view_signin", name="ends only")
    assert f"Internal note: {NOTE}" in rows_of(client.get(LIST))[0]["ended"].replace("”Int", "” Int")
    # A site's own rule that keeps somebody from ending the user's sessions keeps the note, too.
    root = User.objects.create_superuser("root")
    of_root = ended(root, Reason.KICKED, ended_by=str(root.pk), stored_message="Call us.", internal_note=NOTE)
    assert NOTE not in Page(support.get(of(of_root))).text
    assert NOTE in Page(admin_client.get(of(of_root))).text


def test_nobody_reads_what_others_have_noted_about_them(support, admin_user) -> None:
    sam = User.objects.get(username="sam")
    about = ended(sam, Reason.KICKED, ended_by=str(admin_user.pk), internal_note=NOTE)
    own = ended(sam, Reason.KICKED, ended_by=str(sam.pk), internal_note="Only a try", ago=timedelta(days=1))
    assert NOTE not in Page(support.get(of(about))).text
    assert "Only a try" in Page(support.get(of(own))).text


@pytest.mark.usefixtures("history")
def test_what_the_support_notes_is_stored_with_the_sign_in_and_the_block(support, bob, new_session) -> None:
    new_session(str(bob.pk))
    row(bob)
    question = support.get(f"{CONFIRM}?user={bob.pk}")
    answer(support, question, block=f"1 {bob.pk}", message="Call us.", note=NOTE)
    [ended_one] = SignIn.objects.filter(user=bob, reason=Reason.KICKED)
    assert (ended_one.stored_message, ended_one.internal_note) == ("Call us.", NOTE)
    assert BlockCopy.objects.get(user=bob).internal_note == NOTE


def test_the_user_reads_no_note_on_the_own_page(client, bob) -> None:
    ended(bob, Reason.KICKED, ended_by="900", stored_message="Call us.", internal_note=NOTE)
    client.force_login(bob)
    text = client.get("/account/sessions/").text
    assert "Signed out by an administrator" in text
    assert NOTE not in text


def test_an_export_has_the_notes_of_those_who_may_write_them(admin_client, bob) -> None:
    ended(bob, Reason.KICKED, ended_by="1", internal_note=NOTE)
    exporter = staff(Client(), "view_signin", "export_signin", "view_onlinesession", name="eve")
    for client, reads in ((admin_client, True), (exporter, False)):
        for file_format in ("csv", "json"):
            content = b"".join(client.post(LIST + "export/", {"format": file_format}).streaming_content).decode()
            assert "internal_note" in content
            assert (NOTE in content) == reads
