"""What tests of moving sessions share: the site on the engine that moves, and its steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from django.contrib.sessions.backends.db import SessionStore as DatabaseSession
from django.core.management import call_command
from django.db import connections
from django.test import override_settings

from benchmarks.postgresql import PostgreSQL, programs
from tests.moving.process import Process, started

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


@pytest.fixture
def postgresql(moving: Any) -> Iterator[None]:
    """Have Django's sessions in PostgreSQL."""
    found = programs()
    assert found is not None
    before = connections.databases["default"], connections["default"]
    with closing(PostgreSQL(found)) as server:
        connections.databases["default"] = {**before[0], **server.database, "OPTIONS": {}}
        connections.configure_settings(connections.databases)
        del connections["default"]
        try:
            call_command("migrate", "sessions", verbosity=0)
            yield
        finally:
            connections["default"].close()
            connections.databases["default"] = before[0]
            connections["default"] = before[1]


@pytest.fixture(params=[1, 4], ids=["1 partition", "4 partitions"])
def site(request: pytest.FixtureRequest, server: Any, tmp_path: Path) -> Callable[[str], dict[str, Any]]:
    """Return a function that gives the settings of a process: ``before``, ``step 1`` or ``step 2``. Tables are made."""

    def settings_of(which: str) -> dict[str, Any]:
        return {
            "engine": DATABASE if which == "before" else "django_redsess.moving",
            "redsess": {"MOVE_FROM": DATABASE, "MOVES": which == "step 2", "PARTITIONS": request.param},
            "database": str(tmp_path / "sessions.sqlite3"),
            "redis": server.url,
        }

    with started(settings_of("before"), "migrate", "--verbosity=0") as made:
        assert made.wait() == 0
    return settings_of


@pytest.fixture
def begin(site: Callable[[str], dict[str, Any]]) -> Iterator[Callable[[str], Process]]:
    """Return a function that begins a process of the site: ``before``, ``step 1`` or ``step 2``."""
    with ExitStack() as begun:
        yield lambda which: begun.enter_context(closing(Process(site(which))))
