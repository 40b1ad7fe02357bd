"""A test marked ``unit`` that asks a server fails, and says so."""

import pytest

from django_redsess import online
from django_redsess.backend import SessionStore

pytestmark = pytest.mark.unit


def test_what_asks_the_server_fails() -> None:
    for ask in (SessionStore().save, online.sessions):
        with pytest.raises(pytest.fail.Exception, match="has no server"):
            ask()
