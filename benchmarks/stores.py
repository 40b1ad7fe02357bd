"""
The servers of a measurement: they are started for it, and removed after it.

None writes to disk before it answers, so that durability is the same for all: Redis and Valkey have no persistence,
PostgreSQL has ``fsync`` and ``synchronous_commit`` off, SQLite (see ``engines.py``) has ``synchronous`` off.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from testproject.servers import Server, free_port

DATABASES = 64
"""The number of databases of the Redis server: each engine uses one of its own."""

POSTGRES_OPTIONS = {
    "fsync": "off",
    "full_page_writes": "off",
    "synchronous_commit": "off",
}


@dataclass(frozen=True)
class Stores:
    """
    Where the servers are, in plain values that can be sent to another process.

    ``folder`` is for the files of SQLite. If ``postgres_port`` is None, ``postgres_left_out`` says why.
    """

    redis_port: int
    folder: str
    postgres_port: int | None = None
    postgres_left_out: str = ""


@dataclass(frozen=True)
class Usage:
    """
    What the servers have used.

    ``cpu_seconds`` is the CPU time of all processes. ``commands`` are those that Redis ran, with those inside scripts
    and pipelines. ``reads`` is how often it read from a client.
    """

    cpu_seconds: float
    commands: int
    reads: int


class Unavailable(Exception):  # noqa: N818
    """A server can't be started here; the text says why."""


class Postgres:
    """A new cluster of PostgreSQL in a temporary folder, made with Debian's tools. Raises Unavailable."""

    def __init__(self) -> None:
        self.port = free_port()
        self.folder = Path(tempfile.mkdtemp(prefix="redsess-bench-"))
        # The server runs as another user, who must enter this folder and make a socket in it.
        self.folder.chmod(0o1777)
        # Otherwise the configuration would be among that of the machine's own clusters.
        self.environment = {**os.environ, "PG_CLUSTER_CONF_ROOT": str(self.folder / "configuration")}
        self.cluster: tuple[str, ...] = ()
        try:
            self._start()
        except BaseException:
            self.close()
            raise

    def cpu_seconds(self) -> float:
        """Return the CPU time of all its processes so far."""
        try:
            processes = [self.process, *self.process.children(recursive=True)]
            return sum(_cpu_seconds(process) for process in processes)
        except psutil.NoSuchProcess:  # One of its processes has just ended.
            return self.cpu_seconds()

    def close(self) -> None:
        if self.cluster:
            for command in (
                ["pg_ctlcluster", "--skip-systemctl-redirect", "-m", "immediate", *self.cluster, "stop"],
                ["pg_dropcluster", *self.cluster],
            ):
                subprocess.run(command, env=self.environment, cwd="/", capture_output=True)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _start(self) -> None:
        versions = sorted(float(each.parent.parent.name) for each in Path("/usr/lib/postgresql").glob("*/bin/initdb"))
        if not versions or shutil.which("pg_createcluster") is None:
            raise Unavailable("no PostgreSQL with pg_createcluster is installed")
        self.cluster = f"{versions[-1]:g}", f"bench{self.port}"
        options = [f"--pgoption={name}={value}" for name, value in POSTGRES_OPTIONS.items()]
        places = ["-d", str(self.folder / "data"), "-s", str(self.folder), "-l", str(self.folder / "log")]
        self._run(
            *("pg_createcluster", *self.cluster, *places, "-p", str(self.port), "--start-conf=manual", *options),
            *("--", "--auth=trust", "--no-sync"),
        )
        self._run("pg_ctlcluster", "--skip-systemctl-redirect", *self.cluster, "start")
        self.process = psutil.Process(int((self.folder / "data/postmaster.pid").read_text().split()[0]))

    def _run(self, *command: str) -> None:
        done = subprocess.run(command, env=self.environment, cwd="/", capture_output=True, text=True)
        if done.returncode:
            log = self.folder / "log"
            said = (log.read_text() if log.exists() else done.stderr or done.stdout).strip().splitlines()
            raise Unavailable(f"{command[0]}: {said[-1] if said else done.returncode}")


class Servers:
    """
    All servers of a block, empty: Redis or Valkey from ``binary``, a folder, and PostgreSQL if ``postgres``.

    ``stores`` says where they are. ``redis`` is the server with a plain client. The caller closes them.
    """

    def __init__(self, binary: Path, *, postgres: bool = False) -> None:
        self.postgres: Postgres | None = None
        self.folder = tempfile.mkdtemp(prefix="redsess-bench-")
        left_out = "not asked for"
        try:
            if postgres:
                try:
                    self.postgres = Postgres()
                except Unavailable as error:
                    left_out = str(error)
            # PostgreSQL first: it takes longest to start, and may be missing.
            self.redis = Server(binary, "--databases", str(DATABASES))
        except BaseException:
            self.close()
            raise
        pin(self.redis.process.pid, core=0)
        port = self.postgres.port if self.postgres else None
        self.stores = Stores(self.redis.port, self.folder, port, "" if self.postgres else left_out)

    def usage(self) -> Usage:
        """Return what the servers have used so far."""
        commands, reads = self._processed()
        return Usage(self._cpu_seconds(), commands, reads)

    def used_since(self, before: Usage) -> Usage:
        """Return what the servers have used since ``before``, nearly without the requests for these numbers."""
        seconds = self._cpu_seconds()
        commands, reads = self._processed()
        # Three reads were requests for numbers: two for the CPU time, one for the commands.
        return Usage(seconds - before.cpu_seconds, commands - before.commands, reads - before.reads - 3)

    def close(self) -> None:
        if hasattr(self, "redis"):
            self.redis.client.close()
            self.redis.close()
        if self.postgres:
            self.postgres.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _processed(self) -> tuple[int, int]:
        info: dict[str, Any] = self.redis.client.info("stats", "commandstats")
        calls = sum(each["calls"] for name, each in info.items() if name.startswith("cmdstat_"))
        return calls - info.get("cmdstat_info", {}).get("calls", 0), info["total_reads_processed"]

    def _cpu_seconds(self) -> float:
        # The whole process, with its reading and writing. The server knows its own time to the microsecond; for other
        # processes the system counts in ticks of 10 ms.
        info: dict[str, Any] = self.redis.client.info("cpu")
        seconds = float(info["used_cpu_user"] + info["used_cpu_sys"])
        return seconds + (self.postgres.cpu_seconds() if self.postgres else 0)


def pin(process_id: int, *, core: int) -> None:
    """
    Keep a process on one core, if the system can: servers on core 0, their clients on core 1.

    Otherwise results would depend on whether the system happens to run both on the same core.
    """
    with suppress(AttributeError, OSError):  # Not all systems can.
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(process_id, {cores[core % len(cores)]})


def _cpu_seconds(process: psutil.Process) -> float:
    try:
        # In nanoseconds, on Linux.
        return int(Path(f"/proc/{process.pid}/schedstat").read_text().split()[0]) / 1e9
    except FileNotFoundError:
        times = process.cpu_times()
        return float(times.user + times.system)
