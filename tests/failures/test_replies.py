"""A reply belongs to its request: whatever interrupts one, no other gets its reply."""

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partialmethod
from typing import Any

import pytest
from django.test import AsyncClient
from redis.asyncio.connection import AbstractConnection

from django_redsess.backend import SessionStore
from django_redsess.exceptions import SessionStoreUnavailable
from django_redsess.transport.packing import pack_command
from testproject.servers import Server
from tests.helpers.outages import BUDGET, TIMEOUT, caches, end_outage, frozen
from tests.helpers.proxy import Proxy
from tests.helpers.running import wait_until
from tests.helpers.sentinels import behind_sentinel
from tests.helpers.serving import Answer, assert_own, serving
from tests.helpers.store import afetch, fetch

GREETING = "SETINFO"
"""What a new connection sends before the first command of ours."""


@pytest.fixture(params=["RESP3", *(pytest.param(name, marks=pytest.mark.slow) for name in ("RESP2", "sentinel"))])
def reach(request, site, proxy, server, settings, tmp_path) -> Iterator[Callable[..., None]]:
    """Return a function that points the site at the proxy; what it is given is for the pool of connections."""
    with ExitStack() as ended:

        def use(*, timeout: float = TIMEOUT, **pool: Any) -> None:
            if request.param == "sentinel":
                sentinel = behind_sentinel(server, tmp_path, port=proxy.port, timeout=timeout, **pool)
                settings.CACHES = ended.enter_context(sentinel)
            else:
                settings.CACHES = caches(proxy.url, timeout=timeout)
                pool["protocol"] = int(request.param[-1])
                settings.CACHES["sessions"]["OPTIONS"]["CONNECTION_POOL_KWARGS"] = pool
                # django-redis finds a pool by its address, and by nothing else.
                settings.CACHES["sessions"]["LOCATION"] += f"?client_name={request.param}-{len(pool)}-{timeout}"
            end_outage()

        yield use


@pytest.fixture
def visitors(reach, new_session) -> dict[str, str]:
    """Names of visitors, and the cookie of each; their sessions hold their names."""
    reach()
    return {name: new_session(name=name).session_key or "" for name in ("alice", "bob", "carol", "dan", "eve", "frank")}


def test_a_stall_hands_nobody_the_reply_of_another(visitors, server) -> None:
    answers: list[tuple[str, Answer]] = []
    over = threading.Event()

    def visit(site: Any, name: str, cookie: str) -> None:
        while not over.is_set():
            answers.append((name, site.ask("/read/name/", cookie)))
            answers.append((name, site.ask(f"/write/seen/{name}/", cookie)))

    def all_wrote(since: int) -> bool:
        return {name for name, answer in answers[since:] if answer.text == "done"} == visitors.keys()

    with serving() as site:
        threads = [threading.Thread(target=visit, args=(site, *visitor)) for visitor in visitors.items()]
        for thread in threads:
            thread.start()
        wait_until(lambda: all_wrote(0))
        with frozen(server):
            # Longer than a command and its repetition wait.
            time.sleep(2.5 * TIMEOUT)
        thawed = len(answers)
        wait_until(lambda: all_wrote(thawed))
        over.set()
        for thread in threads:
            thread.join()
        assert_own(answers, visitors)


class Interruption(BaseException):
    """As a signal's handler raises one: no time-out, and no error of the client."""


@pytest.fixture
def interrupting() -> Iterator[None]:
    def interrupt(*args: Any) -> None:
        raise Interruption

    before = signal.signal(signal.SIGUSR1, interrupt)
    yield
    signal.signal(signal.SIGUSR1, before)


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGUSR1)
    # The command goes on to the server when this returns.
    time.sleep(0.1)


@pytest.mark.parametrize("marker", ["HGET", GREETING])
@pytest.mark.usefixtures("interrupting", "known_scripts")
def test_the_exception_of_a_signal_leaves_a_reply_to_nobody(visitors, proxy, marker: str) -> None:
    if marker == GREETING:
        proxy.refuse()
        proxy.restore()
    before = proxy.open
    proxy.before(marker, interrupt)
    with pytest.raises(Interruption):
        SessionStore(visitors["alice"]).load()
    wait_until(lambda: proxy.open == before - (marker != GREETING))
    for name, cookie in visitors.items():
        assert SessionStore(cookie)["name"] == name


HALF = pack_command("ECHO", "first") + pack_command("BLPOP", "{redsess}:nothing", 20) + pack_command("PING")
"""Its first reply comes at once, the others do not."""


def waits(server: Server) -> bool:
    return any(each["cmd"] == "blpop" for each in server.client.client_list())


@pytest.mark.usefixtures("interrupting")
def test_the_exception_of_a_signal_between_two_replies_leaves_none_to_anybody(reach, server) -> None:
    reach(timeout=10)
    pid = os.getpid()

    def interrupt() -> None:
        wait_until(lambda: waits(server))
        os.kill(pid, signal.SIGUSR1)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(Interruption):
        fetch("half", HALF, 3)
    thread.join()
    wait_until(lambda: not waits(server))
    assert fetch("ping", pack_command("PING"), 1) == [b"PONG"]


@pytest.mark.parametrize("reach", ["RESP2", "RESP3", "sentinel"], indirect=True)
def test_a_task_cancelled_between_two_replies_or_a_time_out_leaves_none_to_anybody(reach, server, monkeypatch) -> None:
    # redis-py closes such a connection by itself, too. Some of its releases did not.
    stays_open = partialmethod(AbstractConnection.read_response, disconnect_on_error=False)
    monkeypatch.setattr(AbstractConnection, "read_response", stays_open)
    reach(timeout=10)

    async def visit() -> None:
        task = asyncio.create_task(afetch("half", HALF, 3))
        while not await asyncio.to_thread(waits, server):
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await afetch("ping", pack_command("PING"), 1) == [b"PONG"]

    asyncio.run(asyncio.wait_for(visit(), 20))
    reach(timeout=0.2)
    with pytest.raises(SessionStoreUnavailable):
        fetch("half", HALF, 3)
    assert fetch("ping", pack_command("PING"), 1) == [b"PONG"]


@pytest.mark.parametrize("marker", ["HGET", GREETING])
@pytest.mark.usefixtures("known_scripts")
def test_a_cancelled_task_leaves_a_reply_to_nobody(visitors, proxy, marker: str) -> None:
    async def visit() -> None:
        if marker != GREETING:
            await SessionStore(visitors["bob"]).aload()
        before = proxy.open
        loop, task = asyncio.get_running_loop(), asyncio.create_task(SessionStore(visitors["alice"]).aload())

        def cancel() -> None:
            # Until nothing is left to do but wait for the reply.
            time.sleep(0.05)
            loop.call_soon_threadsafe(task.cancel)
            time.sleep(0.1)

        proxy.before(marker, cancel)
        with pytest.raises(asyncio.CancelledError):
            await task
        while proxy.open > before - (marker != GREETING):
            await asyncio.sleep(0.01)
        for name, cookie in visitors.items():
            assert await SessionStore(cookie).aget("name") == name

    asyncio.run(asyncio.wait_for(visit(), 20))


def test_tasks_that_are_cancelled_at_any_moment(visitors) -> None:
    async def visit(name: str) -> None:
        for number in range(60):
            session = SessionStore(visitors[name])
            try:
                async with asyncio.timeout(number / 20_000):
                    assert await session.aget("name") == name
            except TimeoutError:
                pass
        assert await SessionStore(visitors[name]).aget("name") == name

    async def visit_all() -> None:
        await asyncio.gather(*(visit(name) for name in visitors))

    asyncio.run(visit_all())


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["ConnectionPool", "BlockingConnectionPool"])
def test_300_greenlets_at_once_are_served(server, greenlets, kind: str) -> None:
    assert greenlets(server.url, f"redis.{kind}") == [300] * 3


@pytest.mark.slow
def test_greenlets_whose_time_is_up(server, greenlets) -> None:
    interrupted, own = greenlets(server.url)
    assert (interrupted > 10, own > 100) == (True, True)


async def ask_at_once(cookies: list[str]) -> list[tuple[int, bytes]]:
    async def ask(cookie: str) -> tuple[int, bytes]:
        client = AsyncClient()
        client.cookies["sessionid"] = cookie
        response = await client.get("/async/read/name/")
        return response.status_code, response.content

    return await asyncio.gather(*map(ask, cookies))


def limited(settings: Any, proxy: Proxy, kind: str, pool: dict[str, float], *, timeout: float = TIMEOUT) -> None:
    """Have this kind of pool, with these options of its own."""
    # django-redis finds a pool by its address, and by nothing else.
    settings.CACHES = caches(f"{proxy.url}?client_name={kind}", timeout=timeout)
    settings.CACHES["sessions"]["OPTIONS"] |= {"CONNECTION_POOL_CLASS": f"redis.{kind}", "CONNECTION_POOL_KWARGS": pool}
    end_outage()


@pytest.mark.parametrize(
    ("kind", "pool"),
    [("ConnectionPool", {"max_connections": 20}), ("BlockingConnectionPool", {"max_connections": 5, "timeout": 20})],
)
def test_many_tasks_wait_for_a_connection(site, new_session, settings, proxy, kind: str, pool) -> None:
    # A healthy server on a machine that is busy: no time-out is to close a connection.
    limited(settings, proxy, kind, pool, timeout=5)
    cookies = {name: new_session(name=name).session_key or "" for name in map(str, range(80))}
    before = proxy.accepted
    answers = asyncio.run(ask_at_once(list(cookies.values())))
    assert answers == [(200, name.encode()) for name in cookies]
    assert proxy.accepted - before <= pool["max_connections"]


@pytest.mark.parametrize("asynchronous", [False, True], ids=["threads", "tasks"])
def test_in_a_stall_nobody_waits_longer_than_is_set(site, new_session, settings, proxy, server, asynchronous) -> None:
    limited(settings, proxy, "BlockingConnectionPool", {"max_connections": 5, "timeout": 0.5})
    cookies = [new_session(name=str(number)).session_key or "" for number in range(16)]
    with serving() as visited, frozen(server):
        started = time.monotonic()
        if asynchronous:
            statuses = {status for status, _ in asyncio.run(ask_at_once(cookies))}
        else:
            statuses = {each.result().status for each in [visited.ask_meanwhile("/read/name/", key) for key in cookies]}
        # A place in the pool, a command, its repetition.
        assert time.monotonic() - started < 2 * BUDGET
    assert statuses == {503}
    end_outage()
