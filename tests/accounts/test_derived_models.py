"""Proxies of the user model, and models that inherit from it, stand for users too."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth.models import User
from django.db import connection, models
from django.db.models.signals import post_delete, post_save, pre_save

from django_redsess.accounts import signals
from tests.helpers.accounts import CHANGES, PASSWORD, count, sign_in, told_to

# What happens at a commit happens in none of the transactions that tests are run in otherwise.
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def defined() -> Iterator[Callable[..., Any]]:
    """Return a function that defines a model, as the shop's, whose signals are received until the end of the test."""
    made: list[Any] = []

    def define(name: str, **attributes: Any) -> Any:
        model = type(name, (User,), {"__module__": __name__, **attributes})
        made.append(model)
        if not model._meta.proxy:
            with connection.schema_editor() as editor:
                editor.create_model(model)
        signals.receive_signals()
        return model

    yield define
    for model in made:
        for signal in (pre_save, post_save, post_delete):
            assert signal.disconnect(sender=model, dispatch_uid="django_redsess")
        del apps.all_models["shop"][model._meta.model_name]
        apps.clear_cache()
        if not model._meta.proxy:
            delattr(User, model._meta.model_name)
            with connection.schema_editor() as editor:
                editor.delete_model(model)


@pytest.mark.parametrize("is_proxy", [True, False], ids=["a proxy", "a child"])
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_models_that_stand_for_users_are_seen(defined, told, bob, is_proxy, change) -> None:
    fields = {} if is_proxy else {"town": models.TextField(default="")}
    model = defined("Customer", Meta=type("Meta", (), {"app_label": "shop", "proxy": is_proxy}), **fields)
    user = model.objects.create_user("carol", password=PASSWORD)
    user_id, browser = user.pk, sign_in(user)
    sign_in(bob)
    assert count(user_id) == 1
    change(user, None)
    assert (count(user_id), count(bob)) == (0, 1)
    assert [each.user_id for each in told] == [str(user_id)]
    assert told_to(browser)[0] == "invalidated"


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_a_child_with_a_primary_key_of_its_own_ends_the_sessions_of_its_user(defined, alice, change) -> None:
    member = defined(
        "Member",
        Meta=type("Meta", (), {"app_label": "shop"}),
        number=models.BigAutoField(primary_key=True),
        user=models.OneToOneField(User, models.CASCADE, parent_link=True),
    )
    # Another user has the member's number.
    carol = member(number=alice.pk, username="carol")
    carol.save()
    assert carol.pk == alice.pk != carol.id
    sign_in(User.objects.get(username="carol"))
    sign_in(alice)
    user_id = carol.id
    change(carol, None)
    assert (count(user_id), count(alice)) == (0, 1)
