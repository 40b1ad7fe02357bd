"""
A process of one engine: it does operations when it is told to, and tells what they took.

Each engine has a process of its own, since a process has one Django with one set of settings.
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
"""Seconds that a process has to end by itself."""


class Timing(NamedTuple):
    """What a run took: on the clock, and of the process's own time."""

    seconds: float
    cpu_seconds: float


class WorkerFailed(Exception):  # noqa: N818
    """What went wrong in the process; the text is the traceback from there."""


class Worker:
    """
    The process of the engine that is called ``name`` (in :data:`benchmarks.bare.ALL`), on the servers ``stores``.

    It starts at once; :meth:`start` waits until it is ready, and comes first. Each method raises WorkerFailed when it
    goes wrong there. Close it in the end.
    """

    def __init__(self, name: str, stores: Stores) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=serve, args=(theirs, name, stores), daemon=True)
        self.process.start()
        theirs.close()

    def start(self) -> None:
        """Wait until Django is set up, and the tables are made where the engine has any."""
        self._answer()

    def fill(self, sessions: int) -> None:
        """Make as many sessions."""
        self._ask("fill", sessions)

    def prepare(self, operation: str, count: int) -> None:
        """Make all ready for doing ``operation`` so many times."""
        self._ask("prepare", operation, count)

    def run(self) -> Timing:
        """Do what was prepared."""
        return Timing(*self._ask("run"))

    def tidy(self) -> None:
        """Take away what it has left behind."""
        self._ask("tidy")

    def close(self) -> None:
        # It ends when nobody can tell it anything any more.
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
    """Be the process: do what comes through ``pipe``, until its other end is closed."""
    # Ctrl-C reaches all processes of a terminal. The one that started this knows what is to be done.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        serving = _Serving(name, stores)
    except Exception as error:
        # So far there is no session whose key the text could tell.
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
            # A database may show the session key in the text of an error.
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
        # What is there by now stays. Looking through it each time would take longer than what is measured.
        gc.collect()
        gc.freeze()

    def prepare(self, operation: str, count: int) -> None:
        self.run_prepared = self.side.prepare(operation, count)
        # What was left behind before is nobody's time.
        gc.collect()

    def run(self) -> Timing:
        run = self.run_prepared
        cpu, start = time.process_time(), time.perf_counter()
        run()
        seconds = time.perf_counter() - start
        return Timing(seconds, time.process_time() - cpu)

    def tidy(self) -> None:
        self.side.tidy()
