"""
Measure all engines side by side, in rounds.

Each block has new servers and processes, so that the luck of one process's memory does not decide. In a round every
engine does every operation equally often, in random order. The first round of a block is not measured: it opens
connections and fills caches. An engine's time is compared with that of the base in the same round.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from statistics import mean, median
from typing import Any, NamedTuple

from tqdm import tqdm

from benchmarks.engines import BASE, ENGINES, OURS
from benchmarks.operations import KNOWN, SEED, Side, operations_of
from benchmarks.ratios import paired
from benchmarks.stores import Servers
from benchmarks.worker import Worker, WorkerFailed
from testproject.servers import available

OPERATIONS = Side.operations
"""The operations that are compared, in the order of tables."""


@dataclass(frozen=True)
class Repeats:
    """How often each operation is measured: ``count`` times in each of the ``rounds`` of each of the ``blocks``."""

    rounds: int = 20
    count: int = 200
    blocks: int = 3


class Run(NamedTuple):
    """One operation of one engine in one round. Times and counts are per single operation."""

    block: int
    round: int
    operation: str
    engine: str
    seconds: float
    client_cpu: float
    server_cpu: float
    commands: float
    reads: float


class Measured(NamedTuple):
    """The entries of "operations" in the JSON file, and why engines were left out, by name."""

    operations: list[dict[str, Any]]
    left_out: dict[str, str]


def measured(
    kind: str,
    *,
    sessions: int = 1000,
    engines: Collection[str] = tuple(ENGINES),
    repeats: Repeats = Repeats(),
) -> Measured:
    """
    Measure ``engines`` (names in :data:`benchmarks.engines.ENGINES`) on servers of this ``kind``.

    Each engine has this number of ``sessions``. ``repeats.count`` of them, at most 1 000, are used for each operation
    in a round. The base is always measured. An engine that can't be used here is left out, with the reason. In the
    entries, ``client_cpu`` and ``server_cpu`` are microseconds of an operation, and ``server_cpu_ratio`` compares the
    latter as ``ratio`` compares the time. ``round_trips`` and ``commands`` are None for an engine that does not use
    Redis. A progress bar is on stderr, if that is a terminal.

    Raises ValueError for a count above the number of sessions, WorkerFailed if an operation fails, and KeyError for an
    unknown name.
    """
    if not 0 < repeats.count <= min(sessions, KNOWN):
        raise ValueError(f"count must be from 1 to {min(sessions, KNOWN)}, not {repeats.count}.")
    left_out: dict[str, str] = {}
    if unknown := {*engines} - {*ENGINES}:
        raise KeyError(unknown.pop())
    names = [name for name in ENGINES if name in engines or name == BASE]
    kinds = sum(len({*OPERATIONS} & {*operations_of(name)}) for name in names)
    steps = kinds * (repeats.rounds + 1) * repeats.blocks
    runs: list[Run] = []
    with tqdm(total=steps, desc=f"{kind}, {sessions:,} sessions", unit="run", disable=None) as progress:
        for block in range(repeats.blocks):
            with ExitStack() as stack:
                servers = stack.enter_context(closing(Servers(available()[kind])))
                workers = _started(names, servers, stack, left_out)
                for name, worker in workers.items():
                    progress.set_postfix_str(f"making sessions: {name}")
                    worker.fill(sessions)
                progress.set_postfix_str("")
                for run in _runs(block, workers, servers, repeats):
                    progress.update()
                    # The first round is not measured.
                    if run.round:
                        runs.append(run)
    return Measured([_entry(kind, sessions, of_engine, base) for of_engine, base in _grouped(runs)], left_out)


def _started(names: Sequence[str], servers: Servers, stack: ExitStack, left_out: dict[str, str]) -> dict[str, Worker]:
    # All at once: most of their start is importing.
    workers: dict[str, Worker] = {}
    for name in names:
        if why := left_out.get(name) or ENGINES[name].left_out():
            left_out[name] = why
        else:
            workers[name] = stack.enter_context(closing(Worker(name, servers.stores)))
    for name, worker in list(workers.items()):
        try:
            worker.start()
        except WorkerFailed as error:
            if name in (OURS, BASE):
                raise
            left_out[name] = str(error)
            del workers[name]
    return workers


def _runs(block: int, workers: dict[str, Worker], servers: Servers, repeats: Repeats) -> Iterator[Run]:
    rng = random.Random(SEED + block)
    for number in range(repeats.rounds + 1):
        for operation in OPERATIONS:
            # One right after the other: what slows the machine down for a while then slows all of them.
            doing = [name for name in workers if operation in operations_of(name)]
            for name in rng.sample(doing, len(doing)):
                worker = workers[name]
                worker.prepare(operation, repeats.count)
                before = servers.usage()
                timing = worker.run()
                used = servers.used_since(before)
                worker.tidy()
                each = (timing.seconds, timing.cpu_seconds, used.cpu_seconds, used.commands, used.reads)
                yield Run(block, number, operation, name, *(value / repeats.count for value in each))


def _grouped(runs: list[Run]) -> Iterator[tuple[list[Run], list[Run]]]:
    """Group ``runs`` by operation and engine, and yield each group with that of its base."""
    groups: dict[tuple[str, str], list[Run]] = {}
    for run in runs:
        groups.setdefault((run.operation, run.engine), []).append(run)
    for operation in OPERATIONS:
        for name in ENGINES:
            if (operation, name) in groups:
                yield groups[operation, name], groups[operation, BASE]


def _entry(kind: str, sessions: int, runs: list[Run], base: list[Run]) -> dict[str, Any]:
    name = runs[0].engine
    of_base = {(run.block, run.round): run for run in base}
    pairs = [(run, of_base[run.block, run.round]) for run in runs]
    ratio = paired([run.seconds for run, _ in pairs], [other.seconds for _, other in pairs])
    of_server = paired([run.server_cpu for run, _ in pairs], [other.server_cpu for _, other in pairs])
    asks = ENGINES[name].uses_redis
    return {
        "server": kind,
        "sessions": sessions,
        "operation": runs[0].operation,
        "engine": name,
        **ratio._asdict(),
        "microseconds": median(run.seconds for run in runs) * 1e6,
        "client_cpu": median(run.client_cpu for run in runs) * 1e6,
        # For an engine without a server, only the requests for these numbers would be counted.
        "server_cpu": mean(run.server_cpu for run in runs) * 1e6 if asks else 0.0,
        "server_cpu_ratio": of_server._asdict() if asks else None,
        "round_trips": mean(run.reads for run in runs) if asks else None,
        "commands": mean(run.commands for run in runs) if asks else None,
    }
