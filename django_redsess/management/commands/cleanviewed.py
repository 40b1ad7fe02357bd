from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from django_redsess import cleaning
from django_redsess.conf import conf
from django_redsess.management.cleaning_command import CleaningCommand

REST_SECONDS = 60

ASKED_ABOVE = 0.1
"""The share of all items that may go without a question."""


class Command(CleaningCommand):
    help = (
        "Keep the views of the most viewed items, and forget those of all others. VIEWED_LIMIT or --max-items "
        "says how many items to keep. Of two items with as many views, either may go. The sessions' own lists "
        "stay. Before more than a tenth of all items go, it asks; without a terminal, as from cron, it then needs "
        "--noinput. It can be stopped at any moment, and can run twice at once."
    )
    exit_status = (
        "0 when the pass is done, or --forever was stopped;\n"
        "  1 after an error, or where a pass was stopped; 130 where Ctrl-C is the answer to its question."
    )
    examples = (
        "manage.py cleanviewed --noinput  # from cron",
        "manage.py cleanviewed --max-items 10000 --dry-run",
        "manage.py cleanviewed --max-items 10000",
    )

    def add_arguments(self, parser: CommandParser) -> None:
        add = parser.add_argument
        add("--max-items", type=int, metavar="N", help="keep N items (default: VIEWED_LIMIT)")
        add("--dry-run", action="store_true", help="count the items that would be forgotten, and change nothing")
        add("--noinput", "--no-input", action="store_false", dest="interactive", help="do not ask")
        super().add_arguments(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        self.counts = {"items": 0}
        super().handle(*args, **options)

    def validate(self) -> None:
        self.refuse_together("dry_run", "forever")
        self.require_from(1, "max_items")
        self.limit = self.options["max_items"] or conf.VIEWED_LIMIT
        super().validate()

    def ask_to_begin(self) -> bool:
        if self.options["dry_run"] or not self.options["interactive"]:
            return True
        count, items = cleaning.count_excess_items(limit=self.limit), cleaning.count_excess_items(limit=0)
        if count <= items * ASKED_ABOVE:
            return True
        views = f"the views of {count:,} of {items:,} items"
        return self.confirm(f"Forget {views}?", to=f"forget {views}", refused="Nothing was removed.")

    def count_work(self) -> int:
        return cleaning.count_excess_items(limit=self.limit)

    def do_pass(self) -> None:
        if self.options["dry_run"]:
            self.counts["items"] = self.count_work()
            return
        for count in cleaning.trim_viewed_items(limit=self.limit, batch_size=self.options["batch_size"]):
            if not self.count_batch("items", count):
                return

    def wait_for_work(self) -> None:
        self.stop.wait_for_stop(REST_SECONDS)

    def sentence(self, counts: dict[str, int]) -> str:
        verb = "There are" if self.options["dry_run"] else "Removed"
        return f"{verb} {counts['items']:,} items that are not among the {self.limit:,} most viewed."
