"""
Compare this session engine with others on this machine: ``make bench``.

sections:
  operations   load, load again, change, create, sign in and end, with every engine
  python       the functions that a load and a save call, and the time that they take
  requests     a small site under gunicorn and uvicorn, with wrk
  bytes        the memory of the server that a session takes
  scale        operations with few sessions and with a million, or ten million with --targets
  pages        the admin's pages with few sessions and with a million

With --targets, only the engines that targets compare are measured (see targets.py), on all kinds of servers, in half an
hour and 7 GB of memory. Without it, all engines are, which takes hours. Let the machine do nothing else.

Results are written after each section: results.json has all numbers, results.md tables and targets. The results of a
part (--quick, --only) go to a temporary folder, unless --output names one. Each section notes how often it was
measured, and how busy the machine was before. A section that fails is reported at the end; the exit status is 1.

examples:
  python -m benchmarks --quick                         a quick look, in less than two minutes
  python -m benchmarks --targets                       all that has a target, into benchmarks/results
  python -m benchmarks --only scale bytes              two sections
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

from benchmarks.report import machine, markdown
from benchmarks.sections import NOT_QUICK, SECTIONS, Options, Results
from testproject.servers import available

RESULTS = Path(__file__).parent / "results"


def parsed(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse ``arguments``, by default those of the command line. Exit with a message if they are not valid."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="less of everything, no scale and pages (also: QUICK=1)")
    parser.add_argument("--targets", action="store_true", help="only the engines that targets compare")
    parser.add_argument(
        "--server", choices=sorted(available()), help="one kind of server (default: all that are installed)"
    )
    parser.add_argument("--only", nargs="+", choices=SECTIONS, metavar="SECTION", help="only these sections")
    parser.add_argument("--rounds", type=int, help="how often each section is measured (default: its own number)")
    parser.add_argument(
        "--output", type=Path, metavar="FOLDER", help="where to write results (default: benchmarks/results)"
    )
    options = parser.parse_args(arguments)
    options.quick |= os.environ.get("QUICK", "") not in ("", "0")
    if options.quick and options.targets:
        parser.error("--quick and --targets exclude each other")
    if options.rounds is not None and options.rounds < 1:
        parser.error("--rounds must be at least 1")
    if options.output and options.output.exists() and not options.output.is_dir():
        parser.error(f"--output: {options.output} is no folder")
    if options.quick and (long := set(options.only or ()).intersection(NOT_QUICK)):
        parser.error(f"--only: {min(long)} is not part of --quick")
    return options


def main() -> None:
    args = parsed()
    binaries = {kind: binary for kind, binary in available().items() if args.server in (None, kind)}
    options = Options(args.quick, args.targets, binaries, args.rounds)
    without = NOT_QUICK if args.quick else ()
    wanted = [name for name in SECTIONS if name in (args.only or SECTIONS) and name not in without]
    is_whole = not args.quick and args.only is None
    folder = args.output or (RESULTS if is_whole else Path(tempfile.mkdtemp(prefix="redsess-bench-")))
    folder.mkdir(parents=True, exist_ok=True)
    results: Results = {"machine": machine(binaries), "date": date.today().isoformat(), "failed": {}, "left_out": {}}
    results |= {"options": {}, **{name: [] for name in SECTIONS}}
    for name in wanted:
        print(f"{name} …", file=sys.stderr)
        results["options"][name] = options.conditions(name)
        try:
            SECTIONS[name](options, results)
        except Exception as error:
            traceback.print_exc()
            results["failed"][name] = f"{type(error).__name__}: {error}".splitlines()[0]
        (folder / "results.json").write_text(json.dumps(results, indent=2) + "\n")
        (folder / "results.md").write_text(markdown(results))
    print(markdown(results))
    print(f"Written: results.json and results.md in {folder}")
    for name, why in results["failed"].items():
        print(f"{name} failed: {why}", file=sys.stderr)
    sys.exit(1 if results["failed"] else 0)


if __name__ == "__main__":
    main()
