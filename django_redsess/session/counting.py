"""Counting the sessions of a partition in the round trip that adds one, to see whether there is something to clean."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from django_redsess.transport import packing
from django_redsess.transport.keys import Partition


class Stored(NamedTuple):
    """The sessions of a partition: how many are ``due``, signed in (``recent``), and ``guests``."""

    due: int
    recent: int
    guests: int


@lru_cache(maxsize=1024)
def counting(partition: Partition) -> tuple[Callable[[int], bytes], int]:
    """Return a function that packs the counting commands for a time of the server, and the number of these commands."""
    recent, guests = packing.command("ZCARD", partition.recent), packing.command("ZCARD", partition.guests)
    return lambda now: packing.command("ZCOUNT", partition.expire, "-inf", now) + recent + guests, 3


def stored(counts: Sequence[Any]) -> Stored | None:
    """Read the replies to the counting commands. None if one of them is an error."""
    return Stored(*counts) if all(isinstance(count, int) for count in counts) else None
