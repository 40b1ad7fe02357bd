"""The settings with which sessions stay though something happens to the account."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User

from tests.helpers.accounts import PASSWORD, count, delete, save, set_password, sign_in
from tests.helpers.site.accounts import NEW_PASSWORD

# What happens at a commit happens in none of the transactions that tests are run in otherwise.
pytestmark = pytest.mark.django_db(transaction=True)

SWITCHES: dict[str, Callable[[User, Any], None]] = {
    "END_ON_DEACTIVATION": save,
    "END_ON_DELETION": delete,
    "END_ON_PASSWORD_CHANGE": set_password,
}


@pytest.mark.parametrize("switch", SWITCHES)
def test_a_switch_that_is_off_keeps_the_sessions_and_leaves_others_alone(alice, site, switch) -> None:
    site.REDSESS = {**site.REDSESS, switch: False}
    for name, change in SWITCHES.items():
        user = User.objects.create_user(f"user of {name}", password=PASSWORD)
        user_id = user.pk
        sign_in(user)
        change(user, None)
        assert count(user_id) == (name == switch)


@pytest.mark.parametrize(
    ("switch", "field"), [("END_ON_DEACTIVATION", "is_active"), ("END_ON_PASSWORD_CHANGE", "password")]
)
def test_what_is_switched_off_takes_one_query(alice, site, commands, django_assert_num_queries, switch, field) -> None:
    site.REDSESS = {**site.REDSESS, switch: False}
    alice.is_active = False
    alice.set_password("another")
    with django_assert_num_queries(1):
        alice.save(update_fields=[field])
    saved = User.objects.get(pk=alice.pk)
    assert (saved.is_active, saved.check_password("another")) == (field != "is_active", field == "password")
    # With both off, neither the database nor Redis is asked whatever is saved.
    site.REDSESS = {**site.REDSESS, "END_ON_DEACTIVATION": False, "END_ON_PASSWORD_CHANGE": False}
    commands()
    alice.is_active = not alice.is_active
    alice.set_password(NEW_PASSWORD)
    with django_assert_num_queries(1):
        alice.save()
    assert "evalsha" not in commands()
