"""
The sections of the benchmarks: what each measures, with which engines and how often, and its entries of the JSON file.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from benchmarks import memory, pages, python_cost, rounds, scale, web
from benchmarks.engines import AGAIN, BASE, BOUND, ENCRYPTED, ENGINES, OURS, PARTITIONED
from benchmarks.stores import Servers
from benchmarks.web_servers import PROGRAMS

TARGET_ENGINES = (OURS, BASE, AGAIN)
COMPARED = (*TARGET_ENGINES, PARTITIONED, ENCRYPTED, BOUND)
"""The engines of the section operations with --targets: ours is also measured with other kinds of sessions."""

Results = dict[str, Any]


ROUNDS = {"operations": (3, 30), "python": (5, 40), "requests": (3, 11), "scale": (20, 20), "pages": (9, 9)}
"""By section: how many with --quick, and without. Operations have them in each of their three blocks, or in one."""


@dataclass(frozen=True)
class Options:
    """What to measure. ``binaries`` are the servers' programs by kind. ``rounds`` None: each section has its own."""

    quick: bool
    targets: bool
    binaries: dict[str, Path]
    rounds: int | None = None

    @property
    def first(self) -> str:
        """The kind of server for sections that are measured on one kind."""
        return next(iter(self.binaries))

    def rounds_of(self, section: str) -> int:
        """Return how many rounds a section has: 0 if it has none."""
        quick, usual = ROUNDS.get(section, (0, 0))
        return usual and (self.rounds or (quick if self.quick else usual))

    def conditions(self, section: str) -> dict[str, Any]:
        """Describe how a section is measured, for the JSON file."""
        how = "quick" if self.quick else "targets" if self.targets else "usual"
        return {"how": how, "rounds": self.rounds_of(section), "load_average": os.getloadavg()[0]}


def operations(options: Options, results: Results) -> None:
    repeats = rounds.Repeats(options.rounds_of("operations"), count=60)
    if options.quick:
        repeats = rounds.Repeats(repeats.rounds, count=50, blocks=1)
    for kind in [options.first] if options.quick else options.binaries:
        found = rounds.measured(kind, engines=COMPARED if options.targets else tuple(ENGINES), repeats=repeats)
        results["operations"] += found.operations
        results["left_out"] |= found.left_out


def python(options: Options, results: Results) -> None:
    binary = options.binaries[options.first]
    results["python"] += python_cost.measured(binary, rounds=options.rounds_of("python"))


def requests(options: Options, results: Results) -> None:
    why_not = {name: web.left_out(name) for name in (["gunicorn"] if options.quick else PROGRAMS)}
    programs = [name for name, why in why_not.items() if not why]
    results["left_out"] |= {name: why for name, why in why_not.items() if why}
    engines = [ENGINES[name] for name in TARGET_ENGINES]
    for kind, binary in (
        options.binaries.items() if options.targets else [(options.first, options.binaries[options.first])]
    ):
        with closing(Servers(binary)) as servers:
            if programs:
                number = options.rounds_of("requests")
                entries = web.measured(servers.stores, engines, programs=programs, rounds=number)
                results["requests"] += [{"server": kind, **entry} for entry in entries]


def sizes_in_bytes(options: Options, results: Results) -> None:
    binaries, sessions, cases = options.binaries, memory.SESSIONS, memory.CASES
    if options.quick:
        binaries, sessions, cases = {options.first: binaries[options.first]}, 500, memory.FEW_CASES
    elif options.targets:
        cases = memory.CASES_OF_TARGETS
    results["bytes"] += memory.measured(binaries, sessions=sessions, cases=cases)


def scales(options: Options, results: Results) -> None:
    kind, number = options.first, options.rounds_of("scale")
    many = scale.MOST if options.targets else scale.MANY
    results["scale"] += scale.measured(kind, options.binaries[kind], many=many, rounds=number)


def admin_pages(options: Options, results: Results) -> None:
    # In a process of its own: its settings are those of the demo shop, and a process can't change its settings.
    with ProcessPoolExecutor(1, get_context("spawn")) as process:
        binary, number = options.binaries[options.first], options.rounds_of("pages")
        results["pages"] += process.submit(pages.measured, options.first, binary, rounds=number).result()


SECTIONS: dict[str, Callable[[Options, Results], None]] = {
    "operations": operations,
    "python": python,
    "requests": requests,
    "bytes": sizes_in_bytes,
    "scale": scales,
    "pages": admin_pages,
}
"""By name, in order. Each adds entries to the results as it goes, so that a failure loses none."""

NOT_QUICK = ("scale", "pages")
"""The sections that --quick leaves out: they take long."""
