"""
Plan a store on paper: how many nodes, partitions and bytes a number of sessions needs, computed from measurements.

First it measures, on servers that it starts: bytes of a session; commands, bytes and CPU time of each kind of request;
what a fork, a full resynchronisation and moving a partition cost. That takes about twenty minutes, and memory for two
stores of a million sessions. Then it multiplies. The tables that it prints are those of docs/explanation/scale.rst.

examples:
  python -m benchmarks.capacity --json figures.json       measure, keep what was measured, and plan
  python -m benchmarks.capacity --figures figures.json    plan again from that
  python -m benchmarks.capacity --figures benchmarks/capacity.json --requests-per-second 6000 --node-memory 64
                                                          another site on other nodes, from the figures of the page
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, fields
from datetime import date
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

import django
from django.conf import settings

from benchmarks import memory, nodes, traffic
from benchmarks.capacity_tables import tables
from benchmarks.engines import ENGINES, OURS
from benchmarks.planning import Assumptions
from benchmarks.report import machine_of
from benchmarks.stores import Stores
from testproject.servers import Server, available

KINDS = {("guest", 0): "guest", ("signed in", 0): "signed in"} | {
    ("signed in", viewed): f"signed in, {viewed} viewed" for viewed in (1, 5)
}
"""By kind and number of viewed items: the name in the figures."""

PARTITIONS = (1, 64, 1024)
"""With how many partitions requests are measured."""


@dataclass(frozen=True)
class Sizes:
    """
    How much is measured.

    ``of_partition`` is the smallest number of sessions of a partition where bytes are measured: up to 512 small ones
    would be stored more densely. ``known`` are the sessions where requests are measured, ``count`` how often each
    request is made in each of the ``rounds``. ``stored`` are the sessions of the store that forks, ``moved`` those of
    partitions that move.
    """

    of_partition: int = 600
    known: int = 20_000
    count: int = 500
    rounds: int = 7
    seconds: float = 10
    stored: int = 1_000_000
    moved: tuple[int, ...] = (10_000, 100_000, 1_000_000)


QUICK = Sizes(of_partition=3, known=200, count=20, rounds=1, seconds=1, stored=2000, moved=(1000,))


def of_sessions(kind: str, sizes: Sizes) -> dict[str, Any]:
    """Measure the bytes of sessions, with one partition and with 64."""
    return {"bytes": {str(number): of_bytes(kind, number, sizes) for number in (1, 64)}}


def of_bytes(kind: str, partitions: int, sizes: Sizes) -> dict[str, float]:
    """Return the bytes of sessions of each kind."""
    sessions = sizes.of_partition * (10 if partitions == 1 else partitions)
    cases = [memory.Case(OURS, *each, partitions=partitions) for each in KINDS]
    entries = memory.measured({kind: available()[kind]}, sessions=sessions, cases=cases)
    return {KINDS[entry["kind"], entry["viewed"]]: entry["bytes"] for entry in entries}


def of_requests(kind: str, sizes: Sizes) -> dict[str, Any]:
    """Measure what requests cost, with several numbers of partitions, and how many loads are noted."""
    requests = {}
    for partitions in PARTITIONS:
        with closing(Server(available()[kind])) as server, nodes.replica_of(server):
            costs = traffic.costs(server, partitions, sessions=sizes.known, count=sizes.count, rounds=sizes.rounds)
            requests[str(partitions)] = {name: cost._asdict() for name, cost in costs.items()}
    with closing(Server(available()[kind])) as server:
        return {"requests": requests, "touched": traffic.touched(server, seconds=sizes.seconds)}


def of_store(kind: str, sizes: Sizes) -> dict[str, Any]:
    """Measure what a fork and a full resynchronisation cost."""
    rounds = min(sizes.rounds, 5)
    with closing(Server(available()[kind])) as server, traffic.pointed_at(server):
        store = nodes.Store(server, sizes.stored)
        quiet, busy = ([store.snapshot(writing=writing) for _ in range(rounds)] for writing in (False, True))
        resyncs = [store.resynchronised() for _ in range(rounds)]
    # Each is a fork of the same memory.
    forks = [*(each.fork_ms for each in (*quiet, *busy)), *(each.fork_ms for each in resyncs)]
    gib = median(each.gib for each in (*quiet, *busy))
    copied = median(each.copied for each in quiet)
    return {
        "fork": {
            "gib": gib,
            "ms_per_gib": median(forks) / gib,
            "least_ms": min(forks),
            "most_ms": max(forks),
            "seconds_per_gib": median(each.seconds for each in quiet) / gib,
            "saves": median(each.saves for each in busy),
            "copied_per_save": median((each.copied - copied) / each.saves for each in busy if each.saves),
        },
        "resync": {
            "seconds_per_gib": median(each.seconds for each in resyncs) / gib,
            "bytes_per_session": median(each.sent for each in resyncs) / sizes.stored,
        },
    }


def of_moves(kind: str, sizes: Sizes) -> dict[str, Any]:
    """Measure what moving a partition costs: medians. A large one is moved once."""
    # Redis can move slots at once from 8.4 on, by other commands.
    ways = [nodes.classic, nodes.atomic] if kind == "valkey" else [nodes.classic]
    moves = []
    for way, sessions in product(ways, sizes.moved):
        runs = [way(available()[kind], sessions) for _ in range(min(sizes.rounds, 3) if sessions < sizes.stored else 1)]
        blocked, seconds = median(run.blocked_ms for run in runs), median(run.seconds for run in runs)
        moves.append({"how": runs[0].how, "sessions": sessions, "blocked_ms": blocked, "seconds": seconds})
    return {"moves": moves}


PARTS: dict[str, Callable[[str, Sizes], dict[str, Any]]] = {
    "bytes": of_sessions,
    "requests": of_requests,
    "store": of_store,
    "moves": of_moves,
}
"""What is measured, by name."""


def parsed(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse ``arguments``, by default those of the command line. Exit with a message if they are not valid."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.capacity",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--figures", type=Path, metavar="FILE", help="take what is not measured now from this file")
    parser.add_argument(
        "--only", nargs="+", choices=PARTS, help="measure only these parts (default: all, or none with --figures)"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write what was measured to FILE")
    parser.add_argument("--quick", action="store_true", help="with few sessions: the figures mean nothing")
    parser.add_argument(
        "--server", choices=sorted(available()), default="valkey", help="the kind of server (default: %(default)s)"
    )
    parser.add_argument(
        "--sessions",
        type=float,
        nargs="+",
        default=[1e6, 1e7, 1e8, 1e9],
        metavar="N",
        help="the numbers of sessions to plan for (default: 1e6 1e7 1e8 1e9)",
    )
    add_assumptions(parser)
    options = parser.parse_args(arguments)
    if options.json and not options.json.parent.is_dir():
        parser.error(f"--json: there is no folder {options.json.parent}")
    if options.figures and not options.figures.is_file():
        parser.error(f"--figures: there is no file {options.figures}")
    if options.only and not options.figures and {*options.only} != {*PARTS}:
        parser.error("--only needs the others' --figures")
    options.only = options.only or ([] if options.figures else [*PARTS])
    try:
        options.assumed = Assumptions(**{each.name: getattr(options, each.name) for each in fields(Assumptions)})
    except ValueError as error:
        parser.error(str(error))
    return options


def add_assumptions(parser: argparse.ArgumentParser) -> None:
    """Add an option for each assumption."""
    for each in fields(Assumptions):
        option, about = f"--{each.name.replace('_', '-')}", each.metadata["about"]
        parser.add_argument(
            option, type=type(each.default), default=each.default, help=f"{about} (default: %(default)s)"
        )


def main() -> None:
    options = parsed()
    figures = json.loads(options.figures.read_text()) if options.figures else {}
    with tempfile.TemporaryDirectory(prefix="redsess-bench-") as folder:
        settings.configure(**ENGINES[OURS].settings(Stores(0, folder)))
        django.setup()
        for part in options.only:
            figures |= PARTS[part](options.server, QUICK if options.quick else Sizes())
            figures |= {"date": date.today().isoformat(), "machine": described(options.server)}
            if options.json:
                options.json.write_text(json.dumps(figures, indent=2) + "\n")
    print(tables(figures, options.assumed, [round(number) for number in options.sessions]))


def described(kind: str) -> str:
    with closing(Server(available()[kind])) as server:
        return machine_of(kind, server.client.info())


if __name__ == "__main__":
    main()
