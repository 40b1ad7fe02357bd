"""
Measure the admin's list of sessions with few sessions and with many, side by side.

The target: a page with a million sessions takes at most three times as long as with a thousand. Each of the two stores
has a server of its own, and both run all the time. In a round each page is requested from both stores, one right after
the other, in random order. "Times as long" compares the two requests of one round. A request is measured from the
middleware to the last byte, with the chart above the list. Django's test client replaces browser and web server.

One of the sessions is the administrator's. Each session has a user of its own. Both stores share one database of users:
SQLite, in a temporary folder.

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
Rows, times in scripts, scripts and queries: small store / large store, or one number if they are the same. Scripts are
those that a server ran for a page. Lists of several partitions are read by plain commands, which are not among them.
Queries are those on the table of users, without the one for the administrator.

The sessions were last seen a millisecond apart. So the filters "active" show all sessions of the small store, and those
of the last minutes of the large one. A search by name and the filter "staff" go through the same table of users in both
stores; only the time in the server depends on the number of sessions. If the small store has fewer than {PER_PAGE}
pages, its last page stands for page {PER_PAGE}."""


class Pair(NamedTuple):
    """The two requests for one page in one round."""

    page: str
    round: int
    small: Run
    large: Run

    @property
    def ratio(self) -> float:
        return self.large.ms / self.small.ms


def measured(small: Side, large: Side, rounds: int) -> Iterator[Pair]:
    """Request each page of both stores in each of the ``rounds``, in random order."""
    with tqdm(total=rounds * len(small.pages), unit="page", disable=None) as progress:
        for number in range(1, rounds + 1):
            for each in (small, large):
                each.see_the_newest()
            # Collect the garbage of the last round now, so that no page pays for it.
            gc.collect()
            for page in random.sample(small.pages, len(small.pages)):
                runs = {each.name: each.measure(page) for each in random.sample([small, large], 2)}
                yield Pair(page, number, runs[small.name], runs[large.name])
                progress.update()


def table(pairs: list[Pair], small: Side, large: Side, queries: dict[str, list[int]]) -> str:
    """Return the pairs as a table in Markdown: medians, and the range of the ratio."""

    def either(few: object, many: object) -> str:
        return f"{few}" if few == many else f"{few} / {many}"

    lines = [
        f"| | rows | {small.sessions:,} sessions, ms | {large.sessions:,} sessions, ms | times as long "
        "| in scripts, ms | scripts | queries |",
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
            either(*(max(run.scripts for run in side) for side in (few, many))),
            either(*asked),
        )
        lines.append(f"| {' | '.join(cells)} |")
    slow = [page for page in queries if median(pair.ratio for pair in pairs if pair.page == page) > TARGET]
    return "\n".join([*lines, "", f"More than {TARGET} times as long: {'; '.join(slow) or 'none'}."])


def parsed() -> argparse.Namespace:
    """Parse the command line. Exit with a message if the numbers of sessions don't fit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", type=int, default=1000, help="sessions of the small store (default: %(default)s)")
    parser.add_argument(
        "--large", type=int, default=1_000_000, help="sessions of the large store (default: %(default)s)"
    )
    parser.add_argument(
        "--rounds", type=int, default=15, help="how often each page is requested (default: %(default)s)"
    )
    parser.add_argument("--partitions", type=int, default=1, help="partitions of both stores (default: %(default)s)")
    parser.add_argument(
        "--server", choices=sorted(available()), default="valkey", help="the kind of server (default: %(default)s)"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all measurements to FILE")
    options = parser.parse_args()
    if not 2 <= options.small < options.large:
        parser.error("there must be at least 2 sessions in the small store, and more in the large one")
    return options


def main() -> None:
    options = parsed()
    with tempfile.TemporaryDirectory(prefix="redsess-bench-") as folder:
        # The settings of the shop put their database there.
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
                # This also opens the connections and compiles the templates.
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
