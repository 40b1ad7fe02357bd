"""Three users who are signed in, and lists with pages that are short."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User

from django_redsess.admin import OnlineSessionAdmin
from tests.helpers.online import sign_in


@pytest.fixture
def users(db) -> dict[str, User]:
    return {name: User.objects.create_user(name) for name in ("alice", "bob", "carol")}


@pytest.fixture
def sids(users, new_session) -> dict[str, str]:
    """The sid of a session of each user, alice's the oldest."""
    return dict(zip(users, sign_in(new_session, *(str(user.pk) for user in users.values())), strict=True))


@pytest.fixture
def list_only(monkeypatch) -> Callable[[Callable[[Any], Any]], None]:
    """Return a function that sets what the site's own rule makes of the list's queryset."""
    every = OnlineSessionAdmin.get_queryset
    return lambda rule: monkeypatch.setattr(
        OnlineSessionAdmin, "get_queryset", lambda self, request: rule(every(self, request))
    )


@pytest.fixture
def few_on_a_page(monkeypatch) -> None:
    monkeypatch.setattr(OnlineSessionAdmin, "list_per_page", 2)
