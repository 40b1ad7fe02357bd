"""
A site whose requests are held half-way, served by real threads: ``serving`` starts it and ``Site`` asks it.

Each view reads the session first, waits at the gate that the request's ``X-Gate`` header names, and then does what its
URL says. Its users live in memory: threads that share a test's database would wait for each other there.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from http.client import HTTPConnection
from http.cookies import SimpleCookie
from typing import Any, NamedTuple

from django.contrib.auth import login, logout, update_session_auth_hash
from django.contrib.auth.backends import BaseBackend
from django.contrib.auth.models import User
from django.core.handlers.wsgi import WSGIHandler
from django.core.servers.basehttp import ThreadedWSGIServer, WSGIRequestHandler
from django.http import HttpRequest, HttpResponse
from django.urls import path, re_path

SECONDS = 20
"""How long anything may take before a test takes it for stuck."""


class Gate:
    """Where requests wait until the test lets them on."""

    def __init__(self) -> None:
        self._open = threading.Event()
        self._arrived = threading.Semaphore(0)

    def wait(self) -> None:
        self._arrived.release()
        assert self._open.wait(SECONDS)

    def wait_for(self, requests: int = 1) -> None:
        """Return when so many more requests have arrived."""
        for _ in range(requests):
            assert self._arrived.acquire(timeout=SECONDS)

    def open(self) -> None:
        self._open.set()


gates: dict[str, Gate] = {}
passwords: dict[int, str] = {}


def person(user_id: int | str) -> User:
    return User(pk=int(user_id), username=f"user {user_id}", password=passwords.get(int(user_id), "first"))


class InMemory(BaseBackend):
    """Everybody who has a number."""

    def get_user(self, user_id: int) -> User:
        return person(user_id)


def held(view: Callable[..., str | None]) -> Callable[..., HttpResponse]:
    """Make a view of ``view``: it is held once it has read the session."""

    def wrapper(request: HttpRequest, **named: Any) -> HttpResponse:
        request.session.get("colour")
        gate = gates.get(request.headers.get("X-Gate", ""))
        if gate is not None:
            gate.wait()
        return HttpResponse(view(request, **named) or "done")

    return wrapper


def who(request: HttpRequest) -> str:
    return str(request.user.pk or "nobody")


def read(request: HttpRequest, key: str) -> str:
    return str(request.session.get(key))


def write(request: HttpRequest, key: str, value: str) -> None:
    request.session[key] = value


def count(request: HttpRequest, key: str) -> str:
    """Add one; return what was there."""
    found: int = request.session.get(key, 0)
    request.session[key] = found + 1
    return str(found)


def write_and_save(request: HttpRequest, key: str, value: str) -> None:
    request.session[key] = value
    request.session.save()


def sign_in(request: HttpRequest, user_id: int) -> None:
    login(request, person(user_id))


def sign_out(request: HttpRequest) -> None:
    logout(request)


def cycle(request: HttpRequest) -> None:
    request.session.cycle_key()


def change_password(request: HttpRequest, password: str) -> None:
    passwords[request.user.pk] = password
    update_session_auth_hash(request, person(request.user.pk))


def item(request: HttpRequest, slug: str) -> None:
    """View an item: the middleware records it."""


urlpatterns = [
    path("who/", held(who)),
    path("read/<key>/", held(read)),
    path("write/<key>/<value>/", held(write)),
    path("count/<key>/", held(count)),
    path("write-and-save/<key>/<value>/", held(write_and_save)),
    path("sign-in/<int:user_id>/", held(sign_in)),
    path("sign-out/", held(sign_out)),
    path("cycle/", held(cycle)),
    path("change-password/<password>/", held(change_password)),
    # Whatever stands there, line ends too.
    re_path(r"^item/(?P<slug>(?s:.*))/$", held(item), name="item"),
]


def handler404(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Do without the shop's page, which names URLs of the shop."""
    return HttpResponse(status=404)


MIDDLEWARE = [
    "django_redsess.middleware.SessionMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django_redsess.middleware.ViewedItemsMiddleware",
]


class Answer(NamedTuple):
    """
    ``cookie`` is the session key that was set, "" where the cookie was deleted, None where neither was done; ``ended``
    is why the session that the cookie named is gone, as far as the visitor was told.
    """

    status: int
    text: str
    cookie: str | None
    sets_other_cookies: bool = False
    ended: str = ""


class Site:
    """The site, to be asked over HTTP from any thread; ``ask_meanwhile`` does so in one of its own."""

    def __init__(self, port: int, pool: ThreadPoolExecutor) -> None:
        self.port = port
        self._pool = pool

    def ask(self, path: str, cookie: str | None = None, gate: str = "") -> Answer:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=SECONDS)
        headers = {"X-Gate": gate, "Connection": "close", **({"Cookie": f"sessionid={cookie}"} if cookie else {})}
        try:
            connection.request("GET", path, headers=headers)
            response = connection.getresponse()
            text = response.read().decode()
        finally:
            connection.close()
        cookies = SimpleCookie(response.getheader("Set-Cookie", ""))
        morsel = cookies.pop("sessionid", None)
        cookie_set, ended = morsel.value if morsel else None, response.getheader("X-Session-Ended", "")
        return Answer(response.status, text, cookie_set, bool(cookies), ended)

    def ask_meanwhile(self, path: str, cookie: str | None = None, gate: str = "") -> Future[Answer]:
        return self._pool.submit(self.ask, path, cookie, gate)

    def ask_held(self, path: str, cookie: str | None = None) -> Callable[[], Answer]:
        """Ask, and return when the view has read its session. What is returned lets it on, and gives the answer."""
        name, gate = self._new_gate()
        answer = self.ask_meanwhile(path, cookie, name)
        gate.wait_for()

        def let_on() -> Answer:
            gate.open()
            return answer.result(SECONDS)

        return let_on

    def ask_together(self, *asked: tuple[str, str | None]) -> list[Answer]:
        """Ask for several paths, each with its cookie; all have read their session before any goes on."""
        name, gate = self._new_gate()
        answers = [self.ask_meanwhile(path, cookie, name) for path, cookie in asked]
        gate.wait_for(len(asked))
        gate.open()
        return [answer.result(SECONDS) for answer in answers]

    @staticmethod
    def _new_gate() -> tuple[str, Gate]:
        name, gate = f"gate {len(gates)}", Gate()
        gates[name] = gate
        return name, gate


class _Handler(WSGIRequestHandler):
    def log_message(self, *args: Any) -> None:
        """Leave the test's output to the test."""


class _Server(ThreadedWSGIServer):
    request_queue_size = 200


@contextmanager
def serving(threads: int = 60) -> Iterator[Site]:
    """Serve the site of the settings on a free port; at most ``threads`` requests are asked for at once."""
    gates.clear()
    passwords.clear()
    with _Server(("127.0.0.1", 0), _Handler) as server, ThreadPoolExecutor(threads) as pool:
        server.set_app(WSGIHandler())
        thread = threading.Thread(target=server.serve_forever, args=(0.005,), daemon=True)
        thread.start()
        try:
            yield Site(server.server_address[1], pool)
        finally:
            for gate in gates.values():
                gate.open()
            server.shutdown()
            thread.join()
