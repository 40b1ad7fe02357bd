"""
Compare this session engine with others on this machine: ``make bench``.

sections:
  operations   load, load again, change, create, sign in, end and view: every engine, and a bare socket
  python       the functions that a load and a save call, and the time that they take
  requests     a small site under gunicorn and uvicorn, with wrk
  bytes        the memory of the server that a session takes
  scale        operations with few sessions and with a million
  cleaning     removing sessions, beside the loop of Redis in Action
  pages        the admin's pages with few sessions and with a million
  views        recording page views, beside update_token of Redis in Action

A full run takes hours. With --targets, only what has a target is measured (see targets.py), on all kinds of servers, in
less than half an hour and 7 GB of memory. Let the machine do nothing else.

Results are written after each section: results.json has all numbers, results.md tables and targets, results.svg a
chart. The results of a part (--quick, --only) go to a temporary folder, unless --output names one. If that folder has
results of the same machine, sections that are not measured now stay as they are. Each section notes how often it was
measured, when, and how busy the machine was before. A section that fails is reported at the end; the exit status is 1.

examples:
  python -m benchmarks                                 all sections
  python -m benchmarks --quick                         a quick look, in less than two minutes
  python -m benchmarks --targets                       all that has a target, into benchmarks/results
  python -m benchmarks --only operations bytes         two sections
  python -m benchmarks --only scale --output benchmarks/results     one section; the others there stay
  python -m benchmarks --full --only scale             up to ten million sessions: about 10 GB of memory
  QUICK=1 make bench ARGS="--server redis"             the same from make
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import traceback
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

from benchmarks.chart import chart
from benchmarks.engines import AGAIN, BASE, ENGINES, FLOOR, OURS
from benchmarks.report import machine, markdown
from benchmarks.sections import NOT_QUICK, NOT_TARGETS, SECTIONS, Options, Results
from testproject.servers import available

RESULTS = Path(__file__).parent / "results"


def write(results: Results, folder: Path) -> None:
    """Write the three files with the results so far."""
    (folder / "results.json").write_text(json.dumps(results, indent=2) + "\n")
    (folder / "results.md").write_text(markdown(results))
    rows = results["operations"]
    # Only engines that a site might use: the others are for judging the numbers.
    engines = {*ENGINES} - {AGAIN, FLOOR}
    drawn = [row for row in rows if row["server"] == rows[0]["server"] and row["engine"] in engines]
    (folder / "results.svg").write_text(chart(drawn, base=BASE, ours=OURS))


def kept(folder: Path, here: dict[str, Any], wanted: Sequence[str]) -> Results:
    """Return the results in ``folder`` of sections not ``wanted`` now, if they are from the machine ``here``."""
    file = folder / "results.json"
    before: Results = json.loads(file.read_text()) if file.exists() else {}
    same = before.get("machine") == here
    anew = {*wanted, "bare"} if "operations" in wanted else set(wanted)
    sections = {name: before.get(name, []) if same and name not in anew else [] for name in (*SECTIONS, "bare")}
    how = {name: options for name, options in before["options"].items() if name not in wanted} if same else {}
    return {"left_out": before["left_out"] if same else {}, "options": how, **sections}


def parsed(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse ``arguments``, by default those of the command line. Exit with a message if they are not valid."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--quick", action="store_true", help="less of everything, without scale and pages (also: QUICK=1)"
    )
    parser.add_argument(
        "--targets", action="store_true", help="only what has a target, and only the engines that targets compare"
    )
    parser.add_argument(
        "--full", action="store_true", help="up to ten million of our sessions in scale and pages (also: FULL=1)"
    )
    parser.add_argument(
        "--server", choices=sorted(available()), help="one kind of server (default: all that are installed)"
    )
    parser.add_argument("--only", nargs="+", choices=SECTIONS, metavar="SECTION", help="only these sections")
    parser.add_argument(
        "--rounds", type=int, help="how often each section is measured (default: the section's own number)"
    )
    parser.add_argument(
        "--output", type=Path, metavar="FOLDER", help="where to write results (default: benchmarks/results)"
    )
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
    args = parsed()
    binaries = {kind: binary for kind, binary in available().items() if args.server in (None, kind)}
    options = Options(args.quick, args.full, binaries, args.rounds, args.targets)
    without = NOT_QUICK if args.quick else NOT_TARGETS if args.targets else ()
    wanted = [name for name in SECTIONS if name in (args.only or SECTIONS) and name not in without]
    is_whole = not args.quick and args.only is None
    folder = args.output or (RESULTS if is_whole else Path(tempfile.mkdtemp(prefix="redsess-bench-")))
    folder.mkdir(parents=True, exist_ok=True)

    results: Results = {
        "machine": machine(binaries),
        "date": date.today().isoformat(),
        "failed": {},
        **kept(folder, machine(binaries), wanted),
    }
    for name in wanted:
        print(f"{name} …", file=sys.stderr)
        results["options"][name] = options.conditions(name)
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
