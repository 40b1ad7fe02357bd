"""A rolling deploy: processes of two steps at once, and browsers that meet either."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

BROWSERS, REQUESTS = 12, 12
DATABASE = "django.contrib.sessions.backends.db"


class Process:
    """A process of the site. One request at a time."""

    def __init__(self, **settings: Any) -> None:
        self._turn = threading.Lock()
        command = [sys.executable, "-m", "tests.moving.process", json.dumps(settings)]
        root = Path(__file__).parents[2]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root)
        assert self._read() == "ready"

    def request(self, key: str | None, what: str) -> dict[str, Any]:
        with self._turn:
            assert self._process.stdin is not None
            print(json.dumps([key, what]), file=self._process.stdin, flush=True)
            answered: dict[str, Any] = json.loads(self._read())
            return answered

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()

    def _read(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()


Begin = Callable[[str], Process]


@pytest.fixture(params=[1, 4], ids=["1 partition", "4 partitions"])
def begin(request: pytest.FixtureRequest, server: Any, tmp_path: Path) -> Iterator[Begin]:
    """Return a function that begins a process: ``before``, ``step 1`` or ``step 2``."""
    database = str(tmp_path / "sessions.sqlite3")
    begun = []

    def begin(which: str) -> Process:
        engine = DATABASE if which == "before" else "django_redsess.moving"
        redsess = {"MOVE_FROM": DATABASE, "MOVES": which == "step 2", "PARTITIONS": request.param}
        begun.append(Process(engine=engine, redsess=redsess, database=database, redis=server.url))
        return begun[-1]

    code = (
        "from tests.moving.process import configure; from django.core.management import call_command; "
        f"configure(dict(engine={DATABASE!r}, redsess={{}}, database={database!r}, redis={server.url!r})); "
        "call_command('migrate', verbosity=0)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[2])
    yield begin
    for process in begun:
        process.close()


class Browser:
    """It counts its requests, and so does its session."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.key: str | None = None
        self.visits = 0
        self.dead: list[str] = []

    def browse(self, processes: list[Process]) -> None:
        for _ in range(REQUESTS):
            what = self.random.choices(["visit", "sign in", "end"], [20, 2, 1])[0]
            key, answered = self.key, self.random.choice(processes).request(self.key, what)
            assert answered["found"] == self.visits, f"signed out, or a change was lost, at {what}"
            self.key, self.visits = answered["key"], self.visits + 1
            if what == "end":
                self.visits = 0
            if key is not None and self.key != key and what != "visit":
                # The old cookie is worth nothing, wherever it is shown.
                for process in processes:
                    assert process.request(key, "look")["found"] == 0


@pytest.mark.usefixtures("left_alone")
def test_nobody_is_signed_out_and_no_change_is_lost_from_step_to_step_and_back(begin) -> None:
    before, first, second = begin("before"), begin("step 1"), begin("step 2")
    browsers = [Browser(seed) for seed in range(BROWSERS)]
    with ThreadPoolExecutor(BROWSERS) as pool:
        for processes in ([before], [before, first], [first], [first, second], [second], [second, first], [first]):
            for done in [pool.submit(browser.browse, processes) for browser in browsers]:
                done.result()
