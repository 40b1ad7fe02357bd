"""Who closes the own account is answered, and signed out everywhere."""

from __future__ import annotations

import pytest
from django.contrib.auth import SESSION_KEY
from django.contrib.auth.models import User
from django.db import connection
from django.test import AsyncClient, Client

from django_redsess import online
from django_redsess.backend import SessionStore
from tests.helpers.accounts import (
    DEACTIVATED,
    DELETED,
    PASSWORD,
    by_the_admins_action,
    count,
    in_the_admins_form,
    is_gone,
    name_in,
    on_the_admins_page,
    sign_in,
    told_to,
)
from tests.helpers.visitors import Browser

# What happens at a commit happens in none of the transactions that tests are run in otherwise.
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize(("served", "cycle"), [("", ""), ("", "?cycle"), ("/async", "")])
@pytest.mark.parametrize("then", ["does_nothing", "leaves_a_message", "signs_out"])
@pytest.mark.parametrize("closing", ["deactivate", "delete"])
def test_closing_the_own_account_signs_out_everywhere(alice, partitions, told, closing, then, served, cycle) -> None:
    browser, elsewhere, user_id = Browser(AsyncClient() if served else Client()), sign_in(alice), alice.pk
    browser.sign_in(alice)
    response = browser.get(f"{served}/close/{closing}/{then}/{cycle}")
    assert (response.status_code, response.content) == (200, b"closed")
    assert is_gone(response)
    assert count(user_id) == 0
    assert [(each.user_id, each.reason in ("invalidated", "logout")) for each in told] == [(str(user_id), True)] * 2
    assert told_to(elsewhere) == ("invalidated", DEACTIVATED if closing == "deactivate" else DELETED)
    assert browser.get("/who-and-messages/").content.decode() == "nobody" + "|Good bye." * (then == "leaves_a_message")


@pytest.mark.parametrize(
    ("closing", "storage"), [("deactivate", "session.SessionStorage"), ("delete", "fallback.FallbackStorage")]
)
def test_closing_the_own_account_in_a_transaction_keeps_the_message(alice, site, monkeypatch, closing, storage) -> None:
    site.MESSAGE_STORAGE = f"django.contrib.messages.storage.{storage}"
    monkeypatch.setitem(connection.settings_dict, "ATOMIC_REQUESTS", True)
    browser, user_id = sign_in(alice), alice.pk
    sign_in(alice)
    response = browser.get(f"/close/{closing}/leaves_a_message/?cycle")
    assert (response.status_code, count(user_id)) == (200, 0)
    # A message that is kept in the session needs one.
    assert is_gone(response) == ("fallback" in storage)
    assert browser.get("/who-and-messages/").content == b"nobody|Good bye."


def test_a_view_may_use_the_session_after_it_closed_the_account(alice) -> None:
    browser = sign_in(alice)
    assert browser.get("/close/delete/writes/").status_code == 200
    assert online.count() == 0
    assert name_in(browser) == "nobody"


def test_a_session_whose_user_id_is_a_number_ends_with_its_account_too(alice) -> None:
    browser = sign_in(alice)
    session = SessionStore(browser.cookies["sessionid"].value)
    session[SESSION_KEY] = alice.pk
    session.save()
    assert name_in(browser) == "alice"
    response = browser.get("/close/deactivate/does_nothing/?cycle")
    assert (response.status_code, is_gone(response)) == (200, True)
    assert count(alice) == 0


@pytest.mark.parametrize("storage", ["fallback.FallbackStorage", "session.SessionStorage"])
@pytest.mark.parametrize("way", [in_the_admins_form, on_the_admins_page, by_the_admins_action])
def test_an_administrator_who_closes_the_own_account_is_signed_out_everywhere(partitions, site, way, storage) -> None:
    site.MESSAGE_STORAGE = f"django.contrib.messages.storage.{storage}"
    boss = User.objects.create_superuser("boss", password=PASSWORD)
    browser, elsewhere, user_id = sign_in(boss), sign_in(boss), boss.pk
    way(boss, browser)
    assert count(user_id) == 0
    assert told_to(elsewhere)[0] == "invalidated"
    content = browser.get("/who-and-messages/").content.decode()
    assert content.startswith("nobody|")
    assert "successfully" in content.lower()
