from __future__ import annotations

from contextlib import closing
from typing import Any

from django.core.management.base import CommandError, CommandParser

from django_redsess import cleaning
from django_redsess.cleaning import index_check
from django_redsess.cleaning.wake_up import Sleeper, make_sleeper
from django_redsess.clock import monotonic
from django_redsess.conf import conf
from django_redsess.management.cleaning_command import CleaningCommand
from django_redsess.session.user_limit import NO_LIMIT
from django_redsess.transport.keys import keyspace

REST_SECONDS_MAX = 5
"""The longest sleep. The maximum must be checked, too, and a wake-up call may get lost."""

REST_SECONDS_MIN = 0.05
"""The shortest sleep. On a busy site, sessions are due every few milliseconds. One batch for many is better."""

FAULTS_SHOWN = 100

FIRST_JOBS_SECONDS, JOBS_SECONDS = 300, 3600
"""When the jobs of ``cleaning.hourly`` are run with ``--forever``: so long after the start, and then so often."""

KINDS = {"expired": "expired", "evicted": "excess"}
"""The ways in which this command ends sessions, each with its name for ``--only``."""


COMPARED = ("compared", "faults", "mended", "sealed", "encrypted", "without_key")
"""
The counts of a comparison: entries of all keys, faults, mended faults, sealed sessions, encrypted sessions, and
encrypted sessions whose key this process lacks.
"""


class Command(CleaningCommand):
    help = (
        "End the sessions whose deadline has passed. Then, above the setting MAX_SESSIONS, end the ones longest "
        "unseen, guests' first. With --max-guests N, end guests' sessions only, until N are left. "
        "Without --forever it makes one pass: run it from cron, every minute or every hour. With --forever it sleeps "
        "until the next deadline, and takes the samples that online.samples() returns. Between runs, each new session "
        "ends some of both. It can be stopped at any moment, and can run in several places at once."
    )
    exit_status = (
        "0 when the pass is done, or --forever was stopped;\n"
        "  1 after an error, where a pass was stopped, or --check has found entries that disagree."
    )
    examples = (
        "manage.py cleansessions  # from cron",
        "manage.py cleansessions --forever --heartbeat /run/cleansessions  # as a service",
        "manage.py cleansessions --dry-run",
        "manage.py cleansessions --check",
        "manage.py cleansessions --max-guests 0  # after a flood of visitors without an account: nobody is signed out",
    )

    def add_arguments(self, parser: CommandParser) -> None:
        add = parser.add_argument
        add("--only", metavar="expired|excess", help="end only expired sessions, or only those above the maximum")
        add("--max-sessions", type=int, metavar="N", help="keep N sessions (default: MAX_SESSIONS)")
        guests_help = "end only guests' sessions, longest unseen first, until N are left"
        add("--max-guests", type=int, metavar="N", help=guests_help)
        add("--dry-run", action="store_true", help="count the sessions that would end, and change nothing")
        add(
            "--check",
            action="store_true",
            help="compare all keys, list the entries that disagree, and exit with 1 if there are any. It also counts "
            "how many sessions are encrypted, and how many of these no key of this process decrypts",
        )
        add("--repair", action="store_true", help="compare all keys, and mend the entries that disagree")
        super().add_arguments(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        self.comparing = options["check"] or options["repair"]
        self.counts = dict.fromkeys(COMPARED, 0) if self.comparing else {"expired": 0, "evicted": 0}
        if options["max_guests"] is not None:
            self.counts = {"evicted": 0}
        self._sleeper: Sleeper | None = None
        self._next_sample = 0.0
        # Not at once: each deploy restarts the service, and would repeat the jobs.
        self._next_hour = monotonic() + FIRST_JOBS_SECONDS
        super().handle(*args, **options)
        if self.comparing and (left := self.counts["faults"] - self.counts["mended"]):
            what_to_do = "they can't be mended" if options["repair"] else "see above; --repair mends what can be mended"
            raise CommandError(f"{left:,} entries disagree: {what_to_do}.")

    def validate(self) -> None:
        self.refuse_together("check", "repair", "dry_run", "forever")
        self.require_from(1, "max_sessions")
        self.guests = self.options["max_guests"]
        for other in ("only", "max_sessions", "check", "repair", "forever"):
            self.refuse_together("max_guests", other)
        self.require_from(0, "max_guests")
        self.maximum = (self.options["max_sessions"] or conf.MAX_SESSIONS) if self.guests is None else NO_LIMIT
        only = self.options["only"]
        if only not in (None, *KINDS.values()):
            raise CommandError(f"--only must be expired or excess, not {only}.")
        self.kinds = [kind for kind, name in KINDS.items() if only in (None, name) and kind in self.counts]
        super().validate()

    def count_work(self) -> int | None:
        if self.comparing:
            return None
        return sum(self._backlog().values())

    def count_done(self) -> int:
        if not self.comparing:
            return super().count_done()
        return self.counts["compared"] + self.counts["faults"] + self.counts["mended"]

    def do_pass(self) -> None:
        if self.comparing:
            self._compare()
        elif self.options["dry_run"]:
            self.counts.update(self._backlog())
        else:
            self._clean()

    def wait_for_work(self) -> None:
        if self._sleeper is None:
            # Only a deadline sends a wake-up call. A session above the maximum sends none.
            self._sleeper = make_sleeper(keyspace().partitions if "expired" in self.kinds else [])
            self.until_the_end.enter_context(closing(self._sleeper))
        due_in = cleaning.seconds_to_next_deadline() if "expired" in self.kinds else None
        seconds = min(REST_SECONDS_MAX, self._next_sample - monotonic())
        if due_in is not None:
            seconds = min(seconds, due_in)
        self._sleeper.sleep(max(REST_SECONDS_MIN, seconds), until=self.stop)

    def sentence(self, counts: dict[str, int]) -> str:
        if self.comparing:
            mended = f", {counts['mended']:,} are mended" if self.options["repair"] else ""
            kinds = f"{counts['sealed']:,} sessions are sealed, and {counts['encrypted']:,} encrypted"
            if counts["without_key"]:
                kinds += f", {counts['without_key']:,} of them with a key that this process does not have"
            return f"Compared {counts['compared']:,} entries: {counts['faults']:,} disagree{mended}. {kinds}."
        verb = "There are" if self.options["dry_run"] else "Removed"
        if self.guests is not None:
            return f"{verb} {counts['evicted']:,} guests' sessions above {self.guests:,}."
        expired, evicted = f"{counts['expired']:,} expired sessions", f"{counts['evicted']:,} above the maximum"
        return f"{verb} {expired} and {evicted} of {self.maximum:,}."

    def _backlog(self) -> dict[str, int]:
        found = cleaning.count_backlog(maximum=self.maximum, guests=self.guests, after_expired="expired" in self.kinds)
        return {kind: count for kind, count in zip(KINDS, found, strict=True) if kind in self.kinds}

    def _clean(self) -> None:
        how: dict[str, Any] = {"batch_size": self.options["batch_size"], "go_on": lambda: not self.stop.asked}
        if "expired" in self.kinds:
            for count in cleaning.expire_sessions(**how):
                self.count_batch("expired", count)
        if "evicted" in self.kinds:
            for count in cleaning.evict_sessions(maximum=self.maximum, guests=self.guests, **how):
                self.count_batch("evicted", count)
        if self.options["forever"] and monotonic() >= self._next_sample:
            self._next_sample = monotonic() + cleaning.take_sample()
            cleaning.report_totals()
        if self.options["forever"] and monotonic() >= self._next_hour:
            self._next_hour = monotonic() + JOBS_SECONDS
            # An error of a receiver must not stop the cleaner.
            cleaning.hourly.send_robust(type(self), go_on=self._goes_on)

    def _goes_on(self) -> bool:
        self._beat()
        return not self.stop.asked

    def _compare(self) -> None:
        if not self.options["repair"]:
            # After an outage, the comparison starts again, and so do its counts.
            self.counts = dict.fromkeys(self.counts, 0)
        for step in index_check.check_store(mend=self.options["repair"]):
            for fault in step.faults:
                self.counts["faults"] += 1
                self.counts["mended"] += self.options["repair"] and fault.can_be_mended
                if self.counts["faults"] <= FAULTS_SHOWN or self.options["verbosity"] > 1:
                    self.print_status(str(fault))
                elif self.counts["faults"] == FAULTS_SHOWN + 1:
                    self.print_status("… and more: --verbosity 2 shows them all.")
            self.counts["sealed"] += step.sealed
            self.counts["encrypted"] += step.encrypted
            self.counts["without_key"] += step.without_key
            if not self.count_batch("compared", step.entries):
                return
