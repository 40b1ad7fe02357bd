from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from django.contrib.auth.base_user import AbstractBaseUser
from django.core.management.base import CommandError, CommandParser
from django.utils import translation

from django_redsess.conf import conf
from django_redsess.contrib.history import blocks, repair
from django_redsess.contrib.history.models import SignIn
from django_redsess.contrib.history.stored_sign_ins import ORDER, past_sign_in
from django_redsess.management.cleaning_command import CleaningCommand
from django_redsess.management.terminal import (
    USER_HELP,
    command_errors,
    csv_line,
    find_user,
    print_line,
    unknown_users_text,
)
from django_redsess.online import fields
from django_redsess.online.fields import DescribedRow, Field, csv_row, exported_row
from django_redsess.past_sign_ins import with_places
from django_redsess.session.store import user_id_of

EXPORTED_AT_ONCE = 1000

STORED = (
    Field("client", str | None, "Browser and system as the row has them, for the filters.", "client"),
    Field("device_cookie", str | None, "A hash of the device's cookie.", "device_cookie"),
)
"""Further values that are stored of a sign-in."""


class Command(CleaningCommand):
    help = (
        "Mend and delete the rows of sign-ins. With --repair, rows whose sessions are gone are closed, without a "
        "reason; living sessions that have no row get one, and closed rows of living sessions are opened again. Users "
        "whose blocks the server has forgotten are blocked again. With --prune, rows older than HISTORY_DAYS are "
        "deleted, except those of living sessions and, without its sender, the latest of each user. cleansessions "
        "--forever does both each hour. With --export, all rows of one user are printed, as CSV, or with --json each "
        "as one line of JSON: an answer to whoever asks what is stored about them. It can be stopped at any moment, "
        "and can run twice at once."
    )
    examples = (
        "manage.py history --repair  # after an outage of the database, or a failover of Redis",
        "manage.py history --repair --prune  # from cron, where cleansessions --forever does not run",
        "manage.py history --export lukas > lukas.csv",
        "manage.py history --export lukas --json",
    )

    def add_arguments(self, parser: CommandParser) -> None:
        add = parser.add_argument
        add("--repair", action="store_true", help="compare rows with sessions, and mend the rows")
        add("--prune", action="store_true", help="delete the rows older than HISTORY_DAYS")
        add("--export", metavar="USER", help=f"print all rows of this user, {USER_HELP}; the newest first")
        self.add_reporting(parser)
        parser.set_defaults(forever=False)

    def handle(self, *args: Any, **options: Any) -> None:
        if options["export"] is not None:
            if options["repair"] or options["prune"]:
                raise CommandError("--export can't be given together with --repair or --prune.")
            self.output.is_all = True
            with command_errors():
                self._export(options["export"], as_json=options["json"])
            return
        if not (options["repair"] or options["prune"]):
            raise CommandError("Say what to do: --repair, --prune or --export USER.")
        self.counts = {"blocked": 0, "closed": 0, "inserted": 0, "pruned": 0}
        super().handle(*args, **options)

    def count_work(self) -> int | None:
        of_repair = repair.count_to_compare() if self.options["repair"] else 0
        return of_repair + (repair.rows_to_prune().count() if self.options["prune"] else 0)

    def do_pass(self) -> None:
        works: dict[str, Callable[[repair.GoOn], repair.Batches]] = {}
        if self.options["repair"]:
            works |= {"blocked": blocks.restore_blocks, "closed": repair.close_ended, "inserted": repair.insert_missing}
        if self.options["prune"]:
            works["pruned"] = repair.prune
        for name, work in works.items():
            for changed, looked_at in work(lambda: not self.stop.asked):
                self.count_batch(name, changed, looked_at)

    def sentence(self, counts: dict[str, int]) -> str:
        said = []
        if self.options["repair"]:
            mended = f"Closed {counts['closed']:,} rows, inserted or opened {counts['inserted']:,}."
            said = [mended, f"Blocked {counts['blocked']:,} users again."]
        if self.options["prune"]:
            days = f" older than {conf.HISTORY_DAYS:,} days" if conf.HISTORY_DAYS else ""
            said.append(f"Deleted {counts['pruned']:,} rows{days}.")
        return " ".join(said)

    def _export(self, name: str, *, as_json: bool) -> None:
        user = find_user(name)
        if user is None:
            raise CommandError(unknown_users_text([name]))
        columns = (*fields.without_request(fields.SIGN_IN), *STORED)
        if not as_json:
            print_line(csv_line(column.name for column in columns), self.stdout)
        # The file is the same in all languages.
        with translation.override(None):
            for each in _described(user):
                record = exported_row(each, columns)
                if as_json:
                    self.stdout.write(json.dumps(record))
                else:
                    print_line(csv_line(csv_row(record, columns)), self.stdout)


def _described(user: AbstractBaseUser) -> Iterator[dict[str, Any]]:
    # Users who ask for their data are not told the names of administrators.
    users = {user_id_of(user): user.get_username()}
    rows = SignIn.objects.filter(user_id=user.pk).order_by(*ORDER).iterator(chunk_size=EXPORTED_AT_ONCE)
    while batch := list(islice(rows, EXPORTED_AT_ONCE)):
        described = fields.describe_sign_ins(with_places(map(past_sign_in, batch)), users)
        for row, each in zip(batch, described, strict=True):
            yield each | {field.name: field.value(DescribedRow(row)) for field in STORED}
