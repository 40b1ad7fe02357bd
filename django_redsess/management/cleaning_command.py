"""The base class of the cleaning commands: how long they run, how they stop, and what they report."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from django.core.management.base import CommandError, CommandParser
from django.db import close_old_connections

from django_redsess.cleaning import BATCH_MAX, BATCH_SIZE
from django_redsess.clock import monotonic
from django_redsess.exceptions import SessionStoreUnavailable
from django_redsess.management.terminal import (
    LINE_SECONDS,
    CommandWithExamples,
    StopRequest,
    command_errors,
    is_terminal,
    outage_text,
    print_line,
    progress_bar,
)

T = TypeVar("T")

PAUSE_SECONDS_MIN, PAUSE_SECONDS_MAX = 0.25, 5.0
"""The pause between two tries to reach the server."""

PATIENCE_SECONDS = 60
"""
A pass under way gives up after this time without an answer, as after a failover that takes too long.

A pass that never had an answer gives up at once. With ``--forever``, the command never gives up.
"""

REMINDER_SECONDS_MIN, REMINDER_SECONDS_MAX = 60, 3600
"""With ``--forever``, a long outage is logged again after the first time, then after twice as long, up to the other."""

TIMED_SECONDS_MIN = 1
"""The speed of a shorter pass is not reported: a few entries in no time say nothing about a million."""

logger = logging.getLogger("django_redsess")


class CleaningCommand(CommandWithExamples):
    """
    A command that works in batches, for one pass or until it is stopped.

    A subclass implements one pass in :meth:`do_pass`, and calls :meth:`count_batch` after each batch. ``counts`` are
    the numbers that the command reports.
    """

    counts: dict[str, int]
    _answered: float | None
    waits_from_the_start = False
    """Whether a pass waits for a server that has not answered yet. Others end at once: the next one may be near."""
    exit_status = "0 when the pass is done, 1 after an error or where it was stopped."

    def add_arguments(self, parser: CommandParser) -> None:
        add = parser.add_argument
        add("--forever", action="store_true", help="run until SIGTERM or Ctrl-C, as a service")
        batch_help = f"the size of a batch, 1 to {BATCH_MAX} (default: {BATCH_SIZE})"
        add("--batch-size", type=int, default=BATCH_SIZE, metavar="N", help=batch_help)
        self.add_reporting(parser)

    def add_reporting(self, parser: CommandParser) -> None:
        """Add the options that report progress."""
        add = parser.add_argument
        add("--heartbeat", type=Path, metavar="FILE", help="touch FILE after each answer of the server")
        add("--json", action="store_true", help="print the counts as one line of JSON, and nothing else on stdout")

    def handle(self, *args: Any, **options: Any) -> None:
        self.options = options
        self.validate()
        with command_errors():
            confirmed = self.ask_to_begin()
            self.stop = StopRequest()
            self._started = self._reported = monotonic()
            self._answered = self._started if self.waits_from_the_start else None
            self._bar: Any = None
            self._reported_counts = dict(self.counts)
            with self.stop.listening(), self._outages_on_terminal(), ExitStack() as self.until_the_end:
                if confirmed:
                    self._run()
        self._summarize()

    def validate(self) -> None:
        """Raise CommandError for a wrong option."""
        size = self.options.get("batch_size", BATCH_SIZE)
        if not 1 <= size <= BATCH_MAX:
            raise CommandError(f"--batch-size must be from 1 to {BATCH_MAX}, not {size}.")
        heartbeat = self.options["heartbeat"]
        # The file is not touched here, because the server has not answered yet.
        if heartbeat is not None and not os.access(heartbeat if heartbeat.exists() else heartbeat.parent, os.W_OK):
            raise CommandError(f"--heartbeat: {heartbeat} can't be written.")

    def ask_to_begin(self) -> bool:
        """Return whether to begin. A subclass may ask."""
        return True

    def do_pass(self) -> None:
        """Do one pass: all work that is there now, or until ``self.stop.asked``."""
        raise NotImplementedError

    def count_work(self) -> int | None:
        """Count the work that is there now, for the progress bar. None if counting would take as long as the work."""
        raise NotImplementedError

    def wait_for_work(self) -> None:
        """Wait until there may be more work. Enter what has to be closed into ``self.until_the_end``."""
        raise NotImplementedError

    def retry_advice(self) -> str:
        """Return the advice for a person after an outage that lasted too long."""
        return "run it again"

    def count_done(self) -> int:
        """Return how many entries were handled, for the reported speed."""
        return sum(self.counts.values())

    def sentence(self, counts: dict[str, int]) -> str:
        """Return a sentence about what was done."""
        raise NotImplementedError

    def count_batch(self, what: str, count: int, looked_at: int | None = None) -> bool:
        """
        Add ``count`` to ``counts[what]``, report progress if it is time, and return whether to go on.

        ``looked_at`` is how far the bar advances, if not by ``count``.
        """
        self.counts[what] += count
        self._answered = monotonic()
        self._beat()
        if self._bar is not None:
            self._bar.update(count if looked_at is None else looked_at)
        elif self.options["verbosity"] > 1 and count:
            self.print_status(f"{what}: {count:,}")
        elif not self.options["forever"] and monotonic() - self._reported > LINE_SECONDS:
            self._reported = monotonic()
            self.print_status(", ".join(f"{each} so far: {number:,}" for each, number in self.counts.items()))
        return not self.stop.asked

    def print_status(self, line: str) -> None:
        """Print a line for a person, unless the verbosity is 0."""
        if self.options["verbosity"] > 0:
            self._clear_bar()
            print_line(line, self.for_people)

    def retry_in_outage(self, work: Callable[[], T]) -> T | None:
        """
        Return the result of ``work``. Repeat it while the server can't be reached. None if asked to stop.

        Unless the command runs forever, raises an error if the server has never answered, or not for long, and for an
        outage that only a person can mend, such as a missing permission.
        """
        begun = failed = remind_at = 0.0
        pause, remind_after = PAUSE_SECONDS_MIN, REMINDER_SECONDS_MIN
        while not self.stop.asked:
            try:
                result = work()
            except SessionStoreUnavailable as error:
                now = monotonic()
                if not begun or (self._answered or 0.0) > failed:
                    begun, pause, remind_after = now, PAUSE_SECONDS_MIN, REMINDER_SECONDS_MIN
                    remind_at = begun + remind_after
                else:
                    pause = min(2 * pause, PAUSE_SECONDS_MAX)
                failed = now
                if not self.options["forever"]:
                    self._refuse_outage(error, now + pause)
                elif now >= remind_at:
                    # The engine logs how it began, and when it is over.
                    logger.error("Sessions are still out of reach, after %.0f seconds: %s", now - begun, error.cause)
                    remind_after = min(2 * remind_after, REMINDER_SECONDS_MAX)
                    remind_at = now + remind_after
                self._clear_bar()
                self.stop.wait_for_stop(pause)
            else:
                self._answered = monotonic()
                return result
        return None

    def _refuse_outage(self, error: SessionStoreUnavailable, next_try: float) -> None:
        """Raise an error unless a pass is to wait for the server until ``next_try``."""
        if error.lasts or self._answered is None:
            raise error
        if next_try - self._answered > PATIENCE_SECONDS:
            raise CommandError(f"{outage_text(error)} Nothing is lost: {self.retry_advice()}.") from error

    def _run(self) -> None:
        forever = self.options["forever"]
        if not forever and self.options["verbosity"] > 0 and is_terminal(sys.stderr):
            self._bar = self.until_the_end.enter_context(
                progress_bar(self.retry_in_outage(self.count_work), wanted=True)
            )
        while True:
            self.retry_in_outage(self.do_pass)
            if self.stop.asked or not forever:
                return
            self._beat()
            self._report_minute()
            # Receivers of sessions_ended may use the database. It may have closed the connection meanwhile.
            close_old_connections()
            self.retry_in_outage(self.wait_for_work)

    def _report_minute(self) -> None:
        if monotonic() - self._reported < 60:
            return
        counts = {name: number - self._reported_counts[name] for name, number in self.counts.items()}
        self._reported, self._reported_counts = monotonic(), dict(self.counts)
        if any(counts.values()):
            self.print_status(self.sentence(counts))

    def _summarize(self) -> None:
        seconds = monotonic() - self._started
        done = self.count_done()
        rate = done / seconds if done else 0.0
        worth_telling = done and seconds >= TIMED_SECONDS_MIN
        took = f" That took {seconds:.1f} s: {rate:,.0f} a second." if worth_telling else ""
        said = f"{self.sentence(self.counts)}{took}"
        if self.options["json"]:
            facts = {"seconds": round(seconds, 3), "per_second": round(rate, 1), "stopped": self.stop.asked}
            self.stdout.write(json.dumps({**self.counts, **facts}))
        # Stopping is the normal end of a service. A pass that was stopped is not done.
        if self.stop.asked and not self.options["forever"]:
            raise CommandError(f"Stopped. {said}")
        if not self.options["json"]:
            self.print_status(said)

    def _beat(self) -> None:
        if self.options["heartbeat"] is not None:
            # If this fails, the file gets old, and its monitor notices.
            with suppress(OSError):
                self.options["heartbeat"].touch()

    def _clear_bar(self) -> None:
        if self._bar is not None:
            self._bar.clear()

    @contextmanager
    def _outages_on_terminal(self) -> Iterator[None]:
        # The engine logs when an outage begins and ends. If the site has no log handler, print that on the terminal.
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
