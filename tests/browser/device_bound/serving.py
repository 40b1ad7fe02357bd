"""The shop over https in a process of its own, a browser that binds its sessions, and what it sent."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import requests
from playwright.sync_api import Page

from tests.helpers.running import ROOT, wait_until

SHOP, SUBDOMAIN, IDP = "shop.example", "login.shop.example", "idp.example"
SERVING = "tests.helpers.site.device_bound.serving"
PROOF = "sessionid_proof"
REGISTER, REFRESH = "/device-bound/register", "/device-bound/refresh"


def address(path: str = "", *, host: str = SHOP) -> str:
    return f"https://{host}{path}"


class Request(NamedTuple):
    """A request that the site has answered. ``jws`` tells whether a signature was with it."""

    host: str
    path: str
    method: str
    cookies: list[str]
    jws: bool
    skipped: str
    status: int


class Site:
    """The site in a process of its own, whose sessions are on the server at ``redis_url``."""

    def __init__(self, folder: Path, certificate: Path, redis_url: str, database: bytes, **environment: str) -> None:
        self.folder, self._certificate, self._read = folder, certificate, 0
        (folder / "db.sqlite3").write_bytes(database)
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port = self._socket.getsockname()[1]
        self._environment = {
            "DJANGO_SETTINGS_MODULE": "tests.helpers.site.settings.device_bound",
            "REDSESS_DEMO_DIR": str(folder),
            "HISTORY": "1",
            "REDIS_URL": redis_url,
            **environment,
        }
        self._process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        served, descriptor = self.folder / "served", str(self._socket.fileno())
        served.unlink(missing_ok=True)
        with (self.folder / "said").open("ab") as said:
            process = subprocess.Popen(
                [sys.executable, "-m", SERVING, descriptor, str(self._certificate), str(self.folder)],
                cwd=ROOT,
                env={**os.environ, **self._environment},
                pass_fds=[self._socket.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
            )
        try:
            wait_until(lambda: served.exists() or process.poll() is not None)
            assert process.poll() is None, self.said
        except BaseException:
            process.kill()
            process.wait()
            raise
        return process

    @property
    def said(self) -> str:
        """What its processes have written."""
        return (self.folder / "said").read_text()

    def replace(self) -> None:
        """Let another process take over. The first one answers what it has begun."""
        before, self._process = self._process, self._start()
        before.send_signal(signal.SIGTERM)
        (self.folder / "hold-challenges").unlink(missing_ok=True)
        before.wait(30)

    def set_clock(self, ahead_by_seconds: int) -> None:
        new = self.folder / "ahead.new"
        new.write_text(str(ahead_by_seconds))
        new.replace(self.folder / "ahead")

    @contextmanager
    def holding_challenges(self) -> Iterator[Callable[[], bool]]:
        """Let no challenge for a refresh leave the site. Give a function: has a browser asked for one?"""
        held, asked = self.folder / "hold-challenges", self.folder / "holds"
        asked.unlink(missing_ok=True)
        held.touch()
        try:
            yield asked.exists
        finally:
            held.unlink(missing_ok=True)

    @contextmanager
    def failing_refreshes(self) -> Iterator[None]:
        """Answer 503 to each refresh."""
        failing = self.folder / "fail-refreshes"
        failing.touch()
        try:
            yield
        finally:
            failing.unlink()

    def requests(self) -> list[Request]:
        """Return the requests since this was last asked for, but for those of pictures and styles."""
        written = (self.folder / "requests").read_text() if (self.folder / "requests").exists() else ""
        lines, self._read = written[self._read :].splitlines(), len(written)
        found = [Request(**json.loads(line)) for line in lines]
        return [each for each in found if not each.path.endswith((".ico", ".svg", ".css", ".js", ".png"))]

    def ask(self, path: str, cookies: dict[str, str], **options: Any) -> requests.Response:
        """Ask as another program on another machine does, with copies of cookies."""
        headers = {"Host": SHOP, "User-Agent": "curl/8.14", **options.pop("headers", {})}
        if cookies:
            headers["Cookie"] = "; ".join(f"{name}={value}" for name, value in cookies.items())
        url, verify = f"https://127.0.0.1:{self.port}{path}", str(self._certificate)
        method = options.pop("method", "GET")
        return requests.request(
            method, url, headers=headers, verify=verify, timeout=30, allow_redirects=False, **options
        )

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._socket.close()


def cookies_of(page: Page) -> dict[str, str]:
    return {each["name"]: each["value"] for each in page.context.cookies()}  # type: ignore[typeddict-item]


def drop_proof(page: Page, domain: str = SHOP) -> None:
    """Delete the proof from the browser, as the end of its life does."""
    # A picture that is yet to come would bring another one.
    page.wait_for_load_state("load")
    devtools = page.context.new_cdp_session(page)
    devtools.send("Network.deleteCookies", {"name": PROOF, "domain": domain})
    devtools.detach()
    assert PROOF not in cookies_of(page)


def is_bound(page: Page) -> bool:
    return PROOF in cookies_of(page)
