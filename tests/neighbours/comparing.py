"""Run the tests of a package with its session engine and with ours, and tell which tests differ."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tests.neighbours.environments import Environment
from tests.neighbours.packages import NotRunError, Package

HERE = Path(__file__).parent

THEIRS, ENGINE, MIDDLEWARE = BESIDE = ("theirs", "engine", "middleware")
"""With the engine of the package's tests; with ours and Django's middleware; with ours and our middleware."""


class Run(NamedTuple):
    """What came out of one run: the version of Django, and ``passed``, ``failed`` or ``skipped`` by test."""

    django: str
    outcomes: Mapping[str, str]

    def passed(self, test: str) -> bool:
        # A test that is not there at all has not passed.
        return self.outcomes.get(test) == "passed"


class Difference(NamedTuple):
    """A test that passes in some runs and not in others. ``reason`` is empty if nothing explains it."""

    test: str
    passes_with: Sequence[str]
    fails_with: Sequence[str]
    reason: str


@dataclass(frozen=True)
class Comparison:
    django: str
    passed: int
    """How many tests pass in each run."""
    failed: int
    """How many tests fail in each run: what fails has nothing to do with sessions."""
    flaky: Sequence[str]
    """Tests that differed at first, and not when they were repeated."""
    differences: Sequence[Difference]

    @property
    def unexplained(self) -> list[Difference]:
        return [each for each in self.differences if not each.reason]


def compare(package: Package, environment: Environment, url: str) -> Comparison:
    """
    Run all tests of a package in its environment with each engine, and compare. ``url`` is that of a server.

    Tests that differ are repeated without the others before they count. Raises NotRunError.
    """
    theirs = _run(package, environment, url, THEIRS)
    if not any(theirs.passed(test) for test in theirs.outcomes):
        raise NotRunError("none of them passes with the session engine that the package tests with")
    runs = {THEIRS: theirs} | {beside: _run(package, environment, url, beside) for beside in (ENGINE, MIDDLEWARE)}
    suspects = _differing(runs)
    if suspects:
        for beside, first in runs.items():
            repeated = _run(package, environment, url, beside, only=suspects)
            kept = {test: outcome for test, outcome in first.outcomes.items() if test not in suspects}
            runs[beside] = Run(first.django, {**kept, **repeated.outcomes})
    differing = _differing(runs)
    same = [test for test in runs[THEIRS].outcomes if test not in differing]
    return Comparison(
        django=runs[THEIRS].django,
        passed=sum(runs[THEIRS].passed(test) for test in same),
        failed=sum(runs[THEIRS].outcomes[test] == "failed" for test in same),
        flaky=[test for test in suspects if test not in differing],
        differences=[_difference(package, test, runs) for test in differing],
    )


def _run(package: Package, environment: Environment, url: str, beside: str, *, only: Sequence[str] = ()) -> Run:
    log = f"{beside}-again" if only else beside
    outcomes = environment.folder / f"{log}.json"
    outcomes.unlink(missing_ok=True)
    folder = environment.source / package.folder
    command = [str(environment.python), "-m", "pytest", "-p", "redsess_beside", f"--rootdir={folder}"]
    command += [*_options(package), *package.options]
    if beside == THEIRS:
        # The plugin of our package is installed, too.
        command += ["-p", "no:redsess"]
    if only:
        # There may be too many for a command line.
        names = environment.folder / f"{log}.txt"
        names.write_text("\n".join(only), encoding="utf-8")
        command.append(f"@{names}")
    else:
        command += ["--numprocesses", str(package.processes), "--dist=loadfile", *package.tests]
    variables = {"REDSESS_BESIDE": beside, "REDSESS_URL": url, "REDSESS_OUTCOMES": str(outcomes)}
    environment.run(command, log=log, folder=folder, environment=_variables(package, folder) | variables)
    if not outcomes.exists():
        raise NotRunError(f"pytest could not run them ({log}.log)")
    return Run(**json.loads(outcomes.read_text(encoding="utf-8")))


def _options(package: Package) -> list[str]:
    # Theirs measure coverage, mostly.
    options = ["--override-ini=addopts=", "-p", "no:cacheprovider", "--tb=short", "-q", "-rfE"]
    return options + [f"--{'deselect' if '::' in test else 'ignore'}={test}" for test in package.left_out]


def _variables(package: Package, folder: Path) -> dict[str, str]:
    # Settings of ours that the tests around this one run with are not for theirs.
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "DJANGO_"))}
    places = [folder, *(folder / path for path in package.paths), HERE / "plugin", HERE / "settings"]
    path = os.pathsep.join(str(place) for place in places)
    chosen = {"DJANGO_SETTINGS_MODULE": package.settings} if package.settings else {}
    return {**kept, "PYTHONPATH": path, **chosen, **package.environment}


def _differing(runs: Mapping[str, Run]) -> list[str]:
    tests = sorted({test for run in runs.values() for test in run.outcomes})
    return [test for test in tests if len({run.passed(test) for run in runs.values()}) > 1]


def _difference(package: Package, test: str, runs: Mapping[str, Run]) -> Difference:
    passes_with = [beside for beside, run in runs.items() if run.passed(test)]
    fails_with = [beside for beside, run in runs.items() if not run.passed(test)]
    return Difference(test, passes_with, fails_with, package.explanation(test))
