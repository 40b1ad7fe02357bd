from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from django_redsess import cleaner
from django_redsess.conf import conf
from django_redsess.management.cleaning import CleaningCommand

REST_SECONDS = 60


class Command(CleaningCommand):
    help = (
        "Forget the views of all items but the most viewed ones: as many as the setting VIEWED_LIMIT says, or --limit. "
        "Of two that were viewed equally often, either may go. Items in the sessions' own lists stay. "
        "It can be stopped at any moment, and run twice at once."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.epilog = "Example: manage.py cleanviewed --limit 10000"
        parser.add_argument("--limit", type=int, metavar="N", help="keep so many items (default: VIEWED_LIMIT)")
        super().add_arguments(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        self.counts = {"items": 0}
        super().handle(*args, **options)

    def validate(self) -> None:
        self.at_least_one("limit")
        self.limit = self.options["limit"] or conf.VIEWED_LIMIT
        super().validate()

    def total(self) -> int:
        return cleaner.backlog_of_items(limit=self.limit)

    def work(self) -> None:
        for count in cleaner.trimmed(limit=self.limit, batch_size=self.options["batch_size"]):
            if not self.batch_done("items", count):
                return

    def rest(self) -> None:
        self.stop.wait(REST_SECONDS)

    def sentence(self, counts: dict[str, int]) -> str:
        return f"Removed {counts['items']:,} items that are not among the {self.limit:,} most viewed."
