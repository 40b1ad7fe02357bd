"""
The sections of the benchmarks: what each measures, with which engines and how often, and its entries of the JSON file.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from benchmarks import memory, python_cost, rounds, scale, web
from benchmarks.bare import ALL, GET, SCRIPTS
from benchmarks.engines import AGAIN, BASE, ENGINES, OURS
from benchmarks.ratios import paired
from benchmarks.report import load_average
from benchmarks.stores import Servers
from benchmarks.web_servers import PROGRAMS

FEW_ENGINES = (OURS, BASE, "db (SQLite)")

TARGET_ENGINES = (OURS, BASE, AGAIN, SCRIPTS, GET)
TARGET_WAYS = ("cleansessions, excess",)

Results = dict[str, Any]


class Often(NamedTuple):
    """How many rounds a section has."""

    quick: int
    targets: int
    usual: int


ROUNDS = {
    "operations": Often(3, 30, 30),
    "python": Often(5, 40, 40),
    "requests": Often(3, 11, 9),
    "scale": Often(20, 20, 20),
    "cleaning": Often(1, 3, 3),
    "pages": Often(9, 9, 9),
    "views": Often(3, 9, 9),
}
"""By section. Operations have them in each of their blocks: three, or one with --quick."""


@dataclass(frozen=True)
class Options:
    """What to measure. ``binaries`` are the servers' programs by kind. ``rounds`` None: each section has its own."""

    quick: bool
    full: bool
    binaries: dict[str, Path]
    rounds: int | None
    targets: bool = False

    @property
    def first(self) -> str:
        """The kind of server for sections that are measured on one kind."""
        return next(iter(self.binaries))

    @property
    def kinds(self) -> list[str]:
        """The kinds of servers for sections that are measured on all kinds with --targets."""
        return list(self.binaries) if self.targets else [self.first]

    def rounds_of(self, section: str) -> int | None:
        """Return how many rounds a section has, or None if it has no rounds."""
        often = ROUNDS.get(section)
        if often is None:
            return None
        return self.rounds or (often.quick if self.quick else often.targets if self.targets else often.usual)

    def conditions(self, section: str) -> dict[str, Any]:
        """Describe how a section is measured, for the JSON file."""
        how = "quick" if self.quick else "targets" if self.targets else "full" if self.full else "usual"
        return {
            "how": how,
            "rounds": self.rounds_of(section),
            "date": date.today().isoformat(),
            "load_average": load_average(),
        }


def operations(options: Options, results: Results) -> None:
    number = options.rounds_of("operations") or 0
    for kind in [options.first] if options.quick else options.binaries:
        if options.quick:
            # Of the engines with tables only one: making tables takes long.
            engines = [name for name, engine in ALL.items() if not engine.sql or name in FEW_ENGINES]
            found = rounds.measured(kind, engines=engines, repeats=rounds.Repeats(number, count=50, blocks=1))
        else:
            wanted = TARGET_ENGINES if options.targets else tuple(ALL)
            found = rounds.measured(kind, engines=wanted, repeats=rounds.Repeats(number, count=60))
        results["operations"] += found.operations
        results["left_out"] |= found.left_out
        seconds: dict[tuple[str, str], list[float]] = {}
        for run in found.runs:
            seconds.setdefault((run.engine, run.operation), []).append(run.seconds)
        results["bare"] += [
            {"server": kind, "operation": operation, **paired(seconds[OURS, operation], of_bare)._asdict()}
            for (engine, operation), of_bare in seconds.items()
            if engine == SCRIPTS
        ]


def python(options: Options, results: Results) -> None:
    number = options.rounds_of("python") or 0
    results["python"] += python_cost.measured(options.binaries[options.first], rounds=number)


def requests(options: Options, results: Results) -> None:
    for kind in options.kinds:
        _requests(kind, options, results)


def _requests(kind: str, options: Options, results: Results) -> None:
    only_some = options.quick or options.targets
    few: dict[str, Any] = {"views": ("read", "write"), "save_every_request": (False,)} if only_some else {}
    wanted = FEW_ENGINES if options.quick else (OURS, BASE, AGAIN) if options.targets else tuple(ENGINES)
    with closing(Servers(options.binaries[kind], postgres=not only_some)) as servers:
        why_not = {name: web.left_out(name, ENGINES[BASE]) for name in (["gunicorn"] if options.quick else PROGRAMS)}
        programs = [name for name, why in why_not.items() if not why]
        why_not |= {name: ENGINES[name].left_out(servers.stores) for name in wanted}
        engines = [ENGINES[name] for name, why in why_not.items() if name in ENGINES and not why]
        results["left_out"] |= {name: why for name, why in why_not.items() if why}
        if programs:
            load = web.Load(options.rounds_of("requests") or 0)
            entries = web.measured(servers.stores, engines, programs=programs, load=load, **few)
            results["requests"] += [{"server": kind, **entry} for entry in entries]


def sizes_in_bytes(options: Options, results: Results) -> None:
    binaries, sessions, cases = options.binaries, memory.SESSIONS, memory.CASES
    if options.quick:
        binaries, sessions, cases = {options.first: binaries[options.first]}, 500, memory.FEW_CASES
    elif options.targets:
        cases = memory.CASES_OF_TARGETS
    for entry in memory.measured(binaries, sessions=sessions, cases=cases):
        results["bytes"].append(entry)


def scales(options: Options, results: Results) -> None:
    kind, number = options.first, options.rounds_of("scale") or 0
    for engine in (OURS,) if options.targets else (OURS, BASE):
        # Filling the largest store of the other engine would take most of an hour.
        sizes: Sequence[int] = (*scale.SIZES, scale.LARGEST) if options.full and engine == OURS else scale.SIZES
        if options.targets:
            sizes = (scale.SIZES[0], scale.LARGEST)
        results["scale"] += scale.measured(kind, options.binaries[kind], engine, sizes=sizes, rounds=number)


def cleaning(options: Options, results: Results) -> None:
    ways = ["--ways", *TARGET_WAYS] if options.targets else []
    for kind in options.kinds:
        for sessions in (20_000,) if options.quick else scale.SIZES[1:] if options.targets else scale.SIZES:
            result = program(
                "clean", kind, "--sessions", str(sessions), "--rounds", str(options.rounds_of("cleaning")), *ways
            )
            results["cleaning"] += [{"server": kind, "sessions": sessions, **run} for run in result["runs"]]


def pages(options: Options, results: Results) -> None:
    few, *sizes = (*scale.SIZES, scale.LARGEST) if options.full else scale.SIZES
    for many in sizes:
        _pages(few, many, options, results)


def _pages(few: int, many: int, options: Options, results: Results) -> None:
    number = str(options.rounds_of("pages"))
    result = program("pages", options.first, "--small", str(few), "--large", str(many), "--rounds", number)
    pairs: dict[str, list[tuple[float, float]]] = {page: [] for page in result["queries"]}  # In their order.
    for run in result["runs"]:
        pairs[run["page"]].append((run["small"]["ms"], run["large"]["ms"]))
    for page, of_page in pairs.items():
        of_few, of_many = zip(*of_page, strict=True)
        entry = {"server": options.first, "page": page, "few": result["small"], "many": result["large"]}
        middle = {"few_ms": median(of_few), "many_ms": median(of_many)}
        results["pages"].append(entry | paired(of_many, of_few)._asdict() | middle)


def views(options: Options, results: Results) -> None:
    quick = ["--sessions", "1000", "--views", "500"] if options.quick else []
    for kind in options.kinds:
        result = program("views", kind, *quick, "--rounds", str(options.rounds_of("views")))
        results["views"] += [{"server": kind, "sessions": result["sessions"], **run} for run in result["runs"]]


SECTIONS: dict[str, Callable[[Options, Results], None]] = {
    "operations": operations,
    "python": python,
    "requests": requests,
    "bytes": sizes_in_bytes,
    "scale": scales,
    "cleaning": cleaning,
    "pages": pages,
    "views": views,
}
"""By name, in order. Each adds entries to the results as it goes, so that a failure loses none."""

NOT_QUICK = ("scale", "pages")
NOT_TARGETS = ("pages",)
"""The sections that these options leave out: they take long."""


def program(name: str, kind: str, *arguments: str) -> dict[str, Any]:
    """
    Run another benchmark as a program, on this ``kind`` of server, and return its JSON.

    It needs a process of its own: its settings are those of the demo shop, and a process can't change its settings.
    """
    with tempfile.TemporaryDirectory(prefix="redsess-bench-") as folder:
        file = Path(folder) / "result.json"
        command = ["-m", f"benchmarks.{name}", "--server", kind, "--json", str(file), *arguments]
        # Our report has its numbers.
        status = subprocess.run([sys.executable, *command], stdout=subprocess.DEVNULL).returncode
        if status:
            raise RuntimeError(f"benchmarks.{name} ended with {status}")
        result: dict[str, Any] = json.loads(file.read_text())
    return result
