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
from testproject.settings import REDIS_URL, running_demo, session_cache
from testproject.shop.models import Product
from testproject.visitor import ShopError, check_shop, visit

SHOWN_MAX = 20
RANKED_AT_ONCE = 1_000


class HelpFormatter(RawDescriptionHelpFormatter, DjangoHelpFormatter):
    """Django's formatter, which keeps the line breaks of the description."""


class Command(BaseCommand):
    help = """\
Replay recorded visits against the running demo, over HTTP, and check what the sessions hold after it.

FILE is a CSV file in UTF-8 with the columns user_id, event and timestamp (an ISO date). Each user signs in, and views
the page of each of their events, in the order of the timestamps. Users and products that are missing are added to the
shop. Afterwards, the sessions must hold what follows from the file:

  - each user has one session online,
  - its viewed items are the last 25 different events of the user, the latest first,
  - each item has one more view for each of its events, and an item without events has no more views,
  - the most viewed items are in the order of their views.

Every difference is listed; the exit status is then 1. Nobody else may use the shop meanwhile: their views would count.
So the demo has to run without the shoppers who go on clicking.

Example, in a second terminal beside `make demo CLICKS=0`:

  python testproject/manage.py replay visits.csv --url http://127.0.0.1:8000
"""

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> CommandParser:
        return super().create_parser(prog_name, subcommand, formatter_class=HelpFormatter, **kwargs)

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path, metavar="FILE", help="the recorded visits")
        parser.add_argument(
            "--url", default="http://127.0.0.1:8000", help="the URL of the running demo (default: %(default)s)"
        )
        parser.add_argument(
            "--workers", type=int, default=4, help="how many users visit at the same time (default: %(default)s)"
        )
        parser.add_argument("--limit", type=int, help="how many rows to read at most (default: all)")

    def handle(self, *, file: Path, url: str, workers: int, limit: int | None, **options: Any) -> None:
        for option, value in (("--workers", workers), ("--limit", limit)):
            if value is not None and value < 1:
                raise CommandError(f"{option} must be 1 or more, not {value}.")
        ways = self.read(file, limit)
        url = url.rstrip("/")
        try:
            check_shop(url)
        except ShopError as error:
            raise CommandError(
                f"No shop at {url}: {error}. Start it with `make demo CLICKS=0`, or give its address."
            ) from error
        # The demo's server. The settings know it only if PORT or REDIS_URL are set as for the demo.
        port = urlsplit(url).port or 80
        demo = running_demo(str(port))
        location = REDIS_URL or demo.get("redis_url")
        if location is None:
            raise CommandError(
                f"No demo of this folder is at port {port}: say in REDIS_URL which server keeps its sessions."
            )
        if demo.get("clicks"):
            raise CommandError("The demo's own shoppers click meanwhile. Start it with `make demo CLICKS=0`.")
        caches = {**settings.CACHES, "sessions": session_cache(location)}
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
        """Read the file, report the rows that are not valid, and return the items of each user in order."""
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
        """Visit the shop as all users, print the results, and return what was wrong, as in "2 differences"."""
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
        # Each user also requests the form to sign in, and sends it.
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
    """Add the users and products that are missing, and return these users by name."""
    # One hash for all users: thousands would take longer than the visits.
    password = make_password(PASSWORD)
    users = [User(username=name, password=password) for name in names]
    User.objects.bulk_create(users, ignore_conflicts=True)
    products = [Product(slug=item, name=re.sub("[-_]+", " ", item).strip().capitalize() or item) for item in items]
    Product.objects.bulk_create(products, ignore_conflicts=True)
    return User.objects.in_bulk([user.username for user in users], field_name="username")


def walk(ways: dict[str, list[str]], url: str, workers: int) -> Iterator[str]:
    """Visit the shop as each user, several at the same time, and yield a line for each request that failed."""

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
            # After an interrupt, users who have not started are not waited for.
            pool.shutdown(cancel_futures=True)


def histories(users: dict[str, User]) -> dict[str, list[list[str]]]:
    """Return the viewed items of each session of these users."""
    return {
        name: [[entry.item for entry in recent(session.sid, limit=HISTORY + 1)] for session in online.of_user(user)]
        for name, user in users.items()
    }


def ranking() -> list[tuple[str, int]]:
    """Return all viewed items with their views, the most viewed first."""
    listed: list[tuple[str, int]] = []
    while some := popular(limit=RANKED_AT_ONCE, offset=len(listed)):
        listed += some
    return listed


def number(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
