"""Users of the JSON API, and what every answer has to keep."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.http import HttpResponse
from django.test import Client

from tests.helpers.accounts import PASSWORD, sign_in


@pytest.fixture
def alice(db) -> User:
    return User.objects.create_user("alice", password=PASSWORD)


@pytest.fixture
def here(alice: User) -> Client:
    """A browser in which Alice has just signed in: her password is not asked for."""
    return sign_in(alice)


@pytest.fixture
def there(alice: User) -> Client:
    return sign_in(alice)


@pytest.fixture
def root(db) -> Client:
    """A superuser's browser."""
    return sign_in(User.objects.create_superuser("root", password=PASSWORD))


@pytest.fixture(autouse=True)
def no_key_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """No answer has a session key, apart from the cookie. All are JSON, and no cache may store them."""
    request = Client.request

    def checked(self: Client, **environ: Any) -> HttpResponse:
        answer = request(self, **environ)
        if environ.get("PATH_INFO", "").startswith("/api/v1/") and environ["PATH_INFO"] != "/api/v1/":
            key = self.cookies["sessionid"].value if "sessionid" in self.cookies else ""
            is_told = bool(key) and key.encode() in answer.content
            assert not is_told
            assert "no-store" in answer["Cache-Control"]
            kind = "application/json" if answer.status_code < 400 else "application/problem+json"
            assert answer.status_code == 204 or answer["Content-Type"] == kind
        return answer

    monkeypatch.setattr(Client, "request", checked)
