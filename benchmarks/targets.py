"""The targets of the engine, and whether the results reach them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import Any, NamedTuple

from benchmarks.engines import AGAIN, BASE, OURS
from benchmarks.ratios import paired

Row = Mapping[str, Any]
Results = Mapping[str, Any]

LISTING = "listing"
"""The base of the ways to clean and to record views."""


class Target(NamedTuple):
    """A limit for the ``value`` of each entry of ``section`` that has the items of ``where``."""

    name: str
    section: str
    where: Row
    limit: float
    unit: str = f"times {BASE}"
    at_most: bool = True
    value: str = "ratio"


LISTINGS = f"times {LISTING}"


def _requests(program: str, view: str, limit: float) -> Target:
    where = {"engine": OURS, "server_program": program, "save_every_request": False, "view": view}
    return Target(f"requests a second, {program}, {view}", "requests", where, limit, at_most=False)


def _bytes(kind: str, server: str, limit: float) -> Target:
    where = {"engine": OURS, "kind": kind, "viewed": 0, "at": 131_072, "server": server}
    return Target(f"bytes of a session, {kind}, {server}", "bytes", where, limit, "bytes", value="bytes")


TARGETS = (
    *(
        Target(name, "operations", {"engine": OURS, "operation": name}, limit)
        for name, limit in (("load", 0.95), ("reload", 0.9), ("change", 0.75), ("create", 0.75), ("sign-in", 0.5))
    ),
    *(
        Target(f"server's CPU, {name}", "server_cpu", {"engine": OURS, "operation": name}, limit)
        for name, limit in (("load", 1.4), ("change", 1.0))
    ),
    Target("load, least possible", "bare", {"operation": "load"}, 1.6, "times our scripts over a bare socket"),
    _requests("gunicorn", "read", 1.0),
    _requests("gunicorn", "write", 1.1),
    _requests("uvicorn", "read", 1.25),
    _requests("uvicorn", "write", 1.4),
    Target("page views a second", "views", {"way": "engine, defaults"}, 3.5, LISTINGS, at_most=False),
    *(
        Target(
            f"cleaned a second, of {sessions:,}",
            "cleaning",
            {"way": "cleansessions, excess", "sessions": sessions},
            limit,
            LISTINGS,
            at_most=False,
        )
        for sessions, limit in ((100_000, 1.0), (1_000_000, 0.8))
    ),
    _bytes("signed in", "valkey", 520),
    _bytes("signed in", "redis", 720),
    _bytes("guest", "valkey", 270),
    _bytes("guest", "redis", 390),
    *(
        Target(
            f"{name}, many sessions",
            "scale",
            {"engine": OURS, "operation": name},
            1.2,
            "times few sessions",
            value="ratio_to_smallest",
        )
        for name in ("load", "reload", "change", "create", "sign-in", "end", "view")
    ),
    *(
        Target(
            f"functions besides redis-py's, {name}",
            "python",
            {"engine": OURS, "operation": name},
            limit,
            "functions",
            value="functions_besides",
        )
        for name, limit in (("load", 35), ("load and save", 75))
    ),
    *(
        Target(
            f"own code, {name}",
            "python",
            {"engine": OURS, "operation": name},
            limit,
            "µs",
            value="own_microseconds",
        )
        for name, limit in (("load", 12), ("save", 20))
    ),
    Target("middleware, session not used", "python", {"engine": OURS, "operation": "request without it"}, 1.03),
    Target("slowest page of the admin", "pages", {}, 3, "times few sessions"),
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
    def reached(self) -> bool:
        limit = self.target.limit
        return self.value <= limit if self.target.at_most else self.value >= limit

    @property
    def verdict(self) -> str:
        """Say whether the target is reached, and by which part of the limit."""
        distance = abs(self.value / self.target.limit - 1)
        if distance and distance <= self.noise:
            return f"about there: two of the same differ by {self.noise * 100:.0f} %"
        return (
            f"reached, {distance * 100:.0f} % to spare"
            if self.reached
            else f"**not reached**, by {distance * 100:.0f} %"
        )


def judged(results: Results) -> Iterator[tuple[Target, list[Judged]]]:
    """Yield each target with the entries that were measured for it: none if its section was left out."""
    scale, pages = results.get("scale", []), results.get("pages", [])
    most = max((row["sessions"] for row in scale), default=0)
    rows: dict[str, list[Row]] = {
        **results,
        "server_cpu": [
            row | row["server_cpu_ratio"] for row in results.get("operations", []) if row.get("server_cpu_ratio")
        ],
        "cleaning": ways(results.get("cleaning", [])),
        "views": ways(results.get("views", [])),
        "scale": [row for row in scale if row["sessions"] == most],
        "pages": sorted(pages, key=lambda row: float(row["ratio"]))[-1:],
    }
    for target in TARGETS:
        of_section = rows.get(target.section, [])
        fitting = [row for row in of_section if target.where.items() <= row.items()]
        yield target, [Judged(target, row, _noise(target, row, of_section)) for row in fitting]


def _noise(target: Target, row: Row, rows: Sequence[Row]) -> float:
    same = {**target.where, "engine": AGAIN, **({"server": row["server"]} if "server" in row else {})}
    of_again = [again for again in rows if "ratio" in again and same.items() <= again.items()]
    return max((abs(again["ratio"] - 1) for again in of_again), default=0.0)


def ways(runs: Sequence[Row]) -> list[Row]:
    """Compare the ways to clean or to record views with the listing. Entries have ratios of speeds: more is better."""
    found: list[Row] = []
    for (server, sessions), of_size in groups(runs, "server", "sessions"):
        speeds = {
            way: [_per_second(run) for run in sorted(of_way, key=_round)] for (way,), of_way in groups(of_size, "way")
        }
        found += [
            {
                "server": server,
                "sessions": sessions,
                "way": way,
                **paired(of_way, speeds[LISTING])._asdict(),
                "per_second": median(of_way),
            }
            for way, of_way in sorted(speeds.items(), key=lambda item: (item[0] != LISTING, item[0]))
        ]
    return found


def _per_second(run: Row) -> float:
    return next(float(value) for name, value in run.items() if name.endswith("_per_second"))


def _round(run: Row) -> int:
    return int(run["round"])


def groups(rows: Sequence[Row], *names: str) -> Iterator[tuple[tuple[Any, ...], list[Row]]]:
    """Group ``rows`` by their values of these ``names``."""
    found: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        found.setdefault(tuple(row[name] for name in names), []).append(row)
    yield from found.items()
