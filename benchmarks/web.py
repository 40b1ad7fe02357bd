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
from dataclasses import dataclass
from functools import partial
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


def left_out(program: str, engine: Engine, *, workers: int = 1) -> str:
    """Return why ``engine`` can't be measured under ``program`` here, apart from its stores, or ``""`` if it can."""
    if shutil.which("wrk") is None:
        return "wrk is not installed"
    if find_spec(program) is None:
        return f"{program} is not installed"
    if engine.session_engine == "benchmarks.floor" and workers > 1:
        return "each process would have sessions of its own"
    return ""


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


@dataclass(frozen=True)
class Load:
    """
    How much each site is loaded.

    In each of the ``rounds``, each view is loaded for this number of ``seconds`` from this number of ``connections``,
    with this number of ``sessions``. ``workers`` is the number of processes of a site.
    """

    rounds: int = 9
    seconds: int = 1
    sessions: int = 100
    connections: int = 4
    workers: int = 1


USUAL = Load()

Speeds = dict[tuple[str, str], list[float]]
"""Requests a second, in each round, by view and engine."""


def measured(
    stores: Stores,
    engines: Sequence[Engine],
    *,
    programs: Sequence[str] = tuple(PROGRAMS),
    views: Sequence[str] = tuple(VIEWS),
    save_every_request: Sequence[bool] = (False, True),
    load: Load = USUAL,
) -> list[dict[str, Any]]:
    """
    Load the ``views`` of the sites of ``engines``, under each of the web servers ``programs``.

    ``stores``: where sessions and users are. ``engines``: the base among them, and none for which :func:`left_out` or
    the engine itself has a reason. ``save_every_request``: the values of Django's setting, each with its own sites.

    Returns the entries of "requests", ordered by web server and value of the setting, then by view, then by engine. A
    ratio above 1 is better than the base. Raises WebError if a site does not answer as it must.
    """
    if BASE not in [engine.name for engine in engines]:
        raise ValueError(f"nothing to compare with: {BASE} is missing")
    entries = []
    sets = list(product(programs, save_every_request))
    runs = len(sets) * load.rounds * len(views) * len(engines)
    prepare(engines, stores, load.sessions)
    with (
        tempfile.TemporaryDirectory(prefix="redsess-bench-") as folder,
        tqdm(total=runs, unit="run", desc="requests", disable=None) as progress,
    ):
        for program, every in sets:
            site = partial(
                Site, program, stores=stores, folder=Path(folder), save_every_request=every, workers=load.workers
            )
            with ExitStack() as started:
                sites = [started.enter_context(closing(site(engine))) for engine in engines]
                speeds = _speeds(sites, views, load, progress)
            entries += [
                {"server_program": program, "view": view, "save_every_request": every, **_entry(engine, view, speeds)}
                for view, engine in product(views, engines)
            ]
    return entries


def _speeds(sites: Sequence[Site], views: Sequence[str], load: Load, progress: tqdm[Any]) -> Speeds:
    for site in sites:
        site.wait()
        site.sign_in(load.sessions)
    speeds: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    for _ in range(load.rounds):
        for view in views:
            for site in random.sample(sites, len(sites)):
                speed = site.load(view, seconds=load.seconds, connections=load.connections)
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
