"""
Measure lists and counts with 64 partitions, on one server and on a cluster of three, beside one partition.

The target: a page over 64 partitions takes at most five times as long as one of one partition, and a count too. All
three stores have the same number of sessions, and run all the time. In a round each list is read from each store, one
right after the other, in random order. "Times as long" compares two requests of one round. The first page of the admin
is requested with Django's test client, which replaces browser and web server.

examples:
  python -m benchmarks.partitions --sessions 2000 --rounds 5     a quick look, in seconds
  python -m benchmarks.partitions --json partitions.json         the full measurement, with every run in a file
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

import django
from django.conf import settings
from django.db import connection
from django.test import Client
from django.test.utils import override_settings
from tqdm import tqdm

from benchmarks.administrator import LIST, PER_PAGE, add_samples, cache_of, create_users
from benchmarks.fill import Client as Sessions
from benchmarks.fill import fill
from benchmarks.report import machine_of, spread
from django_redsess import online, viewed
from django_redsess.session import script_calls
from testproject.clusters import Cluster
from testproject.servers import Server, available

if TYPE_CHECKING:
    from django.contrib.auth.models import User

TARGET = 5

ONE, MANY, NODES = "1 partition", "64 partitions", "64 partitions, 3 nodes"
PARTITIONS = {ONE: 1, MANY: 64, NODES: 64}

WARM_UP = 3
"""Rounds that are not measured: connections are opened, scripts loaded and templates compiled."""


class Run(NamedTuple):
    """How long the reading of one list took in one round, by store."""

    list: str
    round: int
    ms: dict[str, float]


@dataclass
class Store:
    """A store with sessions, and the browser of its administrator."""

    name: str
    client: Sessions
    browser: Client

    def chosen(self) -> override_settings:
        """Use this store meanwhile."""
        redsess = {**settings.REDSESS, "PARTITIONS": PARTITIONS[self.name]}
        return override_settings(SESSION_CACHE_ALIAS=self.name, REDSESS=redsess)

    def fill(self, sessions: int, administrator: User) -> None:
        with self.chosen():
            fill(self.client, sessions - 1)
            add_samples(self.client, sessions)
            self.browser.force_login(administrator)

    def measure(self, read: Callable[[Client], object]) -> float:
        """Return how many milliseconds it takes to ``read``."""
        with self.chosen():
            script_calls.time().run()  # A real process agrees with its store once, and not for each list.
            start = time.perf_counter()
            read(self.browser)
            return (time.perf_counter() - start) * 1000


def lists(sessions: int) -> dict[str, Callable[[Client], object]]:
    """Return what is read, by name."""

    def page(offset: int = 0, order: online.Order = "-login_at", **asked: Any) -> Callable[[Client], object]:
        def read(_: Client) -> None:
            assert len(online.sessions(offset=offset, limit=PER_PAGE, order=order, **asked)) == PER_PAGE

        return read

    def count(**asked: Any) -> Callable[[Client], object]:
        def read(_: Client) -> None:
            assert online.count(**asked) == sessions

        return read

    return {
        "count": count(),
        "count, active in a day": count(active_seconds=24 * 3600),
        "first page": page(),
        "offset 1 900": page(min(1_900, sessions - PER_PAGE)),
        "half of the sessions": page(sessions // 2),
        "half of the sessions, everyone": page(sessions // 2, "-seen_at", guests=True),
        "the admin's first page": lambda browser: browser.get(LIST),
        "popular items": lambda _: viewed.popular(limit=50),
        "the picture": lambda _: online.until_now(),
    }


def measured(stores: list[Store], sessions: int, rounds: int) -> Iterator[Run]:
    """Read each list of each store in each of the ``rounds``, in random order."""
    reads = lists(sessions)
    with tqdm(total=(rounds + WARM_UP) * len(reads), unit="list", disable=None) as progress:
        for number in range(1 - WARM_UP, rounds + 1):
            # Collect the garbage of the last round now, so that no list pays for it.
            gc.collect()
            for name in random.sample(list(reads), len(reads)):
                taken = {store.name: store.measure(reads[name]) for store in random.sample(stores, len(stores))}
                progress.update()
                if number > 0:
                    yield Run(name, number, taken)


def table(runs: list[Run]) -> str:
    """Return the runs as a table in Markdown: medians, and the range of the ratios."""
    head = [f"{name}, ms" for name in PARTITIONS] + [f"{name}: times as long" for name in (MANY, NODES)]
    lines = [f"| | {' | '.join(head)} |", "|---" * (len(head) + 1) + "|"]
    for name in lists(0):
        of_list = [run.ms for run in runs if run.list == name]
        times = [f"{median(ms[store] for ms in of_list):,.2f}" for store in PARTITIONS]
        ratios = [spread([ms[store] / ms[ONE] for ms in of_list], 2) for store in (MANY, NODES)]
        lines.append(f"| {' | '.join([name, *times, *ratios])} |")
    return "\n".join(lines)


def parsed() -> argparse.Namespace:
    """Parse the command line. Exit with a message if there are too few sessions."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=20_000, help="sessions of each store (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=25, help="how often each list is read (default: %(default)s)")
    parser.add_argument(
        "--server", choices=sorted(available()), default="valkey", help="the kind of server (default: %(default)s)"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all measurements to FILE")
    options = parser.parse_args()
    if options.sessions < 2 * PER_PAGE:
        parser.error(f"there must be at least {2 * PER_PAGE} sessions")
    return options


def main() -> None:
    options = parsed()
    with ExitStack() as stack:
        # The settings of the shop put their database there.
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="redsess-bench-"))
        os.environ["REDSESS_DEMO_DIR"] = folder
        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "testproject.settings")
        django.setup()
        binary = available()[options.server]
        one, many = (stack.enter_context(closing(Server(binary))) for _ in (ONE, MANY))
        cluster = stack.enter_context(closing(Cluster(binary, replicas=0)))
        caches = {ONE: cache_of(one), MANY: cache_of(many), NODES: cache_of(cluster)}
        stack.enter_context(closing(connection))
        stack.enter_context(override_settings(DEBUG=False, CACHES=caches))
        administrator = create_users(options.sessions, 1)
        clients: dict[str, Sessions] = {
            ONE: one.client,
            MANY: many.client,
            NODES: cluster.client,
        }
        stores = [Store(name, client, Client()) for name, client in clients.items()]
        for store in stores:
            store.fill(options.sessions, administrator)
        runs = list(measured(stores, options.sessions, options.rounds))
        info: dict[str, Any] = one.client.info()

    machine = machine_of(options.server, info)
    print(f"sessions: {options.sessions:,}, rounds: {options.rounds}; {machine}\n\n{table(runs)}")
    slow = [
        f"{name}, {store}"
        for name in lists(0)
        for store in (MANY, NODES)
        if median(run.ms[store] / run.ms[ONE] for run in runs if run.list == name) > TARGET
    ]
    print(f"\nMore than {TARGET} times as long: {'; '.join(slow) or 'none'}.")
    if options.json:
        about = {"machine": machine, "sessions": options.sessions, "runs": [run._asdict() for run in runs]}
        options.json.write_text(json.dumps(about, indent=2) + "\n")


if __name__ == "__main__":
    main()
