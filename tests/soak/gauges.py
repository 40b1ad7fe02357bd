"""Memory and file descriptors of processes, from their warm-up to their end."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from statistics import median
from typing import NamedTuple

import psutil

WARM_UP_SECONDS = 30
"""A process is measured from then on: modules, connections and caches of the first requests are no leak."""

LIFE_SECONDS = 30
"""How long a process must be measured, to be compared."""

MEMORY_MIB, MEMORY_SHARE = 16, 0.15
DESCRIPTORS = 24
"""By how much a process may grow: by the larger one of two for its memory."""

_SAMPLES = 3
"""So many at the beginning and at the end are one: their median."""


class Sample(NamedTuple):
    age: float
    mib: float
    descriptors: int


class Growth(NamedTuple):
    """Of the processes of one kind, the one that has grown the most: from its warm-up to its end."""

    kind: str
    lives: int
    compared: int
    mib: tuple[float, float] = (0, 0)
    descriptors: tuple[int, int] = (0, 0)

    @property
    def is_flat(self) -> bool:
        first, last = self.mib
        grown = last - first <= max(MEMORY_MIB, MEMORY_SHARE * first)
        return grown and self.descriptors[1] - self.descriptors[0] <= DESCRIPTORS


class Gauges:
    def __init__(self) -> None:
        self._lives: dict[str, dict[tuple[int, float], list[Sample]]] = defaultdict(lambda: defaultdict(list))

    def measure(self, kind: str, pids: Iterable[int], now: float) -> None:
        for pid in pids:
            # It may have ended a moment ago.
            with suppress(psutil.Error):
                process = psutil.Process(pid)
                began = process.create_time()
                sample = Sample(now - began, process.memory_info().rss / 2**20, process.num_fds())
                self._lives[kind][pid, began].append(sample)

    def growths(self) -> list[Growth]:
        return [self._growth(kind, list(lives.values())) for kind, lives in sorted(self._lives.items())]

    @staticmethod
    def _growth(kind: str, lives: list[list[Sample]]) -> Growth:
        warm = [[sample for sample in life if sample.age >= WARM_UP_SECONDS] for life in lives]
        long = [life for life in warm if life and life[-1].age - life[0].age >= LIFE_SECONDS]
        if not long:
            return Growth(kind, len(lives), 0)
        first_last = [(life[:_SAMPLES], life[-_SAMPLES:]) for life in long]
        mib = [tuple(median(sample.mib for sample in part) for part in each) for each in first_last]
        descriptors = [
            tuple(int(median(sample.descriptors for sample in part)) for part in each) for each in first_last
        ]
        return Growth(
            kind,
            len(lives),
            len(long),
            max(mib, key=lambda each: each[1] - each[0]),
            max(descriptors, key=lambda each: each[1] - each[0]),
        )
