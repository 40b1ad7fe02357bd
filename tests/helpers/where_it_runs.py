"""
The table of versions in the documentation: it is made of the lines that test runs have printed.

``bash .ci/run | tee run.log`` and ``python -m tests.helpers.where_it_runs run.log`` make it anew. Each run of the tests
prints its line at its end: see ``tests/helpers/fixtures/where_it_runs.py``.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from docs._ext.facts import RUNS

BEGINNING = "Ran with {"
"""How a line begins. What a run prints may have the name of a server before it."""

PACKAGES = {"Django": "Django", "redis-py": "redis", "hiredis": "hiredis", "django-redis": "django-redis"}


def line(servers: Mapping[str, int], databases: Mapping[str, int], passed: int) -> str:
    """
    Return the line of a run in this process: what it ran with, and how many tests ``passed``.

    ``servers`` and ``databases`` say how many of them used each of these.
    """
    facts = {
        "date": datetime.now(UTC).date().isoformat(),
        "Python": platform.python_version(),
        **{name: _installed(package) for name, package in PACKAGES.items()},
        "servers": dict(sorted(servers.items())),
        "databases": dict(sorted(databases.items())),
        "passed": passed,
    }
    return f"{BEGINNING}{json.dumps(facts)[1:]}"


def _installed(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def runs_in(text: str) -> list[dict[str, Any]]:
    """Return the facts of each run whose line is in ``text``: runs with the same versions follow each other."""
    # At its end, .ci/run prints them once more.
    found = dict.fromkeys(each.partition(BEGINNING)[2] for each in text.splitlines() if BEGINNING in each)
    return sorted((json.loads("{" + each) for each in found), key=_order)


def _order(run: Mapping[str, Any]) -> list[Any]:
    numbers = [[int(part) for part in run[name].split(".") if part.isdecimal()] for name in ("Python", "Django")]
    return [*numbers, -run["passed"]]


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.helpers.where_it_runs",
        description=f"Make the table of versions anew, in {RUNS.name}, from what a run of all tests has printed.",
        epilog="Example: bash .ci/run | tee run.log && python -m tests.helpers.where_it_runs run.log",
    )
    parser.add_argument("log", type=Path, nargs="+", help="what 'bash .ci/run' has printed")
    runs = runs_in("\n".join(each.read_text(encoding="utf-8") for each in parser.parse_args().log))
    if not runs:
        sys.exit(f"No line begins with '{BEGINNING}'. Give what 'bash .ci/run' has printed.")
    lines = ",\n".join(json.dumps(run) for run in runs)
    RUNS.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    print(f"{RUNS} has {len(runs)} runs now. Look at the changes, and build the documentation.")


if __name__ == "__main__":
    main()
