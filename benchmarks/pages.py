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
import math
import os
import random
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

import django
import redis
from django.conf import settings
from django.contrib.admin.utils import quote
from django.core.management import call_command
from django.db import connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext, override_settings
from tqdm import tqdm

from benchmarks.fill import fill
from benchmarks.report import machine_of, spread
from django_redsess import online
from django_redsess.session import reading
from django_redsess.signals import Reason
from django_redsess.transport.keys import keyspace
from testproject.servers import Server, available

if TYPE_CHECKING:
    from django.contrib.auth.models import User

LIST = "/admin/django_redsess/onlinesession/"
PER_PAGE = 100
TARGET = 3

COUNT = "online.count()"
"""What is measured besides, and is no page."""

CLERKS = 100
"""So many users are staff and have "clerk" in their names, the administrator among them: a full page in both stores."""

USERS_AT_ONCE = 5000
MINUTES = 24 * 60

ORDERS = {"sign-in": "login_at", "last seen": "seen_at"}
FILTERS = {"active in 5 minutes": "active=5m", "active in an hour": "active=1h", "active in a day": "active=1d"}

NOTES = f"""\
Rows, times in the server, commands and queries: of the small store / of the large one, or once where they are the same.
Commands are scripts that a server ran for a page, the one that opens the administrator's session included. Queries are
those on the table of users, without the one for the administrator.

Of the active, the small store has all in each of the three, and the large one those of the last minutes: the filled-in
sessions were seen a millisecond apart. A search by name and the filter of staff look through the same table of users in
both stores, which takes its time: what the sessions add to it is what the server took. Page {PER_PAGE} is beyond the
end of the small store where that has fewer, and gives its last."""


class Run(NamedTuple):
    """One page of one store. ``server_ms`` is what the scripts took there, by the server's own account."""

    ms: float
    server_ms: float
    commands: int
    rows: int


class Pair(NamedTuple):
    """The runs of one page in one round."""

    page: str
    round: int
    small: Run
    large: Run

    @property
    def ratio(self) -> float:
        return self.large.ms / self.small.ms


@dataclass
class Side:
    """A store, and an administrator who looks at it: the address of each page."""

    name: str
    sessions: int
    server: Server
    browser: Client
    addresses: dict[str, str]

    @contextmanager
    def chosen(self) -> Iterator[None]:
        """Have the sessions here."""
        with override_settings(SESSION_CACHE_ALIAS=self.name):
            yield

    @property
    def pages(self) -> list[str]:
        return [*self.addresses, COUNT]

    def get(self, page: str) -> str:
        """Ask for ``page``, and return it."""
        if page == COUNT:
            assert online.count() == self.sessions
            return ""
        response = self.browser.get(self.addresses[page])
        assert response.status_code == 200, f"{page}: {response.status_code}"
        return response.text

    def measure(self, page: str) -> Run:
        """Ask for ``page``, and tell what it took."""
        with self.chosen():
            reading.time().run()  # A process agrees with a store once, and not each time that it comes back to it.
            calls, microseconds = self._scripts()
            start = time.perf_counter()
            text = self.get(page)
            seconds = time.perf_counter() - start
            calls_then, microseconds_then = self._scripts()
        server_ms = (microseconds_then - microseconds) / 1000
        rows = text.count('name="_selected_action"')
        return Run(seconds * 1000, server_ms, calls_then - calls, rows)

    def queries(self, page: str, administrator: User) -> int:
        """Count the queries on the table of users that ``page`` takes, without the one for who looks."""
        with self.chosen(), CaptureQueriesContext(connection) as captured:
            self.get(page)
        table, own = f'FROM "{administrator._meta.db_table}"', f'"id" = {administrator.pk} '
        return sum(table in query["sql"] and own not in query["sql"] for query in captured)

    def see_the_newest(self) -> None:
        """Have a page of each partition seen just now, so that the active fill a page however long it all takes."""
        with self.chosen():
            for partition in keyspace().partitions:
                sids = self.server.client.zrange(partition.recent, -PER_PAGE, -1)
                start = int(time.time() * 1000) - len(sids)
                times: dict[Any, int] = {sid: start + number for number, sid in enumerate(sids)}
                self.server.client.zadd(partition.recent, times, xx=True, gt=True)

    def _scripts(self) -> tuple[int, int]:
        stats: dict[str, Any] = self.server.client.info("commandstats")
        ran = [stats.get(f"cmdstat_{name}", {}) for name in ("evalsha", "eval")]
        return sum(each.get("calls", 0) for each in ran), sum(each.get("usec", 0) for each in ran)


def addresses(sessions: int, sid: str, user_id: str) -> dict[str, str]:
    """Name the pages of a store with so many sessions, and say where they are; ``sid`` and ``user_id`` are in it."""
    last = math.ceil(sessions / PER_PAGE)
    queries = {
        f"{order}{direction}: {place} page": f"o={sign}{column_of(field)}{page}"
        for order, field in ORDERS.items()
        for direction, sign in {", latest first": "-", "": ""}.items()
        for place, page in {"first": "", "middle": f"&p={(last + 1) // 2}", "last": f"&p={last}"}.items()
    }
    queries[f"sign-in, latest first: page {PER_PAGE}"] = f"p={min(PER_PAGE, last)}"
    queries["everyone: first page"] = "who=everyone"
    queries["everyone: middle page"] = f"who=everyone&p={(last + 1) // 2}"
    queries |= {f"{name}: first page": query for name, query in FILTERS.items()}
    queries["active in a day: middle page"] = f"active=1d&p={(last + 1) // 2}"
    queries |= {"staff": "staff=1", "one user": f"user={user_id}"}
    queries |= {"search by name": "q=clerk", "search by sid": f"q={sid}"}
    return {page: f"{LIST}?{query}" for page, query in queries.items()} | {"a session": f"{LIST}{quote(sid)}/change/"}


def column_of(field: str) -> int:
    """Number the column of the list that is ordered by ``field``; the first is that of the boxes to tick."""
    from django_redsess.admin import OnlineSessionAdmin as Admin

    columns = [getattr(getattr(Admin, name, None), "admin_order_field", name) for name in Admin.list_display]
    return columns.index(field) + 1


def create_users(count: int, clerks: int) -> User:
    """Create users with the ids 1 to ``count``, and return the administrator, who is the last of them."""
    from django.contrib.auth.models import User

    def of(number: int) -> User:
        is_clerk, is_last = number < clerks, number == count
        name = f"{'clerk' if is_clerk or is_last else 'shopper'}-{number}"
        return User(pk=number, username=name, password="!", is_staff=is_clerk or is_last, is_superuser=is_last)

    call_command("migrate", verbosity=0)
    with transaction.atomic(), tqdm(total=count, unit="user", unit_scale=True, disable=None) as progress:
        for first in range(1, count + 1, USERS_AT_ONCE):
            numbers = range(first, min(first + USERS_AT_ONCE, count + 1))
            User.objects.bulk_create(map(of, numbers))
            progress.update(len(numbers))
    return User.objects.get(pk=count)


def filled(name: str, sessions: int, server: Server, administrator: User, user_id: str) -> Side:
    """Fill the store on ``server``, the administrator signed in last of all."""
    made = Side(name, sessions, server, Client(), {})
    with made.chosen():
        fill(server.client, sessions - 1)
        add_samples(server.client, sessions)
        made.browser.force_login(administrator)
        [middle] = online.sessions(offset=sessions // 2, limit=1)
    made.addresses = addresses(sessions, middle.sid, user_id)
    return made


def cache_of(server: Server) -> dict[str, Any]:
    """Describe ``server`` as CACHES does."""
    return {"BACKEND": "django_redis.cache.RedisCache", "LOCATION": server.url, "OPTIONS": {"SOCKET_TIMEOUT": 60}}


def add_samples(client: redis.Redis, sessions: int) -> None:
    """Note for each minute of a day who was online: more by day than by night, and half as many guests."""
    partitions = keyspace().partitions
    this_minute = int(time.time()) // 60 * 60_000
    for partition in partitions:
        notes = {}
        for ago in range(MINUTES):
            signed_in = int(sessions / len(partitions) * (0.75 + 0.25 * math.cos(ago / MINUTES * math.tau)))
            minute = this_minute - ago * 60_000
            totals = [sessions * 10 - ago] + [sessions - ago] * len(Reason)
            notes[" ".join(map(str, (minute, signed_in, signed_in // 2, *totals)))] = minute
        client.zadd(partition.samples, notes)


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
