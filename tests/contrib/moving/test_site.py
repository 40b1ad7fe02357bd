"""A site while its sessions move, as a browser sees it: sign-ins, ends by user, unknown cookies, outages."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.core.management import call_command
from django.test import AsyncClient, Client

from django_redsess import online
from django_redsess.accounts import reauthentication
from tests.helpers.outages import TIMEOUT, caches, end_outage
from tests.helpers.site import MIDDLEWARE
from tests.helpers.visitors import Browser, assert_unavailable


@pytest.fixture
def website(moving: Any) -> Any:
    moving.ROOT_URLCONF, moving.MIDDLEWARE = "tests.helpers.site.urls", MIDDLEWARE
    moving.REDSESS = {**moving.REDSESS, "PARTITIONS": 64}
    return moving


def browser_of(user: User, old_session: Any) -> Browser:
    """Return the browser of somebody who has signed in at the release before."""
    browser = Browser(Client())
    hashed = user.get_session_auth_hash()
    backend = "django.contrib.auth.backends.ModelBackend"
    session = old_session(str(user.pk), _auth_user_backend=backend, _auth_user_hash=hashed)
    browser.cookie = session.session_key
    return browser


def deactivate(user: User) -> None:
    user.is_active = False
    user.save()


def change_password(user: User) -> None:
    user.set_password("another")
    user.save()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("end", [online.end_user, deactivate, change_password])
def test_all_sessions_of_a_user_end_though_their_keys_were_chosen_elsewhere(website, old_session, step, end) -> None:
    alice, bob = User.objects.create_user("alice"), User.objects.create_user("bob")
    of_alice = [browser_of(alice, old_session) for _ in range(4)]
    of_bob = browser_of(bob, old_session)
    old_cookies = [browser.cookie for browser in of_alice]
    with step(2):
        for browser in (*of_alice, of_bob):
            assert browser.get("/who/").content.decode() == browser.get("/who/").content.decode() != "nobody"
        assert online.count() == 5
        end(alice)
        for browser in of_alice:
            assert browser.get("/who/").content == b"nobody"
        for cookie in old_cookies:
            stolen = Browser(Client())
            stolen.cookie = cookie
            assert stolen.get("/who/").content == b"nobody"
        assert of_bob.get("/who/").content == b"bob"
        assert online.count(user_ids=[str(alice.pk)]) == 0


@pytest.mark.parametrize("number", [1, 2])
def test_an_unknown_cookie_makes_no_session(website, step, redis, number: int) -> None:
    browser = Browser(Client())
    browser.cookie = "0" * 32
    with step(number):
        assert browser.get("/read/colour/").status_code == 200
        assert online.count(guests=True) == 0
    assert not Session.objects.exists()
    assert redis.exists("redsess:login") == 0


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("client", [Client, AsyncClient])
@pytest.mark.django_db(transaction=True)
def test_an_outage_here_is_a_503_and_signs_nobody_out(website, old_session, step, proxy, number: int, client) -> None:
    website.CACHES = caches(proxy.url, timeout=TIMEOUT)
    end_outage()
    browser = Browser(client())
    browser.cookie = old_session("7", colour="red").session_key
    with step(number):
        proxy.refuse()
        assert_unavailable(browser.get(f"{browser.views}/read/colour/"))
        proxy.restore()
        end_outage()
        assert browser.get(f"{browser.views}/read/colour/").content == b"red"


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("number", [1, 2])
def test_who_came_from_elsewhere_gives_the_password_before_other_sessions_end(
    website, old_session, step, monkeypatch, number: int
) -> None:
    # Here the sign-in is from when the row was saved: a moment ago.
    monkeypatch.setattr(reauthentication, "RECENT_SECONDS", 0)
    alice = User.objects.create_user("alice", password="the password")
    with step(number):
        here, there = browser_of(alice, old_session), browser_of(alice, old_session)
        for browser in (here, there):
            assert browser.get("/who/").content == b"alice"
        assert b'type="password"' in here.post("/account/sessions/not-me/", {"password": "wrong"}).content
        copy = here.cookie
        assert here.post("/account/sessions/not-me/", {"password": "the password"}).status_code == 302
        assert (here.get("/who/").content, here.cookie != copy) == (b"alice", True)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("number", [1, 2])
def test_pages_and_commands_say_what_they_can_not_list(website, old_session, step, capsys, number: int) -> None:
    alice = User.objects.create_superuser("alice", password="the password")
    with step(number):
        here, there = browser_of(alice, old_session), browser_of(alice, old_session)
        page = here.get("/account/sessions/").content.decode()
        assert "You may be signed in on other devices, too" in page
        assert "on this device only" not in page
        assert "/account/sessions/end-others/" in page
        question = here.get("/account/sessions/end-others/").content.decode()
        assert "Devices that can’t be listed these days will be signed out, too." in question
        listed = here.get("/admin/django_redsess/onlinesession/").content.decode()
        assert "Sessions move here from django.contrib.sessions.backends.db." in listed
        call_command("online")
        call_command("endsessions", "alice", interactive=False)
        said = capsys.readouterr().out
        assert "Those that have not moved are not listed or counted." in said
        assert "Those that have not moved end, too, and are not counted." in said
        for browser in (here, there):
            assert browser.get("/who/").content == b"nobody"
