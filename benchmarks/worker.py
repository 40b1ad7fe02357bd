"""
The process of an engine, which runs operations on demand and measures them.

Each engine needs a process of its own: a process can't change Django's settings.
"""

from __future__ import annotations

import gc
import os
import signal
import time
import traceback
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any, NamedTuple

import django
from django.conf import settings
from django.core.management import call_command

from benchmarks.stores import Stores, pin


class Timing(NamedTuple):
    """Wall time and CPU time of a run."""

    seconds: float
    cpu_seconds: float


class WorkerFailed(Exception):  # noqa: N818
    """An operation failed in the process; the text says where."""


class Worker:
    """
    The process of the engine ``name`` (in :data:`benchmarks.engines.ENGINES`), on the servers ``stores``.

    It starts at once. Call :meth:`start` first, which waits until it is ready. Each method raises WorkerFailed if it
    fails in the process. The caller closes it.
    """

    def __init__(self, name: str, stores: Stores) -> None:
        self._process = ProcessPoolExecutor(1, get_context("spawn"))
        self._started = self._process.submit(_guarded, _start, name, stores)

    def start(self) -> None:
        """Wait until Django is set up and the engine's tables, if any, are made."""
        self._started.result()

    def fill(self, sessions: int) -> None:
        """Store this number of ``sessions``."""
        self._call(_fill, sessions)

    def prepare(self, operation: str, count: int) -> None:
        """Prepare ``operation``, ``count`` times."""
        self._call(_prepare, operation, count)

    def run(self) -> Timing:
        """Run the prepared operation, and measure it."""
        timing: Timing = self._call(_run)
        return timing

    def tidy(self) -> None:
        """Delete what the operation left."""
        self._call(_tidy)

    def close(self) -> None:
        self._process.shutdown(cancel_futures=True)

    def _call(self, function: Callable[..., Any], *args: Any) -> Any:
        return self._process.submit(_guarded, function, *args).result()


# What follows runs in the process of the engine.

_side: Any
_prepared: Callable[[], object]


def _guarded(function: Callable[..., Any], *args: Any) -> Any:
    try:
        return function(*args)
    except Exception as error:
        # The text of a database's error may show a session key.
        where = "".join(traceback.format_tb(error.__traceback__))
        why = f": {error}" if function is _start else ""  # There are no sessions so far.
        raise WorkerFailed(f"{type(error).__name__}{why}\n{where}") from None


def _start(name: str, stores: Stores) -> None:
    global _side
    from benchmarks.engines import ENGINES
    from benchmarks.operations import side_of

    # Ctrl-C reaches all processes of a terminal. The parent process ends this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    pin(os.getpid(), core=1)
    engine = ENGINES[name]
    settings.configure(**engine.settings(stores))
    django.setup()
    if engine.sql:
        call_command("migrate", verbosity=0)
    _side = side_of(name)


def _fill(sessions: int) -> None:
    _side.fill(sessions)
    # These objects stay: collecting garbage among them would take longer than what is measured.
    gc.collect()
    gc.freeze()


def _prepare(operation: str, count: int) -> None:
    global _prepared
    _prepared = _side.prepare(operation, count)
    # Collect earlier garbage now, so that this run does not pay for it.
    gc.collect()


def _run() -> Timing:
    cpu, start = time.process_time(), time.perf_counter()
    _prepared()
    seconds = time.perf_counter() - start
    return Timing(seconds, time.process_time() - cpu)


def _tidy() -> None:
    _side.tidy()
