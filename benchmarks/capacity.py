"""
Plan a store on paper: how many nodes, partitions and bytes a number of sessions needs, computed from measurements.

First it measures, on servers that it starts: bytes of a session; commands, bytes and CPU time of each kind of request;
what a fork, a full resynchronisation and moving a partition cost. That takes about fifteen minutes and 3 GB of memory.
Then it multiplies. The tables that it prints are those of docs/explanation/scale.rst.

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
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, fields
from datetime import date
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

Way = Callable[[Path, int], nodes.Moved]


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


def measured(kind: str, sizes: Sizes) -> Iterator[dict[str, Any]]:
    """Measure everything on servers of this ``kind``. Yield the figures part by part, with the machine and the date."""
    binary = available()[kind]
    yield {
        "date": date.today().isoformat(),
        "bytes": {str(number): of_bytes(kind, number, sizes) for number in (1, 64)},
    }
    of_requests = {}
    for partitions in PARTITIONS:
        with closing(Server(binary)) as server, nodes.replica_of(server):
            costs = traffic.costs(server, partitions, sessions=sizes.known, count=sizes.count, rounds=sizes.rounds)
            of_requests[str(partitions)] = {name: cost._asdict() for name, cost in costs.items()}
            machine = machine_of(kind, server.client.info())
    yield {"machine": machine, "requests": of_requests}
    with closing(Server(binary)) as server:
        yield {"touched": traffic.touched(server, seconds=sizes.seconds)}
    with closing(Server(binary)) as server, traffic.pointed_at(server):
        yield of_store(nodes.Store(server, sizes.stored), sizes)
    yield {"moves": [of_moves(way, binary, sessions, sizes) for way in ways_of(kind) for sessions in sizes.moved]}


def of_bytes(kind: str, partitions: int, sizes: Sizes) -> dict[str, float]:
    """Return the bytes of sessions of each kind."""
    sessions = sizes.of_partition * (10 if partitions == 1 else partitions)
    cases = [memory.Case(OURS, *each, partitions=partitions) for each in KINDS]
    entries = memory.measured({kind: available()[kind]}, sessions=sessions, cases=cases)
    return {KINDS[entry["kind"], entry["viewed"]]: entry["bytes"] for entry in entries}


def of_store(store: nodes.Store, sizes: Sizes) -> dict[str, Any]:
    """Return what a fork and a full resynchronisation of this store cost."""
    rounds = min(sizes.rounds, 5)
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


def ways_of(kind: str) -> list[Way]:
    """Return the ways to move a partition that are measured on this ``kind`` of server."""
    # Redis can move slots at once from 8.4 on, by other commands.
    return [nodes.classic, nodes.atomic] if kind == "valkey" else [nodes.classic]


def of_moves(way: Way, binary: Path, sessions: int, sizes: Sizes) -> dict[str, Any]:
    """Move a partition several times, a large one once. Return the medians."""
    rounds = min(sizes.rounds, 3) if sessions < sizes.stored else 1
    runs = [way(binary, sessions) for _ in range(rounds)]
    return {
        "how": runs[0].how,
        "sessions": sessions,
        "blocked_ms": median(run.blocked_ms for run in runs),
        "seconds": median(run.seconds for run in runs),
    }


def parsed(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse ``arguments``, by default those of the command line. Exit with a message if they are not valid."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.capacity",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--figures", type=Path, metavar="FILE", help="plan from this file, and measure nothing")
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
    for each in fields(Assumptions):
        option, about = f"--{each.name.replace('_', '-')}", each.metadata["about"]
        parser.add_argument(
            option, type=type(each.default), default=each.default, help=f"{about} (default: %(default)s)"
        )
    options = parser.parse_args(arguments)
    if options.json and not options.json.parent.is_dir():
        parser.error(f"--json: there is no folder {options.json.parent}")
    if options.figures and not options.figures.is_file():
        parser.error(f"--figures: there is no file {options.figures}")
    try:
        options.assumed = Assumptions(**{each.name: getattr(options, each.name) for each in fields(Assumptions)})
    except ValueError as error:
        parser.error(str(error))
    return options


def main() -> None:
    options = parsed()
    if options.figures:
        figures = json.loads(options.figures.read_text())
    else:
        with tempfile.TemporaryDirectory(prefix="redsess-bench-") as folder:
            settings.configure(**ENGINES[OURS].settings(Stores(0, folder)))
            django.setup()
            figures = {}
            for part in measured(options.server, QUICK if options.quick else Sizes()):
                figures |= part
                if options.json:
                    options.json.write_text(json.dumps(figures, indent=2) + "\n")
    print(tables(figures, options.assumed, [round(number) for number in options.sessions]))


if __name__ == "__main__":
    main()
