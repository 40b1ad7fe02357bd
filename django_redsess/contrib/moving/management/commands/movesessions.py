from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import CommandError, CommandParser

from django_redsess.backend import is_in_use
from django_redsess.conf import conf
from django_redsess.contrib.moving import SessionStore, growing, in_bulk
from django_redsess.contrib.moving.growing import in_bulk as growing_in_bulk
from django_redsess.contrib.moving.growing.stores import count_stored, site_stores
from django_redsess.contrib.moving.in_bulk import PageResult
from django_redsess.contrib.moving.outages import ask_other_store
from django_redsess.contrib.moving.sources import source
from django_redsess.management.cleaning_command import CleaningCommand
from django_redsess.transport.steps import drive, in_store


class Command(CleaningCommand):
    help = (
        "Move the sessions of the store that MOVE_FROM names here: those that their next request has not moved yet. "
        "Every process of the site must be at step 2. It can be stopped and run again at any moment, beside the "
        "site's traffic. Then --finish deletes the rows there."
    )
    examples = (
        "manage.py movesessions --dry-run",
        "manage.py movesessions",
        "manage.py movesessions --finish  # when all is well: there is no way back",
        "manage.py movesessions --back  # before a return to a release without this engine",
    )

    # An outage of the other store may begin before the first page is counted.
    waits_from_the_start = True

    def add_arguments(self, parser: CommandParser) -> None:
        which = parser.add_mutually_exclusive_group()
        which.add_argument("--dry-run", action="store_true", help="count what would be moved, and change nothing")
        which.add_argument(
            "--finish", action="store_true", help="delete the rows of sessions that were moved: their keys are valid"
        )
        which.add_argument(
            "--back", action="store_true", help="write the sessions that were moved back into their rows"
        )
        parser.add_argument(
            "--from-key",
            default="",
            metavar="TEXT",
            help="go on with keys that begin with TEXT, or with later ones",
        )
        self.add_reporting(parser)
        parser.set_defaults(forever=False)

    def handle(self, *args: Any, **options: Any) -> None:
        self.counts = {"done": 0, "before": 0, "ended": 0, "left": 0}
        self.last = ""
        self.begun = set[str]()
        super().handle(*args, **options)

    def validate(self) -> None:
        self.is_growing = is_in_use(growing.SessionStore)
        if not (self.is_growing or is_in_use(SessionStore)):
            raise CommandError(
                "SESSION_ENGINE must be 'django_redsess.contrib.moving' in every process of the site, or, for another "
                "store of this engine, 'django_redsess.contrib.moving.growing'."
            )
        try:
            site_stores() if self.is_growing else source()
        except ImproperlyConfigured as error:
            raise CommandError(str(error)) from error
        if self.is_growing:
            self._validate_growing()
        elif not conf.MOVES and not (self.options["dry_run"] or self.options["back"]):
            raise CommandError(
                "REDSESS['MOVES'] is False: sessions are used where they are. Once every process of the site runs "
                "that, set it to True."
            )
        super().validate()

    def _validate_growing(self) -> None:
        if site_stores().before is None:
            raise CommandError(
                "REDSESS['MOVE_TO'] is set: sessions stay where they are. Once every process of the site runs that, "
                "give it the settings of the next store, and MOVE_FROM."
            )
        for name in ("finish", "back", "from_key"):
            if self.options[name]:
                raise CommandError(
                    f"--{name.replace('_', '-')} is not for another store of this engine: what has moved "
                    "is deleted there at once. To move sessions back, move them as you have moved them here."
                )

    def count_work(self) -> int | None:
        if self.is_growing:
            return drive(in_store(site_stores().before, count_stored))
        return ask_other_store(source().count_rows)

    def do_pass(self) -> None:
        if self.last and not self.is_growing and not source().in_order:
            self._restart_counts()
        for page in self._run_pages():
            self.last = page.last
            for name in ("before", "ended", "left"):
                self.counts[name] += getattr(page, name)
            if not self.count_batch("done", page.done, page.row_count):
                return

    def _restart_counts(self) -> None:
        """After an outage, a source without an order begins anew. Rows that are there are met once more."""
        done, is_move = self.counts["done"], not (self.options["finish"] or self.options["back"])
        self.counts = dict.fromkeys(self.counts, 0)
        if self.options["finish"]:
            self.counts["done"] = done
        elif is_move and not self.options["dry_run"]:
            # They have been moved before, but by this run.
            self.counts |= {"done": done, "before": -done}

    def _run_pages(self) -> Iterator[PageResult]:
        if self.is_growing:
            return growing_in_bulk.move_sessions(dry_run=self.options["dry_run"])
        after = self.last if self.last and source().in_order else self.options["from_key"]
        if self.options["finish"]:
            return in_bulk.delete_moved_rows(after)
        if self.options["back"]:
            return in_bulk.bring_rows_back(after)
        return in_bulk.move_rows(after, dry_run=self.options["dry_run"], begun=self.begun)

    def retry_advice(self) -> str:
        return f"go on with --from-key {self.last[:2]}" if self.last and source().in_order else super().retry_advice()

    def sentence(self, counts: dict[str, int]) -> str:
        done, before, ended, left = (f"{counts[name]:,}" for name in ("done", "before", "ended", "left"))
        if self.options["finish"]:
            said = f"Deleted {done} rows of sessions that are or were here."
            if counts["left"]:
                return f"{said} {left} are left, of sessions that were not moved: run it without --finish first."
            return (
                f"{said} None is left. Set SESSION_ENGINE to 'django_redsess.backend', and remove MOVE_FROM and MOVES."
            )
        if self.options["back"]:
            return (
                f"Wrote {done} sessions back into their rows, deleted {ended} rows of sessions that have ended, and "
                f"left {left} that were not moved. Sessions that began here are lost with the way back."
            )
        verb = "Would move" if self.options["dry_run"] else "Moved"
        said = f"{verb} {done} sessions."
        if not self.is_growing:
            said += f" {before} had been moved before."
        if counts["left"]:
            said += f" {left} were not: they are due, or can't be read or written here, and the log names them."
        if self.stop.asked:
            goes_on = self.last and not self.is_growing and source().in_order
            return f"{said} Go on with --from-key {self.last[:2]}." if goes_on else said
        if self.options["dry_run"]:
            return said
        if self.is_growing:
            return f"{said} When all is well, set SESSION_ENGINE to 'django_redsess.backend', and remove MOVE_FROM."
        return f"{said} When all is well, --finish deletes their rows."
