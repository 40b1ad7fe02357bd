"""
The process of an engine, which runs operations on demand and measures them.

Each engine needs a process of its own: a process can't change Django's settings.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import time
import traceback
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import django
from django.conf import settings

from benchmarks.stores import Stores, pin

PATIENCE = 5
"""Seconds until a process that does not end by itself is killed."""


class Timing(NamedTuple):
    """Wall time and CPU time of a run."""

    seconds: float
    cpu_seconds: float


class WorkerFailed(Exception):  # noqa: N818
    """An operation failed in the process; the text is its traceback."""


class Worker:
    """
    The process of the engine ``name`` (in :data:`benchmarks.bare.ALL`), on the servers ``stores``.

    It starts at once. Call :meth:`start` first, which waits until it is ready. Each method raises WorkerFailed if it
    fails in the process. The caller closes it.
    """

    def __init__(self, name: str, stores: Stores) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=serve, args=(theirs, name, stores), daemon=True)
        self.process.start()
        theirs.close()

    def start(self) -> None:
        """Wait until Django is set up and the engine's tables, if any, are made."""
        self._answer()

    def fill(self, sessions: int) -> None:
        """Store this number of ``sessions``."""
        self._ask("fill", sessions)

    def prepare(self, operation: str, count: int) -> None:
        """Prepare ``operation``, ``count`` times."""
        self._ask("prepare", operation, count)

    def run(self) -> Timing:
        """Run the prepared operation, and measure it."""
        return Timing(*self._ask("run"))

    def tidy(self) -> None:
        """Delete what the operation left."""
        self._ask("tidy")

    def close(self) -> None:
        # The process ends when its pipe is closed.
        self.pipe.close()
        self.process.join(PATIENCE)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        self.process.close()

    def _ask(self, *what: Any) -> Any:
        self.pipe.send(what)
        return self._answer()

    def _answer(self) -> Any:
        try:
            done, answer = self.pipe.recv()
        except EOFError:
            raise WorkerFailed("The process has ended.") from None
        if not done:
            raise WorkerFailed(answer)
        return answer


def serve(pipe: Connection, name: str, stores: Stores) -> None:
    """Run in the process: do what ``pipe`` says until its other end is closed."""
    # Ctrl-C reaches all processes of a terminal. The parent process ends this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        serving = _Serving(name, stores)
    except Exception as error:
        # No session exists so far, so the text can't show a session key.
        pipe.send((False, f"{type(error).__name__}: {error}"))
        return
    pipe.send((True, None))
    while True:
        try:
            method, *args = pipe.recv()
        except EOFError:
            return
        try:
            answer = True, getattr(serving, method)(*args)
        except Exception as error:
            # The text of a database's error may show a session key.
            lines = traceback.format_tb(error.__traceback__)
            answer = False, f"{type(error).__name__}\n{''.join(lines)}"
        pipe.send(answer)


class _Serving:
    def __init__(self, name: str, stores: Stores) -> None:
        from benchmarks.bare import ALL, side_of

        pin(os.getpid(), core=1)
        engine = ALL[name]
        settings.configure(**engine.settings(stores))
        django.setup()
        if engine.sql:
            engine.make_database(stores)
        self.side = side_of(name)

    def fill(self, sessions: int) -> None:
        self.side.fill(sessions)
        # These objects stay: collecting garbage among them would take longer than what is measured.
        gc.collect()
        gc.freeze()

    def prepare(self, operation: str, count: int) -> None:
        self.run_prepared = self.side.prepare(operation, count)
        # Collect earlier garbage now, so that this run does not pay for it.
        gc.collect()

    def run(self) -> Timing:
        run = self.run_prepared
        cpu, start = time.process_time(), time.perf_counter()
        run()
        seconds = time.perf_counter() - start
        return Timing(seconds, time.process_time() - cpu)

    def tidy(self) -> None:
        self.side.tidy()
