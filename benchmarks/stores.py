"""
The servers of a measurement: they are started for it, and removed after it.

None writes to disk before it answers, so that durability is the same for all: Redis and Valkey have no persistence,
SQLite (see ``engines.py``) has ``synchronous`` off.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testproject.servers import Server

DATABASES = 64
"""The number of databases of the Redis server: each engine uses one of its own."""


@dataclass(frozen=True)
class Stores:
    """Where the servers are, in plain values that can be sent to another process. ``folder`` is for SQLite's files."""

    redis_port: int
    folder: str


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


class Servers:
    """
    The servers of a block, empty: Redis or Valkey from ``binary``, and a folder.

    ``stores`` says where they are. ``redis`` is the server with a plain client. The caller closes them.
    """

    def __init__(self, binary: Path) -> None:
        self.folder = tempfile.mkdtemp(prefix="redsess-bench-")
        try:
            self.redis = Server(binary, "--databases", str(DATABASES))
        except BaseException:
            shutil.rmtree(self.folder, ignore_errors=True)
            raise
        pin(self.redis.process.pid, core=0)
        self.stores = Stores(self.redis.port, self.folder)

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
        self.redis.client.close()
        self.redis.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _processed(self) -> tuple[int, int]:
        info: dict[str, Any] = self.redis.client.info("stats", "commandstats")
        calls = sum(each["calls"] for name, each in info.items() if name.startswith("cmdstat_"))
        return calls - info.get("cmdstat_info", {}).get("calls", 0), info["total_reads_processed"]

    def _cpu_seconds(self) -> float:
        # The whole process, with its reading and writing.
        info: dict[str, Any] = self.redis.client.info("cpu")
        return float(info["used_cpu_user"] + info["used_cpu_sys"])


def pin(process_id: int, *, core: int) -> None:
    """
    Keep a process on one core, if the system can: servers on core 0, their clients on core 1.

    Otherwise results would depend on whether the system happens to run both on the same core.
    """
    with suppress(AttributeError, OSError):  # Not all systems can.
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(process_id, {cores[core % len(cores)]})
