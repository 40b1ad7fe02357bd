"""Visitors of a site over WSGI and ASGI, and what they are told in an outage."""

import time
from collections.abc import Callable
from typing import Any

import redis as redis_py
from asgiref.sync import async_to_sync
from django.conf import settings as django_settings
from django.contrib.auth.models import User
from django.http import HttpResponse
from django.test import AsyncClient, Client

from django_redsess import online, viewed
from django_redsess.backend import SessionStore
from tests.helpers.store import stored


def cookie_header(name: str, value: str) -> str:
    """Return the header in which a stranger sends any ``value``: Python's own cookies refuse control characters."""
    escaped = "".join(each if " " <= each <= "~" and each not in '"\\' else f"\\{ord(each):03o}" for each in value)
    return f'{name}="{escaped}"'


class Browser:
    """A visitor: keeps cookies, gets an answer to whatever happens, and notes how long the last one took."""

    def __init__(self, client: Client | AsyncClient) -> None:
        self.client = client
        self.client.raise_request_exception = False
        self.seconds = 0.0

    def get(self, path: str, **options: Any) -> HttpResponse:
        return self._ask(self.client.get, path, **options)

    def post(self, path: str, data: dict[str, str] | None = None, **options: Any) -> HttpResponse:
        return self._ask(self.client.post, path, data or {}, **options)

    def sign_in(self, user: User, **data: Any) -> None:
        """Sign in without a request, and put ``data`` into the session."""
        self.client.force_login(user)
        if data:
            session = SessionStore(self.cookie)
            session.update(data)
            session.save()

    @property
    def views(self) -> str:
        """What the paths of the views begin with that suit the way the site is served."""
        return "/async" if isinstance(self.client, AsyncClient) else ""

    @property
    def cookie(self) -> str | None:
        """The session key that this visitor sends, if any."""
        morsel = self.client.cookies.get(django_settings.SESSION_COOKIE_NAME)
        return morsel.value if morsel else None

    @cookie.setter
    def cookie(self, session_key: str) -> None:
        self.client.cookies[django_settings.SESSION_COOKIE_NAME] = session_key

    @property
    def sid(self) -> str | None:
        return SessionStore(self.cookie).sid

    def _ask(self, method: Callable[..., Any], *args: Any, **options: Any) -> HttpResponse:
        started = time.monotonic()
        method = async_to_sync(method) if isinstance(self.client, AsyncClient) else method
        response: HttpResponse = method(*args, **options)
        self.seconds = time.monotonic() - started
        return response


def assert_unavailable(response: HttpResponse) -> None:
    """An answer that says the sessions can't be reached, and takes nothing from the visitor."""
    assert response.status_code == 503
    assert list(response.cookies) == []
    assert "no-store" in response["Cache-Control"]
    request: Any = response.asgi_request if hasattr(response, "asgi_request") else response.wsgi_request
    assert ("Retry-After" in response) == (request.method in ("GET", "HEAD", "OPTIONS"))


def sign_in(browser: Browser, names: str) -> int:
    return browser.get(f"{browser.views}/sign-in/{names}/").status_code


def name_in(browser: Browser) -> str:
    return browser.get("/who/").content.decode()


def items_of(browser: Browser) -> list[str]:
    return [item for item, _ in viewed.recent(browser.sid or "")]


def listed(redis: redis_py.Redis) -> list[str]:
    """Who is signed in, once for each session; see that all lists agree on it, and that there is no other session."""
    everybody = {str(user.pk): user.username for user in User.objects.all()}
    sessions = online.sessions()
    assert len({session.sid for session in sessions}) == len(sessions) == online.count()
    for user in User.objects.all():
        sids = sorted(session.sid for session in sessions if session.user_id == str(user.pk))
        assert sorted(session.sid for session in online.of_user(user)) == sids
        assert online.count(user_ids=[str(user.pk)]) == len(sids)
    assert stored(redis) == len(sessions)
    return sorted(everybody[session.user_id] for session in sessions)
