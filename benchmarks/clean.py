"""
Measure how many sessions a second are removed: by the engine's cleaners, and by the loop of Redis in Action.

That loop (section 2.1, clean_sessions; here "listing") removes a hundred sessions at a time from three keys, with one
command for each key and two more to find the sessions. It knows neither deadlines nor users, and leaves their indexes
behind. The engine's cleaners remove sessions from every key, a batch with one script: "excess" those longest unseen
above a maximum, "expired" those whose deadline has passed.

A store is filled once. Each run has a new server that starts with a copy of it, and is measured until nothing is left
to remove. In a round each way runs once, in random order. "Times listing" compares the runs of one round.

examples:
  python -m benchmarks.clean --sessions 20000 --rounds 1     a quick look, in seconds
  python -m benchmarks.clean --json clean.json               the full measurement, with every run in a file
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import django
import redis
from django.test.utils import override_settings
from django_redis import get_redis_connection

from benchmarks.fill import fill
from benchmarks.report import machine_of, spread
from benchmarks.targets import LISTING
from django_redsess import cleaning
from django_redsess.transport.keys import keyspace
from testproject.servers import Server, available

KEPT = 1
"""How many sessions are left when the excess is removed: a maximum of 0 is not allowed."""

ENTRIES_OF_ONE = 6
"""How many entries a signed-in session has: in four keys of its partition, its user's list, and its viewed items."""


class Result(NamedTuple):
    """One run. The server measures its commands itself; ``left_behind`` counts entries of removed sessions."""

    way: str
    round: int
    seconds: float
    sessions_per_second: float
    slowest_ms: float
    over_10_ms: int
    left_behind: int


class Restored(Server):
    """A server that starts with the ``dump.rdb`` of another server's folder, and never writes it."""

    def start(self) -> None:
        # SAVE and loading may take longer than the default time-out.
        self.client = redis.Redis(port=self.port, socket_timeout=None)
        command = [str(self.binary), "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", *self.options]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while self.process.poll() is None:
            try:
                self.client.ping()
                return
            except redis.ConnectionError:  # Not started yet, or still loading.
                time.sleep(0.1)
        raise RuntimeError(f"{self.binary} did not start")


def listing() -> None:
    """Do what clean_sessions in *Redis in Action* does, with our keys. It ends where the book's loop would wait."""
    conn = get_redis_connection("sessions")
    names = keyspace().partitions[0]
    while True:
        size = conn.zcard(names.recent)
        if size <= KEPT:
            return
        end_index = min(size - KEPT, 100)
        tokens = conn.zrange(names.recent, 0, end_index - 1)
        session_keys = []
        for token in tokens:
            session_keys.append(names.viewed_by("").encode() + token)
        conn.delete(*session_keys)
        conn.hdel(names.login, *tokens)
        conn.zrem(names.recent, *tokens)


WAYS: dict[str, Callable[[], object]] = {
    LISTING: listing,
    "cleansessions, excess": lambda: sum(cleaning.evicted(maximum=KEPT, batch_size=100)),
    "cleansessions, excess, by 1 000": lambda: sum(cleaning.evicted(maximum=KEPT, batch_size=1000)),
    "cleansessions, expired": lambda: sum(cleaning.expired(batch_size=100)),
    "cleansessions, expired, by 1 000": lambda: sum(cleaning.expired(batch_size=1000)),
}


def measure(way: str, number: int, binary: Path, folder: str, sessions: int) -> Result:
    """Run ``way`` once on a server of its own."""
    names = keyspace().partitions[0]
    with closing(Restored(binary, "--dir", folder)) as server, pointed_at(server):
        if "expired" in way:  # The deadline of each is when it was last seen.
            server.client.zunionstore(names.expire, [names.recent])
        server.client.config_set("slowlog-max-len", sessions)
        server.client.config_set("slowlog-log-slower-than", 1000)
        server.client.slowlog_reset()
        start = time.perf_counter()
        WAYS[way]()
        seconds = time.perf_counter() - start
        milliseconds = [entry["duration"] / 1000 for entry in server.client.slowlog_get(sessions)]
        kept = 0 if "expired" in way else KEPT
        left_behind = entries(server.client) - kept * ENTRIES_OF_ONE
    assert left_behind == 0 or way == LISTING
    slow = sum(duration > 10 for duration in milliseconds)
    return Result(way, number, seconds, (sessions - kept) / seconds, max(milliseconds, default=0), slow, left_behind)


def entries(client: Any) -> int:
    """Count the entries that a store has of sessions."""
    names = keyspace().partitions[0]
    indexes = (names.expire, names.recent, names.guests, names.online_user)
    own = client.dbsize() - client.exists(
        names.login, *indexes, names.viewed, names.wake, names.totals, keyspace().agreement.meta
    )
    # Notes for ended users expire by themselves.
    notes = sum(1 for _ in client.scan_iter(names.ended_of("*"), count=10_000))
    return int(client.hlen(names.login) + sum(client.zcard(index) for index in indexes) + own - notes)


def pointed_at(server: Server) -> override_settings:
    """Point the settings at ``server``."""
    cache = {"BACKEND": "django_redis.cache.RedisCache", "LOCATION": server.url, "OPTIONS": {"SOCKET_TIMEOUT": 60}}
    return override_settings(CACHES={"sessions": cache})


def table(results: list[Result]) -> str:
    """Return the results as a table in Markdown: medians and ranges."""
    lines = [
        "| | sessions a second | times listing | slowest command, ms | commands above 10 ms | entries left behind |",
        "|---|---|---|---|---|---|",
    ]
    base = {result.round: result.sessions_per_second for result in results if result.way == LISTING}
    measured = {result.way for result in results}
    for way in [way for way in WAYS if way in measured]:
        runs = [result for result in results if result.way == way]
        speed = spread([run.sessions_per_second for run in runs])
        ratio = spread([run.sessions_per_second / base[run.round] for run in runs], 2)
        slowest, slow = spread([run.slowest_ms for run in runs], 1), max(run.over_10_ms for run in runs)
        lines.append(f"| {way} | {speed} | {ratio} | {slowest} | {slow} | {runs[0].left_behind:,} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=1_000_000, help="sessions in the store (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="how often each way is measured (default: %(default)s)")
    parser.add_argument(
        "--ways", nargs="+", choices=WAYS, default=WAYS, metavar="WAY", help="only these ways, and the listing"
    )
    parser.add_argument(
        "--server", choices=sorted(available()), default="valkey", help="the kind of server (default: %(default)s)"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all measurements to FILE")
    options = parser.parse_args()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "testproject.settings")
    django.setup()

    binary, results = available()[options.server], []
    ways = [way for way in WAYS if way == LISTING or way in options.ways]
    with tempfile.TemporaryDirectory(prefix="redsess-bench-") as folder:
        with closing(Restored(binary, "--dir", folder)) as server, pointed_at(server):
            fill(server.client, options.sessions)
            server.client.save()
            info: dict[str, Any] = server.client.info()
        for number in range(1, options.rounds + 1):
            for way in random.sample(ways, len(ways)):
                results.append(measure(way, number, binary, folder, options.sessions))
                print(results[-1], file=sys.stderr)

    machine = machine_of(options.server, info)
    print(f"{options.sessions:,} sessions, rounds: {options.rounds}; {machine}\n\n{table(results)}")
    if options.json:
        runs = [result._asdict() for result in results]
        options.json.write_text(
            json.dumps({"machine": machine, "sessions": options.sessions, "runs": runs}, indent=2) + "\n"
        )


if __name__ == "__main__":
    main()
