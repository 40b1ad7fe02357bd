"""A test marked ``unit`` that asks a server fails, and says so."""

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
