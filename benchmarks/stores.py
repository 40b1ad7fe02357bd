"""
The servers that a measurement runs on: started for it, and gone after it.

None writes to disk before it answers, so that none is measured for being careful: Redis or Valkey without persistence,
PostgreSQL with ``fsync`` and ``synchronous_commit`` off, SQLite (see ``engines.py``) likewise.
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
"""How many databases the Redis server has: each engine uses one of its own."""

POSTGRES_OPTIONS = {
    "fsync": "off",
    "full_page_writes": "off",
    "synchronous_commit": "off",
}


@dataclass(frozen=True)
class Stores:
    """
    Where the servers are; plain values, which another process can be given.

    ``folder`` is for the files of SQLite. Where ``postgres_port`` is None, ``postgres_left_out`` says why.
    """

    redis_port: int
    folder: str
    postgres_port: int | None = None
    postgres_left_out: str = ""


@dataclass(frozen=True)
class Usage:
    """
    What servers have done.

    The time of all processes together; the commands that Redis ran, those inside of scripts and pipelines included; and
    how often it read from a client.
    """

    cpu_seconds: float
    commands: int
    reads: int


class Unavailable(Exception):  # noqa: N818
    """A server that can't be started here; the text says why."""


class Postgres:
    """A cluster of PostgreSQL of its own, made by Debian's tools in a temporary folder. Raises Unavailable."""

    def __init__(self) -> None:
        self.port = free_port()
        self.folder = Path(tempfile.mkdtemp(prefix="redsess-bench-"))
        # The server's user is another one, who has to get through here, and makes a socket.
        self.folder.chmod(0o1777)
        # Else the configuration would be where that of the machine's own clusters is.
        self.environment = {**os.environ, "PG_CLUSTER_CONF_ROOT": str(self.folder / "configuration")}
        self.cluster: tuple[str, ...] = ()
        try:
            self._start()
        except BaseException:
            self.close()
            raise

    def cpu_seconds(self) -> float:
        """Add up what all its processes have used so far."""
        try:
            processes = [self.process, *self.process.children(recursive=True)]
            return sum(_cpu_seconds(process) for process in processes)
        except psutil.NoSuchProcess:  # One of those that come and go by themselves.
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
    All servers of a block, empty: Redis or Valkey from ``binary``, a folder, and PostgreSQL where it is wanted.

    Close them in the end. ``stores`` says where they are, ``redis`` is the server with a plain client.
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
            # What takes longest to start is there by now: from here on, only this can go wrong.
            self.redis = Server(binary, "--databases", str(DATABASES))
        except BaseException:
            self.close()
            raise
        pin(self.redis.process.pid, core=0)
        port = self.postgres.port if self.postgres else None
        self.stores = Stores(self.redis.port, self.folder, port, "" if self.postgres else left_out)

    def usage(self) -> Usage:
        """Tell what the servers have done so far."""
        commands, reads = self._processed()
        return Usage(self._cpu_seconds(), commands, reads)

    def used_since(self, before: Usage) -> Usage:
        """Tell what they have done since :meth:`usage` told ``before``: asking for it is left out, but for its end."""
        seconds = self._cpu_seconds()
        commands, reads = self._processed()
        # Asked meanwhile: twice for the time, and once for these numbers.
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
        # The whole process, reading and writing the network with it. The system counts it in ticks of 10 ms for others,
        # and to the microsecond for the process itself.
        info: dict[str, Any] = self.redis.client.info("cpu")
        seconds = float(info["used_cpu_user"] + info["used_cpu_sys"])
        return seconds + (self.postgres.cpu_seconds() if self.postgres else 0)


def pin(process_id: int, *, core: int) -> None:
    """
    Keep a process on one core, as far as the system can: 0 is for the server, 1 for who asks it.

    Else it would decide much whether the system has both on the same core at the moment, or on two.
    """
    with suppress(AttributeError, OSError):  # Not all systems can.
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(process_id, {cores[core % len(cores)]})


def _cpu_seconds(process: psutil.Process) -> float:
    try:
        # Nanoseconds, where the system tells them.
        return int(Path(f"/proc/{process.pid}/schedstat").read_text().split()[0]) / 1e9
    except FileNotFoundError:
        times = process.cpu_times()
        return float(times.user + times.system)
