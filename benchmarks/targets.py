"""What the engine is to reach, and whether it does by what was measured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import Any, NamedTuple

from benchmarks.engines import AGAIN, BASE, OURS
from benchmarks.ratios import paired

Row = Mapping[str, Any]
Results = Mapping[str, Any]

LISTING = "listing"
"""What the ways of cleaning and of recording views are compared with."""


class Target(NamedTuple):
    """What is to be reached: by each entry of ``section`` that has what ``where`` says, in its ``value``."""

    name: str
    section: str
    where: Row
    limit: float
    unit: str = f"times {BASE}"
    at_most: bool = True
    value: str = "ratio"


GUNICORN = {"engine": OURS, "server_program": "gunicorn", "save_every_request": False}

TARGETS = (
    Target("load", "operations", {"engine": OURS, "operation": "load"}, 1),
    Target("change", "operations", {"engine": OURS, "operation": "change"}, 0.75),
    Target("create", "operations", {"engine": OURS, "operation": "create"}, 0.7),
    Target("sign-in", "operations", {"engine": OURS, "operation": "sign-in"}, 0.7),
    Target("load, least possible", "bare", {"operation": "load"}, 1.6, "times our scripts over a bare socket"),
    Target("views a second", "views", {"way": "engine, defaults"}, 3, f"times {LISTING}", at_most=False),
    Target("cleaned a second", "cleaning", {"way": "cleansessions, excess"}, 1, f"times {LISTING}", at_most=False),
    Target("requests a second that read", "requests", {**GUNICORN, "view": "read"}, 1, at_most=False),
    Target("requests a second that write", "requests", {**GUNICORN, "view": "write"}, 1.1, at_most=False),
    Target(
        "session of a user", "bytes", {"engine": OURS, "kind": "signed in", "viewed": 0}, 600, "bytes", value="bytes"
    ),
    Target("session of a guest", "bytes", {"engine": OURS, "kind": "guest", "viewed": 0}, 400, "bytes", value="bytes"),
    *(
        Target(
            f"{name}, many sessions",
            "scale",
            {"engine": OURS, "operation": name},
            1.2,
            "times few sessions",
            value="ratio_to_smallest",
        )
        for name in ("load", "change", "create", "sign-in", "end", "view")
    ),
    Target("slowest page of the admin", "pages", {}, 3, "times few sessions"),
)

DETAILS = ("server", "server_program", "page", "sessions", "many")
"""What tells entries apart that one target is for."""


class Judged(NamedTuple):
    """A target, an entry that it is for, and by how much of itself the base differs from itself there."""

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
        """Say whether it is reached, and by how much of the limit."""
        distance = abs(self.value / self.target.limit - 1)
        if distance and distance <= self.noise:
            return f"about there: two of the same differ by {self.noise * 100:.0f} %"
        return (
            f"reached, {distance * 100:.0f} % to spare"
            if self.reached
            else f"**not reached**, by {distance * 100:.0f} %"
        )


def judged(results: Results) -> Iterator[tuple[Target, list[Judged]]]:
    """Yield each target with what was measured for it: nothing where its section was left out."""
    scale, pages = results.get("scale", []), results.get("pages", [])
    most = max((row["sessions"] for row in scale), default=0)
    rows: dict[str, list[Row]] = {
        **results,
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
    """Compare the ways of cleaning, or of recording views, with the listing: more a second is better."""
    found: list[Row] = []
    for (sessions,), of_size in groups(runs, "sessions"):
        speeds = {
            way: [_per_second(run) for run in sorted(of_way, key=_round)] for (way,), of_way in groups(of_size, "way")
        }
        found += [
            {
                "server": of_size[0]["server"],
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
    """Sort ``rows`` by what they have under these ``names``."""
    found: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        found.setdefault(tuple(row[name] for name in names), []).append(row)
    yield from found.items()
