"""The targets of the engine, and whether the results reach them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from benchmarks.engines import AGAIN, BASE, OURS

Row = Mapping[str, Any]
Results = Mapping[str, Any]


class Target(NamedTuple):
    """A limit for the ``value`` of each entry of ``section`` that has the items of ``where``."""

    name: str
    section: str
    where: Row
    limit: float
    unit: str = f"times {BASE}"
    at_most: bool = True
    value: str = "ratio"


def _operation(section: str, operation: str, limit: float, label: str = "", **others: str) -> Target:
    where = {"engine": OURS, "operation": operation}
    return Target(f"{label}{operation}", section, where, limit, **others)  # type: ignore[arg-type]


def _requests(program: str, view: str, limit: float) -> Target:
    where = {"engine": OURS, "server_program": program, "view": view}
    return Target(f"requests a second, {program}, {view}", "requests", where, limit, at_most=False)


def _bytes(kind: str, server: str, limit: float) -> Target:
    where = {"engine": OURS, "kind": kind, "viewed": 0, "at": 131_072, "server": server}
    return Target(f"bytes of a session, {kind}, {server}", "bytes", where, limit, "bytes", value="bytes")


TIMES_FEW = "times few sessions"
TARGETS = (
    *(
        _operation("operations", name, limit)
        for name, limit in (
            *(("load", 0.92), ("reload", 0.85), ("load-elsewhere", 0.92)),
            *(("change", 0.75), ("create", 0.75), ("sign-in", 0.5), ("end", 1.2)),
        )
    ),
    *(_operation("server_cpu", name, limit, "server's CPU, ") for name, limit in (("load", 1.0), ("change", 1.0))),
    _requests("gunicorn", "read", 1.0),
    _requests("gunicorn", "write", 1.1),
    _requests("uvicorn", "read", 1.4),
    _requests("uvicorn", "write", 1.45),
    _bytes("signed in", "valkey", 520),
    _bytes("signed in", "redis", 720),
    _bytes("guest", "valkey", 270),
    _bytes("guest", "redis", 390),
    *(
        _operation("scale", name, 1.2, "many sessions, ", unit=TIMES_FEW)
        for name in ("load", "reload", "load-elsewhere", "change", "create", "sign-in", "end", "view")
    ),
    *(
        _operation("python", name, limit, "functions, ", unit="functions", value="functions_of_ours")
        for name, limit in (("load", 33), ("load and save", 70))
    ),
    Target("slowest page of the admin", "pages", {}, 3, TIMES_FEW),
)

DETAILS = ("server", "page", "sessions", "many")
"""The items in which entries for one target may differ."""


class Judged(NamedTuple):
    """A target, an entry that it is for, and how much the base differs there when it is measured twice."""

    target: Target
    row: Row
    noise: float = 0

    @property
    def value(self) -> float:
        return float(self.row[self.target.value])

    @property
    def verdict(self) -> str:
        """Say whether the target is reached, and by which part of the limit."""
        limit = self.target.limit
        distance = abs(self.value / limit - 1)
        if distance and distance <= self.noise:
            return f"about there: two of the same differ by {self.noise * 100:.0f} %"
        if self.value <= limit if self.target.at_most else self.value >= limit:
            return f"reached, {distance * 100:.0f} % to spare"
        return f"**not reached**, by {distance * 100:.0f} %"


def judged(results: Results) -> Iterator[tuple[Target, list[Judged]]]:
    """Yield each target with the entries that were measured for it: none if its section was left out."""
    operations = results.get("operations", [])
    rows: dict[str, list[Row]] = {
        **results,
        "server_cpu": [row | row["server_cpu_ratio"] for row in operations if row.get("server_cpu_ratio")],
        "pages": sorted(results.get("pages", []), key=lambda row: float(row["ratio"]))[-1:],
    }
    for target in TARGETS:
        of_section = rows.get(target.section, [])
        fitting = [row for row in of_section if target.where.items() <= row.items()]
        yield target, [Judged(target, row, _noise(target, row, of_section)) for row in fitting]


def _noise(target: Target, row: Row, rows: Sequence[Row]) -> float:
    same = {**target.where, "engine": AGAIN, **({"server": row["server"]} if "server" in row else {})}
    of_again = [again for again in rows if "ratio" in again and same.items() <= again.items()]
    return max((abs(again["ratio"] - 1) for again in of_again), default=0.0)
