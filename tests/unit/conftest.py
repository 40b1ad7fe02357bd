"""
Tests that need no server: the folder says so, no marker does.

There is none, and what connects to anything fails the test. A test that needs a server belongs to the room that it
tests.
"""

from __future__ import annotations

import socket
from typing import Any, NoReturn

import pytest

from testproject import servers
from tests.support.outages import caches

# What the benchmarks can compare depends on it. It starts the embedded server for a moment, once.
servers.available()


def fail() -> NoReturn:
    # Not an Exception: nothing takes it for an outage.
    pytest.fail("A test in tests/unit has no server.")


def refuse(self: socket.socket, address: object) -> NoReturn:
    self.close()
    fail()


@pytest.fixture
def server() -> NoReturn:
    fail()


@pytest.fixture(autouse=True)
def empty_store(store_settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no store: nothing is kept, and nobody can be asked."""
    store_settings.CACHES = caches("redis://127.0.0.1:1/0")
    for name in ("connect", "connect_ex"):
        monkeypatch.setattr(socket.socket, name, refuse)
