"""Ratios of the benchmark, and what it refuses to measure."""

from __future__ import annotations

import random
from statistics import median

import pytest

from benchmarks.ratios import paired
from benchmarks.rounds import Repeats, measured

pytestmark = pytest.mark.unit


def test_the_interval_of_a_ratio_has_the_median_in_it_and_is_the_same_each_time() -> None:
    dice = random.Random(7)
    base = [dice.uniform(1, 2) for _ in range(30)]
    values = [2 * each * dice.uniform(0.9, 1.1) for each in base]
    ratio = paired(values, base)
    assert ratio == paired(values, base)
    assert ratio.low < ratio.ratio < ratio.high
    assert ratio.ratio == median(value / each for value, each in zip(values, base, strict=True))
    # It gets narrower with more rounds.
    more = paired(values * 10, base * 10)
    assert more.high - more.low < ratio.high - ratio.low
    assert paired(base, base) == (1, 1, 1)
    with pytest.raises(ValueError, match="shorter"):
        paired(values, base[:-1])


def test_more_than_there_is_can_not_be_measured() -> None:
    with pytest.raises(ValueError, match="count must be from 1 to 5, not 6"):
        measured("valkey", sessions=5, repeats=Repeats(count=6))
    with pytest.raises(KeyError):
        measured("valkey", engines=["of nobody"])
