"""Users with a password, and what becomes of their sessions."""

from __future__ import annotations

from urllib.parse import unquote

from django.contrib.auth.models import User
from django.http import HttpResponse
from django.test import Client

from django_redsess import online
from django_redsess.backend import SessionStore

PASSWORD = "the first password"

DEACTIVATED, DELETED = "Your account was deactivated.", "Your account was deleted."

PASSWORD_CHANGED = "Your password was changed."


def sign_in(user: User) -> Client:
    browser = Client()
    browser.force_login(user)
    return browser


def count(user: User | int) -> int:
    """How many sessions a user has, who may be deleted by now."""
    return online.count(user_ids=[str(user if isinstance(user, int) else user.pk)])


def sid_of(browser: Client) -> str:
    return SessionStore(browser.cookies["sessionid"].value).sid or ""


def name_in(browser: Client) -> str:
    """Who is signed in here."""
    return browser.get("/who-and-messages/").content.decode().split("|")[0]


def told_to(browser: Client) -> tuple[str, str]:
    """What the header of the next answer says: the reason, and the text."""
    header = browser.get("/who-and-messages/").headers.get("X-Session-Ended", "")
    reason, _, text = header.partition("; message*=UTF-8''")
    return reason, unquote(text)


def is_gone(response: HttpResponse) -> bool:
    """Whether the answer takes the session cookie away."""
    cookie = response.cookies.get("sessionid")
    return cookie is not None and cookie.value == "" and cookie["max-age"] == 0
