"""A server whose clock a test sets, by Debian's faketime. With that, Debian's Redis does not start."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from testproject.servers import Server
from tests.support.running import wait_until

LIBRARIES = sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))


class Clock:
    """The clock of ``server``: right at first."""

    def __init__(self, binary: Path, folder: Path) -> None:
        self._file = folder / "clock"
        self._write(0)
        environment = {
            "LD_PRELOAD": str(LIBRARIES[0]),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_NO_CACHE": "1",
            # What is timed, and not dated, goes on as it is.
            "DONT_FAKE_MONOTONIC": "1",
        }
        self.server = Server(binary, environment=environment)

    def set(self, ahead_by_seconds: int) -> None:
        """Step it, so that it is ahead of the machine's by so much; return when it is."""
        self._write(ahead_by_seconds)
        wait_until(lambda: abs(self.server.client.time()[0] - time.time() - ahead_by_seconds) < 60)

    def _write(self, ahead_by_seconds: int) -> None:
        new = self._file.with_suffix(".new")
        new.write_text(f"{ahead_by_seconds:+d}\n")
        new.replace(self._file)


@contextmanager
def clock(binary: Path, folder: Path) -> Iterator[Clock]:
    if not LIBRARIES:
        if "REDSESS_SKIP_NOTHING" in os.environ:
            raise pytest.UsageError("faketime is not installed")
        pytest.skip("faketime is not installed")
    made = Clock(binary, folder)
    try:
        yield made
    finally:
        made.server.close()
