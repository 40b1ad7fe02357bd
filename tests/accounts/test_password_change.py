"""What becomes of sessions when their user gets another password: who changes the own one stays signed in there."""

from __future__ import annotations

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.hashers import PBKDF2PasswordHasher, make_password
from django.contrib.auth.models import User
from django.contrib.auth.tokens import default_token_generator
from django.db import connection
from django.test import AsyncClient, Client
from django.utils.encoding import force_bytes
from django.utils.http import urlsafe_base64_encode

from django_redsess import online
from django_redsess.accounts import logout_everywhere
from django_redsess.backend import SessionStore
from django_redsess.exceptions import SessionLimitReached
from django_redsess.signals import Reason
from tests.helpers.accounts import NEW_PASSWORDS, PASSWORD, PASSWORD_CHANGED, count, name_in, sid_of, sign_in, told_to
from tests.helpers.site.accounts import NEW_PASSWORD, WAYS

# What happens at a commit happens in none of the transactions that tests are run in otherwise.
pytestmark = pytest.mark.django_db(transaction=True)

FORM = {"old_password": PASSWORD, "new_password1": NEW_PASSWORD, "new_password2": NEW_PASSWORD}


@pytest.mark.parametrize("way", NEW_PASSWORDS, ids=lambda way: way.__name__)
def test_a_new_password_ends_the_sessions_of_its_user_at_once(alice, bob, admin, partitions, told, way) -> None:
    browsers, other = [sign_in(alice), sign_in(alice)], sign_in(bob)
    way(alice, admin)
    assert User.objects.get(pk=alice.pk).check_password(NEW_PASSWORD)
    assert (count(alice), count(bob)) == (0, 1)
    assert [(each.user_id, each.reason) for each in told] == [(str(alice.pk), Reason.INVALIDATED)] * 2
    assert [told_to(each) for each in browsers] == [("invalidated", PASSWORD_CHANGED)] * 2
    assert (name_in(other), name_in(admin)) == ("bob", "admin")


@pytest.mark.parametrize("freed_by", ["the next request", "logout_everywhere"])
def test_a_password_changed_in_bulk_frees_no_place_until_sessions_end(alice, partitions, set_limit, freed_by) -> None:
    set_limit(1, "refuse")
    browser = sign_in(alice)
    User.objects.filter(pk=alice.pk).update(password=make_password(NEW_PASSWORD))
    alice.refresh_from_db()
    with pytest.raises(SessionLimitReached):
        sign_in(alice)
    if freed_by == "logout_everywhere":
        assert logout_everywhere(alice) == 1
    assert name_in(browser) == "nobody"
    assert name_in(sign_in(alice)) == "alice"


@pytest.mark.parametrize("atomic", [False, True], ids=["", "ATOMIC_REQUESTS"])
@pytest.mark.parametrize("page", ["/password-change/", "/admin/password_change/", "/admin/auth/user/%d/password/"])
def test_who_changes_the_own_password_stays_signed_in_there_only(monkeypatch, partitions, page, atomic) -> None:
    monkeypatch.setitem(connection.settings_dict, "ATOMIC_REQUESTS", atomic)
    boss = User.objects.create_superuser("boss", password=PASSWORD)
    browser, elsewhere = sign_in(boss), sign_in(boss)
    form = {**FORM, "password1": NEW_PASSWORD, "password2": NEW_PASSWORD, "usable_password": "true"}
    assert browser.post(page % boss.pk if "%" in page else page, form).status_code == 302
    assert name_in(browser) == "boss"
    assert count(boss) == 1
    assert told_to(elsewhere) == ("invalidated", PASSWORD_CHANGED)


def test_with_djangos_middleware_who_changes_the_own_password_stays_signed_in_too(alice, site) -> None:
    ours, djangos = "django_redsess.middleware", "django.contrib.sessions.middleware"
    site.MIDDLEWARE = [name.replace(f"{ours}.Session", f"{djangos}.Session") for name in site.MIDDLEWARE]
    browser = sign_in(alice)
    assert browser.post("/password-change/", FORM).status_code == 302
    assert name_in(browser) == "alice"


@pytest.mark.parametrize("is_signed_in", [False, True], ids=["guest", "signed in"])
@pytest.mark.parametrize(("page", "name"), [("reset", "nobody"), ("reset-and-sign-in", "alice")])
def test_a_password_reset_ends_all_sessions_but_the_new_one(alice, partitions, page, name, is_signed_in) -> None:
    elsewhere, browser = [sign_in(alice), sign_in(alice)], sign_in(alice) if is_signed_in else Client()
    user_id, token = urlsafe_base64_encode(force_bytes(alice.pk)), default_token_generator.make_token(alice)
    form_page = browser.get(f"/{page}/{user_id}/{token}/")["Location"]
    assert browser.post(form_page, FORM).status_code == 302
    assert User.objects.get(pk=alice.pk).check_password(NEW_PASSWORD)
    assert name_in(browser) == name
    assert count(alice) == (name == "alice")
    assert [told_to(each) for each in elsewhere] == [("invalidated", PASSWORD_CHANGED)] * 2


@pytest.mark.parametrize("atomic", [False, True], ids=["", "ATOMIC_REQUESTS"])
@pytest.mark.parametrize("way", WAYS)
def test_the_own_session_stays_whatever_key_it_gets(alice, bob, monkeypatch, partitions, told, way, atomic) -> None:
    monkeypatch.setitem(connection.settings_dict, "ATOMIC_REQUESTS", atomic)
    browser, elsewhere, other = sign_in(alice), sign_in(alice), sign_in(bob)
    sid = sid_of(elsewhere)
    response = browser.get(f"/password/{way}/")
    assert (response.status_code, response.content) == (200, b"done")
    assert count(alice) == 1
    assert [each.sid for each in told] == [sid]
    assert (name_in(browser), name_in(elsewhere), name_in(other)) == ("alice", "nobody", "bob")
    assert [each.sid for each in online.of_user(alice)] == [sid_of(browser)]


def test_the_own_session_stays_where_a_view_is_asynchronous(alice, partitions) -> None:
    browser, elsewhere = AsyncClient(), sign_in(alice)
    browser.force_login(alice)
    assert async_to_sync(browser.get)("/async/password/").content == b"done"
    assert async_to_sync(browser.get)("/who-and-messages/").content == b"alice"
    assert count(alice) == 1
    assert told_to(elsewhere) == ("invalidated", PASSWORD_CHANGED)


def test_a_session_that_a_view_forgets_is_not_ended_but_no_longer_fits(alice, partitions) -> None:
    browser, elsewhere = sign_in(alice), sign_in(alice)
    response = browser.get("/password-only/")
    assert (response.status_code, response.content) == (200, b"done")
    assert [each.sid for each in online.of_user(alice)] == [sid_of(browser)]
    assert SessionStore(browser.cookies["sessionid"].value)["colour"] == "red"
    assert (name_in(browser), name_in(elsewhere)) == ("nobody", "nobody")


class FewRounds(PBKDF2PasswordHasher):
    iterations = 1


def test_a_password_that_is_hashed_anew_ends_other_sessions_and_does_not_say_it_was_changed(alice, site) -> None:
    elsewhere, browser = sign_in(alice), Client()
    site.PASSWORD_HASHERS = [f"{__name__}.FewRounds", "django.contrib.auth.hashers.MD5PasswordHasher"]
    assert browser.post("/login/", {"username": "alice", "password": PASSWORD}).status_code == 302
    assert User.objects.get(pk=alice.pk).password.startswith("pbkdf2_sha256$")
    assert [each.sid for each in online.of_user(alice)] == [sid_of(browser)]
    assert told_to(elsewhere) == ("", "")
    assert (name_in(browser), name_in(elsewhere)) == ("alice", "nobody")
