"""What the tests of accounts share: a site, its users, and what becomes of their sessions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from django_redsess.signals import EndedSession, sessions_ended
from tests.helpers.accounts import PASSWORD, sign_in


@pytest.fixture(autouse=True)
def site(request: pytest.FixtureRequest, settings: Any) -> Any:
    """The site of tests/helpers/site, in place of the shop; the settings, to change more of them."""
    if "partitions" in request.fixturenames:
        # Before anybody signs in: afterwards their number is fixed.
        request.getfixturevalue("partitions")
    settings.ROOT_URLCONF = "tests.helpers.site.urls"
    return settings


@pytest.fixture
def alice() -> User:
    return User.objects.create_user("alice", password=PASSWORD)


@pytest.fixture
def bob() -> User:
    return User.objects.create_user("bob", password=PASSWORD)


@pytest.fixture
def admin() -> Client:
    """A browser in which an administrator is signed in."""
    return sign_in(User.objects.create_superuser("admin", password=PASSWORD))


@pytest.fixture
def told() -> Iterator[list[EndedSession]]:
    """The ends that were told, in order."""
    heard: list[EndedSession] = []

    def receive(sessions: list[EndedSession], **named: Any) -> None:
        heard.extend(sessions)

    sessions_ended.connect(receive)
    yield heard
    sessions_ended.disconnect(receive)
