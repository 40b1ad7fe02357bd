"""
Simulate deploys of a site that moves its sessions here, and count who is signed out: ``python -m benchmarks.moving``.

Two processes of the site run at once, each at a step: the release before (0), step 1 or step 2. Browsers keep their
connections, send each request to either process, and know what each answer must find. They begin in the release before.
Sessions are in PostgreSQL before they move, where it is installed, or else in SQLite.

A *sign-out* is an answer without the session, that nobody asked for. A change is *lost* where an answer knows of
another number of them. *Returned* are sessions that had ended, or got another key, and are found in one of the
processes afterwards by their old cookie. 0 + 2 is what the documentation warns of.

With --bulk, the speed of ``manage.py movesessions`` is measured instead.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from itertools import product
from pathlib import Path
from typing import Any

from benchmarks.moving_browsers import Browser, Site
from benchmarks.moving_site import described
from benchmarks.report import table
from benchmarks.web_servers import ROOT
from testproject.databases import PostgreSQL, programs
from testproject.servers import Server, available

BROWSERS, SECONDS, ROWS = 60, 20, 100_000
BEFORE_SECONDS = 3
"""How long browsers use the release before at first."""
PARTITIONS = (1, 4)
PARTITIONS_IN_BULK = (1, 64)

Pair = tuple[int, int]
DEPLOYS: dict[str, Sequence[Pair]] = {
    **{f"{first} + {second}": [(first, second)] for first, second in ((0, 1), (1, 1), (1, 2), (2, 2), (2, 1))},
    "0 → 1 → 2 → 1": [(0, 0), (0, 1), (1, 1), (1, 2), (2, 2), (2, 1), (1, 1)],
    "0 + 2, not promised": [(0, 2)],
}
COUNTED = ("requests", "changes", "sign-outs", "lost", "errors", "ended", "returned")


@contextmanager
def stores(kind: str) -> Iterator[tuple[dict[str, Any], str]]:
    """Start empty stores: give an entry of DATABASES of this ``kind``, and the URL of the server for our sessions."""
    with ExitStack() as started:
        url = started.enter_context(closing(Server(next(iter(available().values()))))).url
        if kind == "PostgreSQL":
            yield started.enter_context(closing(PostgreSQL(programs() or Path()))).database, url
            return
        folder = started.enter_context(tempfile.TemporaryDirectory(prefix="redsess-bench-"))
        at_start = "PRAGMA journal_mode=WAL; PRAGMA synchronous=OFF;"
        options = {"timeout": 20, "transaction_mode": "IMMEDIATE", "init_command": at_start}
        name = f"{folder}/sessions.sqlite3"
        yield {"ENGINE": "django.db.backends.sqlite3", "NAME": name, "OPTIONS": options, "CONN_MAX_AGE": None}, url


def manage(environment: dict[str, str], *arguments: str) -> str:
    """Run a command of the site's ``manage.py``, and return what it prints."""
    command, env = [sys.executable, "-m", "benchmarks.moving_site", *arguments], {**os.environ, **environment}
    return subprocess.run(command, cwd=ROOT, env=env, check=True, stdout=subprocess.PIPE, text=True).stdout


def deploy(pairs: Sequence[Pair], kind: str, partitions: int, seconds: float) -> Counter[str]:
    """Have all browsers browse at each of ``pairs`` for so many seconds, and return what was counted."""
    with stores(kind) as (database, url), ExitStack() as started, ThreadPoolExecutor(BROWSERS) as pool:
        manage(described(0, database, url, partitions), "fill", str(BROWSERS))
        begin = (0, 0)
        sites = {
            (step, place): started.enter_context(closing(Site(described(step, database, url, partitions))))
            for place in (0, 1)
            for step in {pair[place] for pair in (begin, *pairs)}
        }
        for site in sites.values():
            site.wait()
        browsers = [started.enter_context(closing(Browser(number))) for number in range(1, BROWSERS + 1)]
        for first, second in (begin, *pairs):
            both = [sites[first, 0], sites[second, 1]]
            until = time.monotonic() + (seconds if (first, second) != begin else min(seconds, BEFORE_SECONDS))
            list(pool.map(lambda browser, both=both, until=until: browser.browse(both, until), browsers))
        list(pool.map(lambda browser: browser.look_back(both), browsers))
    return sum((browser.counted for browser in browsers), Counter())


def move(kind: str, partitions: int, rows: int) -> dict[str, Any]:
    """Move so many rows by the command, and return what it reports."""
    with stores(kind) as (database, url):
        manage(described(0, database, url, partitions), "fill", str(rows))
        found: dict[str, Any] = json.loads(manage(described(2, database, url, partitions), "movesessions", "--json"))
        if found["done"] != rows:
            raise RuntimeError(f"not all of {rows} were moved: {found}")
        return found


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.moving", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=SECONDS, help="how long each pair runs (default: 20)")
    parser.add_argument("--only", choices=DEPLOYS, nargs="+", metavar="DEPLOY", help="only these, such as '1 + 2'")
    parser.add_argument("--bulk", action="store_true", help="measure movesessions")
    parser.add_argument("--rows", type=int, default=ROWS, help="how many rows --bulk moves (default: 100 000)")
    options = parser.parse_args()
    kinds = [*(["PostgreSQL"] if programs() else []), "SQLite"]
    lines = list[list[str]]()
    if options.bulk:
        head: tuple[str, ...] = ("from", "partitions", "rows", "seconds", "rows a second")
        for kind, partitions in product(kinds, PARTITIONS_IN_BULK):
            found = move(kind, partitions, options.rows)
            figures = (options.rows, found["seconds"], found["per_second"])
            lines.append([kind, str(partitions), *(f"{figure:,.0f}" for figure in figures)])
    else:
        head = ("steps", "partitions", *COUNTED)
        for partitions, name in product(PARTITIONS, options.only or DEPLOYS):
            counted = deploy(DEPLOYS[name], kinds[0], partitions, options.seconds)
            lines.append([name, str(partitions), *(f"{counted[each]:,}" for each in COUNTED)])
            print(lines[-1], file=sys.stderr)
        print(f"{BROWSERS} browsers, {options.seconds:g} seconds a pair, from {kinds[0]}\n")
    print(table(head, lines))


if __name__ == "__main__":
    main()
