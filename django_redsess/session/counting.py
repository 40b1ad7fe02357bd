"""How many sessions there are: asked beside what makes one, to know whether there is something to clean."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from django_redsess.transport import packing
from django_redsess.transport.keys import Partition


class Stored(NamedTuple):
    """How many sessions of a partition are due, and how many it has: signed-in ones, and guests."""

    due: int
    recent: int
    guests: int


@lru_cache(maxsize=1024)
def counting(partition: Partition) -> tuple[Callable[[int], bytes], int]:
    """Return what makes the commands that count sessions from the server's time, and how many commands those are."""
    recent, guests = packing.command("ZCARD", partition.recent), packing.command("ZCARD", partition.guests)
    return lambda now: packing.command("ZCOUNT", partition.expire, "-inf", now) + recent + guests, 3


def stored(counts: Sequence[Any]) -> Stored | None:
    """Read the replies to these commands; None if one is an error."""
    return Stored(*counts) if all(isinstance(count, int) for count in counts) else None
