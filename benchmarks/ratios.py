"""How one way compares with another, by what both took in the same rounds."""

from __future__ import annotations

import random
from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

RESAMPLES = 2000
SEED = 1
"""So that the same measurements have the same interval."""


class Ratio(NamedTuple):
    """The median of the ratios of all rounds, and the interval that has it with a probability of 95 %."""

    ratio: float
    low: float
    high: float


def paired(values: Sequence[float], base: Sequence[float]) -> Ratio:
    """
    Compare ``values`` with those of the ``base``, each with the one of the same round.

    What slows a machine down for a while slows both. The interval is a bootstrap: the rounds are drawn anew, with
    replacement, 2 000 times.
    """
    ratios = [value / of_base for value, of_base in zip(values, base, strict=True)]
    dice = random.Random(SEED)
    medians = sorted(median(dice.choices(ratios, k=len(ratios))) for _ in range(RESAMPLES))
    outside = RESAMPLES // 40
    return Ratio(median(ratios), medians[outside], medians[-1 - outside])
