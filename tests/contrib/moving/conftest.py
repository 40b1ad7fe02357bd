"""What tests of moving sessions share: the site on the engine that moves, and its steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.contrib.sessions.backends.db import SessionStore as DatabaseSession
from django.core.management import call_command
from django.db import connections
from django.test import override_settings

from django_redsess.backend import SessionStore
from django_redsess.conf import conf
from testproject.databases import PostgreSQL, programs
from tests.contrib.moving.process import Process, started
from tests.helpers.store import have_partitions

DATABASE, GROWING = "django.contrib.sessions.backends.db", "django_redsess.contrib.moving.growing"

Step = Callable[[int], AbstractContextManager[None]]


@pytest.fixture
def moving(store_settings: Any, db: None) -> Any:
    """Have the site move its sessions from Django's database engine, and be at the first step. Returns its settings."""
    store_settings.SESSION_ENGINE = "django_redsess.contrib.moving"
    store_settings.REDSESS = {**store_settings.REDSESS, "MOVE_FROM": DATABASE, "MOVES": False}
    return store_settings


@pytest.fixture
def step(moving: Any) -> Step:
    """Return a context in which the process is at step 1 or 2."""

    @contextmanager
    def at(number: int) -> Iterator[None]:
        given = at_step(number)
        with override_settings(**given), pytest.MonkeyPatch.context() as patch:
            if settings.SESSION_ENGINE == GROWING:
                # Changes of REDSESS keep it otherwise.
                have_partitions(patch, given["REDSESS"]["PARTITIONS"])
            yield

    return at


def at_step(number: int) -> dict[str, Any]:
    """Return the settings of this step. For a store of this engine, the test's own are those of step 2."""
    given = settings.REDSESS
    if settings.SESSION_ENGINE != GROWING:
        return {"REDSESS": {**given, "MOVES": number == 2}}
    here = {"SESSION_CACHE_ALIAS": settings.SESSION_CACHE_ALIAS, "PREFIX": conf.PREFIX, "PARTITIONS": conf.PARTITIONS}
    there = {**here, **(given.get("MOVE_TO") or given["MOVE_FROM"])}
    before, after = (here, there) if given.get("MOVE_TO") else (there, here)
    own, other = (before, after) if number == 1 else (after, before)
    named = {"MOVE_TO": other if number == 1 else None, "MOVE_FROM": other if number == 2 else None}
    alias = own.pop("SESSION_CACHE_ALIAS")
    return {"SESSION_CACHE_ALIAS": alias, "REDSESS": {**given, **own, **named}}


def grow(moving: Any, **before: Any) -> None:
    """Have the site move its sessions from another store of this engine."""
    moving.SESSION_ENGINE = GROWING
    moving.REDSESS = {**moving.REDSESS, "MOVE_FROM": before, "MOVES": False}


def session_of(key: str | None = None) -> SessionStore:
    """Return a session object of the engine that the site has."""
    found: SessionStore = import_module(settings.SESSION_ENGINE).SessionStore(key)
    return found


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
            "engine": DATABASE if which == "before" else "django_redsess.contrib.moving",
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
