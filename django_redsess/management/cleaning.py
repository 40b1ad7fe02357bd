"""What the commands that run cleaners have in common: how long they run, what ends them, and what they tell."""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import close_old_connections
from redis.exceptions import ResponseError

from django_redsess.cleaning.batches import BATCH_MAX
from django_redsess.cleaning.cleaner import BATCH_SIZE
from django_redsess.exceptions import SessionStoreUnavailable

T = TypeVar("T")

PAUSE_SECONDS_MIN, PAUSE_SECONDS_MAX = 0.25, 5.0
"""Between two tries to reach a server that is out of reach."""

PATIENCE_SECONDS = 60
"""How long one pass waits for such a server before it gives up. With ``--forever`` there is no such limit."""

LINE_SECONDS = 5
"""Between two lines that tell how far a pass is; with ``--forever``, a minute."""

logger = logging.getLogger("django_redsess")


class Stop:
    """Whether SIGTERM or Ctrl-C asked the command to stop. A second one stops it at once."""

    def __init__(self) -> None:
        self.asked = False
        self._ear, self._mouth = socket.socketpair()

    def fileno(self) -> int:
        """Return what can be read once it was asked."""
        return self._ear.fileno()

    def wait(self, seconds: float) -> None:
        """Return after so many seconds, or when it is asked."""
        self._ear.settimeout(max(seconds, 0.001))
        with suppress(TimeoutError):
            self._ear.recv(1, socket.MSG_PEEK)

    @contextmanager
    def listening(self) -> Iterator[None]:
        # Only the main thread can: elsewhere, whoever started the thread knows how to end it.
        before = {}
        if threading.current_thread() is threading.main_thread():
            before = {number: signal.signal(number, self._ask) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            self._ear.close()
            self._mouth.close()

    def _ask(self, number: int, frame: object) -> None:
        self.asked = True
        self._mouth.send(b".")
        signal.signal(number, signal.SIG_DFL)


class CleaningCommand(BaseCommand):
    """
    A command that works in batches, once or for as long as it runs.

    A subclass says in :meth:`work` what a pass does, counts in ``counts``, and calls :meth:`batch_done` after each.
    """

    counts: dict[str, int]

    def add_arguments(self, parser: CommandParser) -> None:
        add = parser.add_argument
        add("--forever", action="store_true", help="go on until SIGTERM or Ctrl-C, as a service does")
        add(
            "--batch-size",
            type=int,
            default=BATCH_SIZE,
            metavar="N",
            help=f"work in batches of so many, 1 to {BATCH_MAX} (default: {BATCH_SIZE})",
        )
        add(
            "--heartbeat",
            type=Path,
            metavar="FILE",
            help="touch FILE whenever the server has answered",
        )
        add("--json", action="store_true", help="end with the counts as one line of JSON, and nothing else on stdout")

    def handle(self, *args: Any, **options: Any) -> None:
        self.options = options
        self.validate()
        agreed = self.agreed()
        self.stop = Stop()
        self._began = self._told = self._answered = time.monotonic()
        self._bar: Any = None
        self._told_counts: dict[str, int] = dict(self.counts)
        with ExitStack() as stack:
            stack.enter_context(self.stop.listening())
            stack.enter_context(self._outages_told())
            stack.callback(self.close)
            try:
                if agreed:
                    self._run()
            except ImproperlyConfigured as error:
                raise CommandError(str(error)) from error
            except ResponseError as error:
                raise CommandError(f"The server refuses: {error}") from error
            finally:
                if self._bar is not None:
                    self._bar.close()
        self._summarize()

    def validate(self) -> None:
        """Raise CommandError for an option that can't be."""
        size = self.options["batch_size"]
        if not 1 <= size <= BATCH_MAX:
            raise CommandError(f"--batch-size must be from 1 to {BATCH_MAX}, not {size}.")
        heartbeat = self.options["heartbeat"]
        # Not by touching it: nothing has answered yet.
        if heartbeat is not None and not os.access(heartbeat if heartbeat.exists() else heartbeat.parent, os.W_OK):
            raise CommandError(f"--heartbeat: {heartbeat} can't be written.")

    def agreed(self) -> bool:
        """Tell whether to begin, having asked where that is due."""
        return True

    def at_least_one(self, option: str) -> None:
        """Raise CommandError for an option that was given, and is below 1."""
        number = self.options[option]
        if number is not None and number < 1:
            raise CommandError(f"--{option.replace('_', '-')} must be 1 or more, not {number}.")

    def work(self) -> None:
        """Do all that there is to do now, or what can be done until ``self.stop.asked``."""
        raise NotImplementedError

    def total(self) -> int | None:
        """Count what there is to do now, for a progress bar; None where that would take as long as doing it."""
        raise NotImplementedError

    def rest(self) -> None:
        """Wait until there may be more to do."""
        raise NotImplementedError

    def sentence(self, counts: dict[str, int]) -> str:
        """Say what was done."""
        raise NotImplementedError

    def close(self) -> None:
        """Close what was opened for waiting."""

    def batch_done(self, what: str, count: int) -> bool:
        """Count ``count`` more of ``what``, tell it where that is due, and return whether to go on."""
        self.counts[what] += count
        self._answered = time.monotonic()
        self._beat()
        if self._bar is not None:
            self._bar.update(count)
        elif self.options["verbosity"] > 1 and count:
            self.say(f"{what}: {count:,}")
        elif not self.options["forever"] and time.monotonic() - self._told > LINE_SECONDS:
            self._told = time.monotonic()
            self.say(", ".join(f"{each} so far: {number:,}" for each, number in self.counts.items()))
        return not self.stop.asked

    def say(self, line: str) -> None:
        """Print a line for a person, if anything is to be told."""
        if self.options["verbosity"] > 0:
            self._clear_bar()
            if self.options["json"]:
                self.stderr.write(line, style_func=str)
            else:
                self.stdout.write(line)

    def patiently(self, work: Callable[[], T]) -> T | None:
        """Do ``work``; while the server is out of reach, wait for it. Returns None if asked to stop meanwhile."""
        failed, pause = 0.0, PAUSE_SECONDS_MIN
        while not self.stop.asked:
            try:
                return work()
            except SessionStoreUnavailable as error:
                now = time.monotonic()
                if not self.options["forever"] and now - self._answered > PATIENCE_SECONDS:
                    raise CommandError(f"{error} Nothing is lost: run it again.") from error
                pause = PAUSE_SECONDS_MIN if self._answered > failed else min(2 * pause, PAUSE_SECONDS_MAX)
                failed = now
                self._clear_bar()
                self.stop.wait(pause)
        return None

    def _run(self) -> None:
        forever = self.options["forever"]
        if not forever and self.options["verbosity"] > 0 and sys.stderr.isatty():
            self._bar = progress_bar(self.patiently(self.total))
        while True:
            self.patiently(self.work)
            if self.stop.asked or not forever:
                return
            self._beat()
            self._tell_minute()
            # Receivers of the signal may use the database: what it has closed is opened again.
            close_old_connections()
            self.patiently(self.rest)

    def _tell_minute(self) -> None:
        if time.monotonic() - self._told < 60:
            return
        counts = {name: number - self._told_counts[name] for name, number in self.counts.items()}
        self._told, self._told_counts = time.monotonic(), dict(self.counts)
        if any(counts.values()):
            self.say(self.sentence(counts))

    def _summarize(self) -> None:
        seconds = time.monotonic() - self._began
        done = sum(self.counts.values())
        rate = done / seconds if done else 0.0
        if self.options["json"]:
            facts = {"seconds": round(seconds, 3), "per_second": round(rate, 1), "stopped": self.stop.asked}
            self.stdout.write(json.dumps({**self.counts, **facts}))
        else:
            self.say(
                self.sentence(self.counts) + (f" That took {seconds:.1f} s: {rate:,.0f} a second." if done else "")
            )

    def _beat(self) -> None:
        if self.options["heartbeat"] is not None:
            # Where that fails, the file grows old, and says so.
            with suppress(OSError):
                self.options["heartbeat"].touch()

    def _clear_bar(self) -> None:
        if self._bar is not None:
            self._bar.clear()

    @contextmanager
    def _outages_told(self) -> Iterator[None]:
        # The engine logs when an outage begins and when it is over. Where logs go nowhere, they go to the terminal.
        if logger.hasHandlers():
            yield
            return
        handler = logging.StreamHandler(self.stderr)
        level = logger.level
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        try:
            yield
        finally:
            logger.removeHandler(handler)
            logger.setLevel(level)


def progress_bar(total: int | None) -> Any:
    """Begin a bar on stderr that goes up to ``total`` (None: nobody knows); None where tqdm is not installed."""
    try:
        from tqdm import tqdm
    except ImportError:
        return None
    return tqdm(total=total, unit="", unit_scale=False, leave=False, dynamic_ncols=True)
