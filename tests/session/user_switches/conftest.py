"""What the tests share in which users change within a session: the site, its users and visitors, and all lists."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import AsyncClient, Client

from tests.helpers.behind import faults
from tests.helpers.visitors import Browser


@pytest.fixture(autouse=True)
def site(partitions: int, settings: Any) -> Any:
    """The site of tests/helpers/site, in place of the shop."""
    settings.ROOT_URLCONF = "tests.helpers.site.urls"
    return settings


@pytest.fixture(autouse=True)
def nothing_to_repair(partitions: int) -> Iterator[None]:
    """Whatever a test did: ``cleansessions --check`` finds nothing afterwards."""
    yield
    assert faults() == []


@pytest.fixture(params=[None, 1], ids=["no limit", "limit of 1"])
def limit(request: pytest.FixtureRequest, site: Any) -> int | None:
    maximum: int | None = request.param
    site.REDSESS = {**site.REDSESS, "MAX_SESSIONS_PER_USER": maximum}
    return maximum


@pytest.fixture(autouse=True)
def users(db: None) -> dict[str, User]:
    return {name: User.objects.create_user(name) for name in ("alice", "bob", "carol")}


@pytest.fixture(params=[Client, AsyncClient], ids=["wsgi", "asgi"])
def browser(request: pytest.FixtureRequest, site: Any) -> Browser:
    """A visitor, over WSGI and over ASGI."""
    return Browser(request.param())
