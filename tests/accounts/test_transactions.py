"""When sessions end: at the commit and not before, and each request keeps its own session only."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.contrib.auth.models import User
from django.db import connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from tests.helpers.accounts import CHANGES, PASSWORD_CHANGED, count, name_in, set_password, sign_in, told_to

# What happens at a commit happens in none of the transactions that tests are run in otherwise.
pytestmark = pytest.mark.django_db(transaction=True)


def in_a_thread(action: Callable[[], object]) -> None:
    """Run it in a thread of its own, and fail if it fails."""

    def run() -> None:
        try:
            action()
        finally:
            for connection in connections.all(initialized_only=True):
                # Django's own way leaves one to a database in memory open, and this is one of several to it.
                BaseDatabaseWrapper.close(connection)

    with ThreadPoolExecutor(1) as threads:
        threads.submit(run).result()


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_nothing_ends_before_the_commit(alice, change) -> None:
    sign_in(alice)
    user_id = alice.pk
    with transaction.atomic():
        with transaction.atomic():
            change(alice, None)
        assert count(user_id) == 1
    assert count(user_id) == 0


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_nothing_ends_where_the_transaction_is_rolled_back(alice, told, change) -> None:
    browser, user_id = sign_in(alice), alice.pk
    with transaction.atomic():
        change(alice, None)
        transaction.set_rollback(True)
    with transaction.atomic():
        with transaction.atomic():
            change(User.objects.get(pk=user_id), None)
            transaction.set_rollback(True)
        User.objects.filter(pk=user_id).update(first_name="Alice")
    assert (count(user_id), told) == (1, [])
    assert name_in(browser) == "alice"


def test_nothing_is_kept_after_a_request(alice) -> None:
    browser = sign_in(alice)
    assert browser.get("/password/cycles_after/").status_code == 200
    assert count(alice) == 1
    alice.set_password("another")
    alice.save()
    assert count(alice) == 0


def test_a_save_in_another_thread_keeps_nothing_of_the_request_that_is_under_way(alice, meanwhile) -> None:
    browser = sign_in(alice)
    meanwhile(lambda: in_a_thread(lambda: set_password(User.objects.get(pk=alice.pk), browser)))
    assert browser.get("/waits/").content == b"done"
    assert count(alice) == 0
    assert told_to(browser) == ("invalidated", PASSWORD_CHANGED)


@pytest.mark.parametrize("where", [in_a_thread, lambda action: action()], ids=["another thread", "the same thread"])
def test_of_two_requests_at_once_each_keeps_its_own_session(alice, bob, meanwhile, where) -> None:
    here, there = [sign_in(alice), sign_in(alice)], [sign_in(bob), sign_in(bob)]
    meanwhile(lambda: where(lambda: there[0].get("/password/cycles_after/")))
    # The other one comes between this one's save, and the end of this one.
    assert here[0].get("/password/keeps_the_key/").content == b"done"
    assert [name_in(each) for each in here + there] == ["alice", "nobody", "bob", "nobody"]


def test_a_request_of_another_user_does_not_keep_that_users_session(alice, bob, partitions) -> None:
    browser = sign_in(alice)
    sign_in(bob)
    assert browser.get("/another/bob/password/").content == b"done"
    assert (count(alice), count(bob)) == (1, 0)
