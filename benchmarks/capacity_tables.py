"""The tables of a plan, in reStructuredText."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields

from benchmarks.planning import GIB, MILLION, Assumptions, Figures, Plan, planned

Rows = Mapping[str, Callable[[Plan], float]]
"""What a row of a plan is called, and its value."""

KINDS = {
    "load": "load, noted as seen",
    "reload": "load, noted before",
    "change": "load, change, save",
    "view": "view an item",
    "guest": "begin a guest's session",
    "sign-in": "load, sign in",
    "end": "end a session",
    "expire": "remove one that has expired",
}

LISTS = {"page": "list of 100 sessions", "count": "number of sessions"}

COSTS = ("round trips", "commands", "received", "sent", "to a replica", "CPU, µs")

OF_STORE: Rows = {
    "memory for sessions, GiB": lambda plan: plan.memory_bytes / GIB,
    "requests a second": lambda plan: plan.requests,
    "commands a second": lambda plan: plan.commands,
    "CPU, cores": lambda plan: plan.cores,
    "received, MB a second": lambda plan: plan.received / MILLION,
    "sent, MB a second": lambda plan: plan.sent / MILLION,
    "sent to replicas, MB a second": lambda plan: plan.replicated / MILLION,
    "primaries": lambda plan: plan.primaries,
    "servers, with replicas": lambda plan: plan.servers,
    "partitions": lambda plan: plan.partitions,
    "sessions of a partition": lambda plan: plan.sessions_of_partition,
}
"""What all sessions need."""

OF_PRIMARY: Rows = {
    "memory for sessions, GiB": lambda plan: plan.memory_of_node / GIB,
    "CPU, share of a core": lambda plan: plan.cpu_of_node,
    "a fork blocks it for, ms": lambda plan: plan.fork_ms,
    "copied during a snapshot, GiB": lambda plan: plan.copied / GIB,
    "full resynchronisation, seconds": lambda plan: plan.resync_seconds,
    "... and GiB sent": lambda plan: plan.resync_bytes / GIB,
    "... and MB kept meanwhile": lambda plan: plan.kept_bytes / MILLION,
    "classic move of a partition blocks it for, ms": lambda plan: plan.classic_ms,
    "atomic move of a partition, seconds": lambda plan: plan.atomic_seconds,
}
"""What one primary has to do: the one with the most partitions."""


def tables(figures: Figures, assumed: Assumptions, sizes: Sequence[int]) -> str:
    """Return all tables: what was measured, and the plans for these ``sizes``."""
    plans = [planned(size, figures, assumed) for size in sizes]
    return "\n\n".join(
        [
            f".. Measured on {figures['date']}: {figures['machine']}",
            bytes_of_sessions(figures),
            *(requests(figures, partitions) for partitions in ("1", "64")),
            lists(figures),
            work(figures),
            moves(figures),
            assumptions(assumed),
            plan("sessions", OF_STORE, plans),
            plan("sessions: each primary", OF_PRIMARY, plans),
        ]
    )


def bytes_of_sessions(figures: Figures) -> str:
    of = figures["bytes"]
    lines = [(kind, *(f"{of[partitions][kind]:,.0f}" for partitions in of)) for kind in of["1"]]
    return table(("bytes of a session", *(named(partitions) for partitions in of)), lines)


def requests(figures: Figures, partitions: str) -> str:
    of = figures["requests"][partitions]
    lines = [(name, *cells(of[kind])) for kind, name in KINDS.items()]
    return table((named(partitions), *COSTS), lines)


def lists(figures: Figures) -> str:
    of = figures["requests"]
    lines = [
        (f"{name}, {named(partitions)}", *cells(of[partitions][kind]))
        for kind, name in LISTS.items()
        for partitions in of
    ]
    return table(("lists", *COSTS), lines)


def cells(cost: Mapping[str, float]) -> Iterator[str]:
    for name, value in cost.items():
        yield f"{value:,.1f}" if name in ("round_trips", "commands") and value < 100 else f"{value:,.0f}"


def work(figures: Figures) -> str:
    fork, resync = figures["fork"], figures["resync"]
    each_gib = {
        "memory, GiB": 1,
        "a fork blocks the server for, ms": fork["ms_per_gib"],
        "a snapshot takes, seconds": fork["seconds_per_gib"],
        "a full resynchronisation takes, seconds": resync["seconds_per_gib"],
    }
    lines = [(name, f"{value * fork['gib']:.2f}", rounded(float(value))) for name, value in each_gib.items()]
    return table(("a server's work", "measured", "for each GiB"), lines)


def moves(figures: Figures) -> str:
    lines = [
        (f"{each['how']}, {each['sessions']:,} sessions", f"{each['blocked_ms']:,.0f}", f"{each['seconds']:.2f}")
        for each in figures["moves"]
    ]
    return table(("a partition moved", "blocked, ms", "seconds in all"), lines)


def assumptions(assumed: Assumptions) -> str:
    lines = [
        (each.metadata["about"], each.name.replace("_", "-"), f"{getattr(assumed, each.name):,g}")
        for each in fields(assumed)
    ]
    return table(("assumed", "option", "value"), lines)


def plan(whose: str, rows: Rows, plans: Sequence[Plan]) -> str:
    lines = [(row, *(rounded(value(each)) for each in plans)) for row, value in rows.items()]
    return table((whose, *(f"{each.sessions:,}" for each in plans)), lines)


def rounded(value: float) -> str:
    """Write a number with two digits that mean something. Whole numbers stay as they are."""
    if isinstance(value, int):
        return f"{value:,}"
    digits = float(f"{value:.2g}")
    return f"{digits:,.0f}" if digits >= 10 else f"{digits:g}"


def named(partitions: str) -> str:
    return "1 partition" if partitions == "1" else f"{int(partitions):,} partitions"


def table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """Return a table in reStructuredText. All columns but the first are numbers."""
    rows = [head, *lines]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    rule = " ".join("=" * width for width in widths)

    def line(cells: Sequence[str]) -> str:
        first, *others = zip(cells, widths, strict=True)
        return " ".join([first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in others)])

    return "\n".join([rule, line(head), rule, *map(line, rows[1:]), rule])
