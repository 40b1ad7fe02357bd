from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from django_redsess import cleaner
from django_redsess.conf import conf


class Command(BaseCommand):
    help = (
        "End the sessions whose deadline has passed, then the ones longest unseen above the setting MAX_SESSIONS. "
        "Run it from cron, every minute or every hour: between runs each new session takes two of either along. "
        "It can be stopped at any moment, and run twice at once."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.epilog = "Example: manage.py cleansessions"

    def handle(self, *args: Any, **options: Any) -> None:
        expired = self._tell("expired", cleaner.expired(), options["verbosity"])
        evicted = self._tell("evicted", cleaner.evicted(), options["verbosity"])
        if options["verbosity"] > 0:
            self.stdout.write(
                f"Removed {expired:,} expired sessions and {evicted:,} above the maximum of {conf.MAX_SESSIONS:,}."
            )

    def _tell(self, what: str, batches: Iterator[int], verbosity: int) -> int:
        removed = 0
        for number, batch in enumerate(batches, start=1):
            removed += batch
            if verbosity > 1 or (verbosity > 0 and number % 100 == 0):
                self.stdout.write(f"{what}: {removed:,}")
        return removed
