import re
import time
from argparse import RawDescriptionHelpFormatter
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import redis
from django.conf import settings
from django.contrib.auth.hashers import make_password
from django.contrib.auth.models import User
from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import BaseCommand, CommandError, CommandParser, DjangoHelpFormatter
from django.db import OperationalError
from django.test import override_settings
from tqdm import tqdm

from django_redsess import online
from django_redsess.exceptions import SessionStoreUnavailable
from django_redsess.viewed import popular, recent
from testproject.people import PASSWORD
from testproject.replay import HISTORY, ReplayError, Seen, differences, expected, faults_in_order, journeys, read_events
from testproject.settings import REDIS_URL, running_demo
from testproject.shop.models import Product
from testproject.visitor import ShopError, check_shop, visit

SHOWN_MAX = 20
RANKED_AT_ONCE = 1_000


class HelpFormatter(RawDescriptionHelpFormatter, DjangoHelpFormatter):
    """Django's, which leaves the lines of the description as they are."""


class Command(BaseCommand):
    help = """\
Replay recorded visits against the running demo, over HTTP, and check what the sessions hold after it.

FILE is a CSV file in UTF-8 with the columns user_id, event and timestamp (an ISO date). Each user signs in, then looks
at the page of each of their events, in the order of the timestamps. Users and products that the shop doesn't have are
added to it. Afterwards it must hold what can be told from the file alone:

  - each user has one session online,
  - its viewed items are the user's last 25 different events, the latest first,
  - each item has as many views more than before as it has events, none where it has no events,
  - the most viewed items are in the order of their views.

Every difference is listed, and makes the exit status 1. Let nobody else use the shop meanwhile: their views count.

Example, in a second terminal beside `make demo`:

  python testproject/manage.py replay visits.csv --url http://127.0.0.1:8000
"""

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> CommandParser:
        return super().create_parser(prog_name, subcommand, formatter_class=HelpFormatter, **kwargs)

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path, metavar="FILE", help="the recorded visits")
        parser.add_argument("--url", default="http://127.0.0.1:8000", help="the running demo (default: %(default)s)")
        parser.add_argument("--workers", type=int, default=4, help="users at the same time (default: %(default)s)")
        parser.add_argument("--limit", type=int, help="read only so many rows (default: all)")

    def handle(self, *, file: Path, url: str, workers: int, limit: int | None, **options: Any) -> None:
        for option, value in (("--workers", workers), ("--limit", limit)):
            if value is not None and value < 1:
                raise CommandError(f"{option} must be 1 or more, not {value}.")
        ways = self.read(file, limit)
        url = url.rstrip("/")
        try:
            check_shop(url)
        except ShopError as error:
            raise CommandError(f"No shop at {url}: {error}. Start it with `make demo`, or give its address.") from error
        # The demo's own server, which these settings know only where PORT or REDIS_URL is set as for the demo.
        port = urlsplit(url).port or 80
        demo = running_demo(str(port))
        location = REDIS_URL or demo.get("redis_url")
        if location is None:
            raise CommandError(
                f"No demo of this folder is at port {port}: say in REDIS_URL which server keeps its sessions."
            )
        caches = {**settings.CACHES, "sessions": {**settings.CACHES["sessions"], "LOCATION": location}}
        redsess = {**settings.REDSESS, "PARTITIONS": demo.get("partitions") or settings.REDSESS["PARTITIONS"]}
        try:
            with override_settings(CACHES=caches, REDSESS=redsess):
                faults = self.replay(ways, url, workers)
        except ImproperlyConfigured as error:
            raise CommandError(str(error)) from error
        except (SessionStoreUnavailable, redis.RedisError) as error:
            raise CommandError(f"The server that should keep the demo's sessions fails: {error}") from error
        except OperationalError as error:
            raise CommandError(f"The demo's database is not usable here: {error}") from error
        except KeyboardInterrupt:
            raise CommandError("Interrupted: nothing was checked.") from None
        if faults:
            raise CommandError(f"The replay failed: {', '.join(faults)}.")

    def read(self, file: Path, limit: int | None) -> dict[str, list[str]]:
        """Read the file, report the rows that can't be used, and return each user's items in order."""
        try:
            with file.open(encoding="utf-8-sig", newline="") as lines:
                events, problems = read_events(lines, limit=limit)
        except OSError as error:
            raise CommandError(f"{file} can't be read: {error.strerror}.") from error
        except ReplayError as error:
            raise CommandError(f"{file} {error}.") from error
        self.report("skipped row", problems)
        if not events:
            raise CommandError(f"{file} has no row that can be replayed.")
        return journeys(events)

    def replay(self, ways: dict[str, list[str]], url: str, workers: int) -> list[str]:
        """Walk all the ways, print what came of it, and return what was wrong, each as a number of something."""
        demand = expected(ways)
        users = add_missing(ways, demand.views)
        for user in users.values():
            online.end(*(session.sid for session in online.of_user(user)))
        gained = Counter[str]()
        gained.subtract(dict(ranking()))

        started = time.monotonic()
        failures = list(walk(ways, url, workers))
        seconds = time.monotonic() - started

        listed = ranking()
        gained.update(dict(listed))
        wrong = [*differences(demand, Seen(histories(users), gained)), *faults_in_order(listed)]
        self.report("failed request", failures)
        self.report("difference", wrong)
        pages = sum(demand.views.values())
        items, visitors = number(len(demand.views), "item"), number(len(ways), "user")
        self.stdout.write(f"Events       {pages:,} on {items} by {visitors}")
        # Each user also asks for the form to sign in, and sends it.
        self.stdout.write(f"Requests     {(pages + 2 * len(ways)) / seconds:,.0f} a second, for {seconds:,.1f} seconds")
        self.stdout.write(f"Failed       {len(failures):,}")
        self.stdout.write(f"Differences  {len(wrong):,} in sessions, viewed items and views")
        return [
            number(len(lines), noun) for noun, lines in (("failed request", failures), ("difference", wrong)) if lines
        ]

    def report(self, noun: str, lines: list[str]) -> None:
        if lines:
            self.stderr.write(f"{number(len(lines), noun)}:")
        for line in lines[:SHOWN_MAX]:
            self.stderr.write(f"  {line}")
        if len(lines) > SHOWN_MAX:
            self.stderr.write(f"  … and {len(lines) - SHOWN_MAX:,} more")


def add_missing(names: Iterable[str], items: Iterable[str]) -> dict[str, User]:
    """Add the users and products that the shop doesn't have, and return all of these users by name."""
    # One hash for all: thousands would take longer than the rest.
    password = make_password(PASSWORD)
    users = [User(username=name, password=password) for name in names]
    User.objects.bulk_create(users, ignore_conflicts=True)
    products = [Product(slug=item, name=re.sub("[-_]+", " ", item).strip().capitalize() or item) for item in items]
    Product.objects.bulk_create(products, ignore_conflicts=True)
    return User.objects.in_bulk([user.username for user in users], field_name="username")


def walk(ways: dict[str, list[str]], url: str, workers: int) -> Iterator[str]:
    """Walk each user's way, each on one of the workers, and yield a line for each request that failed."""

    def walk_one(name: str) -> list[str]:
        return visit(url, name, PASSWORD, ways[name])

    pages = sum(map(len, ways.values()))
    pool = ThreadPoolExecutor(workers)
    with tqdm(total=pages, unit="page", disable=None) as progress:
        try:
            for items, failures in zip(ways.values(), pool.map(walk_one, ways), strict=True):
                progress.update(len(items))
                yield from failures
        finally:
            # An interrupt must not wait for those who haven't come in yet.
            pool.shutdown(cancel_futures=True)


def histories(users: dict[str, User]) -> dict[str, list[list[str]]]:
    """Return what each session of these users holds now."""
    return {
        name: [[entry.item for entry in recent(session.sid, limit=HISTORY + 1)] for session in online.of_user(user)]
        for name, user in users.items()
    }


def ranking() -> list[tuple[str, int]]:
    """Return all items that were viewed, and how often, the most viewed first."""
    listed: list[tuple[str, int]] = []
    while some := popular(limit=RANKED_AT_ONCE, offset=len(listed)):
        listed += some
    return listed


def number(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
