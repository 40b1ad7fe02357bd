"""What tests of moving sessions share: the site on the engine that moves, and its steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest
from django.contrib.sessions.backends.db import SessionStore as DatabaseSession
from django.test import override_settings

DATABASE = "django.contrib.sessions.backends.db"

Step = Callable[[int], AbstractContextManager[None]]


@pytest.fixture
def moving(store_settings: Any, db: None) -> Any:
    """Have the site move its sessions from Django's database engine, and be at the first step. Returns its settings."""
    store_settings.SESSION_ENGINE = "django_redsess.moving"
    store_settings.REDSESS = {**store_settings.REDSESS, "MOVE_FROM": DATABASE, "MOVES": False}
    return store_settings


@pytest.fixture
def step(moving: Any) -> Step:
    """Return a context in which the process is at step 1 or 2."""

    @contextmanager
    def at(number: int) -> Iterator[None]:
        with override_settings(REDSESS={**moving.REDSESS, "MOVES": number == 2}):
            yield

    return at


@pytest.fixture
def old_session(moving: Any) -> Callable[..., DatabaseSession]:
    """Return a function that saves a session as the release before did."""

    def create(user: str = "", **data: Any) -> DatabaseSession:
        session = DatabaseSession()
        session.update({**data, **({"_auth_user_id": user} if user else {})})
        session.save()
        return session

    return create
