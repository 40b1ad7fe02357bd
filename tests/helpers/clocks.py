"""A server whose clock a test sets, by Debian's faketime. With that, Debian's Redis does not start."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from testproject.servers import Server
from tests.helpers.running import wait_until

LIBRARIES = sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))


class Clock:
    """The clock of ``server``: right at first."""

    def __init__(self, binary: Path, folder: Path) -> None:
        self._file = folder / "clock"
        self.server = Server(binary, environment=stepped(self._file))

    def set(self, ahead_by_seconds: int) -> None:
        """Step it, so that it is ahead of the machine's by so much; return when it is."""
        _write(self._file, ahead_by_seconds)
        wait_until(lambda: abs(self.server.client.time()[0] - time.time() - ahead_by_seconds) < 60)


def stepped(file: Path, ahead_by_seconds: int = 0) -> dict[str, str]:
    """Return the environment of a server whose clock is ahead of the machine's. ``file`` will say by how much."""
    _write(file, ahead_by_seconds)
    return {
        "LD_PRELOAD": str(_library()),
        "FAKETIME_TIMESTAMP_FILE": str(file),
        "FAKETIME_NO_CACHE": "1",
        # What is timed, and not dated, goes on as it is.
        "DONT_FAKE_MONOTONIC": "1",
    }


def _library() -> Path:
    if not LIBRARIES:
        if "REDSESS_SKIP_NOTHING" in os.environ:
            raise pytest.UsageError("faketime is not installed")
        pytest.skip("faketime is not installed")
    return LIBRARIES[0]


def _write(file: Path, ahead_by_seconds: int) -> None:
    new = file.with_suffix(".new")
    new.write_text(f"{ahead_by_seconds:+d}\n")
    new.replace(file)


@contextmanager
def clock(binary: Path, folder: Path) -> Iterator[Clock]:
    made = Clock(binary, folder)
    try:
        yield made
    finally:
        made.server.close()
