"""``bisect``: it finds a rank over several partitions, and asks little."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_redsess.transport.round_trips import Bound, Steps, bisect, drive, guess_by_share

pytestmark = pytest.mark.unit

SCORES = st.integers(-50, 50)


def bound(partitions: list[list[int]], score: int) -> Bound:
    return Bound(score, [sum(each < score for each in scores) for scores in partitions])


@given(st.lists(st.lists(SCORES, max_size=20), min_size=1, max_size=4).filter(any), st.data())
def test_the_entry_with_the_rank_is_between_the_bounds(partitions: list[list[int]], data: st.DataObject) -> None:
    scores = sorted(score for partition in partitions for score in partition)
    rank = data.draw(st.integers(0, len(scores) - 1))
    asked: list[int] = []

    def bound_at(score: int) -> Steps[Bound]:
        asked.append(score)
        return bound(partitions, score)
        yield

    low, high = bound(partitions, -50), bound(partitions, 51)
    options = data.draw(st.sampled_from([{}, {"guess": guess_by_share(rank)}]))
    low, high = drive(bisect(bound_at, rank, low, high, **options))
    assert (low, high) == (bound(partitions, scores[rank]), bound(partitions, scores[rank] + 1))
    assert len(asked) <= (14 if options else 7)


def test_it_stops_when_it_is_near_enough() -> None:
    def bound_at(score: int) -> Steps[Bound]:
        raise AssertionError("it asks for nothing")
        yield

    bounds = Bound(0, [0]), Bound(100, [5])
    assert drive(bisect(bound_at, 2, *bounds, near_enough=lambda low, high: high.total - low.total <= 5)) == bounds
