"""
Run the tests of other packages, as their newest source distributions or their repositories have them, beside this one.

Each package gets a virtual environment in .venv/neighbours/NAME. Its tests run three times: with the session engine
that they have, with ours, and with ours and our middleware, on an embedded Valkey. Tests whose outcome differs are
repeated without the others. What still differs has to be explained in tests/neighbours/packages.toml.

Results go to docs/reference/works-with.json, what pytest and pip print to .venv/neighbours/NAME/*.log.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from testproject import servers
from tests.neighbours import results
from tests.neighbours.comparing import Comparison, compare
from tests.neighbours.environments import ROOT, Environment, built_wheel
from tests.neighbours.packages import PACKAGES, NotRunError, Package, packages

EPILOG = """\
Exit status: 0 if each difference is explained, 1 if one is not, or if tests that are to run could not.

Examples:
  python -m tests.neighbours
  python -m tests.neighbours django-axes django-silk
  python -m tests.neighbours --again --minutes 5 django-axes
"""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.neighbours",
        description=__doc__,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="packages of packages.toml (default: all)")
    parser.add_argument("--again", action="store_true", help="use the environments that are there, and install nothing")
    parser.add_argument("--minutes", type=float, default=40, help="how long a package may take (default: %(default)s)")
    parser.add_argument("--packages", type=Path, default=PACKAGES, metavar="FILE", help="instead of packages.toml")
    parser.add_argument("--results", type=Path, default=results.RESULTS, metavar="FILE", help="instead of the docs'")
    parser.add_argument("--folder", type=Path, default=ROOT / ".venv/neighbours", help="where environments are made")
    options = parser.parse_args(arguments)
    known = {package.name: package for package in packages(options.packages)}
    if unknown := [name for name in options.names if name not in known]:
        parser.error(f"{unknown[0]} is not in {options.packages}: choose from {', '.join(known)}")
    chosen = [known[name] for name in options.names] or list(known.values())
    missing = [each.name for each in chosen if not Environment(options.folder / each.name, seconds=0).exists]
    if options.again and missing:
        parser.error(f"{missing[0]} has no environment in {options.folder}: run it without --again first")
    server = servers.Server(next(iter(servers.available().values())))
    try:
        with tempfile.TemporaryDirectory(prefix="redsess-neighbours-") as built:
            ours = None if options.again else built_wheel(Path(built))
            fine = [_run(package, options, server.url, ours) for package in chosen]
    finally:
        server.close()
    return 0 if all(fine) else 1


def _run(package: Package, options: argparse.Namespace, url: str, ours: Path | None) -> bool:
    began = time.monotonic()
    print(f"{package.name} …", flush=True)
    environment = Environment(options.folder / package.name, seconds=options.minutes * 60)
    kept = results.read(options.results)
    try:
        if ours:
            environment.make(package, ours)
        if package.not_run:
            raise NotRunError(package.not_run)
        comparison = compare(package, environment, url)
    except NotRunError as reason:
        kept[package.name] = results.not_run(environment.version, str(reason))
        lines, fine = [f"not run: {reason}"], bool(package.not_run)
    else:
        kept[package.name] = results.result(package, environment, comparison)
        lines = _lines(package, comparison)
        fine = not comparison.unexplained
    if package.missing and environment.exists and (there := sorted(environment.sdist.glob(package.missing))):
        lines.append(f"Its source distribution has {there[0].name} now: change packages.toml, so that it is used.")
        fine = False
    results.write(kept, options.results)
    print(f"{package.name} {environment.version} ({time.monotonic() - began:.0f} s): " + "\n  ".join(lines), flush=True)
    return fine


def _lines(package: Package, comparison: Comparison) -> list[str]:
    known = len(comparison.differences) - len(comparison.unexplained)
    lines = [
        f"{comparison.passed} pass in each run, {comparison.failed} fail in each, {known} differ as explained, "
        f"{len(comparison.unexplained)} differ without an explanation."
    ]
    lines += [
        f"{each.test}: passes with {' and '.join(each.passes_with)}, not with {' and '.join(each.fails_with)}"
        for each in comparison.unexplained
    ]
    lines += [f"{test}: flaky" for test in comparison.flaky]
    differing = [each.test for each in comparison.differences]
    lines += [
        f"{start}: explained, but does not differ"
        for start in package.explained
        if not any(test.startswith(start) for test in differing)
    ]
    return lines


if __name__ == "__main__":
    sys.exit(main())
