"""The report of all benchmarks in Markdown, and what reports of single benchmarks share with it."""

from __future__ import annotations

import platform
import re
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from typing import Any

import django
import psutil
import pyperf
import redis
from redis.utils import HIREDIS_AVAILABLE

from benchmarks.engines import AGAIN, BASE
from benchmarks.targets import DETAILS, LISTING, Results, Row, groups, judged, ways

PACKAGES = (
    "Django",
    "hiredis",
    "django-redis",
    "django-redis-sessions",
    "django-qsessions",
    "gunicorn",
    "uvicorn",
)


def machine_of(server: str, info: dict[str, Any]) -> str:
    """Describe the machine: ``server`` is the kind of server, ``info`` its reply to INFO."""
    return (
        f"{_system()['cpu_count']} cores ({platform.machine()}), Python {platform.python_version()}, "
        f"Django {django.__version__}, redis-py {redis.__version__} "
        f"(parser: {'hiredis' if HIREDIS_AVAILABLE else 'Python'}), "
        f"{server} {info.get('valkey_version', info['redis_version'])} ({info['mem_allocator']})"
    )


def machine(binaries: Mapping[str, Path]) -> dict[str, Any]:
    """Describe the machine for the JSON file; ``binaries`` are the servers' programs by kind."""
    system = _system()
    processor = system.get("cpu_model_name")
    return {
        "cores": system["cpu_count"],
        "processor": f"{processor} ({platform.machine()})" if processor else platform.machine(),
        "memory": f"{psutil.virtual_memory().total / 2**30:.0f} GiB",
        "kernel": f"{platform.system()} {re.split('[^0-9.]', platform.release())[0]}",
        "Python": platform.python_version(),
        "redis-py": redis.__version__,
        **{package: _version(package) for package in PACKAGES},
        **{f"{kind} server": _server_version(binary) for kind, binary in binaries.items()},
    }


def load_average() -> float | None:
    """Return how many processes were busy in the last minute, on average; None if the system does not tell."""
    load: float | None = _system().get("load_avg_1min")
    return load


def _system() -> dict[str, Any]:
    # A run with a made-up value: only the description that pyperf adds to each run is used.
    system: dict[str, Any] = pyperf.Run([1.0]).get_metadata()
    return system


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _server_version(binary: Path) -> str:
    output = subprocess.run([str(binary), "--version"], capture_output=True, text=True, check=True).stdout
    values = dict(re.findall(r"(\w+)=(\S+)", output))
    return f"{values['v']} ({values['malloc']})"


def spread(values: Sequence[float], digits: int = 0) -> str:
    """Return the median of ``values``, with their range."""
    low, middle, high = (f"{value:,.{digits}f}" for value in (min(values), median(values), max(values)))
    return f"{middle} ({low} to {high})"


def markdown(results: Results) -> str:
    """Return the report of ``results``, the content of the JSON file."""
    parts = [
        "# Benchmarks",
        f"{results['date']}. {ABOUT}",
        _listed(results["machine"]),
        *(f"**{section} failed**: {why}" for section, why in results["failed"].items()),
        *([_how(results["options"])] if results.get("options") else []),
        "## Targets",
        _table(("what", "target", "where", "measured", ""), _targets(results)),
    ]
    for section, (heading, about, write) in SECTIONS.items():
        if rows := results.get(section):
            parts += [f"## {heading}", about, *write(rows)]
    if results["left_out"]:
        parts += ["## Left out", _listed(results["left_out"])]
    return "\n\n".join(parts) + "\n"


ABOUT = f"""\
Ratios compare measurements of the same round. They are medians, with a confidence interval of 95 %.
No server writes to disk before it answers: Redis and Valkey have no persistence, PostgreSQL has fsync and
synchronous_commit off, SQLite has synchronous off.
"{AGAIN}" is the same engine as the base: a difference that is not larger than its own means nothing."""


def _how(options: Mapping[str, Mapping[str, Any]]) -> str:
    cells = [(name, how["how"], str(how["rounds"] or ""), how["date"]) for name, how in options.items()]
    return _table(("section", "how", "rounds", "date"), cells)


def _targets(results: Results) -> Iterator[tuple[str, ...]]:
    for target, found in judged(results):
        limit = f"{'≤' if target.at_most else '≥'} {target.limit:g} {target.unit}"
        for each in found:
            where = ", ".join(_named(each.row[name]) for name in DETAILS if name in each.row)
            measured = _ratio(each.row, target.value) if "ratio" in target.value else f"{each.value:,.0f}"
            yield target.name, limit, where, measured, each.verdict
        if not found:
            yield target.name, limit, "", "", "not measured"


def _operations(rows: Sequence[Row]) -> Iterator[str]:
    for (server, sessions), group in groups(rows, "server", "sessions"):
        yield f"{server}, {sessions:,} sessions, times {BASE} (view: times the listing of Redis in Action):"
        yield _grid(group, "engine", "operation", _ratio)
        yield "Microseconds, and of these the process's own CPU time and the servers':"
        yield _grid(group, "engine", "operation", _microseconds)
        asking = [row for row in group if row["round_trips"] is not None]
        yield "Round trips, and the commands that the server ran, those inside of scripts included:"
        yield _grid(asking, "engine", "operation", lambda row: f"{row['round_trips']:.2f} ({row['commands']:.2f})")


def _bare(rows: Sequence[Row]) -> Iterator[str]:
    yield _grid(rows, "operation", "server", _ratio)


def _requests(rows: Sequence[Row]) -> Iterator[str]:
    for (program, every, server), group in groups(rows, "server_program", "save_every_request", "server"):
        on = ", SESSION_SAVE_EVERY_REQUEST on" if every else ""
        yield f"{program}, {server}{on}: times {BASE}, then requests a second."
        yield _grid(group, "engine", "view", _ratio)
        yield _grid(group, "engine", "view", lambda row: f"{row['requests_per_second']:,.0f}")


def _bytes(rows: Sequence[Row]) -> Iterator[str]:
    for (server,), group in groups(rows, "server"):
        titled = [{**row, "sessions": _sessions_of(row)} for row in group]
        yield f"{server}:"
        yield _grid(titled, "engine", "sessions", lambda row: f"{row['bytes']:,.0f}")


def _sessions_of(row: Row) -> str:
    which = f"{row['at']:,} of them" if row["at"] else f"{row['viewed']} viewed"
    # Earlier results do not have this key.
    return f"{row['kind']}, {which}" + (", addresses indexed" if row.get("indexed") else "")


def _scale(rows: Sequence[Row]) -> Iterator[str]:
    for (server, engine), group in groups(rows, "server", "engine"):
        yield f"{engine}, {server}: times as much as with the fewest sessions, then microseconds, or bytes a session."
        yield _grid(group, "operation", "sessions", lambda row: _ratio(row, "ratio_to_smallest"))
        yield _grid(group, "operation", "sessions", lambda row: f"{row['microseconds']:,.0f}")


def _ways(rows: Sequence[Row]) -> Iterator[str]:
    for (server, sessions), group in groups(ways(rows), "server", "sessions"):
        cells = [(row["way"], _ratio(row), f"{row['per_second']:,.0f}") for row in group]
        yield f"{server}, {sessions:,} sessions:"
        yield _table(("", f"times {LISTING}", "a second"), cells)


def _python(rows: Sequence[Row]) -> Iterator[str]:
    head = ("", "functions", "of these redis-py's", "own code, µs", "with redis-py, µs", f"times {BASE}")
    yield _table(head, map(_python_cells, rows))


def _python_cells(row: Row) -> tuple[str, ...]:
    own = "" if row["own_microseconds"] is None else f"{row['own_microseconds']:.1f}"
    counts = (f"{row[name]:.0f}" for name in ("functions", "functions_of_redis_py"))
    return f"{row['engine']}: {row['operation']}", *counts, own, f"{row['microseconds']:.1f}", _ratio(row)


def _pages(rows: Sequence[Row]) -> Iterator[str]:
    for (few, many), group in groups(rows, "few", "many"):
        cells = [(row["page"], _ratio(row), f"{row['few_ms']:,.1f}", f"{row['many_ms']:,.1f}") for row in group]
        yield _table(("page", "times as long", f"{few:,} sessions, ms", f"{many:,} sessions, ms"), cells)


SECTIONS: dict[str, tuple[str, str, Callable[[Sequence[Row]], Iterator[str]]]] = {
    "operations": ("Operations", "Less is better.", _operations),
    "bare": ("Ours and its own scripts over a bare socket", "What Python adds to the least possible time.", _bare),
    "python": ("Python", "Without waiting for the server. See benchmarks/python_cost.py.", _python),
    "requests": ("Requests", "A whole site under a web server. More is better.", _requests),
    "bytes": (
        "Bytes a session",
        "In the server. Ours also keeps address and user agent of signed-in users. See benchmarks/memory.py.",
        _bytes,
    ),
    "scale": ("Few sessions and many", "Less is better.", _scale),
    "cleaning": ("Cleaning", "Sessions removed. More is better. See benchmarks/clean.py.", _ways),
    "pages": ("Pages of the admin", "Less is better. See benchmarks/pages.py.", _pages),
    "views": ("Views recorded", "More is better. See benchmarks/views.py.", _ways),
}
"""By name in the JSON file: heading, introduction, and the function that writes the tables."""


def _grid(rows: Sequence[Row], down: str, across: str, write: Callable[[Row], str]) -> str:
    columns = dict.fromkeys(row[across] for row in rows)
    cells = {(row[down], row[across]): write(row) for row in rows}
    lines = [
        (name, *(cells.get((name, column), "") for column in columns))
        for name in dict.fromkeys(row[down] for row in rows)
    ]
    return _table(("", *map(_named, columns)), lines)


def _table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *lines))


def _listed(items: Mapping[str, Any]) -> str:
    return "\n".join(f"- {name}: {what}" for name, what in items.items())


def _named(what: Any) -> str:
    return f"{what:,} sessions" if isinstance(what, int) else str(what)


def _ratio(row: Row, name: str = "ratio") -> str:
    return f"{row[name]:.2f} ({row['low']:.2f} to {row['high']:.2f})"


def _microseconds(row: Row) -> str:
    return f"{row['microseconds']:,.0f} ({row['client_cpu']:,.0f} + {row['server_cpu']:,.0f})"
