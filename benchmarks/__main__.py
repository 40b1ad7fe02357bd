"""
Compare this session engine with what a site would have instead, on this machine: ``make bench``.

sections:
  operations   load, load again, change, create, sign in, end and view: every engine, and a bare socket
  python       functions called for a load and a save, and how long they run
  requests     a small site under gunicorn and uvicorn, with wrk
  bytes        what a session takes in the server
  scale        operations with few sessions and with a million
  cleaning     sessions taken out, beside the loop of Redis in Action
  pages        the admin's pages with few sessions and with a million
  views        page views recorded, beside update_token of Redis in Action

A full run takes hours; --targets takes what there are targets for (see targets.py), with the engines that these
compare, on all kinds of servers, in less than half an hour and 7 GB of memory. Let the machine do nothing else. Results
are written after each section: results.json with all numbers, results.md with tables and targets, results.svg with a
chart. What is not the whole (--quick, --only) is written to a temporary folder, unless --output names one. Sections
that a folder has already, from the same machine, stay as they are while others are measured; each says how often it was
measured, and when. One that fails is reported at the end, with exit status 1.

examples:
  python -m benchmarks                                 all sections
  python -m benchmarks --quick                         a quick look, in less than two minutes
  python -m benchmarks --targets                       all that there are targets for, into benchmarks/results
  python -m benchmarks --only operations bytes         two sections
  python -m benchmarks --only scale --output benchmarks/results     one section anew, the others as they are there
  python -m benchmarks --full --only scale             up to ten million sessions: about 10 GB of memory
  QUICK=1 make bench ARGS="--server redis"             the same from make
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from benchmarks import memory, python_cost, rounds, scale, web
from benchmarks.bare import ALL, GET, SCRIPTS
from benchmarks.chart import chart
from benchmarks.engines import AGAIN, BASE, ENGINES, FLOOR, OURS
from benchmarks.ratios import paired
from benchmarks.report import machine, markdown
from benchmarks.stores import Servers
from testproject.servers import available

RESULTS = Path(__file__).parent / "results"
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
"""By section. Operations have them in each of their three blocks, or in their one where it is to be quick."""


@dataclass(frozen=True)
class Options:
    """What to measure: ``binaries`` are programs of servers by kind, ``rounds`` is None for each section's own."""

    quick: bool
    full: bool
    binaries: dict[str, Path]
    rounds: int | None
    targets: bool = False

    @property
    def first(self) -> str:
        """The kind of server for what is measured on one only."""
        return next(iter(self.binaries))

    @property
    def kinds(self) -> list[str]:
        """The kinds of servers for what is measured on all where there are targets for each."""
        return list(self.binaries) if self.targets else [self.first]

    def rounds_of(self, section: str) -> int | None:
        """Return how many rounds a section has; None where it has none."""
        often = ROUNDS.get(section)
        if often is None:
            return None
        return self.rounds or (often.quick if self.quick else often.targets if self.targets else often.usual)

    def told(self, section: str) -> dict[str, Any]:
        """Describe how a section is measured, for the JSON file."""
        how = "quick" if self.quick else "targets" if self.targets else "full" if self.full else "usual"
        return {"how": how, "rounds": self.rounds_of(section), "date": date.today().isoformat()}


def operations(options: Options, results: Results) -> None:
    number = options.rounds_of("operations") or 0
    for kind in [options.first] if options.quick else options.binaries:
        if options.quick:
            # One of those with tables, which take time to make.
            engines = [name for name, engine in ALL.items() if not engine.sql or name in FEW_ENGINES]
            found = rounds.measured(kind, engines=engines, rounds=number, count=50, blocks=1)
        else:
            wanted = TARGET_ENGINES if options.targets else tuple(ALL)
            found = rounds.measured(kind, engines=wanted, rounds=number, count=60)
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
        why_not = {
            name: web.left_out(name, ENGINES[BASE]) for name in (["gunicorn"] if options.quick else web.PROGRAMS)
        }
        programs = [name for name, why in why_not.items() if not why]
        why_not |= {name: ENGINES[name].left_out(servers.stores) for name in wanted}
        engines = [ENGINES[name] for name, why in why_not.items() if name in ENGINES and not why]
        results["left_out"] |= {name: why for name, why in why_not.items() if why}
        if programs:
            number = options.rounds_of("requests") or 0
            entries = web.measured(servers.stores, engines, programs=programs, rounds=number, **few)
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
        # A store of theirs would take most of an hour to fill with the most.
        sizes: Sequence[int] = (*scale.SIZES, scale.LARGEST) if options.full and engine == OURS else scale.SIZES
        if options.targets:
            sizes = (scale.SIZES[0], scale.LARGEST)
        results["scale"] += scale.measured(kind, options.binaries[kind], engine, sizes=sizes, rounds=number)


def cleaning(options: Options, results: Results) -> None:
    ways = ["--ways", *TARGET_WAYS] if options.targets else []
    for kind in options.kinds:
        for sessions in (20_000,) if options.quick else scale.SIZES[1:] if options.targets else scale.SIZES:
            told = program(
                "clean", kind, "--sessions", str(sessions), "--rounds", str(options.rounds_of("cleaning")), *ways
            )
            results["cleaning"] += [{"server": kind, "sessions": sessions, **run} for run in told["runs"]]


def pages(options: Options, results: Results) -> None:
    few, *sizes = (*scale.SIZES, scale.LARGEST) if options.full else scale.SIZES
    for many in sizes:
        _pages(few, many, options, results)


def _pages(few: int, many: int, options: Options, results: Results) -> None:
    number = str(options.rounds_of("pages"))
    told = program("pages", options.first, "--small", str(few), "--large", str(many), "--rounds", number)
    pairs: dict[str, list[tuple[float, float]]] = {page: [] for page in told["queries"]}  # In their order.
    for run in told["runs"]:
        pairs[run["page"]].append((run["small"]["ms"], run["large"]["ms"]))
    for page, of_page in pairs.items():
        of_few, of_many = zip(*of_page, strict=True)
        entry = {"server": options.first, "page": page, "few": told["small"], "many": told["large"]}
        middle = {"few_ms": median(of_few), "many_ms": median(of_many)}
        results["pages"].append(entry | paired(of_many, of_few)._asdict() | middle)


def views(options: Options, results: Results) -> None:
    quick = ["--sessions", "1000", "--views", "500"] if options.quick else []
    for kind in options.kinds:
        told = program("views", kind, *quick, "--rounds", str(options.rounds_of("views")))
        results["views"] += [{"server": kind, "sessions": told["sessions"], **run} for run in told["runs"]]


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
"""By name, in order: each adds its entries to the results, so that those before a failure are kept."""

NOT_QUICK = ("scale", "pages")
NOT_TARGETS = ("pages",)
"""What takes long, and is not changed by what the targets are about."""


def program(name: str, kind: str, *arguments: str) -> dict[str, Any]:
    """
    Run another of these benchmarks as the program that it is, on this ``kind`` of server; return its JSON.

    In a process of its own, since its settings are those of the demo shop, and settings hold for the life of one.
    """
    with tempfile.TemporaryDirectory(prefix="redsess-bench-") as folder:
        file = Path(folder) / "told.json"
        command = ["-m", f"benchmarks.{name}", "--server", kind, "--json", str(file), *arguments]
        # Its report is part of ours.
        status = subprocess.run([sys.executable, *command], stdout=subprocess.DEVNULL).returncode
        if status:
            raise RuntimeError(f"benchmarks.{name} ended with {status}")
        told: dict[str, Any] = json.loads(file.read_text())
    return told


def write(results: Results, folder: Path) -> None:
    """Write the files of what is known so far."""
    (folder / "results.json").write_text(json.dumps(results, indent=2) + "\n")
    (folder / "results.md").write_text(markdown(results))
    rows = results["operations"]
    # What a site might have, and not what is there to read the numbers by.
    engines = {*ENGINES} - {AGAIN, FLOOR}
    drawn = [row for row in rows if row["server"] == rows[0]["server"] and row["engine"] in engines]
    (folder / "results.svg").write_text(chart(drawn, base=BASE, ours=OURS))


def kept(folder: Path, here: dict[str, Any], wanted: Sequence[str]) -> Results:
    """Return what ``folder`` has of sections not ``wanted`` now, if it is of the machine ``here``."""
    file = folder / "results.json"
    before: Results = json.loads(file.read_text()) if file.exists() else {}
    same = before.get("machine") == here
    anew = {*wanted, "bare"} if "operations" in wanted else set(wanted)
    sections = {name: before.get(name, []) if same and name not in anew else [] for name in (*SECTIONS, "bare")}
    how = {name: options for name, options in before["options"].items() if name not in wanted} if same else {}
    return {"left_out": before["left_out"] if same else {}, "options": how, **sections}


def parsed(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the options, from the command line where no ``arguments`` are given, and refuse what can't be done."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="few of everything, no scale or pages (also: QUICK=1)")
    parser.add_argument(
        "--targets", action="store_true", help="only what there are targets for, and the engines that these compare"
    )
    parser.add_argument(
        "--full", action="store_true", help="up to ten million sessions of ours in scale and pages (FULL=1)"
    )
    parser.add_argument("--server", choices=sorted(available()), help="one kind of server (all that are here)")
    parser.add_argument("--only", nargs="+", choices=SECTIONS, metavar="SECTION", help="these sections only")
    parser.add_argument("--rounds", type=int, help="how often each is measured (each section has its own number)")
    parser.add_argument("--output", type=Path, metavar="FOLDER", help="where to write (benchmarks/results)")
    options = parser.parse_args(arguments)
    options.quick |= os.environ.get("QUICK", "") not in ("", "0")
    options.full |= os.environ.get("FULL", "") not in ("", "0")
    modes = [f"--{name}" for name in ("quick", "full", "targets") if getattr(options, name)]
    if len(modes) > 1:
        parser.error(f"{' and '.join(modes)} exclude each other")
    if options.rounds is not None and options.rounds < 1:
        parser.error("--rounds must be at least 1")
    if options.output and options.output.exists() and not options.output.is_dir():
        parser.error(f"--output: {options.output} is no folder")
    for section in options.only or ():
        for mode, without in (("quick", NOT_QUICK), ("targets", NOT_TARGETS)):
            if getattr(options, mode) and section in without:
                parser.error(f"--only: {section} is not part of --{mode}")
    return options


def main() -> None:
    told = parsed()
    binaries = {kind: binary for kind, binary in available().items() if told.server in (None, kind)}
    options = Options(told.quick, told.full, binaries, told.rounds, told.targets)
    without = NOT_QUICK if told.quick else NOT_TARGETS if told.targets else ()
    wanted = [name for name in SECTIONS if name in (told.only or SECTIONS) and name not in without]
    is_whole = not told.quick and told.only is None
    folder = told.output or (RESULTS if is_whole else Path(tempfile.mkdtemp(prefix="redsess-bench-")))
    folder.mkdir(parents=True, exist_ok=True)

    results: Results = {
        "machine": machine(binaries),
        "date": date.today().isoformat(),
        "failed": {},
        **kept(folder, machine(binaries), wanted),
    }
    for name in wanted:
        print(f"{name} …", file=sys.stderr)
        try:
            SECTIONS[name](options, results)
        except Exception as error:
            traceback.print_exc()
            results["failed"][name] = f"{type(error).__name__}: {error}".splitlines()[0]
        results["options"][name] = options.told(name)
        write(results, folder)
    print(markdown(results))
    print(f"Written: results.json, results.md and results.svg in {folder}")
    for name, why in results["failed"].items():
        print(f"{name} failed: {why}", file=sys.stderr)
    sys.exit(1 if results["failed"] else 0)


if __name__ == "__main__":
    main()
