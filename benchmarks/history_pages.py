"""
Measure the admin's list of sign-ins with few rows and with many: ``python -m benchmarks.history_pages``.

It takes SQLite, and PostgreSQL where its programs are installed. Each page is requested a few times by Django's test
client, from the middleware to the last byte. Printed are the median and the least, in milliseconds, and of the round
with the least, how long the database took. The session of the administrator is in a server that is started for this.
"""

from __future__ import annotations

import argparse
import os
import random
import tempfile
import time
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Any

import django
from django.core.management import call_command
from django.db import connections
from django.test import Client
from django.test.utils import override_settings

from benchmarks.pages import _cache_of
from testproject import servers
from testproject.databases import PostgreSQL, programs

LIST = "/admin/redsess_history/signin/"
DAYS = 90
USERS_PER_ROW = 0.1
AT_ONCE = 5000


def measured(few: int, many: int, rounds: int) -> list[tuple[str, str, int, float]]:
    """Return database, page, rows and the median in milliseconds of each page. It needs a process without settings."""
    found = []
    with tempfile.TemporaryDirectory(prefix="redsess-bench-") as folder:
        os.environ.update(REDSESS_DEMO_DIR=folder, DJANGO_SETTINGS_MODULE="testproject.settings")
        django.setup()
        with closing(servers.Server(servers.available()["valkey"])) as server:
            caches = {"sessions": _cache_of(server)}
            with override_settings(DEBUG=False, CACHES=caches):
                for rows in (few, many):
                    found += _of_database("SQLite", _sqlite(folder, rows), rows, rounds)
                    if where := programs():
                        with closing(PostgreSQL(where)) as postgresql:
                            found += _of_database("PostgreSQL", postgresql.database, rows, rounds)
    return found


def _sqlite(folder: str, rows: int) -> dict[str, Any]:
    return {"ENGINE": "django.db.backends.sqlite3", "NAME": str(Path(folder) / f"{rows}.sqlite3")}


def _of_database(name: str, database: dict[str, Any], rows: int, rounds: int) -> list[tuple[str, str, int, float]]:
    connections.close_all()
    connections.settings["default"] = connections.configure_settings({"default": database})["default"]
    with suppress(AttributeError):
        del connections["default"]
    browser, pages = _filled(rows)
    found = []
    for page, query in pages.items():
        taken, of_database = [], []
        for number in range(rounds + 1):
            waited = Waited()
            start = time.perf_counter()
            with connections["default"].execute_wrapper(waited):
                response = browser.get(LIST + query)
            if response.status_code != 200:
                raise RuntimeError(f"{page} was answered with {response.status_code}.")
            # The first round opens connections and compiles templates.
            if number:
                taken.append((time.perf_counter() - start) * 1000)
                of_database.append(waited.milliseconds)
        found.append((name, page, rows, median(taken)))
        figures = f"{median(taken):7.1f} {min(taken):7.1f} {min(of_database):7.1f}"
        print(f"{name:10} {rows:>9} {page:28} {figures}", flush=True)
    connections.close_all()
    return found


class Waited:
    """How long a page waits for the database."""

    milliseconds = 0.0

    def __call__(self, execute: Any, *args: Any) -> Any:
        start = time.perf_counter()
        try:
            return execute(*args)
        finally:
            self.milliseconds += (time.perf_counter() - start) * 1000


def _filled(rows: int) -> tuple[Client, dict[str, str]]:
    from django.contrib.auth.models import User
    from django.db import connection

    from django_redsess.contrib.history.models import SignIn, who_ended
    from django_redsess.online.browsers import browser_and_system
    from django_redsess.signals import Reason
    from testproject import people

    call_command("migrate", verbosity=0)
    chance, users = random.Random(1), max(10, int(rows * USERS_PER_ROW))
    names = (User(pk=number, username=f"shopper-{number}", password="!") for number in range(1, users + 1))
    User.objects.bulk_create(names, batch_size=AT_ONCE)
    admin = User.objects.create_superuser("admin", password="admin", id=users + 1)
    now = datetime.now(UTC)
    agents = [people.CHROME_WINDOWS, people.SAFARI_IPHONE, people.FIREFOX_LINUX, people.EDGE_WINDOWS]
    # In the order of time, as a site writes them; most sessions expire, and the newest live.
    for start in range(0, rows, AT_ONCE):
        batch = []
        for number in range(start, min(start + AT_ONCE, rows)):
            at = now - timedelta(days=DAYS) * (rows - number) / rows
            lives, address, agent = rows - number < rows // 50, chance.getrandbits(24), chance.choice(agents)
            reason = chance.choices(list(Reason), (30, 5, 50, 1, 1, 13))[0]
            by = str(admin.pk) if reason is Reason.KICKED and not lives else ""
            batch.append(
                SignIn(
                    user_id=chance.randint(1, users),
                    login_ms=int(at.timestamp() * 1000) + number % 10,
                    last_seen_at=at,
                    ended_at=None if lives else at + timedelta(hours=1),
                    reason="" if lives else reason,
                    by=by,
                    who_ended="" if lives else who_ended("", reason, by),
                    address=f"10.{address >> 16}.{address >> 8 & 255}.{address & 255}",
                    address_score=(10 << 24) + address,
                    client=browser_and_system(agent),
                    user_agent=agent,
                    is_new_device=chance.random() < 0.05,
                )
            )
        SignIn.objects.bulk_create(batch, ignore_conflicts=True)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    browser = Client()
    browser.force_login(admin)
    ago = (now - timedelta(days=DAYS - 5)).date().isoformat()
    queries = {
        "first page": "",
        "last page that is counted": f"?p={min(200, -(-rows // 50))}",
        "of a past week": f"?since={ago}&until={(now - timedelta(days=DAYS - 12)).date().isoformat()}",
        "yesterday": "?when=yesterday",
        "one user": "?user=7",
        "search by name: one": "?q=shopper-7",
        "search by name: a thousand": "?q=shopper",
        "one address": f"?q={SignIn.objects.all()[rows // 2].address}",
        "network /24": "?q=10.1.2.0/24",
        "network /16": "?q=10.1.0.0/16",
        "network /8": "?q=10.0.0.0/8",
        "ended by somebody": "?reason=kicked",
        "expired": "?reason=expired",
        "ended by staff": "?who_ended=staff",
        "ended by nobody": "?who_ended=nobody",
        "ended by the user elsewhere": "?who_ended=user_elsewhere",
        "ended by one person": f"?ended_by={admin.pk}",
        "search for this person": "?q=admin",
        "still signed in": "?state=living",
        "new devices": "?is_new_device=true",
        "Firefox": "?browser=Firefox",
        "Opera (none)": "?browser=Opera",
        "Firefox, ended by somebody": "?browser=Firefox&reason=kicked",
    }
    return browser, queries


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--few", type=int, default=1000)
    parser.add_argument("--many", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    measured(given.few, given.many, given.rounds)
