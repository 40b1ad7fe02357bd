"""What sends no signals, and logout_everywhere(), which ends the sessions then."""

from __future__ import annotations

import asyncio

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth import HASH_SESSION_KEY
from django.contrib.auth.models import User
from django.test import AsyncClient, Client

from django_redsess import accounts, online
from django_redsess.signals import Reason
from tests.helpers.accounts import CHANGES, count, is_gone, name_in, sid_of, sign_in, told_to

# What happens at a commit happens in none of the transactions that tests are run in otherwise.
pytestmark = pytest.mark.django_db(transaction=True)


def test_an_update_of_the_queryset_is_unseen_until_somebody_calls_logout_everywhere(alice, bob, partitions) -> None:
    for user in (alice, alice, bob):
        sign_in(user)
    User.objects.filter(pk=alice.pk).update(is_active=False)
    assert count(alice) == 2
    assert accounts.logout_everywhere(alice) == 2
    assert (count(alice), count(bob)) == (0, 1)
    assert accounts.logout_everywhere(alice) == 0


@pytest.mark.parametrize(("client", "page"), [(Client, "/ends-all/"), (AsyncClient, "/async/ends-all/")])
def test_a_view_that_ends_all_sessions_of_its_user_goes_on_as_a_guests(alice, partitions, client, page) -> None:
    browser, elsewhere = client(), sign_in(alice)
    browser.force_login(alice)
    get = async_to_sync(browser.get) if client is AsyncClient else browser.get
    response = get(page)
    assert (response.status_code, response.content) == (200, b"2")
    assert is_gone(response)
    assert count(alice) == 0
    assert name_in(elsewhere) == "nobody"


def test_a_view_that_ends_all_sessions_of_another_user_keeps_its_own(alice, bob, admin, meanwhile) -> None:
    browser = sign_in(alice)
    sign_in(bob)
    meanwhile(lambda: accounts.logout_everywhere(bob))
    assert browser.get("/waits/").content == b"done"
    assert (name_in(browser), count(bob)) == ("alice", 0)


def test_the_user_reads_the_reason_of_logout_everywhere_and_nothing_without_one(alice, redis, partitions) -> None:
    browser = sign_in(alice)
    accounts.logout_everywhere(alice)
    assert not [name for name in redis.keys() if b":ended:" in name and redis.get(name).startswith(b"invalidated")]
    response = browser.get("/who-and-messages/")
    assert (response.content, "X-Session-Ended" in response) == (b"nobody", False)
    browser, other = sign_in(alice), sign_in(alice)
    with pytest.raises(ValueError, match="200"):
        accounts.logout_everywhere(alice, message="x" * 201)
    assert count(alice) == 2
    accounts.logout_everywhere(alice, message="You moved. Grüße")
    assert told_to(other) == ("invalidated", "You moved. Grüße")
    assert browser.get("/who-and-messages/").content.decode() == "nobody|Your session was ended. You moved. Grüße"


def test_alogout_everywhere_does_the_same(alice, told, partitions) -> None:
    browsers = [sign_in(alice) for _ in range(3)]
    kept = sid_of(browsers[1])
    assert asyncio.run(accounts.alogout_everywhere(alice, keep=kept, message="Bye.")) == 2
    assert [each.sid for each in online.of_user(alice)] == [kept]
    assert told_to(browsers[0]) == ("invalidated", "Bye.")
    assert [(each.user_id, each.reason) for each in told] == [(str(alice.pk), Reason.INVALIDATED)] * 2


@pytest.fixture
def many(alice, new_session, partitions) -> None:
    """More sessions of alice than one call ends."""
    for _ in range(260):
        new_session(str(alice.pk), **{HASH_SESSION_KEY: alice.get_session_auth_hash()})


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_more_sessions_than_one_call_ends_all_end(alice, many, told, change) -> None:
    user_id = alice.pk
    assert count(user_id) == 260
    change(alice, None)
    assert (count(user_id), len({each.sid for each in told})) == (0, 260)


def test_logout_everywhere_ends_more_sessions_than_one_call_does_but_one(alice, many) -> None:
    kept = sid_of(sign_in(alice))
    assert accounts.logout_everywhere(alice, keep=kept) == 260
    assert [each.sid for each in online.of_user(alice)] == [kept]


def test_a_user_who_was_deleted_is_named_by_the_primary_key_there_was(alice, site) -> None:
    site.REDSESS = {**site.REDSESS, "END_ON_DELETION": False}
    user_id, browser = alice.pk, sign_in(alice)
    alice.delete()
    with pytest.raises(ValueError, match="no primary key"):
        accounts.logout_everywhere(alice)
    assert accounts.logout_everywhere(User(pk=user_id)) == 1
    assert name_in(browser) == "nobody"
