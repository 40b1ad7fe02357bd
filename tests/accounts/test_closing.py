"""What becomes of sessions when their users are deactivated or deleted."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.db.models.deletion import Collector

from django_redsess.signals import Reason
from tests.helpers.accounts import DEACTIVATED, DEACTIVATIONS, DELETED, DELETIONS, count, name_in, sign_in, told_to

# What happens at a commit happens in none of the transactions that tests are run in otherwise.
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize("way", DEACTIVATIONS, ids=lambda way: way.__name__)
def test_deactivating_a_user_ends_the_sessions_of_that_user_at_once(alice, bob, admin, partitions, way) -> None:
    browsers, other = [sign_in(alice), sign_in(alice)], sign_in(bob)
    way(alice, admin)
    assert not User.objects.get(pk=alice.pk).is_active
    assert (count(alice), count(bob)) == (0, 1)
    assert [told_to(each) for each in browsers] == [("invalidated", DEACTIVATED)] * 2
    assert name_in(other) == "bob"


def test_saving_a_user_who_is_inactive_already_or_activating_one_ends_nothing(alice) -> None:
    User.objects.filter(pk=alice.pk).update(is_active=False)
    sign_in(alice)
    alice.refresh_from_db()
    alice.save()
    alice.save(update_fields=["is_active"])
    alice.is_active = True
    alice.save()
    assert count(alice) == 1


@pytest.mark.parametrize(
    ("fields", "queries"),
    [(None, 2), (["first_name"], 1), (["first_name", "last_login"], 1), (["first_name", "is_active", "password"], 2)],
)
def test_saving_other_fields_ends_nothing_and_asks_no_more(alice, django_assert_num_queries, fields, queries) -> None:
    browser = sign_in(alice)
    alice.first_name = "Alice"
    with django_assert_num_queries(queries):
        alice.save(update_fields=fields)
    alice.refresh_from_db()
    assert (alice.first_name, name_in(browser)) == ("Alice", "alice")
    with django_assert_num_queries(1):
        User(username="carol").save()


@pytest.mark.parametrize("way", DELETIONS, ids=lambda way: way.__name__)
def test_deleting_a_user_ends_the_sessions_of_that_user_at_once(alice, bob, admin, partitions, told, way) -> None:
    browsers, other, user_id = [sign_in(alice), sign_in(alice)], sign_in(bob), alice.pk
    way(alice, admin)
    assert not User.objects.filter(pk=user_id).exists()
    assert (count(user_id), count(bob)) == (0, 1)
    assert [(each.user_id, each.reason) for each in told] == [(str(user_id), Reason.INVALIDATED)] * 2
    assert [told_to(each) for each in browsers] == [("invalidated", DELETED)] * 2
    assert name_in(other) == "bob"


def test_rows_of_other_models_are_still_deleted_at_once() -> None:
    assert Collector(using="default").can_fast_delete(Session.objects.all())
    assert not Collector(using="default").can_fast_delete(User.objects.all())
