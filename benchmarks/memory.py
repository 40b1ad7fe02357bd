"""
Measure how many bytes of the server's memory a session takes.

Sessions are stored through each engine's own ``save()``, all with the same data: a guest has a basket, a user has what
Django's ``login()`` writes. Each session has a user, an address and a key of its own. The memory of a session is the
difference in ``used_memory`` of ``INFO memory`` between two sizes of the store, one twice the other. So what is there
once (scripts, connections, the first tables) is not counted. Hash tables double their size from time to time. So the
result is the mean of four such differences, with sizes spread evenly between one doubling and the next.

If a case names a size, a power of two, the result is the mean memory in a store of that size, compared with a store of
a 128th, whose tables are as full. It can be compared with earlier measurements at that size.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import closing
from functools import partial
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

import django
import redis
from django.conf import settings
from tqdm import tqdm

from benchmarks.engines import BASE, ENGINES, OURS, REDIS_SESSIONS
from benchmarks.fill import ITEMS, SESSION
from benchmarks.stores import Servers, Stores

SESSIONS = 10_000
"""The smallest size; the largest is 3.4 times as much."""

DIFFERENCES = 4

AT = 131_072
"""The size of the store in targets."""

PEERS = (BASE, "cache (Django's own Redis cache)", REDIS_SESSIONS)
"""The other engines that keep sessions only in Redis. They have no viewed items."""

USER_AGENTS = [
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/141.0.0.0 Safari/537.36",
    "Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/141.0.0.0 Mobile Safari/537.36",
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:143.0) Gecko/20100101 Firefox/143.0",
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) "
    "Chrome/140.0.0.0 Safari/537.36 Edg/140.0.0.0",
]
"""With 107 bytes on average."""


class Case(NamedTuple):
    """
    Which sessions to measure.

    ``kind`` is ``"guest"`` or ``"signed in"``, ``viewed`` how many items each viewed. ``at`` is the size of the store,
    a power of two; 0 is the mean of several sizes.
    """

    engine: str
    kind: str
    viewed: int = 0
    at: int = 0


CASES_OF_TARGETS = tuple(Case(OURS, kind, at=AT) for kind in ("guest", "signed in"))
CASES = (
    *CASES_OF_TARGETS,
    *(Case(OURS, kind, viewed) for kind in ("guest", "signed in") for viewed in (0, 5, 25)),
    *(Case(peer, kind) for peer in PEERS for kind in ("guest", "signed in")),
)
FEW_CASES = tuple(
    case for case in CASES if case.engine in (OURS, BASE) and not case.at and (case.viewed == 0 or case.kind != "guest")
)


def measured(
    binaries: Mapping[str, Path], *, sessions: int = SESSIONS, cases: Sequence[Case] = CASES
) -> Iterator[dict[str, Any]]:
    """
    Measure each of ``cases`` on a new server of each kind, and yield the entries of "bytes".

    ``binaries`` are the servers' programs by kind, ``sessions`` is the smallest size of a store. Engines that can't be
    measured here are left out. A progress bar is on stderr, if that is a terminal.
    """
    wanted = [(kind_of_server, case) for kind_of_server in binaries for case in cases]

    def entry_of(kind_of_server: str, case: Case) -> dict[str, Any] | None:
        with closing(Servers(binaries[kind_of_server])) as servers:
            if ENGINES[case.engine].left_out():
                return None
            return {"server": kind_of_server, **case._asdict(), "bytes": round(_bytes(servers, case, sessions), 1)}

    # Several at once: no time is measured.
    with ThreadPoolExecutor(os.cpu_count()) as together:
        entries = together.map(entry_of, *zip(*wanted, strict=True))
        yield from filter(None, tqdm(entries, total=len(wanted), unit="case", desc="bytes", disable=None))


def _bytes(servers: Servers, case: Case, sessions: int) -> float:
    firsts = [round(sessions * 2 ** (step / DIFFERENCES)) for step in range(DIFFERENCES)]
    pairs = [(case.at // 128, case.at)] if case.at else [(first, 2 * first) for first in firsts]
    sizes = [*(few for few, _ in pairs), *(many for _, many in pairs)]
    taken, stored = {}, 0
    # Each engine needs a process of its own: a process can't change its settings.
    with ProcessPoolExecutor(1, get_context("spawn"), _configure, (case, servers.stores)) as process:
        for size in sizes:
            process.submit(_add, case, stored, size).result()
            taken[size], stored = _used(servers.redis.client), size
    return mean((taken[many] - taken[few]) / (many - few) for few, many in pairs)


def _used(client: redis.Redis) -> int:
    # Buffers of connections are not part of the store. Clients connect again when they need to.
    client.client_kill_filter(_type="normal", skipme=True)
    before, now = -1, int(client.info("memory")["used_memory"])
    while now != before:  # The server frees memory a little later.
        time.sleep(0.05)
        before, now = now, int(client.info("memory")["used_memory"])
    return now


def _configure(case: Case, stores: Stores) -> None:
    settings.configure(**ENGINES[case.engine].settings(stores))
    django.setup()


def _add(case: Case, first: int, last: int) -> None:
    from django_redis import get_redis_connection

    from django_redsess.session.client import Client
    from django_redsess.session.state import Visit
    from django_redsess.transport.keys import keyspace

    engine = import_module(settings.SESSION_ENGINE)
    now = int(time.time() * 1000)
    for number in range(first, last):
        session = engine.SessionStore()
        if case.engine == OURS:
            # 198.18.0.0/15 is reserved for benchmarks.
            address = f"198.{18 + (number >> 16) % 2}.{(number >> 8) % 256}.{number % 256}"
            session.visit = Visit(partial(Client, address, USER_AGENTS[number % len(USER_AGENTS)]))
        session.update(_data(case.kind, number))
        session.save()
        if case.viewed:  # As the engine stores viewed items, but without counting them.
            items = {ITEMS[(number + more) % len(ITEMS)]: now + more for more in range(case.viewed)}
            connection = get_redis_connection(settings.SESSION_CACHE_ALIAS)
            connection.zadd(keyspace().of_sid(session.sid).viewed_by(session.sid), items)


def _data(kind: str, number: int) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(SESSION % (number + 1, random.randbytes(32).hex()))
    basket = data.pop("basket")
    return {"basket": basket} if kind == "guest" else data
