"""What came out, in ``docs/reference/works-with.json``: the page "Works with" shows it."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

from tests.neighbours.comparing import Comparison
from tests.neighbours.environments import Environment
from tests.neighbours.packages import Package

RESULTS = Path(__file__).parents[2] / "docs" / "reference" / "works-with.json"


def read(path: Path = RESULTS) -> dict[str, Any]:
    """Return the result of each package by its name."""
    results: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return results


def write(results: Mapping[str, Any], path: Path = RESULTS) -> None:
    path.write_text(json.dumps(dict(sorted(results.items())), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def result(package: Package, environment: Environment, comparison: Comparison) -> dict[str, Any]:
    """Return what is kept of a comparison."""
    left_out = [f"Left out: {test} ({reason})" for test, reason in package.left_out.items()]
    repository = {"repository": package.repository, "revision": environment.revision} if package.repository else {}
    return {
        "version": environment.version,
        **repository,
        "django": comparison.django,
        "python": platform.python_version(),
        "date": date.today().isoformat(),
        "passed": comparison.passed,
        "failed": comparison.failed,
        "notes": [*([package.part] if package.part else []), *left_out],
        "flaky": list(comparison.flaky),
        "differences": [each._asdict() for each in comparison.differences],
    }


def not_run(version: str, reason: str) -> dict[str, Any]:
    """Return what is kept of a package whose tests were not run. The version is empty if there was none to get."""
    return {"version": version, "date": date.today().isoformat(), "not_run": reason}
