"""The site of the guide about sockets, as a process of daphne or uvicorn, and what browsers get from it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from testproject.servers import free_port
from tests.helpers.running import ROOT, wait_until
from tests.helpers.serving import SECONDS
from tests.project.docs.pages import DOCS, blocks

PROGRAMS = {
    "daphne": ("-m", "daphne", "-b", "127.0.0.1", "-p"),
    "uvicorn": ("-m", "uvicorn", "--host=127.0.0.1", "--lifespan=off", "--log-level=warning", "--port"),
}

SETTINGS = """\
from tests.helpers.site.settings import *
from tests.helpers.site.settings import REDSESS
from tests.helpers.site import MIDDLEWARE

ROOT_URLCONF = "shop.urls"
AUTHENTICATION_BACKENDS = ["tests.helpers.site.people.InMemory"]
REDSESS = {**REDSESS, "PARTITIONS": 1, "MAX_SESSIONS_PER_USER": None}
"""

URLS = """\
from django.urls import path
from shop.streams import stream

urlpatterns = [path("stream/", stream)]
"""


class Site:
    """
    The site of the guide in a process of its own, whose sessions are on the server at ``url``.

    ``settings`` come after its own, and ``replaced`` are changes of the guide's ``asgi.py``.
    """

    def __init__(
        self, folder: Path, program: str, url: str, *, settings: str = "", replaced: Mapping[str, str] | None = None
    ) -> None:
        shop = folder / "shop"
        shop.mkdir(parents=True)
        for block in blocks(DOCS / "howto" / "sockets.rst"):
            if block.heading:
                (folder / block.heading).write_text(block.text)
        for name, text in {"__init__": "", "settings": SETTINGS + settings, "urls": URLS}.items():
            (shop / f"{name}.py").write_text(text)
        asgi = shop / "asgi.py"
        for old, new in (replaced or {}).items():
            assert old in asgi.read_text()
            asgi.write_text(asgi.read_text().replace(old, new))
        self._sockets = ExitStack()
        self.port, self._errors = free_port(), folder / "errors"
        env = {"DJANGO_SETTINGS_MODULE": "shop.settings", "REDIS_URL": url, "REDSESS_DEMO_DIR": str(folder)}
        path = os.pathsep.join([str(folder), str(ROOT)])
        with self._errors.open("wb") as errors:
            self.process = subprocess.Popen(
                [sys.executable, *PROGRAMS[program], str(self.port), "shop.asgi:application"],
                cwd=folder,
                env={**os.environ, "PYTHONPATH": path, **env},
                stdin=subprocess.DEVNULL,
                stdout=errors,
                stderr=errors,
            )
        try:
            wait_until(self._serves)
        except BaseException:
            self.close()
            raise

    def _serves(self) -> bool:
        assert self.process.poll() is None, self.said
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    @property
    def said(self) -> str:
        """What the process has written."""
        return self._errors.read_text()

    def chat(self, session_key: str, **cookies: str) -> ClientConnection:
        """Open a socket until :meth:`hang_up`. Raises InvalidStatus if it is refused."""
        sent = "; ".join(f"{name}={value}" for name, value in {"sessionid": session_key, **cookies}.items())
        url, headers = f"ws://127.0.0.1:{self.port}/chat/", {"Cookie": sent}
        opened = connect(url, additional_headers=headers, open_timeout=SECONDS)
        return self._sockets.enter_context(opened)

    def hang_up(self) -> None:
        """Close all sockets."""
        self._sockets.close()

    def close(self) -> None:
        self.hang_up()
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def said_until_closed(opened: ClientConnection) -> tuple[list[str], int]:
    """Return what comes until the server closes the socket, and the code with which it does."""
    messages: list[str] = []
    try:
        while True:
            messages.append(str(opened.recv(timeout=SECONDS)))
    except ConnectionClosed as closed:
        return messages, closed.rcvd.code if closed.rcvd else 0
