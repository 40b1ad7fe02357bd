"""What remains of a sign-in and of an end in the site's database."""

from datetime import UTC, datetime, timedelta

import pytest
from django.contrib.auth.models import User
from django.db import transaction
from django.test import AsyncClient, Client

from django_redsess import cleaning, online
from django_redsess.backend import SessionStore
from django_redsess.contrib.history.models import SIGNED_IN_AGAIN, SignIn
from django_redsess.signals import BegunSession, EndedSession, Reason, sessions_began, sessions_ended
from tests.helpers.admin_pages import END
from tests.helpers.sign_ins import request_of, sign_in
from tests.helpers.store import make_due
from tests.helpers.visitors import Browser

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("history")]

FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0"


@pytest.fixture
def alice() -> User:
    return User.objects.create_user("alice", password="secret")


def said(row: SignIn) -> tuple[str, str, str, bool]:
    return row.reason, row.ended_by, row.stored_message, row.ended_at_is_approximate


@pytest.mark.parametrize("kind", [Client, AsyncClient], ids=["wsgi", "asgi"])
def test_a_sign_in_leaves_a_row_and_its_end_closes_it(alice, kind) -> None:
    browser = Browser(kind())
    form = {"username": "alice", "password": "secret"}
    assert browser.post("/login/", form, headers={"user-agent": FIREFOX}).status_code == 302
    [session] = online.of_user(alice)
    row = SignIn.objects.get()
    assert (row.user, row.created_at, row.last_seen_at) == (alice, session.created_at, session.created_at)
    assert (row.client, row.user_agent) == ("Firefox on Linux", FIREFOX)
    assert row.ended_at is None
    assert browser.post("/logout/").status_code == 302
    row.refresh_from_db()
    assert said(row) == ("logout", "", "", False)
    assert row.created_at <= row.last_seen_at <= row.ended_at


def test_the_address_has_its_place_in_the_order_of_addresses(alice) -> None:
    Client().post("/login/", {"username": "alice", "password": "secret"}, REMOTE_ADDR="198.51.100.7")
    row = SignIn.objects.get()
    assert (row.address, row.address_score) == ("198.51.100.7", (198 << 24) + (51 << 16) + (100 << 8) + 7)


def test_who_ends_a_session_and_the_message_remain(alice, admin_client) -> None:
    sid = sign_in(str(alice.pk)).sid
    admin_client.post(END, {"sids": sid, "message": "Gone."}, follow=True)
    boss = User.objects.get(username="admin")
    assert said(SignIn.objects.get(user=alice)) == ("kicked", str(boss.pk), "Gone.", False)


@pytest.mark.usefixtures("partitions")
def test_what_the_cleaner_ends_is_closed(redis, new_session) -> None:
    sids = [new_session(str(number)).sid for number in range(1, 301)]
    make_due(redis, *sids[1:])
    assert sum(cleaning.expire_sessions()) == 299
    assert SignIn.objects.filter(reason="expired", ended_at__isnull=False).count() == 299
    assert SignIn.objects.get(ended_at=None).user_id == 1


def test_a_guest_and_who_is_no_user_leave_no_row(new_session) -> None:
    for user_id in ("", "no number", "1\0", "9" * 30):
        online.end(new_session(user_id, colour="blue").sid)
    assert SignIn.objects.count() == 0


def test_beginning_and_end_may_come_in_any_order(alice) -> None:
    at = datetime.now(UTC)
    begun = BegunSession("0" * 20, str(alice.pk), at, None, "2001:db8::7", FIREFOX)
    ended = EndedSession("0" * 20, str(alice.pk), Reason.EVICTED, at + timedelta(hours=1), at, at)
    sessions_ended.send(EndedSession, sessions=[ended, ended], request=None)
    sessions_began.send(BegunSession, sessions=[begun], request=None)
    row = SignIn.objects.get()
    assert (row.reason, row.address, row.client) == ("evicted", "2001:db8::7", "Firefox on Linux")
    assert row.ended_at - row.last_seen_at == timedelta(hours=1)


def test_who_signs_in_again_in_a_session_has_two_rows_and_one_is_closed(alice) -> None:
    session = sign_in(str(alice.pk))
    sign_in(str(alice.pk), SessionStore(session.session_key))
    later, earlier = SignIn.objects.order_by("-login_ms")
    assert (later.ended_at, earlier.ended_at, earlier.reason) == (None, later.created_at, SIGNED_IN_AGAIN)


def test_rows_are_written_when_the_transaction_is_committed(alice) -> None:
    with transaction.atomic():
        session = sign_in(str(alice.pk))
        assert SignIn.objects.count() == 0
    assert SignIn.objects.count() == 1
    with transaction.atomic():
        online.end(session.sid)
        transaction.set_rollback(True)
    assert SignIn.objects.get().ended_at is None


@pytest.mark.parametrize("way", ["user", "queryset", "admin"])
def test_the_rows_of_a_deleted_user_go_and_do_not_come_back(alice, admin_client, way: str) -> None:
    sign_in(str(alice.pk))
    sign_in(str(alice.pk))
    if way == "admin":
        page = f"/admin/auth/user/{alice.pk}/delete/"
        assert admin_client.post(page, {"post": "yes"}).status_code == 302
    else:
        (alice if way == "user" else User.objects.filter(username="alice")).delete()
    # Without a join, which would leave out the rows of a user who is not there.
    boss = User.objects.get(username="admin")
    assert not SignIn.objects.exclude(user_id=boss.pk).exists()


def test_another_key_is_no_sign_in(alice) -> None:
    session = sign_in(str(alice.pk))
    request = request_of(SessionStore(session.session_key))
    request.session.cycle_key()
    request.session.save()
    assert SignIn.objects.get().ended_at is None
