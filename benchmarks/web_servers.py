"""The sites under their web servers, each a process of its own, and wrk, which loads one of them."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from http.cookies import SimpleCookie
from pathlib import Path

from benchmarks.engines import Engine
from benchmarks.fill import USER_AGENT
from benchmarks.site import VIEWS, described
from benchmarks.stores import Stores
from testproject.servers import free_port

ROOT = Path(__file__).parent.parent
HOST = "127.0.0.1"

START_SECONDS = 60
"""How long a site may take until its first answer: all sites start at once."""

PROGRAMS = {
    "gunicorn": (
        *("benchmarks.site:wsgi()", "--worker-class=sync", f"--bind={HOST}:{{port}}"),
        *("--log-level=warning", "--no-control-socket"),
    ),
    "uvicorn": (
        *("benchmarks.site:asgi", "--factory", f"--host={HOST}", "--port={port}"),
        *("--log-level=warning", "--no-access-log", "--lifespan=off"),
    ),
}
"""The web servers, with their arguments."""

PREFIXES = {"gunicorn": "/", "uvicorn": "/async/"}
"""The path of the views that each web server is measured with."""

# Counts answers other than 200: wrk itself counts redirects as good answers.
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
    """A site does not start, or does not answer as it must."""


class Process:
    """A process of this benchmark, in a process group of its own, so that Ctrl-C does not reach it."""

    def __init__(self, name: str, command: Sequence[str], environment: dict[str, str]) -> None:
        self.name = name
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115, closed below
        self.popen = subprocess.Popen(
            [sys.executable, *command],
            cwd=ROOT,
            # The machine may have arguments for its own sites.
            env={**os.environ, "GUNICORN_CMD_ARGS": "", **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self.errors,
            process_group=0,
        )

    def ended(self) -> WebError:
        """Wait until it ends. Return an error with the end of its output."""
        status = self.popen.wait()
        self.errors.seek(0)
        return WebError(f"{self.name} ended with {status}: {self.errors.read()[-2000:].decode(errors='replace')}")

    def close(self) -> None:
        """Stop it and the processes that it started."""
        if self.errors.closed:
            # Closed before: another process may have its id by now.
            return
        with suppress(ProcessLookupError):
            os.killpg(self.popen.pid, signal.SIGKILL)
        self.popen.wait()
        self.errors.close()


class Site(Process):
    """The site of ``engine`` under ``program``, without sessions so far. The caller closes it."""

    def __init__(self, program: str, engine: Engine, stores: Stores, folder: Path) -> None:
        self.engine, self.prefix, self.port = engine, PREFIXES[program], free_port()
        self.script, self.cookies = folder / f"{self.port}.lua", list[str]()
        options = [option.format(port=self.port) for option in PROGRAMS[program]]
        site = described(engine.name, stores, persistent=program == "gunicorn")
        super().__init__(f"{program} with {engine.name}", ["-m", program, *options], site)

    def wait(self) -> None:
        """Wait for its first answer."""
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
        """Request ``path`` with a ``cookie``. Return the text, and the cookie that a browser would have then."""
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
        """Sign in the first ``sessions`` users for :meth:`load`, and request every view with each of them."""
        self.cookies.clear()
        for number in range(1, sessions + 1):
            _, cookie = self.get(f"/sign-in/{number}/")
            # This opens connections and loads scripts, so that the load measures neither.
            for view in VIEWS:
                self.get(f"{self.prefix}{view}/", cookie)
            self.cookies.append(cookie)
        quoted = ", ".join(map(json.dumps, self.cookies))
        self.script.touch(mode=0o600)
        self.script.write_text(SCRIPT % {"cookies": quoted, "user_agent": json.dumps(USER_AGENT)})

    def load(self, view: str, *, seconds: int, connections: int) -> float:
        """Load ``view`` for a whole number of ``seconds``. Return the answers a second."""
        command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}", "-s", str(self.script)]
        url = f"http://{HOST}:{self.port}{self.prefix}{view}/"
        output = subprocess.run(
            [*command, url],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            process_group=0,
            timeout=seconds + START_SECONDS,
        ).stdout
        try:
            counted = json.loads(output.splitlines()[-1])
        except (ValueError, IndexError):
            raise WebError(f"{self.name}: wrk could not load /{view}/: {output}") from None
        if counted["others"] or counted["broken"] or not counted["answers"]:
            raise WebError(f"{self.name}: {view} was not always answered with 200: {counted}")
        return float(counted["answers"] / counted["microseconds"] * 1e6)
