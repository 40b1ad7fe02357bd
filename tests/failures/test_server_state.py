"""The server works, but has forgotten its scripts, is started anew, is full, or has thrown away what it held."""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import pytest
import redis as redis_py
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import AsyncClient, Client

from django_redsess import online, viewed
from django_redsess.exceptions import SessionStoreUnavailable
from testproject.servers import Server
from tests.helpers.outages import full, lines_of, replica, without_disk, without_replicas
from tests.helpers.running import wait_until
from tests.helpers.store import Partition, keyspace, stored
from tests.helpers.visitors import Browser, assert_unavailable

pytestmark = [pytest.mark.django_db, pytest.mark.both_servers]


class Answer(NamedTuple):
    """An answer that a visitor got, whether it was right (told the truth, or that it can't tell), and when asked."""

    asked_at: float
    status: int
    right: bool


class Visitor(threading.Thread):
    """Writes a number, reads it and looks who is signed in, over and over."""

    def __init__(self, browser: Browser, user_id: str) -> None:
        super().__init__()
        self.answers: list[Answer] = []
        self.stop = threading.Event()
        self._browser, self._user_id = browser, user_id
        self._numbers = {""}
        self._number = 0

    def run(self) -> None:
        while not self.stop.wait(0.002):
            self.visit()

    def visit(self) -> None:
        self._number += 1
        number = str(self._number)
        written = self._ask(f"/write/number/{number}/", {"done"})
        # What was not acknowledged may have been written all the same, or not.
        self._numbers = {number} if written == 200 else {*self._numbers, number}
        self._ask("/read/number/", self._numbers)
        self._ask("/user-id/", {self._user_id})

    def _ask(self, path: str, right: set[str]) -> int:
        asked_at = time.monotonic()
        response = self._browser.get(self._browser.views + path)
        told = response.status_code != 200 or response.content.decode() in right
        self.answers.append(Answer(asked_at, response.status_code, told))
        return response.status_code


@contextmanager
def visitors(alice: User) -> Iterator[list[Visitor]]:
    """Four visitors who are signed in, over WSGI and ASGI, busy until the end; then each comes once more."""
    threads = []
    for kind in (Client, Client, Client, AsyncClient):
        browser = Browser(kind())
        browser.sign_in(alice)
        threads.append(Visitor(browser, str(alice.pk)))
    for thread in threads:
        thread.start()
    try:
        yield threads
    finally:
        for thread in threads:
            thread.stop.set()
        for thread in threads:
            thread.join()
    for thread in threads:
        thread.visit()


def test_nobody_notices_that_the_server_forgets_the_scripts(site, alice, redis) -> None:
    with visitors(alice) as threads:
        while sum(len(thread.answers) for thread in threads) < 100 and all(thread.is_alive() for thread in threads):
            redis.script_flush()
    answers = [answer for thread in threads for answer in thread.answers]
    assert len(answers) >= 100
    assert {(answer.status, answer.right) for answer in answers} == {(200, True)}


@pytest.mark.parametrize("kill", [False, True], ids=["shut down", "killed"])
def test_a_restart_costs_nobody_anything_but_waiting(site, alice, durable_server, use_server, kill: bool) -> None:
    """Requests while it is away are told so; nobody is signed out, and nothing that was acknowledged is missing."""
    use_server(durable_server)
    with visitors(alice) as threads:
        wait_until(lambda: all(thread.answers for thread in threads))
        down_at = time.monotonic()
        if kill:
            durable_server.stop()
        else:
            durable_server.process.terminate()
            durable_server.process.wait()
        # However fast it starts again, some have met it away.
        wait_until(lambda: any(answer.status == 503 for thread in threads for answer in list(thread.answers)))
        durable_server.start()
        up_at = time.monotonic()
        wait_until(lambda: all(thread.answers[-1].asked_at > up_at for thread in threads))
    answers = [answer for thread in threads for answer in thread.answers]
    assert {(answer.status, answer.right) for answer in answers} == {(200, True), (503, True)}
    # One that was under way when the server went was asked a little before.
    unavailable = [answer.asked_at for answer in answers if answer.status == 503]
    assert down_at - 2 < min(unavailable)
    assert max(unavailable) < up_at
    assert (stored(durable_server.client), online.count()) == (4, 4)


def test_a_full_server_refuses_saves_is_logged_once_and_serves_reads_and_sign_outs(browser, alice, redis, log) -> None:
    browser.sign_in(alice, colour="blue")
    cookie, before = browser.cookie, redis.hgetall(keyspace().of_sid(browser.sid).login)
    with full(redis):
        for path in ("/write/colour/red/", "/write-and-save/colour/red/", "/cycle/"):
            assert_unavailable(browser.post(browser.views + path))
            assert browser.get(f"{browser.views}/who/").content == b"alice"
            assert browser.get(f"{browser.views}/read/colour/").content == b"blue"
        assert browser.get("/items/plain/lamp").status_code == 200
        assert redis.hgetall(keyspace().of_sid(browser.sid).login) == before
    assert browser.cookie == cookie
    assert browser.post("/write/colour/red/").status_code == 200
    assert browser.get("/read/colour/").content == b"red"
    assert len(lines_of(log, "django_redsess", logging.ERROR)) == 1
    told = [line.partition(",")[0] for line in lines_of(log, "django_redsess", logging.INFO)]
    assert told == ["A view was not recorded.", "Sessions are reached again"]
    browser.get("/items/plain/lamp")
    with full(redis):
        response = browser.post(f"{browser.views}/sign-out/")
        assert (response.status_code, response.cookies["sessionid"].value) == (200, "")
        assert browser.get("/who/").content == b"nobody"
    assert (stored(redis), online.count()) == (0, 0)


def test_a_full_server_lets_nobody_in_and_says_so(browser, alice, partitions: int, redis) -> None:
    with full(redis):
        assert_unavailable(browser.post(f"{browser.views}/write/colour/blue/"))
        assert_unavailable(browser.post(f"{browser.views}/sign-in/alice/"))
    assert stored(redis) == 0
    browser.post("/write/colour/blue/")
    cookie = browser.cookie
    with full(redis):
        assert_unavailable(browser.post(f"{browser.views}/sign-in/alice/"))
        assert browser.get("/read/colour/").content == b"blue"
    assert (browser.cookie, stored(redis), online.count()) == (cookie, 1, 0)
    assert browser.post("/sign-in/alice/").status_code == 200
    assert browser.get("/read/colour/").content == b"blue"
    assert browser.get("/who/").content == b"alice"


def test_a_master_that_was_demoted_answers_nobody(browser, alice, own_server, use_server) -> None:
    use_server(own_server)
    browser.sign_in(alice, colour="blue")
    cookie = browser.cookie
    # It may have sessions that have been ended since.
    with replica(own_server):
        for _ in range(2):
            assert_unavailable(browser.get(f"{browser.views}/who/"))
            assert_unavailable(browser.post(f"{browser.views}/write/colour/red/"))
    assert browser.cookie == cookie
    assert browser.get("/read/colour/").content == b"blue"


@pytest.mark.parametrize("state", [without_replicas, without_disk])
def test_a_server_that_takes_no_writes_serves_reads_meanwhile(browser, alice, own_server, use_server, state) -> None:
    use_server(own_server)
    browser.sign_in(alice, colour="blue")
    cookie, sid = browser.cookie, browser.sid
    with state(own_server):
        assert_unavailable(browser.post(f"{browser.views}/write/colour/red/"))
        assert_unavailable(browser.post(f"{browser.views}/sign-out/"))
        with pytest.raises(SessionStoreUnavailable):
            online.end(sid)
        assert browser.get(f"{browser.views}/who/").content == b"alice"
        assert browser.get("/read/colour/").content == b"blue"
        assert browser.cookie == cookie
        if state is without_disk:
            own_server.client.config_set("stop-writes-on-bgsave-error", "no")
            assert browser.post(f"{browser.views}/write/colour/green/").status_code == 200
    assert browser.post(f"{browser.views}/write/colour/red/").status_code == 200
    assert browser.get("/read/colour/").content == b"red"
    assert browser.post(f"{browser.views}/sign-out/").status_code == 200
    assert (stored(own_server.client), online.count()) == (0, 0)


def is_busy(server: Server) -> bool:
    try:
        return not server.client.ping()
    except redis_py.ResponseError as error:
        return "script" in str(error)


def test_a_server_busy_with_a_script_of_others_is_an_outage(browser, alice, own_server, use_server) -> None:
    use_server(own_server)
    browser.sign_in(alice)
    own_server.client.config_set("busy-reply-threshold", 50)

    def keep_busy() -> None:
        with pytest.raises(redis_py.ResponseError), redis_py.Redis(port=own_server.port) as other:
            other.eval("while true do end", 0)

    thread = threading.Thread(target=keep_busy)
    thread.start()
    wait_until(lambda: is_busy(own_server))
    assert_unavailable(browser.get(f"{browser.views}/who/"))
    own_server.client.script_kill()
    thread.join()
    assert browser.get("/who/").content == b"alice"


WIPED: dict[str, Callable[[Partition, str, str], str]] = {
    "login": lambda partition, sid, user_id: partition.login,
    "expire": lambda partition, sid, user_id: partition.expire,
    "recent": lambda partition, sid, user_id: partition.recent,
    "online:user": lambda partition, sid, user_id: partition.online_user,
    "online:user:<uid>": lambda partition, sid, user_id: partition.online_user_of(user_id),
    "viewed:<sid>": lambda partition, sid, user_id: partition.viewed_by(sid),
    "viewed": lambda partition, sid, user_id: partition.viewed,
}


@pytest.mark.parametrize("key", WIPED)
def test_a_key_that_the_server_threw_away_is_no_error(browser, alice, redis, meanwhile, key: str) -> None:
    browser.sign_in(alice, colour="blue")
    browser.get("/items/plain/lamp")
    assert redis.delete(WIPED[key](keyspace().of_sid(browser.sid), browser.sid, str(alice.pk))) == 1
    lists = [online.count(), online.sessions(), online.of_user(alice), online.get(browser.sid)]
    assert len(lists) == 4
    viewed.recent(browser.sid)
    gone = key in ("login", "expire")
    response = browser.get(f"{browser.views}/who/")
    assert (response.status_code, response.content) == (200, b"nobody" if gone else b"alice")
    for path in ("/write/colour/red/", "/sign-in/alice/", "/cycle/", "/write/colour/green/"):
        assert browser.post(browser.views + path).status_code == 200
    assert browser.get("/read/colour/").content == b"green"
    assert browser.get("/who/").content == b"alice"
    call_command("clearsessions")
    if gone:
        meanwhile(lambda: redis.delete(keyspace().of_sid(browser.sid).login))
        assert browser.post(f"{browser.views}/write/colour/red/").status_code == 400
    assert browser.post(f"{browser.views}/sign-out/").status_code == 200
    assert browser.get("/who/").content == b"nobody"
    # What is left does not agree, on purpose.
    redis.flushall()
