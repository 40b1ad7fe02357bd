"""
The plugin for pytest, which finds it by its entry point. Public: the fixture ``redsess_store``.

pytest loads it in every project of an environment. So it imports nothing of Django until a project uses this engine.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import closing
from types import ModuleType
from typing import Any

import pytest


def _store() -> Iterator[str]:
    from django_redsess.testing import OwnStore

    with closing(OwnStore.within().open()) as store:
        yield store.prefix


@pytest.fixture
def redsess_store() -> Iterator[str]:
    """Give the test a store of its own for sessions, and remove its keys afterwards. The value is its PREFIX."""
    yield from _store()


def pytest_collection(session: pytest.Session) -> None:
    """Give each test a store of its own, if the project uses this engine."""
    if _is_in_use():
        session.config.pluginmanager.register(_automatic(), "redsess-automatic")


def _automatic() -> ModuleType:
    # Not a class: pytest 9 warns of fixtures in one. Tests see the sessions that fixtures of a wider scope have stored.
    module: Any = ModuleType("redsess_automatic")
    module.of_process = pytest.fixture(scope="session", autouse=True, name="_redsess_store_of_process")(_store)
    module.of_class = pytest.fixture(scope="class", autouse=True, name="_redsess_store_of_class")(_store)
    module.of_test = pytest.fixture(autouse=True, name="_redsess_store_of_test")(lambda redsess_store: None)
    return module  # type: ignore[no-any-return]


def _is_in_use() -> bool:
    if "django_redsess.apps" not in sys.modules:
        # Django is absent, not set up, or without this app.
        return False
    from django_redsess.backend import is_in_use

    return is_in_use()
