"""The form to sign in with that refuses who has too many sessions, before anything is lost."""

from __future__ import annotations

import pytest
from django.contrib.admin.forms import AdminAuthenticationForm
from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.models import User
from django.forms import Form
from django.test import Client
from django.utils.translation import override

from django_redsess import online
from django_redsess.accounts.forms import SessionLimitAuthenticationForm
from tests.helpers.accounts import PASSWORD, sid_of, sign_in
from tests.helpers.store import make_due, stored

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("partitions")]


class OwnWords(SessionLimitAuthenticationForm):
    error_messages = {**SessionLimitAuthenticationForm.error_messages, "session_limit": "%(maximum)d devices!"}


class AdminForm(SessionLimitAuthenticationForm, AdminAuthenticationForm):
    """As the docstring of the form says."""


@pytest.fixture
def guest(client: Client) -> Client:
    """A visitor who has a basket."""
    client.get("/swap/basket/lamp/")
    return client


def given(password: str = PASSWORD) -> dict[str, str]:
    return {"username": "alice", "password": password}


def errors(form: Form) -> list[str]:
    """Return the code of each error, which concern the form and no field."""
    assert form.is_valid() is (not form.errors)
    assert set(form.errors) <= {"__all__"}
    return [str(error.code) for error in form.errors.as_data().get("__all__", [])]


def test_a_user_who_is_full_reads_so_in_the_form(alice, redis, set_limit) -> None:
    set_limit(2, "refuse")
    sign_in(alice)
    # Neither sessions of others count, nor one that is due.
    for name in ("bob", "carol"):
        sign_in(User.objects.create_user(name))
    make_due(redis, sid_of(sign_in(alice)))
    assert errors(SessionLimitAuthenticationForm(None, given())) == []
    sign_in(alice)
    form = SessionLimitAuthenticationForm(None, given())
    assert errors(form) == ["session_limit"]
    assert "2 devices" in form.non_field_errors()[0]
    assert list(OwnWords(None, given()).non_field_errors()) == ["2 devices!"]
    with override("de"):
        [german] = list(SessionLimitAuthenticationForm(None, given()).non_field_errors())
    assert "Gerät" in german
    set_limit(None)
    assert errors(SessionLimitAuthenticationForm(None, given())) == []


def test_the_guests_basket_stays_and_the_sign_in_works_once_there_is_room(guest, alice, redis, set_limit) -> None:
    set_limit(1, "refuse")
    there = sign_in(alice)
    # A session of somebody else counts for nothing.
    bobs = sign_in(User.objects.create_user("bob"))
    assert "You are already signed in on 1 device," in bobs.post("/sign-in-by-form/", given()).content.decode()
    assert bobs.get("/who/").content == b"bob"
    online.end(sid_of(bobs))
    cookie = guest.cookies["sessionid"].value
    response = guest.post("/sign-in-by-form/", given())
    assert "You are already signed in on 1 device," in response.content.decode()
    assert "sessionid" not in response.cookies
    assert guest.cookies["sessionid"].value == cookie
    assert guest.get("/swap/basket/lamp/").content == b"lamp"
    assert guest.get("/who/").content == b"nobody"
    assert [session.sid for session in online.sessions()] == [sid_of(there)]
    assert stored(redis) == 2
    online.end(sid_of(there))
    assert guest.post("/sign-in-by-form/", given()).content == b"done"
    assert guest.get("/who/").content == b"alice"
    assert guest.get("/swap/basket/lamp/").content == b"lamp"


@pytest.mark.parametrize("policy", ["end_oldest", "end_least_recent"])
def test_where_a_sign_in_ends_others_the_form_refuses_nobody(guest, alice, set_limit, policy) -> None:
    set_limit(1, policy)
    there = sign_in(alice)
    assert guest.post("/sign-in-by-form/", given()).content == b"done"
    assert guest.get("/who/").content == b"alice"
    assert not online.find([sid_of(there)])
    assert online.count() == 1


def test_the_session_that_is_this_users_already_does_not_count_against_itself(guest, alice, set_limit) -> None:
    set_limit(1, "refuse")
    for _ in range(3):
        assert guest.post("/sign-in-by-form/", given()).content == b"done"
    assert online.count() == 1
    set_limit(3, "refuse")
    sign_in(alice)
    sign_in(alice)
    # Nor where there are more than a limit that was lowered: login() does not refuse that either.
    for maximum in (3, 1):
        set_limit(maximum, "refuse")
        assert guest.post("/sign-in-by-form/", given()).content == b"done"
    assert guest.get("/who/").content == b"alice"
    assert online.count() == 3


def test_a_wrong_password_does_not_tell_that_the_account_is_full(guest, alice, set_limit) -> None:
    before = guest.post("/sign-in-by-form/", given("wrong")).content
    set_limit(1, "refuse")
    sign_in(alice)
    assert errors(SessionLimitAuthenticationForm(None, given("wrong"))) == errors(
        AuthenticationForm(None, given("wrong"))
    )
    assert guest.post("/sign-in-by-form/", given("wrong")).content == before != b""


@pytest.mark.parametrize("full", [True, False])
def test_who_is_inactive_reads_what_django_says(alice, set_limit, settings, full) -> None:
    set_limit(1, "refuse")
    if full:
        sign_in(alice)
    # A user of such a backend gets as far as the form. The sessions stay, since this sends no signal.
    settings.AUTHENTICATION_BACKENDS = ["django.contrib.auth.backends.AllowAllUsersModelBackend"]
    User.objects.filter(pk=alice.pk).update(is_active=False)
    assert online.count() == full
    assert errors(SessionLimitAuthenticationForm(None, given())) == ["inactive"]


def test_the_admins_form_refuses_who_is_full_and_tells_others_no_more_than_the_admins_own(alice, set_limit) -> None:
    set_limit(1, "refuse")
    for there in (0, 1):
        if there:
            sign_in(alice)
        for password in (PASSWORD, "wrong"):
            own, combined = AdminAuthenticationForm(None, given(password)), AdminForm(None, given(password))
            assert errors(own) == errors(combined) == ["invalid_login"]
            assert combined.non_field_errors() == own.non_field_errors()
        User.objects.filter(pk=alice.pk).update(is_staff=True)
        assert errors(AdminForm(None, given())) == ["session_limit"] * there
        User.objects.filter(pk=alice.pk).update(is_staff=False)
