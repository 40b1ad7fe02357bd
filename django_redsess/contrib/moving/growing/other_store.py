"""What operations on many sessions do in the other store: see ``session/other_store.py``."""

from __future__ import annotations

from collections.abc import Sequence

from django_redsess.contrib.moving.growing.stores import stores
from django_redsess.exceptions import SessionStoreUnavailable
from django_redsess.session.other_store import EndBefore, Watched
from django_redsess.transport import packing
from django_redsess.transport.keys import Store, keyspace
from django_redsess.transport.partitions import ask_each
from django_redsess.transport.steps import Steps, drive, in_store


class SiblingStore:
    """The store that ``MOVE_TO`` or ``MOVE_FROM`` describes."""

    @property
    def display_name(self) -> str:
        other = stores().other
        try:
            is_empty = drive(in_store(other, size)) == 0
        except SessionStoreUnavailable:
            is_empty = False
        return "" if is_empty else f"{other.alias}, {other.prefix}"

    def own_stores(self) -> Sequence[Store | None]:
        return stores().in_order

    def note_end_before(self, which: EndBefore) -> Steps[None]:
        # They have been ended there.
        yield from ()

    def note_ends(self, sids: Sequence[str]) -> Steps[None]:
        yield from ()

    def find_living(self, watched: Sequence[Watched]) -> Steps[list[bool]]:
        there = yield from in_store(stores().other, living, [sid for sid, *_ in watched])
        return [sid in there for sid, *_ in watched]


def size() -> Steps[int]:
    """Count the sessions of the present store, due ones too."""
    partitions = keyspace().partitions
    counts = yield from ask_each(
        "count", partitions, lambda n, at: packing.pack_command("HLEN", partitions[n].login), 1
    )
    return sum(count for [count] in counts)


def living(sids: Sequence[str]) -> Steps[set[str]]:
    """Return which of these sessions live in the present store."""
    partitions, times = [keyspace().of_sid(sid) for sid in sids], [0] * len(sids)

    def asking(number: int, at: int) -> bytes:
        times[number] = at
        return packing.pack_command("ZSCORE", partitions[number].expire, sids[number])

    found = (yield from ask_each("read", partitions, asking, 1)) if sids else []
    return {sid for sid, at, [due] in zip(sids, times, found, strict=True) if due is not None and float(due) > at}
