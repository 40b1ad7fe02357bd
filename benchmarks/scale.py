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

from benchmarks.bare import operations_of
from benchmarks.ratios import Ratio, paired
from benchmarks.stores import Servers
from benchmarks.worker import Worker

SIZES = (10_000, 100_000, 1_000_000)
LARGEST = 10_000_000
"""Filling this store takes long: it is measured with --full and --targets only."""

BYTES = "bytes"
"""Not an operation: the entry with the server's memory for a session, with all indexes."""

Seconds = dict[str, list[float]]
"""By operation: the seconds that one took, in each round."""


def measured(
    kind: str,
    binary: Path,
    engine: str,
    *,
    sizes: Sequence[int] = SIZES,
    rounds: int = 20,
    count: int = 200,
) -> Iterator[dict[str, Any]]:
    """
    Compare stores of ``engine`` with these ``sizes``, the smallest first, and yield the entries of "scale".

    ``binary`` is the program of a server of this ``kind``. In each of the ``rounds`` each operation is done ``count``
    times. The entries of the smallest size have the ratio 1, and the time that was measured beside the largest.
    """
    smallest, *larger = sizes
    operations = operations_of(engine)
    with ExitStack() as stack:
        small, least = _filled(engine, binary, smallest, stack)
        found: dict[int, dict[str, Ratio]] = {smallest: dict.fromkeys([*operations, BYTES], Ratio(1, 1, 1))}
        took: dict[int, Seconds] = {}
        used = {smallest: least}
        for size in larger:
            with ExitStack() as of_size:
                large, taken = _filled(engine, binary, size, of_size)
                label = f"{engine}, {size:,} sessions"
                took[smallest], took[size] = _compared(small, large, operations, rounds, count, label)
            found[size] = {each: paired(took[size][each], took[smallest][each]) for each in operations}
            found[size][BYTES] = Ratio(taken / least, taken / least, taken / least)
            used[size] = taken
    for size, ratios in found.items():
        for operation, (ratio, low, high) in ratios.items():
            yield {
                "server": kind,
                "sessions": size,
                "operation": operation,
                "engine": engine,
                "ratio_to_smallest": ratio,
                "low": low,
                "high": high,
                "microseconds": used[size] if operation == BYTES else median(took[size][operation]) * 1e6,
            }


def _filled(engine: str, binary: Path, sessions: int, stack: ExitStack) -> tuple[Worker, float]:
    servers = stack.enter_context(closing(Servers(binary)))
    worker = stack.enter_context(closing(Worker(engine, servers.stores)))
    worker.start()
    before = servers.redis.client.info("memory")["used_memory"]
    worker.fill(sessions)
    return worker, (servers.redis.client.info("memory")["used_memory"] - before) / sessions


def _compared(
    small: Worker, large: Worker, operations: Sequence[str], rounds: int, count: int, label: str
) -> tuple[Seconds, Seconds]:
    workers: dict[Worker, Seconds] = {worker: {operation: [] for operation in operations} for worker in (small, large)}
    with tqdm(total=(rounds + 1) * len(operations), desc=label, unit="pair", disable=None) as progress:
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
