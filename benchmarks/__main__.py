"""
Compare this session engine with what a site would have instead, on this machine: ``make bench``.

sections:
  operations   load, load again, change, create, sign in, end and view: every engine, and a bare socket
  requests     a small site under gunicorn and uvicorn, with wrk
  bytes        what a session takes in the server
  scale        operations with few sessions and with a million
  cleaning     sessions taken out, beside the loop of Redis in Action
  pages        the admin's pages with few sessions and with a million
  views        page views recorded, beside update_token of Redis in Action

A full run takes hours; let the machine do nothing else meanwhile. Results are written after each section: results.json
with all numbers, results.md with tables and targets, results.svg with a chart. What is not the whole (--quick, --only)
is written to a temporary folder, unless --output names one. Sections that a folder has already, from the same machine,
stay as they are while others are measured. One that fails is reported at the end, with exit status 1.

examples:
  python -m benchmarks                                 all sections
  python -m benchmarks --quick                         a quick look, in less than two minutes
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
from typing import Any

from benchmarks import memory, rounds, scale, web
from benchmarks.bare import ALL, SCRIPTS
from benchmarks.chart import chart
from benchmarks.engines import AGAIN, BASE, ENGINES, FLOOR, OURS
from benchmarks.ratios import paired
from benchmarks.report import machine, markdown
from benchmarks.stores import Servers
from testproject.servers import available

RESULTS = Path(__file__).parent / "results"
FEW_ENGINES = (OURS, BASE, "db (SQLite)")

Results = dict[str, Any]


@dataclass(frozen=True)
class Options:
    """What to measure: ``binaries`` are programs of servers by kind, ``rounds`` is None for each section's own."""

    quick: bool
    full: bool
    binaries: dict[str, Path]
    rounds: int | None

    @property
    def first(self) -> str:
        """The kind of server for what is measured on one only."""
        return next(iter(self.binaries))

    def rounds_or(self, quick: int, usual: int) -> int:
        return self.rounds or (quick if self.quick else usual)


def operations(options: Options, results: Results) -> None:
    for kind in [options.first] if options.quick else options.binaries:
        if options.quick:
            # One of those with tables, which take time to make.
            engines = [name for name, engine in ALL.items() if not engine.sql or name in FEW_ENGINES]
            found = rounds.measured(kind, engines=engines, rounds=options.rounds_or(3, 3), count=50, blocks=1)
        else:
            found = rounds.measured(kind, rounds=options.rounds_or(30, 30), count=60)
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


def requests(options: Options, results: Results) -> None:
    few: dict[str, Any] = {"views": ("read", "write"), "save_every_request": (False,)}
    with closing(Servers(options.binaries[options.first], postgres=not options.quick)) as servers:
        why_not = {
            name: web.left_out(name, ENGINES[BASE]) for name in (["gunicorn"] if options.quick else web.PROGRAMS)
        }
        programs = [name for name, why in why_not.items() if not why]
        why_not |= {
            name: ENGINES[name].left_out(servers.stores) for name in (FEW_ENGINES if options.quick else ENGINES)
        }
        engines = [ENGINES[name] for name, why in why_not.items() if name in ENGINES and not why]
        results["left_out"] |= {name: why for name, why in why_not.items() if why}
        if programs:
            results["requests"] += web.measured(
                servers.stores,
                engines,
                programs=programs,
                rounds=options.rounds_or(3, 9),
                **(few if options.quick else {}),
            )


def sizes_in_bytes(options: Options, results: Results) -> None:
    binaries, sessions, cases = options.binaries, memory.SESSIONS, memory.CASES
    if options.quick:
        binaries, sessions, cases = {options.first: binaries[options.first]}, 500, memory.FEW_CASES
    for entry in memory.measured(binaries, sessions=sessions, cases=cases):
        results["bytes"].append(entry)


def scales(options: Options, results: Results) -> None:
    kind, number = options.first, options.rounds_or(20, 20)
    for engine in (OURS, BASE):
        # A store of theirs would take most of an hour to fill with the most.
        sizes = (*scale.SIZES, scale.LARGEST) if options.full and engine == OURS else scale.SIZES
        results["scale"] += scale.measured(kind, options.binaries[kind], engine, sizes=sizes, rounds=number)


def cleaning(options: Options, results: Results) -> None:
    for sessions in (20_000,) if options.quick else scale.SIZES:
        number = options.rounds_or(1, 3)
        told = program("clean", options, "--sessions", str(sessions), "--rounds", str(number))
        results["cleaning"] += [{"server": options.first, "sessions": sessions, **run} for run in told["runs"]]


def pages(options: Options, results: Results) -> None:
    few, *sizes = (*scale.SIZES, scale.LARGEST) if options.full else scale.SIZES
    for many in sizes:
        _pages(few, many, options, results)


def _pages(few: int, many: int, options: Options, results: Results) -> None:
    number = options.rounds_or(9, 9)
    told = program("pages", options, "--small", str(few), "--large", str(many), "--rounds", str(number))
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
    told = program("views", options, *quick, "--rounds", str(options.rounds_or(3, 9)))
    results["views"] += [{"server": options.first, "sessions": told["sessions"], **run} for run in told["runs"]]


SECTIONS: dict[str, Callable[[Options, Results], None]] = {
    "operations": operations,
    "requests": requests,
    "bytes": sizes_in_bytes,
    "scale": scales,
    "cleaning": cleaning,
    "pages": pages,
    "views": views,
}
"""By name, in order: each adds its entries to the results, so that those before a failure are kept."""

NOT_QUICK = ("scale", "pages")


def program(name: str, options: Options, *arguments: str) -> dict[str, Any]:
    """
    Run another of these benchmarks as the program that it is, and return what it writes as JSON.

    In a process of its own, since its settings are those of the demo shop, and settings hold for the life of one.
    """
    with tempfile.TemporaryDirectory(prefix="redsess-bench-") as folder:
        file = Path(folder) / "told.json"
        command = ["-m", f"benchmarks.{name}", "--server", options.first, "--json", str(file), *arguments]
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
    sections = {name: before[name] if same and name not in anew else [] for name in (*SECTIONS, "bare")}
    how = {name: options for name, options in before["options"].items() if name not in wanted} if same else {}
    return {"left_out": before["left_out"] if same else {}, "options": how, **sections}


def parsed(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the options, from the command line where no ``arguments`` are given, and refuse what can't be done."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="few of everything, no scale or pages (also: QUICK=1)")
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
    if options.quick and options.full:
        parser.error("--quick and --full exclude each other")
    if options.rounds is not None and options.rounds < 1:
        parser.error("--rounds must be at least 1")
    if options.output and options.output.exists() and not options.output.is_dir():
        parser.error(f"--output: {options.output} is no folder")
    if options.quick:
        for section in NOT_QUICK:
            if section in (options.only or ()):
                parser.error(f"--only: {section} is not part of --quick")
    return options


def main() -> None:
    told = parsed()
    binaries = {kind: binary for kind, binary in available().items() if told.server in (None, kind)}
    options = Options(told.quick, told.full, binaries, told.rounds)
    wanted = [name for name in SECTIONS if name in (told.only or SECTIONS) and not (told.quick and name in NOT_QUICK)]
    is_whole = not told.quick and told.only is None
    folder = told.output or (RESULTS if is_whole else Path(tempfile.mkdtemp(prefix="redsess-bench-")))
    folder.mkdir(parents=True, exist_ok=True)

    results: Results = {
        "machine": machine(binaries),
        "date": date.today().isoformat(),
        "failed": {},
        **kept(folder, machine(binaries), wanted),
    }
    results["options"] |= {name: {"quick": told.quick, "full": told.full, "rounds": told.rounds} for name in wanted}
    for name in wanted:
        print(f"{name} …", file=sys.stderr)
        try:
            SECTIONS[name](options, results)
        except Exception as error:
            traceback.print_exc()
            results["failed"][name] = f"{type(error).__name__}: {error}".splitlines()[0]
        write(results, folder)
    print(markdown(results))
    print(f"Written: results.json, results.md and results.svg in {folder}")
    for name, why in results["failed"].items():
        print(f"{name} failed: {why}", file=sys.stderr)
    sys.exit(1 if results["failed"] else 0)


if __name__ == "__main__":
    main()
