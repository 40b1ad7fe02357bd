"""Finding a rank over several partitions, each of which knows its own ranks only."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from django_redsess.transport.steps import Steps


class Bound(NamedTuple):
    """A score, and how many entries of each partition have a lower one."""

    score: int
    counts: list[int]

    @property
    def total(self) -> int:
        return sum(self.counts)


def _middle(low: Bound, high: Bound) -> int:
    return (low.score + high.score) // 2


def guess_by_share(rank: int) -> Callable[[Bound, Bound], int]:
    """Return a guess as if the scores were spread evenly. They may not be: every other guess is the middle."""
    halves = True

    def guess(low: Bound, high: Bound) -> int:
        nonlocal halves
        halves = not halves
        if halves:
            return _middle(low, high)
        return low.score + (high.score - low.score) * (rank - low.total) // (high.total - low.total)

    return guess


def _never(low: Bound, high: Bound) -> bool:
    return False


def narrowed(rank: int, low: Bound, high: Bound, found: Iterable[Bound]) -> tuple[Bound, Bound]:
    """
    Return the nearest of ``low``, ``high`` and the bounds ``found`` between which the entry with ``rank`` is.

    Counts may have changed between two readings. A bound that does not fit the others is left out.
    """
    for bound in found:
        if low.total <= bound.total <= rank and bound.score > low.score:
            low = bound
        elif rank < bound.total <= high.total and bound.score < high.score:
            high = bound
    return low, high


def bisect(
    bound_at: Callable[[int], Steps[Bound]],
    rank: int,
    low: Bound,
    high: Bound,
    *,
    guess: Callable[[Bound, Bound], int] = _middle,
    near_enough: Callable[[Bound, Bound], bool] = _never,
) -> Steps[tuple[Bound, Bound]]:
    """
    Move ``low`` and ``high`` together until there is no score between them, and return them.

    The entry with ``rank`` (0 for the lowest score) always has the score ``low.score`` or a higher one, and a lower one
    than ``high.score``. ``bound_at`` asks the partitions about a score. ``guess`` chooses that score, and
    ``near_enough`` may stop earlier.
    """
    while high.score - low.score > 1 and not near_enough(low, high):
        score = min(max(guess(low, high), low.score + 1), high.score - 1)
        bound = yield from bound_at(score)
        if bound.total <= rank:
            low = bound
        else:
            high = bound
    return low, high
