from __future__ import annotations

import os
import pty
import signal
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextvars import copy_context
from pathlib import Path
from typing import Any

import pytest
import redis as redis_py
from django.contrib.auth.models import update_last_login
from django.contrib.auth.signals import user_logged_in
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis

from django_redsess.backend import SessionStore
from django_redsess.transport import client, scripts
from testproject import servers
from tests.site.meanwhile import meanwhile as in_the_middle
from tests.support.agreement import disagreements
from tests.support.behind import have_partitions
from tests.support.outages import caches
from tests.support.running import Running

# How many examples of a property are tried: --hypothesis-profile=short in `make test`. They are others in each run.
for name, count in {"short": 10, "full": 100}.items():
    hypothesis.register_profile(
        name,
        max_examples=count,
        deadline=None,
        derandomize=False,
        print_blob=True,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    )
hypothesis.load_profile("full")


def pytest_configure() -> None:
    if "REDSESS_SKIP_NOTHING" in os.environ and "redis" not in servers.available():
        raise pytest.UsageError("no redis-server is installed")
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # Where a shell started the tests in the background. What they start would ignore it, too, and wait for ever.
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Run at least four tests at once: a good part of the time that they take is waiting."""
    return max(4, os.cpu_count() or 1)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run what is marked ``both_servers`` on Redis too, where it is installed; not in ``make test``."""
    if "server" in metafunc.fixturenames and metafunc.definition.get_closest_marker("both_servers"):
        kinds = [
            name if name == "valkey" else pytest.param(name, marks=pytest.mark.slow) for name in servers.available()
        ]
        metafunc.parametrize("server", kinds, indirect=True)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """
    Mark as slow those runs of a test whose parameters are all shown by other runs of it.

    Of a test for three policies, with one and four partitions, over WSGI and ASGI that leaves three runs of twelve:
    each policy, number and way is seen in ``make test``, and all their combinations in ``make test-all``.
    """
    runs: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if hasattr(item, "callspec") and not item.get_closest_marker("slow"):
            runs[item.nodeid.partition("[")[0]].append(item)
    for left in runs.values():
        # What a run shows: of each table of parameters (and each fixture with some) the row that it takes.
        shown = {run: set(enumerate(run.callspec._idlist)) for run in left}  # type: ignore[attr-defined]
        unseen = set[tuple[int, str]]().union(*shown.values())
        while unseen:
            best = max(left, key=lambda run: len(unseen & shown[run]))
            unseen -= shown[best]
            left.remove(best)
        for run in left:
            run.add_marker("slow")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """
    Run each test in a context of its own.

    With each change of CACHES, Django leaves a context variable behind, and asgiref goes through all there are whenever
    it changes threads: after some thousand tests, a request over ASGI would take seconds.
    """
    runner = item.config.pluginmanager.get_plugin("runner")
    return copy_context().run(runner.pytest_runtest_protocol, item=item, nextitem=nextitem)


def pytest_report_header() -> str:
    return "servers: " + ", ".join(f"{name} ({binary.name})" for name, binary in servers.available().items())


@pytest.fixture(scope="session")
def kept_servers() -> Iterator[dict[str, servers.Server]]:
    """One server of each kind for the whole run, once it has been asked for."""
    started: dict[str, servers.Server] = {}
    yield started
    for each in started.values():
        each.close()


@pytest.fixture(scope="session")
def server(request: pytest.FixtureRequest, kept_servers: dict[str, servers.Server]) -> servers.Server:
    """The embedded server; where a test is marked ``both_servers``, one after the other."""
    kind = getattr(request, "param", "valkey")
    if kind not in kept_servers:
        kept_servers[kind] = servers.Server(servers.available()[kind])
    return kept_servers[kind]


@pytest.fixture
def own_server(server: servers.Server) -> Iterator[servers.Server]:
    """A server of the same kind that this test alone uses, and may stop and start."""
    yield from servers.serving(server.binary)


@pytest.fixture
def redis(server: servers.Server) -> redis_py.Redis:
    """A plain client, to look at what is stored."""
    return server.client


@pytest.fixture(autouse=True)
def empty_store(request: pytest.FixtureRequest, settings: Any) -> Iterator[None]:
    """
    Point the site at the server; afterwards see that all keys agree, and empty it.

    What is marked ``no_server`` has none, and fails where it needs one.
    """
    if request.node.get_closest_marker("no_server"):
        settings.CACHES = caches("redis://127.0.0.1:1/0")
        yield
        return
    server: servers.Server = request.getfixturevalue("server")
    settings.CACHES = caches(server.url, timeout=5)
    # Of a demo that runs meanwhile, the settings would take the number of partitions. The shop's limit is the shop's.
    settings.REDSESS = {**settings.REDSESS, "PARTITIONS": 1, "MAX_SESSIONS_PER_USER": None}
    yield
    found = disagreements(server.client)
    server.client.flushall()
    assert not found


@pytest.fixture(params=[1, 4], ids=["1 partition", "4 partitions"])
def partitions(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Run the test twice, with a store of one partition and of four, whatever else of the settings it changes."""
    count: int = request.param
    have_partitions(monkeypatch, count)
    return count


@pytest.fixture
def new_session() -> Callable[..., SessionStore]:
    """Return a function that saves a session with the given data, signed in as ``user`` where one is named."""

    def create(user: str = "", **data: Any) -> SessionStore:
        session = SessionStore()
        session.update({**data, **({"_auth_user_id": user} if user else {})})
        session.save()
        return session

    return create


@pytest.fixture
def users_in_no_table(settings: Any) -> Iterator[None]:
    """Let everybody sign in who has a number."""
    settings.AUTHENTICATION_BACKENDS = ["tests.site.people.InMemory"]
    user_logged_in.disconnect(dispatch_uid="update_last_login")
    yield
    user_logged_in.connect(update_last_login, dispatch_uid="update_last_login")


@pytest.fixture
def meanwhile() -> Iterator[Callable[[Callable[[], object]], None]]:
    """Give a function that says what happens, once, in the middle of a view, mostly before it changes the session."""
    yield in_the_middle.does
    in_the_middle.does(None)


@pytest.fixture
def set_limit(settings: Any) -> Callable[..., None]:
    """Return a function that says how many sessions a user may have."""

    def set_limit(maximum: Any, policy: str = "end_oldest") -> None:
        settings.REDSESS = {**settings.REDSESS, "MAX_SESSIONS_PER_USER": maximum, "SESSION_LIMIT_POLICY": policy}

    return set_limit


@pytest.fixture
def commands(redis: redis_py.Redis) -> Callable[[], dict[str, int]]:
    """Return a function that counts the commands that clients sent since the last call (or the test's start)."""

    def count() -> dict[str, int]:
        stats = redis.info("commandstats")
        redis.config_resetstat()
        return {name.removeprefix("cmdstat_"): stat["calls"] for name, stat in stats.items()}

    count()
    return count


@pytest.fixture
def known_scripts(redis: redis_py.Redis) -> None:
    """Else the first reply to each is that it is not known: nothing is lost with that one."""
    for script in scripts.every():
        redis.script_load(script.text)


@pytest.fixture
def round_trips(monkeypatch: pytest.MonkeyPatch, known_scripts: None) -> Callable[[], int]:
    """Return a function that counts how often something was sent and waited for since the last call."""
    sent = 0

    def counting(exchange: Any) -> Any:
        def counted(*args: Any) -> Any:
            nonlocal sent
            sent += 1
            return exchange(*args)

        return counted

    def count() -> int:
        nonlocal sent
        since, sent = sent, 0
        return since

    for name in ("_exchange", "_aexchange"):
        monkeypatch.setattr(client, name, counting(getattr(client, name)))
    return count


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch, known_scripts: None) -> list[str]:
    """Name what has been sent since the test's start, in its order: scripts, and what is read by plain commands."""
    names: list[str] = []

    def run(partition: Any, script: scripts.Script, *args: Any, **more: Any) -> Any:
        names.append(script.name)
        return ways[0](partition, script, *args, **more)

    def fetch(name: str, packed: bytes, *args: Any, **more: Any) -> Any:
        # The short way of a save may be such a command, too.
        names.append(scripts.CHANGE.name if scripts.CHANGE.digest.encode() in packed else name)
        return ways[1](name, packed, *args, **more)

    ways = client.run, client.fetch
    monkeypatch.setattr(client, "run", run)
    monkeypatch.setattr(client, "fetch", fetch)
    return names


@pytest.fixture
def start(server: servers.Server, tmp_path: Path) -> Iterator[Callable[..., Running]]:
    """Return a function that starts a command as a process, on the test's server unless ``url`` names another."""
    started: list[Running] = []

    def start(*arguments: str, url: str = server.url, **more: Any) -> Running:
        started.append(Running(tmp_path, url, *arguments, **more))
        return started[-1]

    yield start
    for each in started:
        each.kill()


@pytest.fixture
def answer(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], int]]:
    """Return a function that types on the terminal that the command asks."""
    ear, mouth = pty.openpty()
    with open(mouth) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        yield lambda text: os.write(ear, text.encode())
        monkeypatch.undo()
    os.close(ear)
