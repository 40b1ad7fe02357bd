"""Sessions whose visitors have an address and a browser."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import User
from django.test import Client

from tests.helpers.store import Client as Visitor
from tests.helpers.store import Visit

FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"

CHROME = (
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0.0.0 Safari/537.36"
)


def from_place(session: Any, address: str = "192.0.2.7", user_agent: str = FIREFOX) -> Any:
    """Save ``session`` as one of a visitor with this address and browser."""
    session.visit = Visit(lambda: Visitor(address, user_agent))
    session.save()
    return session


def arrive(name: str, user_agent: str = FIREFOX, *, is_superuser: bool = False) -> Client:
    """Sign this user in with a browser: an old user, or a new one."""
    user, is_new = User.objects.get_or_create(username=name)
    if is_new:
        user.set_password("secret")
        user.is_staff = user.is_superuser = is_superuser
        user.save()
    browser = Client(headers={"user-agent": user_agent}, REMOTE_ADDR="198.51.100.7")
    browser.post("/login/", {"username": name, "password": "secret"})
    return browser
