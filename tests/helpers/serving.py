"""
A site that real threads serve: ``serving`` starts it and ``Site`` asks it.

A request that names a gate in its ``X-Gate`` header is held there, half-way through its view, until the gate opens.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from http.client import HTTPConnection
from http.cookies import SimpleCookie
from typing import Any, NamedTuple

from django.core.handlers.wsgi import WSGIHandler
from django.core.servers.basehttp import ThreadedWSGIServer, WSGIRequestHandler

from django_redsess.backend import SessionStore
from tests.helpers.site.people import passwords

SECONDS = 60
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


def assert_own(answers: Iterable[tuple[str, Answer]], visitors: Mapping[str, str]) -> None:
    """
    Fail if a visitor of ``/read/name/`` and ``/write/seen/<name>/`` got another's answer, or if nobody had to wait.

    ``answers`` has the name of each visitor, ``visitors`` their session keys.
    """
    waited = [answer for _, answer in answers if answer.status == 503]
    assert waited
    assert {answer.cookie for answer in waited} == {None}
    for name, answer in answers:
        assert answer.status in (200, 503)
        # Each answer that changes the session brings its cookie.
        assert answer.cookie in (None, visitors[name])
        assert answer.status == 503 or answer.text in (name, "done")
    for name, cookie in visitors.items():
        assert SessionStore(cookie).load() == {"name": name, "seen": name}
