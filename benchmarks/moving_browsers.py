"""The browsers of ``moving.py``, and the processes of the site that they browse."""

from __future__ import annotations

import json
import random
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import closing, suppress
from http.client import HTTPConnection, HTTPException
from http.cookies import SimpleCookie
from typing import Any

from benchmarks.web_servers import HOST, START_SECONDS, Process, WebError
from testproject.servers import free_port

REQUESTS = {"look": 6, "change": 8, "sign-in or sign-out": 1, "new-key": 1}
"""How often each is sent."""
ENDING = ("sign-in", "sign-out", "new-key")
"""They give the session another key, or end it."""


class Site(Process):
    """A process of the site, whose environment says at which step it is."""

    def __init__(self, environment: dict[str, str]) -> None:
        self.port = free_port()
        options = (f"--bind={HOST}:{self.port}", "--worker-class=gthread", "--threads=32", "--keep-alive=60")
        command = ["-m", "gunicorn", "benchmarks.moving_site:wsgi()", *options, "--log-level=warning"]
        super().__init__("the site", [*command, "--no-control-socket"], environment)

    def wait(self) -> None:
        """Wait for its first answer."""
        deadline = time.monotonic() + START_SECONDS
        while True:
            with suppress(OSError, HTTPException), closing(HTTPConnection(HOST, self.port, timeout=10)) as connection:
                connection.request("GET", "/look/0/")
                if connection.getresponse().status == 200:
                    return
            if self.popen.poll() is not None or time.monotonic() > deadline:
                self.popen.terminate()
                raise self.ended()
            time.sleep(0.05)


class Browser:
    """
    A browser that knows what each answer must find: its user, and how often it has changed its session.

    It changes its session, signs in as user ``number`` and out, and asks for a new key. A third of its requests meets
    another one, in the other process, which only reads: its answer is awaited later, beside some further requests. What
    the browser meets is in ``counted``.
    """

    def __init__(self, number: int) -> None:
        self.number, self.counted, self.random = number, Counter[str](), random.Random(number)
        self.user: int | None = None
        self.changes = 0
        self.cookies, self.ended = [""], list[str]()
        self._connections: dict[tuple[Site, bool], HTTPConnection] = {}
        self._beside: Site | None = None
        self._changes_then = 0

    def browse(self, sites: Sequence[Site], until: float) -> None:
        over = False
        while not over:
            over = time.monotonic() >= until
            site, other = self.random.sample(sites, 2)
            [what] = self.random.choices(list(REQUESTS), list(REQUESTS.values()))
            if what == "sign-in or sign-out":
                what = "sign-out" if self.user else "sign-in"
            meets = self.random.random() < 1 / 3
            try:
                if over or meets or what in ENDING:
                    self._collect()
                if not over:
                    self._do(what, site, other if meets else None)
            except (OSError, HTTPException, WebError) as error:
                print(f"{what} of browser {self.number}: {error}", file=sys.stderr)
                self.counted["errors"] += 1
                # What was done is not known. It goes on as a new browser.
                self.user, self.changes, self.cookies = None, 0, [""]
                self.close()

    def _do(self, what: str, site: Site, beside: Site | None) -> None:
        cookie = self.cookies[-1]
        self._send(site, what, cookie)
        if beside is not None:
            self._send(beside, "look", cookie, beside=True)
            self._beside, self._changes_then = beside, self.changes
            if what in ENDING:
                # It may find the session, or not.
                self._beside = None
                self._received(beside, beside=True, may_be_late=True)
        found = self._received(site)
        self._judge(found, self.changes)
        self.user, self.changes = found["user"], found["changes"]
        if what == "change":
            self.changes += 1
            self.counted["changes"] += 1
        elif what in ENDING and self.cookies != [""]:
            # All cookies that it had until now are worth nothing, wherever they are shown.
            now = self.cookies.pop() if self.cookies[-1] != cookie else ""
            self.ended += [each for each in self.cookies if each]
            self.cookies = [now]
        if what == "sign-in":
            self.user = self.number
        elif what == "sign-out":
            self.user, self.changes = None, 0

    def _collect(self) -> None:
        """Await the answer of the request beside the others."""
        if self._beside is not None:
            site, self._beside = self._beside, None
            self._judge(self._received(site, beside=True), self._changes_then)

    def _judge(self, found: dict[str, Any], least: int) -> None:
        if found["user"] != self.user or (least and not found["changes"]):
            self.counted["sign-outs"] += 1
        elif not least <= found["changes"] <= self.changes:
            self.counted["lost"] += 1

    def look_back(self, sites: Sequence[Site]) -> None:
        """Show each cookie that has ended to all ``sites``."""
        self.counted["ended"] += len(self.ended)
        for cookie in self.ended:
            for site in sites:
                self._send(site, "look", cookie)
            found = [self._received(site, keeps_cookie=False) for site in sites]
            self.counted["returned"] += any(each["user"] or each["changes"] for each in found)

    def _send(self, site: Site, what: str, cookie: str, *, beside: bool = False) -> None:
        connection = self._connections.setdefault((site, beside), HTTPConnection(HOST, site.port, timeout=30))
        headers = {"Cookie": f"sessionid={cookie}"} if cookie else {}
        connection.request("GET", f"/{what}/{self.number}/", headers=headers)

    def _received(
        self, site: Site, *, beside: bool = False, may_be_late: bool = False, keeps_cookie: bool = True
    ) -> dict[str, Any]:
        response = self._connections[site, beside].getresponse()
        text = response.read()
        self.counted["requests"] += 1
        morsel = SimpleCookie(response.getheader("Set-Cookie", "")).get("sessionid")
        if morsel is not None and keeps_cookie and morsel.value != self.cookies[-1]:
            self.cookies.append(morsel.value)
        if response.status == 200:
            return dict(json.loads(text))
        if response.status == 400 and may_be_late:
            return {"user": None, "changes": 0}
        raise WebError(f"answered with {response.status}")

    def close(self) -> None:
        self._beside = None
        while self._connections:
            self._connections.popitem()[1].close()
