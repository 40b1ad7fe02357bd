"""
Measure how many page views a second one client records: with the engine, and with a function of Redis in Action.

That function (section 2.1, update_token; here "listing") sends five commands, one after another. They store who has the
token, when it was last seen, and what it viewed, drop all but 25 items, and count the view. It never asks whether the
token is still valid. The engine sends one script, and before it, in the same round trip, two commands that touch the
session. They do the same, if the session has not ended.

The engine is measured in three ways. "Every view noted" touches the session at each view. "Defaults" does so once in
ten seconds, here shortly before. "Sliding" has deadlines that move, so it reads the session first, as most requests do
anyway. The listing is also measured with its five commands in one pipeline, which is one round trip too. And it is
measured twice: "listing, again" shows how much two runs of the same differ.

All use one server and the same settings of the client. Each has a database of its own with the same number of signed-in
sessions, and each session has viewed 25 items. In a round each way records the same views; the order of the ways is
random. "Times listing" and "times pipeline" compare the runs of one round. As in a shop, few items have most views: the
second has half as many as the first, the third a third. In the end all must have counted the same views.

examples:
  python -m benchmarks.views --sessions 1000 --rounds 3     a quick look, in seconds
  python -m benchmarks.views --json views.json              the full measurement, with every run in a file
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import random
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import django
import redis
from django.test.utils import override_settings
from django_redis import get_redis_connection
from tqdm import tqdm

from benchmarks.fill import SESSION
from benchmarks.recording import BASES, CLIENT, HISTORY, SESSIONS_AT_ONCE, WAYS, update_token
from benchmarks.report import machine_of, spread
from django_redsess import viewed
from django_redsess.backend import SessionStore
from django_redsess.session import script_calls
from django_redsess.session.saving import Visit
from django_redsess.transport.keys import keyspace, sid_of
from testproject.servers import Server, available

SEED = 1
"""Each run of this benchmark has the same views in the same order."""

NOTES = f"""\
Commands are all commands that the server ran for a view, with those inside a script or a pipeline. Round trips are how
often it read from its client. A session keeps {HISTORY} viewed items."""

View = tuple[int, str]
"""The number of a session, and an item."""


class Result(NamedTuple):
    """One run. ``commands`` and ``round_trips`` are per view."""

    way: str
    round: int
    seconds: float
    views_per_second: float
    commands: float
    round_trips: float


@dataclass
class Side:
    """A way to record views, with a database of its own. ``tokens`` are the keys of its sessions, in order."""

    name: str
    server: Server
    tokens: list[str] = field(default_factory=list)

    @property
    def is_engine(self) -> bool:
        return WAYS[self.name].settings is not None

    @property
    def conn(self) -> Any:
        return get_redis_connection(self.name)

    @contextmanager
    def chosen(self) -> Iterator[None]:
        """Let the engine use this database meanwhile."""
        with override_settings(SESSION_CACHE_ALIAS=self.name, REDSESS=WAYS[self.name].settings or {}):
            yield

    def fill(self, histories: list[list[str]]) -> None:
        """Sign in a user for each of ``histories``, the items that they have viewed. These views are not counted."""
        with self.chosen():
            for first in range(0, len(histories), SESSIONS_AT_ONCE):
                with self.conn.pipeline(transaction=False) as together:
                    for number, items in enumerate(histories[first : first + SESSIONS_AT_ONCE], start=first):
                        self.tokens.append(self._sign_in(together, str(number)))
                        times = {item: milliseconds for milliseconds, item in enumerate(items, start=1)}
                        together.zadd(self._viewed_by(self.tokens[-1]), times)
                    together.execute()

    def measure(self, number: int, views: list[View]) -> Result:
        """Record ``views``, and measure it."""
        with self.chosen():
            asked = [(self.tokens[session], str(session), item) for session, item in views]
            if self.is_engine:
                script_calls.time().run()  # A real process agrees with its store once, and not for each run.
                self._see(asked)
            view, conn = WAYS[self.name].view, self.conn
            # Collect the garbage of the last run now, so that this run does not pay for it.
            gc.collect()
            commands, reads = self._processed()
            start = time.perf_counter()
            for token, user, item in asked:
                view(conn, token, user, item)
            seconds = time.perf_counter() - start
            commands_then, reads_then = self._processed()
        # One read was the request for these numbers.
        round_trips = (reads_then - reads - 1) / len(views)
        return Result(
            self.name, number, seconds, len(views) / seconds, (commands_then - commands) / len(views), round_trips
        )

    def counted(self) -> dict[str, int]:
        """Return how often each item was viewed."""
        if self.is_engine:
            with self.chosen():
                return dict(viewed.popular(limit=viewed.total().items))
        return {item.decode(): -int(score) for item, score in self.conn.zrange("viewed:", 0, -1, withscores=True)}

    def histories(self) -> list[list[str]]:
        """Return what each session viewed, newest first."""
        if self.is_engine:
            with self.chosen():
                return [[each.item for each in viewed.recent(SessionStore(token))] for token in self.tokens]
        return [[item.decode() for item in self.conn.zrevrange("viewed:" + token, 0, -1)] for token in self.tokens]

    def _sign_in(self, together: redis.Redis, user: str) -> str:
        if not self.is_engine:
            token = random.randbytes(16).hex()
            update_token(together, token, user)
            return token
        session = SessionStore()
        session.visit = Visit(lambda: CLIENT)
        session.update(json.loads(SESSION % (user, random.randbytes(32).hex())))
        session.save()
        return str(session.session_key)

    def _viewed_by(self, token: str) -> str:
        sid = sid_of(token)
        return keyspace().of_sid(sid).viewed_by(sid) if self.is_engine else "viewed:" + token

    def _see(self, asked: list[tuple[str, str, str]]) -> None:
        # With the defaults, a view would touch the session only if the last round was long ago.
        now = int(time.time() * 1000)
        times: dict[Any, int] = {sid_of(token): now for token, _, _ in asked}
        names = keyspace().partitions[0]
        for name in (names.recent, names.guests):
            self.conn.zadd(name, times, xx=True, gt=True)

    def _processed(self) -> tuple[int, int]:
        info: dict[str, Any] = self.server.client.info("stats", "commandstats")
        calls = sum(each["calls"] for name, each in info.items() if name.startswith("cmdstat_"))
        return calls - info.get("cmdstat_info", {}).get("calls", 0), info["total_reads_processed"]


def caches_of(server: Server) -> dict[str, Any]:
    """Return CACHES with a database for each way."""
    return {
        name: {
            "BACKEND": "django_redis.cache.RedisCache",
            "LOCATION": f"redis://127.0.0.1:{server.port}/{number}",
            "OPTIONS": {"SOCKET_TIMEOUT": 60},
        }
        for number, name in enumerate(WAYS, start=1)
    }


def some_views(rng: random.Random, items: list[str], sessions: int, count: int) -> list[View]:
    """Draw ``count`` views with ``rng``."""
    weights = [1 / place for place in range(1, len(items) + 1)]
    return [(rng.randrange(sessions), item) for item in rng.choices(items, weights, k=count)]


def filled(server: Server, items: list[str], sessions: int) -> list[Side]:
    """Return a side for each way, each filled with the same sessions."""
    rng = random.Random(SEED)
    histories = [rng.sample(items, min(HISTORY, len(items))) for _ in range(sessions)]
    sides = [Side(name, server) for name in WAYS]
    for side in tqdm(sides, unit="way", desc="filling", disable=None):
        side.fill(histories)
    return sides


def measured(sides: list[Side], items: list[str], rounds: int, count: int) -> Iterator[Result]:
    """Record ``count`` views on each side in each of the ``rounds``, in random order."""
    rng = random.Random(SEED)
    with tqdm(total=(rounds + 1) * len(sides), unit="run", disable=None) as progress:
        for number in range(rounds + 1):
            views = some_views(rng, items, len(sides[0].tokens), count)
            for side in random.sample(sides, len(sides)):
                result = side.measure(number, views)
                progress.update()
                # The first round opens connections and loads scripts: it is not measured.
                if number:
                    yield result


def table(results: list[Result]) -> str:
    """Return the results as a table in Markdown: medians and ranges."""
    lines = [
        "| | times listing | times pipeline | views a second | commands a view | round trips a view |",
        "|---|---|---|---|---|---|",
    ]
    speeds = {(result.way, result.round): result.views_per_second for result in results}
    for way in WAYS:
        runs = [result for result in results if result.way == way]
        cells = (
            way,
            *(spread([run.views_per_second / speeds[base, run.round] for run in runs], 2) for base in BASES),
            spread([run.views_per_second for run in runs]),
            f"{median(run.commands for run in runs):.2f}",
            f"{median(run.round_trips for run in runs):.2f}",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=10_000, help="signed-in sessions (default: %(default)s)")
    parser.add_argument("--items", type=int, default=1000, help="items to view (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=9, help="how often each way is measured (default: %(default)s)")
    parser.add_argument("--views", type=int, default=2000, help="views of each run (default: %(default)s)")
    parser.add_argument(
        "--server", choices=sorted(available()), default="valkey", help="the kind of server (default: %(default)s)"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all measurements and the counts to FILE")
    options = parser.parse_args()
    for name in ("sessions", "items", "rounds", "views"):
        if getattr(options, name) < 1:
            parser.error(f"--{name} must be at least 1")
    if options.json and not options.json.parent.is_dir():
        parser.error(f"--json: there is no folder {options.json.parent}")
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "testproject.settings")
    django.setup()

    items = [f"item-{number}" for number in range(1, options.items + 1)]
    with closing(Server(available()[options.server])) as server, override_settings(CACHES=caches_of(server)):
        sides = filled(server, items, options.sessions)
        results = list(measured(sides, items, options.rounds, options.views))
        counted, histories = ([each(side) for side in sides] for each in (Side.counted, Side.histories))
        machine = machine_of(options.server, server.client.info())
    assert all(each == counted[0] for each in counted), "the ways have counted different views"
    assert all(each == histories[0] for each in histories), "the ways have kept different items"

    sizes = {name: getattr(options, name) for name in ("sessions", "items", "rounds", "views")}
    print(", ".join(f"{name}: {size:,}" for name, size in sizes.items()) + f"; {machine}\n")
    print(f"{table(results)}\n\n{NOTES}")
    if options.json:
        runs = [result._asdict() for result in results]
        content = {"machine": machine, **sizes, "counted": dict(zip(WAYS, counted, strict=True)), "runs": runs}
        options.json.write_text(json.dumps(content, indent=2) + "\n")


if __name__ == "__main__":
    main()
