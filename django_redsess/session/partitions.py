"""What concerns all partitions: one call for each, and dividing sids and maxima among them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from django_redsess.transport.keys import Partition, keyspace
from django_redsess.transport.scripts import CONSTANTS, Script, Values
from django_redsess.transport.steps import Call, T


def on_each(script: Script, args: Values, read: Callable[..., T]) -> list[Call[T]]:
    """Return a call of ``script`` for each partition. ``read`` makes the result of a reply."""
    return [Call(partition, script, script.keys(partition), args, read) for partition in keyspace().partitions]


def batches(sids: Iterable[str], at_once: int = CONSTANTS["AT_ONCE_MAX"]) -> Iterator[tuple[Partition, list[str]]]:
    """Group ``sids`` by partition, in batches of up to ``at_once``."""
    space, groups = keyspace(), dict[int, list[str]]()
    if space.count == 1:
        groups[0] = list(dict.fromkeys(sids))
    else:
        for sid in dict.fromkeys(sids):
            groups.setdefault(space.number_of(sid), []).append(sid)
    for number, group in groups.items():
        for start in range(0, len(group), at_once):
            yield space.partitions[number], group[start : start + at_once]


def share_of(maximum: int, partitions: int) -> int:
    """Return the share of ``maximum`` that one partition has, rounded up. ``partitions`` is their number."""
    return -(-maximum // partitions)
