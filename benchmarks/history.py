"""
Measure what the rows of ``django_redsess.contrib.history`` cost: ``python -m benchmarks.history``.

Rows a second through the real receivers, in batches as the cleaner sends them; the cleaner's ends a second with the app
and without; and the CPU time of a sign-in and of an end, both ways in pairs. Rows are in SQLite, and in PostgreSQL
where that is installed.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from benchmarks.moving import stores
from benchmarks.report import table
from testproject.databases import programs

ROWS, SESSIONS, PAIRS = 20_000, 20_000, 300
BATCH = 250
AGENT = "Mozilla/5.0 (X11; Linux x86_64; rv:{}.0) Gecko/20100101 Firefox/{}.0"


def measure(kind: str) -> list[tuple[str, str, str]]:
    """Measure with the rows in a database of this ``kind``. Return what, the figure, and its unit."""
    os.environ["DJANGO_SETTINGS_MODULE"] = "testproject.settings"
    with ExitStack() as started:
        database, url = started.enter_context(stores(kind))
        os.environ["REDIS_URL"] = url
        import django
        from django.conf import settings

        settings.DATABASES = {"default": database}
        django.setup()
        from django.core.management import call_command
        from django.db import connections

        started.callback(connections.close_all)
        call_command("migrate", verbosity=0, skip_checks=True)
        return [*_rows(), *_cleaner(url), *_pairs()]


def _rows() -> list[tuple[str, str, str]]:
    from django_redsess.contrib.history import receivers
    from django_redsess.signals import BegunSession, EndedSession, Reason

    now = datetime.now(UTC)
    begun, ended = [], []
    for number in range(ROWS):
        # Neighbours in time are no neighbours in the index of users.
        user_id, created_at = str(number * 7919 % 1_000_003 + 1), now - timedelta(milliseconds=number * 37)
        agent, address = AGENT.format(100 + number % 46, 100 + number % 46), f"203.0.{number % 113}.{number % 251}"
        begun.append(BegunSession("0" * 20, user_id, created_at, None, address, agent))
        ended.append(EndedSession("0" * 20, user_id, Reason.EXPIRED, now, created_at, now))
    kinds: list[tuple[str, Callable[..., None], list[Any]]] = [
        ("rows of sign-ins", receivers.record_beginnings, begun),
        ("rows of ends", receivers.record_ends, ended),
    ]
    return [(what, f"{_rate(receive, events):,.0f}", "a second") for what, receive, events in kinds]


def _rate(receive: Callable[..., None], events: list[Any]) -> float:
    began = time.perf_counter()
    for start in range(0, len(events), BATCH):
        receive(None, sessions=events[start : start + BATCH])
    return len(events) / (time.perf_counter() - began)


def _cleaner(url: str) -> list[tuple[str, str, str]]:
    from redis import Redis

    from benchmarks.fill import fill
    from django_redsess import cleaning
    from django_redsess.contrib.history import receivers
    from django_redsess.signals import BegunSession

    client: Any = Redis.from_url(url)
    rates: dict[bool, list[float]] = {False: [], True: []}
    for is_on in (False, True) * 3:
        receivers.disconnect_receivers()
        fill(client, SESSIONS, viewed=0, due=True)
        if is_on:
            begun = []
            for name in client.scan_iter("*:online:user:*", count=10_000):
                [(sid, login_ms)] = client.zrange(name, 0, 0, withscores=True)
                at, user_id = datetime.fromtimestamp(login_ms / 1000, UTC), str(name, "utf-8").rpartition(":")[2]
                begun.append(BegunSession(sid.decode(), user_id, at, None, "203.0.113.7", AGENT.format(145, 145)))
            # As sign-ins have written them: an end changes a row, and inserts none.
            _rate(receivers.record_beginnings, begun)
            receivers.connect_receivers()
        began = time.perf_counter()
        ended = sum(cleaning.expire_sessions())
        rates[is_on].append(ended / (time.perf_counter() - began))
    return [
        (f"the cleaner, app {'on' if is_on else 'off'}", f"{statistics.median(of):,.0f}", "ends a second")
        for is_on, of in rates.items()
    ]


def _pairs() -> list[tuple[str, str, str]]:
    from django.contrib.auth import SESSION_KEY

    from django_redsess import online
    from django_redsess.backend import SessionStore
    from django_redsess.contrib.history import receivers

    found: dict[tuple[str, bool], list[float]] = {}

    def timed(what: str, is_on: bool, work: Callable[[], Any]) -> Any:
        began = time.perf_counter()
        result = work()
        found.setdefault((what, is_on), []).append((time.perf_counter() - began) * 1e6)
        return result

    def end(session: SessionStore) -> Any:
        return online.end(session.sid or "")

    def sign_in(number: int) -> SessionStore:
        session = SessionStore()
        session[SESSION_KEY] = str(number + 1)
        session.save()
        return session

    for number in range(2 * PAIRS):
        is_on = number % 2 == 1
        (receivers.connect_receivers if is_on else receivers.disconnect_receivers)()
        session = timed("a sign-in", is_on, partial(sign_in, number))
        timed("an end", is_on, partial(end, session))
    return [
        (
            f"{what}, app {'on' if is_on else 'off'}, with what runs after its answer",
            f"{statistics.median(of):,.0f}",
            "µs",
        )
        for (what, is_on), of in sorted(found.items())
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=("SQLite", "PostgreSQL"), help=argparse.SUPPRESS)
    only = parser.parse_args().only
    if only:
        print(table([f"Rows in {only}", "", ""], measure(only)))
        return
    # Django is set up once in a process.
    for kind in ("SQLite", "PostgreSQL") if programs() else ("SQLite",):
        subprocess.run([sys.executable, "-m", "benchmarks.history", "--only", kind], check=True)


if __name__ == "__main__":
    main()
