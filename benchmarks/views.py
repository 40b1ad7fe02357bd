"""
Measure how many page views a second one client records: the engine, and the function of Redis in Action.

That function ("listing": section 2.1, update_token) sends five commands, one after another: who has the token, when it
was last seen, what it viewed and when, no more than 25 of that, and how often the item was viewed. It never asks
whether the token is still good. The engine sends one script, and two commands in front of it that note when the
session was seen. Together they do the same for a session which a request opened, unless it has ended or is due. "Every
view noted" notes at each view that the session was seen; "defaults" does so once in ten seconds, here shortly before.
"Sliding" has deadlines that move: for that it reads the session first, as most requests do anyway. The listing is also
measured with its five commands in one pipeline, which is one round trip too; and twice as it is: "listing, again" shows
how far two runs of the same differ.

All use one server and the same settings of the client; each has a database of its own, with as many signed-in
sessions, every one of which has viewed 25 items. In a round each records the same views, in random order; "times
listing" and "times pipeline" compare the runs of one round. Some items are viewed far more often than others, as in a
shop: the second half as often as the first, the third a third as often. At the end all must have counted the same.

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
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import django
import redis
from django.test.utils import override_settings
from django_redis import get_redis_connection
from tqdm import tqdm

from benchmarks.fill import SESSION, USER_AGENT
from benchmarks.report import machine_of, spread
from django_redsess import viewed
from django_redsess.backend import SessionStore
from django_redsess.session import reading
from django_redsess.session.record import Client
from django_redsess.session.state import Visit
from django_redsess.transport.keys import keyspace, sid_of
from testproject.servers import Server, available

SEED = 1
"""Which items and sessions the views are of, and in what order, is the same in each run of this benchmark."""

HISTORY = 25
"""How many viewed items are kept for a session, by either."""

SESSIONS_AT_ONCE = 500
CLIENT = Client("192.0.2.1", USER_AGENT)

NOTES = f"""\
Commands are all that the server ran for a view, those inside of a script or a pipeline included. Round trips are how
often it read from its client. A session keeps {HISTORY} viewed items."""

View = tuple[int, str]
"""The number of a session, and an item."""


def update_token(conn: redis.Redis, token: str, user: str, item: str | None = None) -> None:
    """Do what update_token in Redis in Action does, with the arguments of ``zadd`` in today's order."""
    timestamp = time.time()
    conn.hset("login:", token, user)
    conn.zadd("recent:", {token: timestamp})
    if item:
        conn.zadd("viewed:" + token, {item: timestamp})
        conn.zremrangebyrank("viewed:" + token, 0, -26)
        conn.zincrby("viewed:", -1, item)


def update_token_at_once(conn: redis.Redis, token: str, user: str, item: str, *, transaction: bool) -> None:
    """Do the same with one round trip."""
    with conn.pipeline(transaction=transaction) as together:
        update_token(together, token, user, item)
        together.execute()


def record(conn: redis.Redis, token: str, user: str, item: str) -> None:
    """Have the engine record a view of a session that a request opened. ``token`` is its session key."""
    session = SessionStore(token)
    session.visit = Visit(lambda: CLIENT)
    assert viewed.record(session, item)


class Way(NamedTuple):
    """How to record a view: ``REDSESS`` of the engine, None for the listing."""

    view: Callable[[redis.Redis, str, str, str], object]
    settings: dict[str, Any] | None = None


BASES = LISTING, PIPELINE = "listing", "listing in one pipeline"
"""What the others are compared with."""

WAYS = {
    LISTING: Way(update_token),
    "listing, again": Way(update_token),
    PIPELINE: Way(partial(update_token_at_once, transaction=False)),
    "listing in one MULTI/EXEC": Way(partial(update_token_at_once, transaction=True)),
    "engine, every view noted": Way(record, {"TOUCH_INTERVAL": 0}),
    "engine, sliding": Way(record, {"SLIDING": True}),
    "engine, defaults": Way(record, {}),
}


class Result(NamedTuple):
    """One run. ``commands`` and ``round_trips`` are those of a view."""

    way: str
    round: int
    seconds: float
    views_per_second: float
    commands: float
    round_trips: float


@dataclass
class Side:
    """A way to record views, with a database of its own: ``tokens`` are the sessions there, in order."""

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
        """Have the engine's sessions here."""
        with override_settings(SESSION_CACHE_ALIAS=self.name, REDSESS=WAYS[self.name].settings or {}):
            yield

    def fill(self, histories: list[list[str]]) -> None:
        """Sign in as many users as there are ``histories``: the items that each has viewed, and that nobody counted."""
        with self.chosen():
            for first in range(0, len(histories), SESSIONS_AT_ONCE):
                with self.conn.pipeline(transaction=False) as together:
                    for number, items in enumerate(histories[first : first + SESSIONS_AT_ONCE], start=first):
                        self.tokens.append(self._sign_in(together, str(number)))
                        times = {item: milliseconds for milliseconds, item in enumerate(items, start=1)}
                        together.zadd(self._viewed_by(self.tokens[-1]), times)
                    together.execute()

    def measure(self, number: int, views: list[View]) -> Result:
        """Record ``views``, and tell what it took."""
        with self.chosen():
            asked = [(self.tokens[session], str(session), item) for session, item in views]
            if self.is_engine:
                reading.time().run()  # A process agrees with a store once, and not each time that it comes back to it.
                self._see(asked)
            view, conn = WAYS[self.name].view, self.conn
            # What the run before left behind is nobody's time.
            gc.collect()
            commands, reads = self._processed()
            start = time.perf_counter()
            for token, user, item in asked:
                view(conn, token, user, item)
            seconds = time.perf_counter() - start
            commands_then, reads_then = self._processed()
        # The server read once more to be asked for these numbers.
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
        # Else it would depend on how long ago the last round was, what there is to note by default.
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
    """Describe a database for each way as CACHES does."""
    return {
        name: {
            "BACKEND": "django_redis.cache.RedisCache",
            "LOCATION": f"redis://127.0.0.1:{server.port}/{number}",
            "OPTIONS": {"SOCKET_TIMEOUT": 60},
        }
        for number, name in enumerate(WAYS, start=1)
    }


def some_views(dice: random.Random, items: list[str], sessions: int, count: int) -> list[View]:
    """Throw ``dice`` for so many views."""
    weights = [1 / place for place in range(1, len(items) + 1)]
    return [(dice.randrange(sessions), item) for item in dice.choices(items, weights, k=count)]


def filled(server: Server, items: list[str], sessions: int) -> list[Side]:
    """Return a side for each way, all with the same sessions."""
    dice = random.Random(SEED)
    histories = [dice.sample(items, min(HISTORY, len(items))) for _ in range(sessions)]
    sides = [Side(name, server) for name in WAYS]
    for side in tqdm(sides, unit="way", desc="filling", disable=None):
        side.fill(histories)
    return sides


def measured(sides: list[Side], items: list[str], rounds: int, count: int) -> Iterator[Result]:
    """Record ``count`` views on each side, so many rounds, in random order."""
    dice = random.Random(SEED)
    with tqdm(total=(rounds + 1) * len(sides), unit="run", disable=None) as progress:
        for number in range(rounds + 1):
            views = some_views(dice, items, len(sides[0].tokens), count)
            for side in random.sample(sides, len(sides)):
                result = side.measure(number, views)
                progress.update()
                # The first round opens the connections and loads the script.
                if number:
                    yield result


def table(results: list[Result]) -> str:
    """Return the results as a table in Markdown: medians, and from the least to the most."""
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
    parser.add_argument("--sessions", type=int, default=10_000, help="how many are signed in (%(default)s)")
    parser.add_argument("--items", type=int, default=1000, help="how many there are to view (%(default)s)")
    parser.add_argument("--rounds", type=int, default=9, help="how often each way runs (%(default)s)")
    parser.add_argument("--views", type=int, default=2000, help="how many each run records (%(default)s)")
    parser.add_argument("--server", choices=sorted(available()), default="valkey", help="which one (%(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write every run to FILE, and what was counted")
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
