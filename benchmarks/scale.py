"""
Measure operations with few sessions in the store and with many, side by side.

Two stores have a server of their own, and both are there all the time. In a round each operation is done in both, one
right after the other, in random order; a ratio compares the two of one round. The sessions that are used are made in
the middle of all, with a process of its own for each store.
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
"""What takes long to fill, and is added where somebody asks for it."""

BYTES = "bytes"
"""What is told besides of each size, and is no operation: how many the server takes for a session, all in all."""

Seconds = dict[str, list[float]]
"""What one of an operation took, in each round."""


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
    Compare stores of ``sizes`` sessions of ``engine``, the smallest first; yield entries of that list of the JSON file.

    ``binary`` is the program of a server of this ``kind``. In each of so many ``rounds`` each operation is done
    ``count`` times. The entries of the smallest size compare it with itself, and have its time beside the largest.
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
