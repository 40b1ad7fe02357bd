"""
Measure the admin's list of sessions with few of them and with many, side by side.

A page may take three times as long with a million sessions as the same page takes with a thousand. Each of the two
stores has a server of its own, and both run all the time. In a round each page is asked for once of either, one right
after the other, in random order; "times as long" compares the two of one round. A page is what a request gets, from
the middleware to the last byte, with the picture above the list where there is one; Django's test client stands in for
browser and web server.

The administrator who looks is one of the sessions. Each session has a user of its own, all of them in a database that
both stores share: SQLite, in a temporary folder.

examples:
  python -m benchmarks.pages --large 20000 --rounds 3      a quick look, in seconds
  python -m benchmarks.pages --json pages.json             the full measurement, with every run in a file
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import random
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import django
from django.conf import settings
from django.db import connection
from django.test.utils import override_settings
from tqdm import tqdm

from benchmarks.administrator import CLERKS, PER_PAGE, Run, Side, cache_of, create_users, filled
from benchmarks.report import machine_of, spread
from testproject.servers import Server, available

TARGET = 3

NOTES = f"""\
Rows, times in the server, commands and queries: of the small store / of the large one, or once where they are the same.
Commands are scripts that a server ran for a page, the one that opens the administrator's session included. Queries are
those on the table of users, without the one for the administrator.

Of the active, the small store has all in each of the three, and the large one those of the last minutes: the filled-in
sessions were seen a millisecond apart. A search by name and the filter of staff look through the same table of users in
both stores, which takes its time: what the sessions add to it is what the server took. Page {PER_PAGE} is beyond the
end of the small store where that has fewer, and gives its last."""


class Pair(NamedTuple):
    """The runs of one page in one round."""

    page: str
    round: int
    small: Run
    large: Run

    @property
    def ratio(self) -> float:
        return self.large.ms / self.small.ms


def measured(small: Side, large: Side, rounds: int) -> Iterator[Pair]:
    """Ask for each page of both stores, so many rounds, in random order."""
    with tqdm(total=rounds * len(small.pages), unit="page", disable=None) as progress:
        for number in range(1, rounds + 1):
            for each in (small, large):
                each.see_the_newest()
            # What the round before left behind is nobody's time.
            gc.collect()
            for page in random.sample(small.pages, len(small.pages)):
                runs = {each.name: each.measure(page) for each in random.sample([small, large], 2)}
                yield Pair(page, number, runs[small.name], runs[large.name])
                progress.update()


def table(pairs: list[Pair], small: Side, large: Side, queries: dict[str, list[int]]) -> str:
    """Return the pairs as a table in Markdown: medians, and of the ratio the least and the most."""

    def either(few: object, many: object) -> str:
        return f"{few}" if few == many else f"{few} / {many}"

    lines = [
        f"| | rows | {small.sessions:,} sessions, ms | {large.sessions:,} sessions, ms | times as long "
        "| in the server, ms | commands | queries |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for page, asked in queries.items():
        runs = [(pair.small, pair.large) for pair in pairs if pair.page == page]
        ratios = [pair.ratio for pair in pairs if pair.page == page]
        few, many = zip(*runs, strict=True)
        cells = (
            page,
            either(*(min(run.rows for run in side) for side in (few, many))),
            *(f"{median(run.ms for run in side):,.1f}" for side in (few, many)),
            spread(ratios, 2),
            either(*(f"{median(run.server_ms for run in side):,.2f}" for side in (few, many))),
            either(*(max(run.commands for run in side) for side in (few, many))),
            either(*asked),
        )
        lines.append(f"| {' | '.join(cells)} |")
    slow = [page for page in queries if median(pair.ratio for pair in pairs if pair.page == page) > TARGET]
    return "\n".join([*lines, "", f"More than {TARGET} times as long: {'; '.join(slow) or 'none'}."])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", type=int, default=1000, help="how many sessions the one store has (%(default)s)")
    parser.add_argument("--large", type=int, default=1_000_000, help="how many the other one has (%(default)s)")
    parser.add_argument("--rounds", type=int, default=15, help="how often each page is asked for (%(default)s)")
    parser.add_argument("--partitions", type=int, default=1, help="how many both stores are spread over (%(default)s)")
    parser.add_argument("--server", choices=sorted(available()), default="valkey", help="which one (%(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write every run to FILE")
    options = parser.parse_args()
    if not 2 <= options.small < options.large:
        parser.error("there must be at least 2 sessions in the small store, and more in the large one")

    with tempfile.TemporaryDirectory(prefix="redsess-bench-") as folder:
        # The settings of the shop have their database there.
        os.environ["REDSESS_DEMO_DIR"] = folder
        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "testproject.settings")
        django.setup()
        binary, partitions = available()[options.server], {**settings.REDSESS, "PARTITIONS": options.partitions}
        with closing(Server(binary)) as few, closing(Server(binary)) as many:
            caches = {"small": cache_of(few), "large": cache_of(many)}
            with closing(connection), override_settings(DEBUG=False, CACHES=caches, REDSESS=partitions):
                administrator = create_users(options.large, min(CLERKS, options.small))
                user_id = str(options.small // 2)
                large = filled("large", options.large, many, administrator, user_id)
                small = filled("small", options.small, few, administrator, user_id)
                # This opens the connections as well, and compiles the templates.
                queries = {page: [side.queries(page, administrator) for side in (small, large)] for page in small.pages}
                pairs = list(measured(small, large, options.rounds))
            info: dict[str, Any] = many.client.info()

    machine = machine_of(options.server, info)
    print(f"rounds: {options.rounds}, partitions: {options.partitions}; {machine}\n")
    print(f"{table(pairs, small, large, queries)}\n\n{NOTES}")
    if options.json:
        runs = [pair._asdict() | {"small": pair.small._asdict(), "large": pair.large._asdict()} for pair in pairs]
        about = {"machine": machine, "small": options.small, "large": options.large, "partitions": options.partitions}
        options.json.write_text(json.dumps({**about, "queries": queries, "runs": runs}, indent=2) + "\n")


if __name__ == "__main__":
    main()
