"""The report in Markdown, and what it says of the machine."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import psutil

from benchmarks.engines import AGAIN, BASE
from benchmarks.targets import DETAILS, Results, Row, judged

PACKAGES = (
    *("Django", "redis", "hiredis", "django-redis"),
    *("django-redis-sessions", "django-qsessions", "gunicorn", "uvicorn"),
)


def machine(binaries: Mapping[str, Path]) -> dict[str, Any]:
    """Describe the machine for the JSON file; ``binaries`` are the servers' programs by kind."""
    return {
        "cores": os.cpu_count(),
        "processor": platform.machine(),
        "memory": f"{psutil.virtual_memory().total / 2**30:.0f} GiB",
        "kernel": f"{platform.system()} {re.split('[^0-9.]', platform.release())[0]}",
        "Python": platform.python_version(),
        **{package: _version(package) for package in PACKAGES},
        **{f"{kind} server": _server_version(binary) for kind, binary in binaries.items()},
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _server_version(binary: Path) -> str:
    output = subprocess.run([str(binary), "--version"], capture_output=True, text=True, check=True).stdout
    values = dict(re.findall(r"(\w+)=(\S+)", output))
    return f"{values['v']} ({values['malloc']})"


def markdown(results: Results) -> str:
    """Return the report of ``results``, the content of the JSON file."""
    parts = [
        "# Benchmarks",
        f"{results['date']}. {ABOUT}",
        _listed(results["machine"]),
        *(f"**{section} failed**: {why}" for section, why in results["failed"].items()),
        *(f"{section}: {how['how']}, {how['rounds'] or 'no'} rounds" for section, how in results["options"].items()),
        "## Targets",
        table(("what", "target", "where", "measured", ""), _targets(results)),
    ]
    for section, (heading, about, names, figures) in SECTIONS.items():
        if rows := results.get(section):
            lines = [[*(str(row[name]) for name in names), *(_figure(row, name) for name in figures)] for row in rows]
            parts += [f"## {heading}", about, table((*names, *figures), lines)]
    if results["left_out"]:
        parts += ["## Left out", _listed(results["left_out"])]
    return "\n\n".join(parts) + "\n"


ABOUT = f"""\
Ratios compare measurements of the same round. They are medians, with a confidence interval of 95 %.
No server writes to disk before it answers: Redis and Valkey have no persistence, SQLite has synchronous off.
"{AGAIN}" is the same engine as the base: a difference that is not larger than its own means nothing."""

SECTIONS: dict[str, tuple[str, str, tuple[str, ...], tuple[str, ...]]] = {
    "operations": (
        "Operations",
        f"Ratio: times {BASE}, less is better. CPU in microseconds, of process and server. Commands are those "
        "that the server ran, also inside of scripts.",
        ("server", "operation", "engine"),
        ("ratio", "microseconds", "client_cpu", "server_cpu", "round_trips", "commands"),
    ),
    "python": (
        "Python",
        "Without waiting for the server, less is better. See benchmarks/python_cost.py.",
        ("operation", "engine"),
        ("functions", "functions_of_ours", "functions_of_redis_py", "microseconds", "ratio"),
    ),
    "requests": (
        "Requests",
        "A whole site under a web server. More is better.",
        ("server", "server_program", "view", "engine"),
        ("ratio", "requests_per_second"),
    ),
    "bytes": (
        "Bytes a session",
        "In the server. Ours also keeps address and user agent of signed-in users. See benchmarks/memory.py.",
        ("server", "kind", "viewed", "at", "engine"),
        ("bytes",),
    ),
    "scale": (
        "Few sessions and many",
        "Times as long with many sessions as with few. Less is better.",
        ("server", "operation", "few", "many"),
        ("ratio", "few_microseconds", "many_microseconds"),
    ),
    "pages": (
        "Pages of the admin",
        "Times as long with many sessions as with few. Less is better. See benchmarks/pages.py.",
        ("page", "few", "many"),
        ("ratio", "few_ms", "many_ms"),
    ),
}
"""By name in the JSON file: heading, introduction, what tells the entries apart, and their figures."""


def _targets(results: Results) -> Iterator[tuple[str, ...]]:
    for target, found in judged(results):
        limit = f"{'≤' if target.at_most else '≥'} {target.limit:g} {target.unit}"
        for each in found:
            where = ", ".join(str(each.row[name]) for name in DETAILS if name in each.row)
            yield target.name, limit, where, _figure(each.row, target.value), each.verdict
        if not found:
            yield target.name, limit, "", "", "not measured"


def _figure(row: Row, name: str) -> str:
    value = row[name]
    if value is None:
        return ""
    if "ratio" in name:
        return f"{value:.2f} ({row['low']:.2f} to {row['high']:.2f})"
    return f"{value:,.0f}" if value > 20 else f"{value:.1f}"


def table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *lines))


def _listed(items: Mapping[str, Any]) -> str:
    return "\n".join(f"- {name}: {what}" for name, what in items.items())
