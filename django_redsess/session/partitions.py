"""What concerns all partitions: one call for each, and dividing sids and maxima among them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from django_redsess.transport.keys import Partition, keyspace
from django_redsess.transport.scripts import CONSTANTS, Script, Values
from django_redsess.transport.steps import Call, T


def on_each(script: Script, args: Values, read: Callable[..., T]) -> list[Call[T]]:
    """Return a call of ``script`` for each partition. ``read`` makes the result of a reply."""
    return [Call(partition, script, script.keys(partition), args, read) for partition in keyspace().partitions]


def batches(sids: Iterable[str]) -> Iterator[tuple[Partition, list[str]]]:
    """Group ``sids`` by partition, in batches of up to 250."""
    space, at_once = keyspace(), CONSTANTS["AT_ONCE_MAX"]
    partitions: dict[Partition, list[str]] = {}
    for sid in dict.fromkeys(sids):
        partitions.setdefault(space.of_sid(sid), []).append(sid)
    for partition, of_partition in partitions.items():
        for start in range(0, len(of_partition), at_once):
            yield partition, of_partition[start : start + at_once]


def share_of(maximum: int, partitions: int) -> int:
    """Return the share of ``maximum`` that one partition has, rounded up. ``partitions`` is their number."""
    return -(-maximum // partitions)
