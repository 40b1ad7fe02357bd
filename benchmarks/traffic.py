"""
What a request costs the server: commands, bytes each way, bytes to a replica, and CPU time.

The server has a replica. Requests come one after another on one connection, so the server reads and writes once for
each of them: a busy server, which does that for several at once, needs less CPU time. Bytes are those of the protocol,
without the headers of TCP and IP.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from statistics import median
from typing import Any, NamedTuple

import redis
from django.test.utils import override_settings
from tqdm import tqdm

from benchmarks.engines import ENGINES, OURS
from benchmarks.operations import SEED, Ours, Run, found
from django_redsess import cleaning, online
from django_redsess.transport.keys import keyspace, sid_of
from testproject.servers import Server

LISTED = 100
"""How many sessions a page lists."""

FEW = 20
"""How often lists and counts are asked for: they take longer."""


class Cost(NamedTuple):
    """
    What the server does for a request.

    ``commands`` includes those inside scripts. ``received`` and ``sent`` are bytes from and to the web process,
    ``replicated`` those to each replica. ``cpu`` is in microseconds.
    """

    round_trips: float
    commands: float
    received: float
    sent: float
    replicated: float
    cpu: float


class Requests(Ours):
    """The engine's operations, and what else a site asks for."""

    operations = ("load", "reload", "change", "view", "guest", "sign-in", "end", "expire", "page", "count")

    def prepare_guest(self, count: int) -> Run:
        baskets = [{"basket": self.basket()} for _ in range(count)]

        def run() -> None:
            self.made = [self.saved(data) for data in baskets]

        return run

    def prepare_expire(self, count: int) -> Run:
        self.gone = self.stored([{"basket": self.basket()} for _ in range(count)])
        for sid in map(sid_of, self.gone):
            self.conn.zadd(keyspace().of_sid(sid).expire, {sid: 1})
        return lambda: found(sum(cleaning.expired()) == count)

    def prepare_page(self, count: int) -> Run:
        def run() -> None:
            for _ in range(count):
                found(online.sessions(limit=LISTED))

        return run

    def prepare_count(self, count: int) -> Run:
        def run() -> None:
            for _ in range(count):
                found(online.count())

        return run


@contextmanager
def pointed_at(server: Server, **settings: Any) -> Iterator[None]:
    """Let the engine use database 0 of ``server``, with these ``settings`` of its own."""
    cache = {"BACKEND": "django_redis.cache.RedisCache", "LOCATION": server.url, "OPTIONS": {"SOCKET_TIMEOUT": 60}}
    with override_settings(CACHES={"sessions": cache}, SESSION_CACHE_ALIAS="sessions", REDSESS=settings):
        yield


def costs(server: Server, partitions: int, *, sessions: int, count: int, rounds: int) -> dict[str, Cost]:
    """
    Measure each operation ``count`` times in each of the ``rounds``, among this number of signed-in ``sessions``.

    ``server`` is empty and has a replica. The results are medians of the rounds, by operation.
    """
    with pointed_at(server, PARTITIONS=partitions):
        side = Requests(ENGINES[OURS])
        side.fill(sessions)
        runs: dict[str, list[Cost]] = {operation: [] for operation in side.operations}
        steps = (rounds + 1) * len(runs)
        with tqdm(total=steps, desc=f"requests, {partitions} partitions", unit="run", disable=None) as progress:
            for number in range(rounds + 1):
                for operation, of_it in runs.items():
                    times = min(count, FEW) if operation in ("page", "count") else count
                    cost = _cost(side, server.client, operation, times)
                    progress.update()
                    # The first round opens connections and loads scripts.
                    if number:
                        of_it.append(cost)
    return {name: Cost(*map(median, zip(*of_it, strict=True))) for name, of_it in runs.items()}


def touched(server: Server, *, sessions: int = 300, seconds: float = 4) -> float:
    """
    Return the share of loads that note their session as seen, of visitors with one request in each ``TOUCH_INTERVAL``.

    That is their mean: the times are random. ``server`` is empty. The interval is one second here, to take less time.
    """
    with pointed_at(server, TOUCH_INTERVAL=1):
        side = Requests(ENGINES[OURS])
        keys = side.stored([{"basket": side.basket()} for _ in range(sessions)])
        rng = random.Random(SEED)
        times = sorted(rng.uniform(0, seconds) for _ in range(round(sessions * seconds)))
        # From the beginning of a second on: later, nobody has been seen yet in the interval.
        time.sleep(-time.time() % 1)
        start, before = time.monotonic(), _changes(server)
        for due in times:
            time.sleep(max(0.0, start + due - time.monotonic()))
            load_at_random(side, keys, rng=rng)
        return (_changes(server) - before) / len(times)


def load_at_random(side: Ours, keys: Sequence[str], *, rng: random.Random, save: bool = False) -> None:
    """Load one of these sessions as a request does, and change and ``save`` it."""
    session = side.opened(rng.choice(keys))
    found(session.get("basket"))
    if save:
        session["basket"] = side.basket()
        session.save()


def _cost(side: Ours, client: redis.Redis, operation: str, count: int) -> Cost:
    run = side.prepare(operation, count)
    first, second = _used(client), _used(client)
    run()
    after = _used(client)
    side.tidy()
    # The request for these numbers is one of the commands, too.
    return Cost(
        *((now - then - (then - before)) / count for before, then, now in zip(first, second, after, strict=True))
    )


def _used(client: redis.Redis) -> Cost:
    info: dict[str, Any] = client.info("stats", "commandstats", "cpu", "replication")
    return Cost(
        info["total_reads_processed"],
        sum(each["calls"] for name, each in info.items() if name.startswith("cmdstat_")),
        info["total_net_input_bytes"] - info["total_net_repl_input_bytes"],
        info["total_net_output_bytes"] - info["total_net_repl_output_bytes"],
        info["master_repl_offset"],
        (info["used_cpu_user"] + info["used_cpu_sys"]) * 1e6,
    )


def _changes(server: Server) -> int:
    return int(server.client.info("persistence")["rdb_changes_since_last_save"])
