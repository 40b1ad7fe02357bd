"""The pools of sessions, beside that of the alias, and what they must mind: they rarely look at a connection."""

import asyncio
import gc
import random
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import redis as redis_py
from django.core.cache import caches as django_caches
from redis.credentials import CredentialProvider
from redis.exceptions import ConnectionError as RedisConnectionError

from django_redsess.exceptions import SessionStoreUnavailable
from django_redsess.transport import attempts, connections, pools
from django_redsess.transport.packing import pack_command
from django_redsess.transport.pools import PooledConnection
from tests.helpers.backends import BACKENDS, entry, pool_of_cache
from tests.helpers.outages import PATIENCE
from tests.helpers.pooled import give, take
from tests.helpers.running import run_python, wait_until
from tests.helpers.store import afetch, fetch

PING = pack_command("PING")
WAIT = pack_command("BLPOP", "{redsess}:nothing", 5)

Use = Callable[..., Any]


@pytest.fixture
def use(server, settings) -> Iterator[Use]:
    """Return a function that gives the site a pool of its own, as its arguments say, and returns that."""
    made = []

    def use(*, backend: str = "Django", blocking: bool = False, **options: Any) -> Any:
        # django-redis finds a pool by its address, and by nothing else.
        url = f"{server.url}?client_name=lean-{random.getrandbits(60)}"
        if blocking:
            # It has a time-out of its own.
            options.setdefault("timeout", options.get("socket_timeout", 20))
        kind = "BlockingConnectionPool" if blocking else "ConnectionPool"
        # The options win.
        options = {"socket_timeout": PATIENCE, "socket_connect_timeout": PATIENCE, **options}
        settings.CACHES = {"sessions": entry(backend, url, pool_class=kind, **options)}
        made.append(connections.pool())
        return made[-1]

    yield use
    for each in made:
        each.disconnect()


@pytest.fixture(params=[("Django", False), ("django-redis", True)], ids=["plain", "blocking"])
def use_either(request, use) -> Use:
    """Do as ``use`` does, with pools of both kinds: one that is made from settings, and one that the cache has."""
    backend, blocking = request.param
    return lambda **options: use(**{"backend": backend, "blocking": blocking, **options})


def own_id(pooled: PooledConnection) -> int:
    pooled.connection.send_command("CLIENT", "ID")
    return int(pooled.connection.read_response())


def open_connections(redis: redis_py.Redis, pool: Any) -> int:
    """Count the connections that the server has of ``pool``. The cache's have the same name."""
    return [each["name"] for each in redis.client_list(_type="normal")].count(pool.connection_kwargs["client_name"])


def close_all(redis: redis_py.Redis) -> None:
    """Let the server close all connections but the test's, as one does that is restarted."""
    redis.client_kill_filter(_type="normal", skipme=True)


def idle(pool: Any, count: int) -> list[Any]:
    """See that ``pool`` has so many connections that nobody uses, with open connections."""
    taken = [take(pool) for _ in range(count)]
    for connection in reversed(taken):
        give(pool, connection)
    return taken


def test_the_connection_given_back_last_is_taken_first(use) -> None:
    pool = use()
    first, second = idle(pool, 2)
    assert (take(pool), take(pool)) == (first, second)
    give(pool, first)
    give(pool, second)
    assert take(pool) is second


@pytest.mark.parametrize("backend", BACKENDS)
def test_no_more_connections_than_the_maximum(use_either, backend: str) -> None:
    pool = use_either(backend=backend, max_connections=2, socket_timeout=0.1)
    taken = [take(pool), take(pool)]
    with pytest.raises(RedisConnectionError):
        take(pool)
    # The cache has a maximum of its own.
    django_caches["sessions"].set("number", 1)
    assert django_caches["sessions"].get("number") == 1
    django_caches["sessions"].delete("number")
    give(pool, taken.pop())
    give(pool, take(pool))


def test_who_waits_first_is_first_served(use_either) -> None:
    pool = use_either(max_connections=1)
    taken = take(pool)
    got: list[tuple[int, PooledConnection]] = []

    def visit(number: int) -> None:
        pooled = take(pool)
        got.append((number, pooled))
        give(pool, pooled)

    waiting = [threading.Thread(target=visit, args=(number,)) for number in range(5)]
    for count, thread in enumerate(waiting, 1):
        thread.start()
        wait_until(lambda count=count: len(pool.waiters) == count)
    assert got == []
    give(pool, taken)
    for thread in waiting:
        thread.join(20)
    assert got == [(number, taken) for number in range(5)]


def test_100_threads_at_once_are_served(use_either, redis) -> None:
    pool, answers = use_either(max_connections=10), []
    start = threading.Barrier(100)

    def visit(number: int) -> None:
        value = str(number).encode()
        start.wait()
        for _ in range(5):
            answers.append(fetch("echo", pack_command("ECHO", value), 1) == [value])

    with ThreadPoolExecutor(100) as threads:
        list(threads.map(visit, range(100)))
    assert answers == [True] * 500
    assert open_connections(redis, pool) <= 10


class Interruption(BaseException):
    """As a signal's handler raises one."""


@pytest.fixture
def interrupted_after() -> Iterator[Callable[[float], None]]:
    """Return a function that says in how many seconds the test is interrupted; 0 takes that back."""

    is_wanted = False

    def interrupt(*args: Any) -> None:
        # Another thread may get the signal, and tell this one later.
        if is_wanted:
            raise Interruption

    def interrupt_after(seconds: float) -> None:
        nonlocal is_wanted
        is_wanted = seconds > 0
        signal.setitimer(signal.ITIMER_REAL, seconds)

    before = signal.signal(signal.SIGALRM, interrupt)
    yield interrupt_after
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
def no_collection() -> Iterator[None]:
    """Let nothing be collected: a large process may take long to do it."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_collection")
@pytest.mark.parametrize("turns", [250, pytest.param(3000, marks=pytest.mark.slow)])
def test_interruptions_take_no_place(use, interrupted_after, turns: int) -> None:
    pool = use(blocking=True, max_connections=4)
    interruptions = 0
    for turn in range(turns):
        # Connecting takes locks of others that a signal may leave locked: not here, but below.
        assert fetch("ping", PING, 1) == [b"PONG"]
        try:
            try:
                interrupted_after(random.uniform(1e-5, 1e-4))
                value = str(turn)
                assert fetch("echo", pack_command("ECHO", value) + PING, 2) == [value.encode(), b"PONG"]
            finally:
                interrupted_after(0)
        except Interruption:
            interruptions += 1
    assert interruptions > turns / 10
    assert len({own_id(pooled) for pooled in idle(pool, 4)}) == 4


def test_an_interrupted_greeting_takes_no_place(use) -> None:
    pool = use(max_connections=1)
    greet, interrupting = pool.connection_kwargs["redis_connect_func"], True

    def greet_or_not(connection: Any) -> None:
        if interrupting:
            raise Interruption
        greet(connection)

    pool.connection_kwargs["redis_connect_func"] = greet_or_not
    for _ in range(2):
        with pytest.raises(Interruption):
            fetch("ping", PING, 1)
    interrupting = False
    assert fetch("ping", PING, 1) == [b"PONG"]


GUARD = 20
"""Seconds after which a test gives up."""

LONG = 600
"""Seconds that a waiter would wait for a connection that nobody returns."""


def use_until_interrupted(pool: Any) -> None:
    """Use a connection until three others wait for it, and be interrupted then."""

    def interrupt(replies: list[Any]) -> None:
        wait_until(lambda: len(pool.waiters) == 3)
        raise Interruption

    with pytest.raises(Interruption):
        connections.send(pool, PING, 1, interrupt)


def test_a_request_that_is_interrupted_lets_those_in_line_go_on(use_either) -> None:
    pool = use_either(max_connections=1, socket_timeout=LONG)
    idle(pool, 1)
    with ThreadPoolExecutor(4) as threads:
        interrupted = threads.submit(use_until_interrupted, pool)
        wait_until(lambda: not pool.idle)
        waiting = [threads.submit(lambda: fetch("ping", PING, 1)) for _ in range(3)]
        assert [each.result(GUARD) for each in waiting] == [[b"PONG"]] * 3
        interrupted.result(GUARD)


def test_a_task_that_is_cancelled_lets_those_in_line_go_on(use) -> None:
    use(max_connections=1, socket_timeout=LONG)

    async def meet() -> None:
        pool = await connections.loop_pool(connections.pool())
        cancelled, *waiting = [
            asyncio.create_task(afetch(*each)) for each in [("wait", WAIT, 1)] + 3 * [("ping", PING, 1)]
        ]
        while len(pool.waiters) < 3:
            await asyncio.sleep(0)
        cancelled.cancel()
        async with asyncio.timeout(GUARD):
            assert await asyncio.gather(*waiting) == [[b"PONG"]] * 3

    asyncio.run(meet())


def test_who_is_interrupted_while_waiting_takes_no_place(use) -> None:
    use(max_connections=1, socket_timeout=LONG)

    async def meet() -> None:
        pool = await connections.loop_pool(connections.pool())
        used, *waiting = [asyncio.create_task(afetch(*each)) for each in [("wait", WAIT, 1)] + 3 * [("ping", PING, 1)]]
        while len(pool.waiters) < 3:
            await asyncio.sleep(0)
        # The first is cancelled as soon as it has got the connection, and before it goes on.
        pool.serve_waiters = lambda serve=pool.serve_waiters: (serve(), waiting[0].cancel())
        waiting[1].cancel()
        used.cancel()
        async with asyncio.timeout(GUARD):
            assert await waiting[2] == [b"PONG"]
        assert [each.cancelled() for each in (used, *waiting)] == [True, True, True, False]

    asyncio.run(meet())


def interrupt_use(pool: Any, pooled: PooledConnection) -> None:
    give(pool, pooled)
    connections.send(pool, PING, 1, lambda replies: 1 / 0)


def close_idle(pool: Any, pooled: PooledConnection) -> None:
    give(pool, pooled)
    pool.close_idle()


@pytest.mark.parametrize("close", [interrupt_use, close_idle], ids=["used", "idle"])
def test_a_connection_whose_close_is_interrupted_is_given_back(
    use, monkeypatch, close: Callable[[Any, PooledConnection], None]
) -> None:
    pool = use(max_connections=1)
    pooled = take(pool)
    before = own_id(pooled)

    def interrupted(*args: Any) -> None:
        raise Interruption

    with monkeypatch.context() as changed:
        changed.setattr(pooled.connection, "disconnect", interrupted)
        with pytest.raises(Interruption):
            close(pool, pooled)
    again = take(pool)
    # It is opened anew: it may have replies unread.
    assert (again is pooled, own_id(again) != before) == (True, True)
    give(pool, again)


FORKED = """
import os, sys
from django.conf import settings
from tests.helpers.backends import entry
made = entry(sys.argv[1], sys.argv[2], seconds=5, pool_class=sys.argv[3])
settings.configure(SESSION_CACHE_ALIAS="sessions", CACHES={"sessions": made})
from django_redsess.transport import connections
from tests.helpers.pooled import give, take
from tests.transport.test_pools import own_id
pool = connections.pool()
used, idle = take(pool), take(pool)
parents = {own_id(used), own_id(idle)}
give(pool, idle)
for early in (True, False):
    child = os.fork()
    if not child:
        # A process that was forked in the middle of a request gives back what its parent took.
        if early:
            give(pool, used)
        taken = [take(pool), take(pool)]
        own = {own_id(connection) for connection in taken}
        if not early:
            give(pool, used)
        assert not own & parents, (own, parents)
        for connection in taken:
            give(pool, connection)
        again = [take(pool), take(pool), take(pool)]
        assert not {own_id(connection) for connection in again} & parents
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
give(pool, used)
assert {own_id(take(pool)), own_id(take(pool))} == parents
"""


@pytest.mark.parametrize(
    ("backend", "kind"),
    [
        ("django-redis", "ConnectionPool"),
        pytest.param("Django", "BlockingConnectionPool", marks=pytest.mark.slow),
    ],
)
def test_a_fork_uses_nothing_of_its_parent(server, backend: str, kind: str) -> None:
    run_python("-c", FORKED, backend, server.url, kind, quiet=True)


IN_GREENLETS = """
import sys
from gevent import monkey
monkey.patch_all()
import gevent
from django.conf import settings
from tests.helpers.backends import entry
made = entry("Django", sys.argv[1], seconds=600, pool_class=sys.argv[2], max_connections=1)
settings.configure(SESSION_CACHE_ALIAS="sessions", CACHES={"sessions": made})
from django_redsess.transport import connections
from tests.transport.test_pools import PING, WAIT
from tests.helpers.store import fetch
pool = connections.pool()
fetch("ping", PING, 1)
interrupted = gevent.spawn(fetch, "wait", WAIT, 1)
while pool.idle:
    gevent.sleep(0)
waiting = [gevent.spawn(fetch, "ping", PING, 1) for _ in range(3)]
while len(pool.waiters) < 3:
    gevent.sleep(0)
waiting.pop(0).kill(block=False)
interrupted.kill(block=False)
assert gevent.wait(waiting, timeout=20) == waiting, "waited in vain"
assert [each.value for each in waiting] == [[b"PONG"]] * 2
"""


@pytest.mark.parametrize("kind", ["ConnectionPool", "BlockingConnectionPool"])
def test_a_greenlet_that_is_killed_lets_those_in_line_go_on(server, kind: str) -> None:
    run_python("-c", IN_GREENLETS, server.url, kind, quiet=True)


def test_what_was_unused_for_long_is_looked_at_first(use, redis, monkeypatch) -> None:
    monkeypatch.setattr(pools, "UNUSED_SECONDS", -1)
    pool = use()
    idle(pool, 3)
    close_all(redis)
    # This is not repeated.
    assert [attempts.ask_server(connections.pool(), "PING") for _ in range(3)] == [b"PONG"] * 3


def test_a_restart_that_closed_all_connections_is_met_once(use, redis) -> None:
    pool = use()
    for _ in range(3):
        idle(pool, 10)
        close_all(redis)
        assert fetch("ping", PING, 1) == [b"PONG"]


def test_a_restart_that_closed_all_connections_of_a_loop_is_met_once(use, redis) -> None:
    use(max_connections=5)

    async def meet() -> None:
        for _ in range(3):
            assert await asyncio.gather(*(afetch("ping", PING, 1) for _ in range(20))) == [[b"PONG"]] * 20
            # The loop does not get to notice it.
            close_all(redis)
            assert await afetch("ping", PING, 1) == [b"PONG"]

    asyncio.run(meet())


def test_a_connection_that_timed_out_empties_the_pool(use_either) -> None:
    pool = use_either(socket_timeout=0.1)
    pooled_connections = idle(pool, 3)
    with pytest.raises(SessionStoreUnavailable):
        fetch("wait", WAIT, 1)
    assert [pooled.is_clean for pooled in pooled_connections] == [False] * 3
    assert fetch("ping", PING, 1) == [b"PONG"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_sessions_have_connections_of_their_own(use_either, redis, backend: str) -> None:
    pool = use_either(backend=backend)
    of_alias = pool_of_cache("sessions")
    before = redis.info("stats")["total_connections_received"]
    kind, options = type(of_alias), dict(of_alias.connection_kwargs)
    for number in range(5):
        django_caches["sessions"].set("number", number)
        assert attempts.ask_server(connections.pool(), "PING") == b"PONG"
        assert django_caches["sessions"].get("number") == number
        django_caches["sessions"].delete("number")
    assert redis.info("stats")["total_connections_received"] == before + 2
    assert connections.pool() is pool
    assert (type(of_alias), of_alias.connection_kwargs) == (kind, options)
    assert kind.__module__ in ("redis.connection", "valkey.connection")


class Rotated(CredentialProvider):
    password = "first"

    def get_credentials(self) -> tuple[str, str]:
        return "shop", self.password


class Token:
    """A password that is told to a pool, as redis-py's providers of tokens tell theirs."""

    def try_get(self, name: str) -> str:
        return "shop"

    def get_value(self) -> str:
        return "second"


@pytest.fixture
def shop(redis) -> Iterator[None]:
    redis.acl_setuser("shop", enabled=True, passwords=["+first", "+second"], keys=["*"], commands=["+@all"])
    yield
    redis.acl_deluser("shop")


@pytest.mark.usefixtures("shop")
def test_a_new_connection_has_the_credentials_of_today(use, redis) -> None:
    provider = Rotated()
    pool = use(credential_provider=provider)
    idle(pool, 2)
    provider.password = "second"
    redis.acl_setuser("shop", enabled=True, passwords=["-first"])
    close_all(redis)
    assert fetch("who", pack_command("ACL", "WHOAMI"), 1) == [b"shop"]


@pytest.mark.usefixtures("shop")
def test_new_credentials_reach_idle_connections_and_those_in_use(use) -> None:
    pool = use()
    used, unused = take(pool), take(pool)
    give(pool, unused)
    pool.re_auth_callback(Token())
    give(pool, used)
    for pooled in (take(pool), take(pool)):
        pooled.connection.send_command("ACL", "WHOAMI")
        assert pooled.connection.read_response() == b"shop"


def test_a_connection_that_is_to_move_is_opened_anew(use) -> None:
    pool = use(protocol=3)
    pooled = take(pool)
    if not hasattr(pooled.connection, "mark_for_reconnect"):
        pytest.skip("this redis-py knows no maintenance")
    before = own_id(pooled)
    give(pool, pooled)
    # As redis-py does with all connections that are in use, when the server says that it moves.
    pool.source.update_active_connections_for_reconnect()
    assert take(pool) is pooled
    assert own_id(pooled) != before
