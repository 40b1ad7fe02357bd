"""A PostgreSQL server for a measurement, where its programs are installed. It does not wait for the disk."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from testproject.servers import free_port

OPTIONS = ("fsync=off", "synchronous_commit=off", "full_page_writes=off", "max_connections=200", "listen_addresses=")
START_SECONDS = 30


def programs() -> Path | None:
    """Return the folder of the newest PostgreSQL, or None if there is none, or no psycopg."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: int(path.parts[-3]))
    if on_path := shutil.which("postgres"):
        # It may be a link to where its other programs are.
        found.append(Path(on_path).resolve())
    return found[-1].parent if found and find_spec("psycopg") else None


class PostgreSQL:
    """
    A server with an empty database, from the ``programs`` in this folder. ``database`` is its entry of DATABASES.

    It refuses to run as root, and runs as the user ``postgres`` then. The caller closes it.
    """

    def __init__(self, programs: Path) -> None:
        self._folder = tempfile.mkdtemp(prefix="redsess-bench-")
        user = "postgres" if os.geteuid() == 0 else None
        shutil.chown(self._folder, user or os.geteuid())
        data, port = f"{self._folder}/data", free_port()
        how: Any = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": self._folder, "user": user}
        make = ["--auth=trust", "--username=postgres", "--encoding=UTF8", "--no-sync", "--pgdata", data]
        subprocess.run([programs / "initdb", *make], check=True, **how)
        options = [part for each in (*OPTIONS, f"unix_socket_directories={self._folder}") for part in ("-c", each)]
        self._process = subprocess.Popen([programs / "postgres", "-D", data, "-p", str(port), *options], **how)
        where = ["-h", self._folder, "-p", str(port), "-d", "postgres", "-U", "postgres"]
        deadline = time.monotonic() + START_SECONDS
        try:
            while subprocess.run([programs / "pg_isready", *where], **how).returncode:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"{programs} did not start")
                time.sleep(0.05)
        except BaseException:
            self.close()
            raise
        self.database = {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": "postgres",
            "USER": "postgres",
            "HOST": self._folder,
            "PORT": str(port),
            "CONN_MAX_AGE": None,
        }

    def close(self) -> None:
        # At once, with all its processes.
        self._process.send_signal(signal.SIGQUIT)
        self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)
