"""
Measure operations with few sessions in the store and with many, side by side.

Each of two stores has a server and a process of its own, and all of them run all the time. In a round each operation is
done in both stores, one right after the other, in random order. A ratio compares the two of one round. The sessions in
use lie in the middle of the others.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from statistics import median
from typing import Any

from tqdm import tqdm

from benchmarks.engines import OURS
from benchmarks.operations import operations_of
from benchmarks.ratios import paired
from benchmarks.stores import Servers
from benchmarks.worker import Worker

FEW, MANY, MOST = 10_000, 1_000_000, 10_000_000
"""How many sessions. Filling a store with the most takes long: --targets does."""

Seconds = dict[str, list[float]]
"""By operation: the seconds that one took, in each round."""


def measured(
    kind: str, binary: Path, *, few: int = FEW, many: int = MANY, rounds: int = 20, count: int = 200
) -> Iterator[dict[str, Any]]:
    """
    Compare stores of our engine with ``few`` and with ``many`` sessions, and yield the entries of "scale".

    ``binary`` is the program of a server of this ``kind``. In each of the ``rounds`` each operation is done ``count``
    times.
    """
    operations = operations_of(OURS)
    with ExitStack() as stack:
        small, large = (_filled(binary, sessions, stack) for sessions in (few, many))
        took_few, took_many = _compared(small, large, operations, rounds, count)
    for operation in operations:
        yield {
            "server": kind,
            "operation": operation,
            "engine": OURS,
            "few": few,
            "many": many,
            **paired(took_many[operation], took_few[operation])._asdict(),
            "few_microseconds": median(took_few[operation]) * 1e6,
            "many_microseconds": median(took_many[operation]) * 1e6,
        }


def _filled(binary: Path, sessions: int, stack: ExitStack) -> Worker:
    servers = stack.enter_context(closing(Servers(binary)))
    worker = stack.enter_context(closing(Worker(OURS, servers.stores)))
    worker.start()
    worker.fill(sessions)
    return worker


def _compared(
    small: Worker, large: Worker, operations: Sequence[str], rounds: int, count: int
) -> tuple[Seconds, Seconds]:
    workers: dict[Worker, Seconds] = {worker: {operation: [] for operation in operations} for worker in (small, large)}
    with tqdm(total=(rounds + 1) * len(operations), desc="scale", unit="pair", disable=None) as progress:
        for number in range(rounds + 1):
            for operation in random.sample(operations, len(operations)):
                for worker in random.sample([small, large], 2):
                    worker.prepare(operation, count)
                    seconds = worker.run().seconds / count
                    worker.tidy()
                    # The first round opens connections and loads scripts.
                    if number:
                        workers[worker][operation].append(seconds)
                progress.update()
    return workers[small], workers[large]
