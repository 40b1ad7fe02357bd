"""Compare two ways by what both took in the same rounds."""

from __future__ import annotations

import random
from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

RESAMPLES = 2000


class Ratio(NamedTuple):
    """The median of the ratios of all rounds, and its confidence interval of 95 %."""

    ratio: float
    low: float
    high: float


def paired(values: Sequence[float], base: Sequence[float]) -> Ratio:
    """
    Compare ``values`` with those of the ``base``, round by round.

    Whatever slows the machine down for a while slows both sides of a round, so their ratio stays. A test of two
    independent samples, as pyperf has, would miss a difference of 10 % then. The interval is a bootstrap: the rounds
    are drawn 2 000 times, with replacement.
    """
    ratios = [value / of_base for value, of_base in zip(values, base, strict=True)]
    rng = random.Random(1)
    medians = sorted(median(rng.choices(ratios, k=len(ratios))) for _ in range(RESAMPLES))
    outside = RESAMPLES // 40
    return Ratio(median(ratios), medians[outside], medians[-1 - outside])
