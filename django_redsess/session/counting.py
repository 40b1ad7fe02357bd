"""
What is asked in the round trip that adds a session: how many there are, to see whether there is something to clean.

Of who signs in, the message that waits is read, too: see messages.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from django_redsess.transport import packing
from django_redsess.transport.keys import Partition


class Stored(NamedTuple):
    """
    The sessions of a partition: how many are ``due``, signed in (``recent``), and ``guests``.

    ``message`` is the one that waits for who signs in, or None.
    """

    due: int
    recent: int
    guests: int
    message: bytes | None = None


def counting(partition: Partition, user_id: str = "") -> tuple[Callable[[int], bytes], int]:
    """
    Return a function that packs these commands for a time of the server, and their number.

    ``user_id`` is who signs in, or ``""``.
    """
    packed = _counting(partition)
    if not user_id:
        return packed, 3
    reading = packing.command("GET", partition.message_of(user_id))
    return lambda now: packed(now) + reading, 4


@lru_cache(maxsize=1024)
def _counting(partition: Partition) -> Callable[[int], bytes]:
    recent, guests = packing.command("ZCARD", partition.recent), packing.command("ZCARD", partition.guests)
    return lambda now: packing.command("ZCOUNT", partition.expire, "-inf", now) + recent + guests


def stored(counts: Sequence[Any]) -> Stored | None:
    """Read the replies to the commands. None if the sessions could not be counted."""
    due, recent, guests, message = (*counts, None)[:4]
    if not all(isinstance(count, int) for count in (due, recent, guests)):
        return None
    # Another program may have stored anything as the message.
    return Stored(due, recent, guests, message if isinstance(message, bytes) else None)
