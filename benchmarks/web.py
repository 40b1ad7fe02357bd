"""
Measure how many requests a second a small site (``site.py``) answers with each session engine.

The site runs under gunicorn with a synchronous worker, and its asynchronous views under uvicorn. Each engine has a web
server of its own, and all of them run all the time. wrk loads one at a time, from a few connections; each request has
another one of many signed-in sessions. In a round each engine is loaded for a short time, in random order. A ratio
compares the requests a second of one round. An answer other than 200 stops the measurement with an error. A synchronous
worker of gunicorn closes the connection after each answer; uvicorn keeps it.

Connections to databases are persistent under gunicorn, as on most such sites. Under uvicorn they last for one request,
as Django's documentation recommends.
"""

from __future__ import annotations

import random
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from contextlib import ExitStack, closing
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

from tqdm import tqdm

from benchmarks.engines import BASE, Engine
from benchmarks.ratios import paired
from benchmarks.site import VIEWS, described
from benchmarks.stores import Stores
from benchmarks.web_servers import PROGRAMS, Process, Site


def left_out(program: str) -> str:
    """Return why nothing can be measured under ``program`` here, or ``""`` if it can."""
    if shutil.which("wrk") is None:
        return "wrk is not installed"
    return "" if find_spec(program) else f"{program} is not installed"


def prepare(engines: Sequence[Engine], stores: Stores, users: int) -> None:
    """Make the tables and ``users`` of each site, before it starts."""
    with ExitStack() as started:
        for process in [
            started.enter_context(
                closing(Process(engine.name, ["-m", "benchmarks.site", str(users)], described(engine.name, stores)))
            )
            for engine in engines
        ]:
            if process.popen.wait():
                raise process.ended()


SESSIONS, CONNECTIONS, SECONDS = 100, 4, 1
"""How many sessions a site has, how many connections it is loaded from, and how long each time."""

Speeds = dict[tuple[str, str], list[float]]
"""Requests a second, in each round, by view and engine."""


def measured(
    stores: Stores,
    engines: Sequence[Engine],
    *,
    programs: Sequence[str] = tuple(PROGRAMS),
    views: Sequence[str] = tuple(VIEWS),
    rounds: int = 9,
) -> list[dict[str, Any]]:
    """
    Load the ``views`` of the sites of ``engines`` in each of these ``rounds``, under each of ``programs``.

    ``stores``: where sessions and users are. ``engines``: the base among them, and none that must be left out here.

    Returns the entries of "requests", ordered by web server, then by view, then by engine. A ratio above 1 is better
    than the base. Raises WebError if a site does not answer as it must.
    """
    if BASE not in [engine.name for engine in engines]:
        raise ValueError(f"nothing to compare with: {BASE} is missing")
    entries = []
    runs = len(programs) * rounds * len(views) * len(engines)
    prepare(engines, stores, SESSIONS)
    with (
        tempfile.TemporaryDirectory(prefix="redsess-bench-") as folder,
        tqdm(total=runs, unit="run", desc="requests", disable=None) as progress,
    ):
        for program in programs:
            with ExitStack() as started:
                sites = [
                    started.enter_context(closing(Site(program, engine, stores, Path(folder)))) for engine in engines
                ]
                speeds = _speeds(sites, views, rounds, progress)
            entries += [
                {"server_program": program, "view": view, **_entry(engine, view, speeds)}
                for view, engine in product(views, engines)
            ]
    return entries


def _speeds(sites: Sequence[Site], views: Sequence[str], rounds: int, progress: tqdm[Any]) -> Speeds:
    for site in sites:
        site.wait()
        site.sign_in(SESSIONS)
    speeds: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    for _ in range(rounds):
        for view in views:
            for site in random.sample(sites, len(sites)):
                speed = site.load(view, seconds=SECONDS, connections=CONNECTIONS)
                speeds[view, site.engine.name].append(speed)
                progress.update()
    return speeds


def _entry(engine: Engine, view: str, speeds: Speeds) -> dict[str, Any]:
    of_engine = speeds[view, engine.name]
    return {
        "engine": engine.name,
        **paired(of_engine, speeds[view, BASE])._asdict(),
        "requests_per_second": median(of_engine),
    }
