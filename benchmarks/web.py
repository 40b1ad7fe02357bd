"""
Measure how many requests a second a small site answers with each session engine: ``benchmarks/site.py``.

Under gunicorn with a synchronous worker, and its asynchronous views under uvicorn. The sites of all engines run all the
time, each a web server of its own, and one at a time is loaded by wrk: from a few connections, with a different one of
many signed-in sessions in each request. In a round each engine is loaded for a short time, in random order; a ratio
compares the requests a second of one round. An answer other than 200 is an error, and no figure. Such a worker of
gunicorn closes the connection after each answer, uvicorn keeps it.

Connections to databases last under gunicorn, as sites with such workers have them. Under uvicorn they last for one
request, as Django's documentation wants them there.
"""

from __future__ import annotations

import http.client
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from contextlib import ExitStack, closing, suppress
from http.cookies import SimpleCookie
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

from tqdm import tqdm

from benchmarks.engines import BASE, Engine
from benchmarks.fill import USER_AGENT
from benchmarks.ratios import paired
from benchmarks.site import VIEWS, described
from benchmarks.stores import Stores
from testproject.servers import free_port

ROOT = Path(__file__).parent.parent
HOST = "127.0.0.1"

START_SECONDS = 60
"""How long a site may take to answer for the first time: all of them start at once."""

PROGRAMS = {
    "gunicorn": (
        *("benchmarks.site:wsgi()", "--worker-class=sync", f"--bind={HOST}:{{port}}", "--workers={workers}"),
        *("--log-level=warning", "--no-control-socket"),
    ),
    "uvicorn": (
        *("benchmarks.site:asgi", "--factory", f"--host={HOST}", "--port={port}", "--workers={workers}"),
        *("--log-level=warning", "--no-access-log", "--lifespan=off"),
    ),
}
"""The web servers, with what each is told."""

PREFIXES = {"gunicorn": "/", "uvicorn": "/async/"}
"""Where each has the views that it is measured with."""

# wrk itself takes redirects for good answers.
SCRIPT = """\
local cookies = {%(cookies)s}
local threads = {}

function setup(thread)
  table.insert(threads, thread)
end

function init()
  requests, place, others = {}, 0, 0
  for number, cookie in ipairs(cookies) do
    requests[number] = wrk.format("GET", nil, {["Cookie"] = cookie, ["User-Agent"] = %(user_agent)s})
  end
end

function request()
  place = place %% #requests + 1
  return requests[place]
end

function response(status)
  if status ~= 200 then others = others + 1 end
end

function done(summary)
  local others = 0
  for _, thread in ipairs(threads) do others = others + thread:get("others") end
  local errors = summary.errors
  local broken = errors.connect + errors.read + errors.write + errors.timeout
  print(string.format('{"answers": %%d, "microseconds": %%d, "others": %%d, "broken": %%d}',
    summary.requests, summary.duration, others, broken))
end
"""


class WebError(Exception):
    """A site that does not start, or does not answer as it must."""


def left_out(program: str, engine: Engine, *, workers: int = 1) -> str:
    """Say why ``engine`` can't be measured under ``program`` here, servers of data aside; ``""`` where it can."""
    if shutil.which("wrk") is None:
        return "wrk is not installed"
    if find_spec(program) is None:
        return f"{program} is not installed"
    if engine.session_engine == "benchmarks.floor" and workers > 1:
        return "each process would have sessions of its own"
    return ""


class Process:
    """A process of this benchmark, in a group of its own: Ctrl-C is for the one who started it."""

    def __init__(self, name: str, command: Sequence[str], environment: dict[str, str]) -> None:
        self.name = name
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115, closed below
        self.popen = subprocess.Popen(
            [sys.executable, *command],
            cwd=ROOT,
            # What the machine has for its own sites is not for these.
            env={**os.environ, "GUNICORN_CMD_ARGS": "", **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self.errors,
            process_group=0,
        )

    def ended(self) -> WebError:
        """Wait for its end, and return that as an error, with the last that it said."""
        status = self.popen.wait()
        self.errors.seek(0)
        return WebError(f"{self.name} ended with {status}: {self.errors.read()[-2000:].decode(errors='replace')}")

    def close(self) -> None:
        """Stop it, with the processes that it started."""
        if self.errors.closed:
            # Its number may be that of another by now.
            return
        with suppress(ProcessLookupError):
            os.killpg(self.popen.pid, signal.SIGKILL)
        self.popen.wait()
        self.errors.close()


class Site(Process):
    """The site of ``engine`` under ``program``, without any session yet. Close it in the end."""

    def __init__(
        self, program: str, engine: Engine, stores: Stores, folder: Path, *, save_every_request: bool, workers: int
    ) -> None:
        self.engine, self.prefix, self.port = engine, PREFIXES[program], free_port()
        self.script, self.cookies = folder / f"{self.port}.lua", list[str]()
        options = [option.format(port=self.port, workers=workers) for option in PROGRAMS[program]]
        lasting = program == "gunicorn"
        site = described(engine.name, stores, save_every_request=save_every_request, lasting=lasting)
        super().__init__(f"{program} with {engine.name}", ["-m", program, *options], site)

    def wait(self) -> None:
        """Return as soon as it answers."""
        deadline = time.monotonic() + START_SECONDS
        while True:
            with suppress(OSError, http.client.HTTPException):
                self.get(f"{self.prefix}none/")
                return
            if self.popen.poll() is not None:
                raise self.ended()
            if time.monotonic() > deadline:
                raise WebError(f"{self.name} did not answer within {START_SECONDS} s")
            time.sleep(0.05)

    def get(self, path: str, cookie: str = "") -> tuple[str, str]:
        """Ask for ``path`` with a ``cookie``. Return the text, and the cookie that a browser would have then."""
        with closing(http.client.HTTPConnection(HOST, self.port, timeout=10)) as connection:
            connection.request("GET", path, headers={"User-Agent": USER_AGENT, "Cookie": cookie})
            response = connection.getresponse()
            text = response.read().decode()
            if response.status != 200:
                raise WebError(f"{self.name}: {path} was answered with {response.status}")
            for morsel in SimpleCookie(response.getheader("Set-Cookie")).values():
                cookie = f"{morsel.key}={morsel.value}"
        return text, cookie

    def sign_in(self, sessions: int) -> None:
        """Sign the first ``sessions`` users in, for :meth:`load`, and have each ask for every view."""
        self.cookies.clear()
        for number in range(1, sessions + 1):
            _, cookie = self.get(f"/sign-in/{number}/")
            # Connections are opened by this, scripts loaded, and so on: nothing happens for the first time afterwards.
            for view in VIEWS:
                self.get(f"{self.prefix}{view}/", cookie)
            self.cookies.append(cookie)
        quoted = ", ".join(map(json.dumps, self.cookies))
        self.script.touch(mode=0o600)
        self.script.write_text(SCRIPT % {"cookies": quoted, "user_agent": json.dumps(USER_AGENT)})

    def load(self, view: str, *, seconds: int, connections: int) -> float:
        """Load ``view`` for so many whole seconds. Return how many requests a second were answered."""
        command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}", "-s", str(self.script)]
        url = f"http://{HOST}:{self.port}{self.prefix}{view}/"
        said = subprocess.run(
            [*command, url],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            process_group=0,
            timeout=seconds + START_SECONDS,
        ).stdout
        try:
            counted = json.loads(said.splitlines()[-1])
        except (ValueError, IndexError):
            raise WebError(f"{self.name}: wrk could not load /{view}/: {said}") from None
        if counted["others"] or counted["broken"] or not counted["answers"]:
            raise WebError(f"{self.name}: {view} was not always answered with 200: {counted}")
        return float(counted["answers"] / counted["microseconds"] * 1e6)


def prepare(engines: Sequence[Engine], stores: Stores, users: int) -> None:
    """Make what the sites of ``engines`` need before they start."""
    with ExitStack() as started:
        for process in [
            started.enter_context(
                closing(Process(engine.name, ["-m", "benchmarks.site", str(users)], described(engine.name, stores)))
            )
            for engine in engines
        ]:
            if process.popen.wait():
                raise process.ended()


def measured(
    stores: Stores,
    engines: Sequence[Engine],
    *,
    programs: Sequence[str] = tuple(PROGRAMS),
    views: Sequence[str] = tuple(VIEWS),
    save_every_request: Sequence[bool] = (False, True),
    rounds: int = 9,
    seconds: int = 1,
    sessions: int = 100,
    connections: int = 4,
    workers: int = 1,
) -> list[dict[str, Any]]:
    """
    Load the ``views`` of the sites of ``engines``, under each of the web servers ``programs``.

    ``stores``: where the sessions are, and users. ``engines``: the base among them, and none for which
    :func:`left_out` or the engine itself has a reason. ``save_every_request``: the values of Django's setting, each
    with sites of its own. In each of so many ``rounds`` each view of each site is loaded for so many ``seconds``, from
    so many ``connections``, with so many ``sessions``. ``workers``: how many processes a site has.

    Returns the entries of "requests": those of a web server and a value of the setting together, then by view, then by
    engine. A ratio above 1 is better than the base. Raises WebError where a site does not answer as it must.
    """
    if BASE not in [engine.name for engine in engines]:
        raise ValueError(f"nothing to compare with: {BASE} is missing")
    entries = []
    sets = list(product(programs, save_every_request))
    prepare(engines, stores, sessions)
    with (
        tempfile.TemporaryDirectory(prefix="redsess-bench-") as folder,
        tqdm(
            total=len(sets) * rounds * len(views) * len(engines), unit="run", desc="requests", disable=None
        ) as progress,
    ):
        for program, every in sets:
            with ExitStack() as started:
                sites = [
                    started.enter_context(
                        closing(Site(program, engine, stores, Path(folder), save_every_request=every, workers=workers))
                    )
                    for engine in engines
                ]
                for site in sites:
                    site.wait()
                    site.sign_in(sessions)
                speeds: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
                for _ in range(rounds):
                    for view in views:
                        for site in random.sample(sites, len(sites)):
                            speed = site.load(view, seconds=seconds, connections=connections)
                            speeds[view, site.engine.name].append(speed)
                            progress.update()
            entries += [
                {
                    "server_program": program,
                    "view": view,
                    "save_every_request": every,
                    "engine": engine.name,
                    **paired(speeds[view, engine.name], speeds[view, BASE])._asdict(),
                    "requests_per_second": median(speeds[view, engine.name]),
                }
                for view, engine in product(views, engines)
            ]
    return entries
