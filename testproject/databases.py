"""
PostgreSQL and MariaDB servers for tests and benchmarks, where their programs are installed.

They do not wait for the disk.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from testproject.servers import free_port

START_SECONDS = 30

KINDS = {"PostgreSQL": "postgresql and psycopg", "MariaDB": "mariadb-server and mysqlclient"}
"""The kinds of servers, and what each needs: a package of Debian, and one for Python."""


def available() -> dict[str, Callable[[], DatabaseServer]]:
    """Return the kinds of servers that can be started here, each with what starts one."""
    found: dict[str, Callable[[], DatabaseServer]] = {}
    if folder := programs():
        found["PostgreSQL"] = partial(PostgreSQL, folder)
    if program := mariadb_program():
        found["MariaDB"] = partial(MariaDB, program)
    return found


def programs() -> Path | None:
    """Return the folder of the newest PostgreSQL, or None if there is none, or no psycopg."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: int(path.parts[-3]))
    if on_path := shutil.which("postgres"):
        # It may be a link to where its other programs are.
        found.append(Path(on_path).resolve())
    return found[-1].parent if found and find_spec("psycopg") else None


def mariadb_program() -> Path | None:
    """Return the program of MariaDB's server, or None if there is none, or no mysqlclient."""
    # Debian has it where only root looks.
    found = shutil.which("mariadbd") or shutil.which("mariadbd", path="/usr/sbin")
    return Path(found) if found and find_spec("MySQLdb") else None


class DatabaseServer:
    """
    A server with an empty database. ``database`` is its entry of DATABASES. The caller closes it.

    ``user`` is whom its programs run as, and None is the user of this process.
    """

    database: dict[str, Any]
    user: str | None = None
    stops_at = signal.SIGQUIT

    def __init__(self) -> None:
        self.folder = tempfile.mkdtemp(prefix="redsess-db-")
        if self.user:
            shutil.chown(self.folder, self.user)
        quiet: Any = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": self.folder, "user": self.user}
        subprocess.run(self.make(), check=True, **quiet)
        program = self.start()
        self._process = subprocess.Popen(program, **quiet)
        deadline = time.monotonic() + START_SECONDS
        try:
            while subprocess.run(self.ask(), **quiet).returncode:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"{program[0]} did not start")
                time.sleep(0.05)
        except BaseException:
            self.close()
            raise

    def make(self) -> Sequence[str | Path]:
        """Return the command that makes the files of the server, in ``folder``."""
        raise NotImplementedError

    def start(self) -> Sequence[str | Path]:
        """Return the command that starts the server."""
        raise NotImplementedError

    def ask(self) -> Sequence[str | Path]:
        """Return the command that succeeds once the server answers."""
        raise NotImplementedError

    def close(self) -> None:
        # At once, with all its processes.
        self._process.send_signal(self.stops_at)
        self._process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


class PostgreSQL(DatabaseServer):
    """PostgreSQL, from the ``programs`` in this folder. It refuses to be root, and is the user ``postgres`` then."""

    options = (
        "fsync=off",
        "synchronous_commit=off",
        "full_page_writes=off",
        "max_connections=200",
        "listen_addresses=",
    )

    def __init__(self, programs: Path) -> None:
        self._programs, self._port = programs, str(free_port())
        self.user = "postgres" if os.geteuid() == 0 else None
        super().__init__()
        self.database = {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": "postgres",
            "USER": "postgres",
            "HOST": self.folder,
            "PORT": self._port,
            "CONN_MAX_AGE": None,
        }

    def make(self) -> Sequence[str | Path]:
        options = ("--auth=trust", "--username=postgres", "--encoding=UTF8", "--no-sync")
        return [self._programs / "initdb", *options, "--pgdata", f"{self.folder}/data"]

    def start(self) -> Sequence[str | Path]:
        options = [part for each in (*self.options, f"unix_socket_directories={self.folder}") for part in ("-c", each)]
        return [self._programs / "postgres", "-D", f"{self.folder}/data", "-p", self._port, *options]

    def ask(self) -> Sequence[str | Path]:
        where = ("-h", self.folder, "-p", self._port, "-d", "postgres", "-U", "postgres")
        return [self._programs / "pg_isready", *where]


class MariaDB(DatabaseServer):
    """MariaDB, from this ``program``."""

    options = (
        "--skip-networking",
        "--skip-log-bin",
        "--innodb-flush-log-at-trx-commit=0",
        "--innodb-doublewrite=0",
        # Else text that is not of Western Europe would not fit: the files of a package set it, which are not read.
        "--character-set-server=utf8mb4",
    )
    # There is nothing to save.
    stops_at = signal.SIGKILL

    def __init__(self, program: Path) -> None:
        self._program = program
        super().__init__()
        self.database = {
            "ENGINE": "django.db.backends.mysql",
            "NAME": "site",
            "USER": "root",
            "HOST": self._socket,
            "CONN_MAX_AGE": None,
        }
        subprocess.run([*self._client("mariadb"), "-e", "CREATE DATABASE site"], check=True)

    @property
    def _socket(self) -> str:
        return f"{self.folder}/socket"

    def _client(self, name: str) -> list[str]:
        return [name, "--no-defaults", "--user=root", f"--socket={self._socket}"]

    def _of_server(self) -> list[str]:
        # As root, it wants to be told so.
        user = ["--user=root"] if os.geteuid() == 0 else []
        return ["--no-defaults", f"--datadir={self.folder}/data", *user]

    def make(self) -> Sequence[str | Path]:
        options = ("--auth-root-authentication-method=normal", "--skip-test-db")
        return ["mariadb-install-db", *self._of_server(), *options]

    def start(self) -> Sequence[str | Path]:
        return [self._program, *self._of_server(), f"--socket={self._socket}", *self.options]

    def ask(self) -> Sequence[str | Path]:
        return [*self._client("mariadb-admin"), "ping"]
