"""The benchmark's sites and their load, with few sessions: that each engine is asked for what the views say."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from dataclasses import asdict, replace
from http import HTTPStatus
from itertools import product
from pathlib import Path
from typing import Any

import psutil
import pytest

from benchmarks.engines import AGAIN, BASE, ENGINES, FLOOR, OURS, Engine
from benchmarks.fill import DATA
from benchmarks.site import VIEWS
from benchmarks.stores import Servers, Stores
from benchmarks.web import Load, left_out, measured, prepare
from benchmarks.web_servers import PROGRAMS, Site, WebError
from testproject.servers import available
from tests.helpers.running import wait_until

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
NAMES = [name for name in ENGINES if name != AGAIN]
SECONDS = 1
USERS = 3

LOADS_FOR_LONG = """
import json, sys
from benchmarks.engines import BASE, ENGINES
from benchmarks.stores import Stores
from benchmarks.web import Load, measured

load = Load(seconds=60, sessions=2)
measured(Stores(**json.loads(sys.argv[1])), [ENGINES[BASE]], programs=["gunicorn"], load=load)
"""


@pytest.fixture(scope="module")
def stores_of_all() -> Iterator[Servers]:
    with closing(Servers(next(iter(available().values())), postgres=True)) as servers:
        yield servers


@pytest.fixture(scope="module")
def stores(stores_of_all: Servers) -> Stores:
    return stores_of_all.stores


@pytest.fixture(scope="module")
def prepared(stores: Stores) -> list[Engine]:
    """All engines that this machine has, each once."""
    for program in PROGRAMS:
        if reason := unavailable(program):
            pytest.skip(reason)
    engines = [ENGINES[name] for name in NAMES if not ENGINES[name].left_out(stores)]
    prepare(engines, stores, USERS)
    return engines


@pytest.fixture(scope="module")
def sites(stores: Stores, prepared: list[Engine]) -> Iterator[dict[str, Site]]:
    """A site of each of them under uvicorn, where both halves of the views are."""
    with ExitStack() as started, tempfile.TemporaryDirectory() as folder:
        each_is = {"save_every_request": False, "workers": 1}
        starting = {
            engine.name: started.enter_context(closing(Site("uvicorn", engine, stores, Path(folder), **each_is)))
            for engine in prepared
        }
        for site in starting.values():
            site.wait()
        yield starting


@pytest.fixture
def start(stores: Stores, prepared: list[Engine], tmp_path: Path) -> Iterator[Callable[..., Site]]:
    """Return a function that starts the site of an engine under gunicorn."""
    with ExitStack() as started:

        def start(name: str, *, save_every_request: bool = False, workers: int = 1) -> Site:
            each_is = {"save_every_request": save_every_request, "workers": workers}
            site = started.enter_context(closing(Site("gunicorn", ENGINES[name], stores, tmp_path, **each_is)))
            site.wait()
            return site

        yield start


def unavailable(program: str) -> str:
    """Say why nothing can be measured under ``program`` here, or ``""``. Fails where nothing may be skipped."""
    reason = left_out(program, ENGINES[BASE])
    if reason and "REDSESS_SKIP_NOTHING" in os.environ:
        pytest.fail(reason)
    return reason


@pytest.mark.parametrize("prefix", ["/", "/async/"])
@pytest.mark.parametrize("name", NAMES)
def test_a_view_does_to_its_session_what_it_says(
    sites: dict[str, Site], stores: Stores, name: str, prefix: str
) -> None:
    if reason := ENGINES[name].left_out(stores):
        pytest.skip(reason)
    site = sites[name]
    first, second = (site.get(f"/sign-in/{number}/")[1] for number in (1, 2))
    # A comparison in the assertion would show both.
    differ = first != second
    assert differ

    def asked(view: str, cookie: str) -> object:
        return json.loads(site.get(f"{prefix}{view}/", cookie)[0])

    assert site.get(f"{prefix}none/")[0] == "nothing"
    assert [asked("user", cookie) for cookie in (first, second, first)] == [1, 2, 1]
    assert [asked("write", cookie) for cookie in (first, first, second, first)] == [1, 2, 1, 3]
    assert asked("read", first) == asked("read", second) == DATA["basket"]
    for view in set(VIEWS) - {"none"}:
        for cookie in ("", f"sessionid={'x' * 32}"):
            with pytest.raises(WebError, match=f"{prefix}{view}/ was answered with {HTTPStatus.NOT_FOUND}"):
                asked(view, cookie)


@pytest.mark.parametrize("name", ["db (PostgreSQL)", "cached_db (django-redis, PostgreSQL)"])
def test_users_are_in_sqlite_whatever_has_the_sessions(sites: dict[str, Site], stores: Stores, name: str) -> None:
    if reason := ENGINES[name].left_out(stores):
        pytest.skip(reason)
    sites[name].sign_in(USERS)
    with closing(sqlite3.connect(Path(stores.folder) / f"users-{ENGINES[name].database}.sqlite3")) as connection:
        tables = ("auth_user", "django_session")
        counted = [connection.execute(f"SELECT COUNT(*) FROM {table}").fetchone()[0] for table in tables]
    assert counted == [USERS, 0]


@pytest.mark.parametrize("name", [OURS, BASE])
@pytest.mark.parametrize("every", [False, True])
def test_a_view_without_the_session_asks_for_it_only_where_every_request_saves(
    sites: dict[str, Site], start: Callable[..., Site], stores_of_all: Servers, name: str, every: bool
) -> None:
    site = start(name, save_every_request=True) if every else sites[name]
    site.sign_in(1)

    def processed() -> int:
        stats: dict[str, Any] = stores_of_all.redis.client.info("stats")
        return int(stats["total_commands_processed"])

    def counted(view: str) -> int:
        before = processed()
        site.get(f"/{view}/", site.cookies[-1])
        # One of them asked how many there were.
        return processed() - before - 1

    def commands(view: str) -> int:
        # Now and then a request has more to do: note a new minute, poll a connection that was unused for a while.
        return min(counted(view) for _ in range(5))

    # The connections of the other half of the views are there already.
    for view in VIEWS:
        site.get(f"/{view}/", site.cookies[-1])
    assert (commands("none") > 0) == every
    assert 0 < commands("read") <= commands("write")
    assert (commands("read") == commands("write")) == every


def test_sessions_are_loaded_in_turn(sites: dict[str, Site]) -> None:
    site = sites[OURS]
    site.sign_in(USERS)
    # From one connection: of two requests at once that change the same, the later one's change holds.
    speed = site.load("write", seconds=SECONDS, connections=1)
    # Each had asked once before, and does now.
    clicks = [int(site.get("/write/", cookie)[0]) - 2 for cookie in site.cookies]
    assert max(clicks) - min(clicks) <= 1
    assert sum(clicks) >= speed * SECONDS * 0.9 > 0


def test_an_answer_other_than_200_is_an_error_and_no_figure(sites: dict[str, Site]) -> None:
    site = sites[BASE]
    site.sign_in(USERS)
    with pytest.raises(WebError, match=r"nowhere was not always answered with 200: .*'others': [1-9]") as caught:
        site.load("nowhere", seconds=SECONDS, connections=2)
    told = [cookie.partition("=")[2] in str(caught.value) for cookie in site.cookies]
    assert told == [False] * USERS


def test_a_site_may_have_several_processes_and_none_answers_after_its_end(start: Callable[..., Site]) -> None:
    site = start(OURS, workers=2)
    site.sign_in(USERS)
    assert len(psutil.Process(site.popen.pid).children()) == 2
    assert site.load("read", seconds=SECONDS, connections=2) > 0
    site.close()
    with pytest.raises(WebError, match=r"read was not always answered|wrk could not load /read/"):
        site.load("read", seconds=SECONDS, connections=2)


def test_engines_are_compared_within_a_round(stores: Stores, prepared: list[Engine]) -> None:
    names, views = [OURS, BASE], ["write", "user"]
    entries = measured(
        stores,
        [ENGINES[name] for name in names],
        views=views,
        save_every_request=[False],
        load=Load(rounds=1, seconds=SECONDS, sessions=USERS, connections=2),
    )
    asked = [(each["server_program"], each["view"], each["save_every_request"], each["engine"]) for each in entries]
    assert asked == [*product(PROGRAMS, views, [False], names)]
    for ours, base in zip(entries[::2], entries[1::2], strict=True):
        ratio = ours["requests_per_second"] / base["requests_per_second"]
        assert (ours["ratio"], ours["low"], ours["high"]) == (ratio, ratio, ratio)
        assert (base["ratio"], base["low"], base["high"]) == (1, 1, 1)
        assert base["requests_per_second"] > 0


def test_ctrl_c_stops_all_that_was_started(stores: Stores, prepared: list[Engine], tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", LOADS_FOR_LONG, json.dumps(asdict(stores))],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stderr=subprocess.PIPE,
        text=True,
    ) as process:

        def started() -> dict[psutil.Process, str]:
            # Some are gone by the time that they are asked.
            found = {}
            for each in psutil.Process(process.pid).children(recursive=True):
                with suppress(psutil.NoSuchProcess):
                    found[each] = each.name()
            return found

        try:
            wait_until(lambda: "wrk" in started().values())
            running = [*started()]
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=20)
        finally:
            process.kill()
    assert said.rstrip().endswith("KeyboardInterrupt")
    # wrk, and the web server with its process that answers, at least.
    assert len(running) >= 3
    assert psutil.wait_procs(running, timeout=10)[1] == []
    assert [*tmp_path.iterdir()] == []


def test_what_can_not_be_measured_is_told(
    stores: Stores, prepared: list[Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ValueError, match=r"cache \(django-redis\) is missing"):
        measured(stores, [ENGINES[OURS]])
    with pytest.raises(WebError, match=r"(?s)db \(SQLite\) ended with 1: .*unable to open database file"):
        prepare([ENGINES["db (SQLite)"]], replace(stores, folder="/nowhere"), 1)
    assert left_out("gunicorn", ENGINES[FLOOR], workers=2) == "each process would have sessions of its own"
    monkeypatch.setenv("PATH", "")
    assert left_out("gunicorn", ENGINES[BASE]) == "wrk is not installed"
