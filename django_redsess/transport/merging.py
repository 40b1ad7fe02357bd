"""Reading a page of entries that several partitions have, each a part of them in the same order."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from django_redsess.transport.steps import Steps

E = TypeVar("E", bound=tuple[Any, ...])

Parts = list[list[list[E]]]
"""The entries of some partitions, each of which may have several lists."""


def share(wanted: int, partitions: int) -> int:
    """Return how many entries to read from each partition for a page of ``wanted`` entries: its share and a margin."""
    mean = wanted / partitions
    # Rarely has one partition of 64 more than this of a page, if users are spread evenly.
    return min(wanted, math.ceil(mean + 3 * math.sqrt(mean) + 2))


def merged(
    read: Callable[[Sequence[int], int], Steps[Parts[E]]], partitions: int, wanted: int, *, reverse: bool = False
) -> Steps[list[E]]:
    """
    Return the first ``wanted`` entries of all lists. With ``reverse``, the last ones come first, in each list too.

    ``read`` takes numbers of partitions, and how many entries of each list to read at most. A list of which all entries
    belong to the page may have more of them. Its partition is read again, so far that the page is certain.
    """
    count = share(wanted, partitions)
    parts = yield from read(range(partitions), count)
    page = _first(parts, wanted, reverse)
    if count < wanted:

        def has_more(entries: list[E]) -> bool:
            if len(entries) < count or not page:
                return False
            return len(page) < wanted or (entries[-1] >= page[-1] if reverse else entries[-1] <= page[-1])

        short = [number for number, lists in enumerate(parts) if any(map(has_more, lists))]
        if short:
            # From the beginning: entries may have come and gone since.
            for number, lists in zip(short, (yield from read(short, wanted)), strict=True):
                parts[number] = lists
            page = _first(parts, wanted, reverse)
    return page


def _first(parts: Parts[E], wanted: int, reverse: bool) -> list[E]:
    return sorted((entry for lists in parts for entries in lists for entry in entries), reverse=reverse)[:wanted]
