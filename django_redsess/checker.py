"""Whether all keys tell the same story, and mending what does not: bit by bit, while sessions come and go."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from django_redsess import upkeep
from django_redsess.keys import Partition, keyspace
from django_redsess.upkeep import Fault

ENTRIES_MAX = 200
"""The most entries that one call compares with all other keys."""

RECORD_BYTES_ENOUGH = 256 * 1024
"""So much of records in one call, and the next takes fewer: the server reads each of them whole."""

NAMES_AT_ONCE = 100


class Step(NamedTuple):
    """What one call looked at: so many ``entries``, and the faults it found (and mended, if it was to)."""

    entries: int
    faults: list[Fault]


def check(*, mend: bool = False) -> Iterator[Step]:
    """
    Compare every key of the store with the others, and with ``mend`` put right what disagrees.

    Each script compares anew, all at once: what visitors do meanwhile is no fault. A record with a deadline is a
    session, and is entered wherever it is missing; what has only one of the two is none, and is taken out.
    """
    space = keyspace()
    for partition in space.partitions:
        for key in (partition.login, partition.expire, partition.recent, partition.guests, partition.online_user):
            yield from _entries(partition, key, mend=mend)
    cursor = None
    while cursor != 0:
        cursor, names = upkeep.names(cursor or 0, about=1000).run()
        yield from _keys(names, mend=mend)


def _entries(partition: Partition, key: str, *, mend: bool, owner: str | None = None) -> Iterator[Step]:
    cursor, about = None, 1
    while cursor != 0:
        checked = upkeep.check(partition, key, cursor or 0, about=about, mend=mend, owner=owner).run()
        yield Step(checked.entries, checked.faults)
        cursor = checked.cursor
        about = max(1, about // 2) if checked.record_bytes > RECORD_BYTES_ENOUGH else min(about * 2, ENTRIES_MAX)


def _keys(names: list[str], *, mend: bool) -> Iterator[Step]:
    space = keyspace()
    to_check: dict[Partition, list[str]] = {}
    for name in names:
        partition = space.of_name(name)
        kind = "other" if partition is None else partition.kind_of(name)
        if partition is not None and kind in ("user", "session"):
            to_check.setdefault(partition, []).append(name)
        elif not kind:
            yield Step(1, [Fault("unknown", "", name)])
    for partition, of_partition in to_check.items():
        for start in range(0, len(of_partition), NAMES_AT_ONCE):
            some = of_partition[start : start + NAMES_AT_ONCE]
            faults, long = upkeep.check_names(partition, some, mend=mend).run()
            yield Step(len(some), faults)
            for name in long:
                owner = name.removeprefix(partition.online_user_of(""))
                yield from _entries(partition, name, mend=mend, owner=owner)
