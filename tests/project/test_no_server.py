"""A test in this folder that needs a server fails, and says so."""

from __future__ import annotations

import pytest

from django_redsess import online
from django_redsess.backend import SessionStore

pytestmark = pytest.mark.unit


def save() -> None:
    SessionStore().save()


def list_sessions() -> None:
    online.sessions()


@pytest.mark.parametrize("ask", [save, list_sessions])
def test_what_asks_the_server_fails(ask) -> None:
    with pytest.raises(pytest.fail.Exception, match="has no server"):
        ask()


@pytest.mark.parametrize("fixture", ["server", "redis", "own_server", "commands"])
def test_there_is_no_fixture_of_a_server(request: pytest.FixtureRequest, fixture: str) -> None:
    with pytest.raises(pytest.fail.Exception, match="has no server"):
        request.getfixturevalue(fixture)
