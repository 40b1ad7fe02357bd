"""The two stores of this engine between which sessions move: the one before and the next one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from django_redsess.conf import conf
from django_redsess.exceptions import SessionStoreUnavailable
from django_redsess.session.other_store import EndBefore, Watched
from django_redsess.transport import packing
from django_redsess.transport.keys import Store, keyspace
from django_redsess.transport.partitions import ask_each
from django_redsess.transport.steps import Steps, drive, in_store


@dataclass(frozen=True, slots=True)
class Stores:
    """The store ``before`` and the ``next`` one. None stands for that of the settings; ``other`` is the other one."""

    before: Store | None
    next: Store | None
    other: Store

    @property
    def in_order(self) -> tuple[Store | None, Store | None]:
        """Both: first the one from which sessions move."""
        return self.before, self.next


def site_stores() -> Stores:
    """
    Return both stores, as ``MOVE_TO`` or ``MOVE_FROM`` says.

    Raises ImproperlyConfigured if neither does, or both do.
    """
    target, origin = conf.MOVE_TO, conf.MOVE_FROM
    if target is not None and origin is not None:
        raise ImproperlyConfigured("REDSESS has MOVE_TO and MOVE_FROM. Leave one out: only step 1 has MOVE_TO.")
    if target is not None:
        other = _describe_store(target)
        return Stores(None, other, other)
    if isinstance(origin, Mapping) and "SESSION_ENGINE" not in origin:
        other = _describe_store(origin)
        return Stores(other, None, other)
    raise ImproperlyConfigured(
        "SESSION_ENGINE is django_redsess.contrib.moving.growing, and REDSESS names no other store of this engine. "
        "Describe the next one by MOVE_TO in step 1, and the one before by MOVE_FROM in step 2. From any other engine, "
        "sessions move with SESSION_ENGINE = 'django_redsess.contrib.moving'."
    )


def _describe_store(named: Mapping[str, Any]) -> Store:
    # Settings that are not named are those of this store. PREFIX may be a function, so it is looked up each time.
    alias, prefix = named.get("SESSION_CACHE_ALIAS", settings.SESSION_CACHE_ALIAS), named.get("PREFIX", conf.PREFIX)
    return Store(alias, prefix, named.get("PARTITIONS", conf.PARTITIONS))


class SiblingStore:
    """The store that ``MOVE_TO`` or ``MOVE_FROM`` describes."""

    @property
    def display_name(self) -> str:
        other = site_stores().other
        try:
            is_empty = drive(in_store(other, count_stored)) == 0
        except SessionStoreUnavailable:
            is_empty = False
        return "" if is_empty else f"{other.alias}, {other.prefix}"

    def own_stores(self) -> Sequence[Store | None]:
        return site_stores().in_order

    def note_end_before(self, which: EndBefore) -> Steps[None]:
        # online.ending has ended them in each store of this engine.
        yield from ()

    def note_ends(self, sids: Sequence[str]) -> Steps[None]:
        yield from ()

    def find_living(self, watched: Sequence[Watched]) -> Steps[list[bool]]:
        there = yield from in_store(site_stores().other, find_living_sids, [sid for sid, *_ in watched])
        return [sid in there for sid, *_ in watched]


def count_stored() -> Steps[int]:
    """Count the sessions of the present store, also those that are due."""
    partitions = keyspace().partitions
    counts = yield from ask_each(
        "count", partitions, lambda n, at: packing.pack_command("HLEN", partitions[n].login), 1
    )
    return sum(count for [count] in counts)


def find_living_sids(sids: Sequence[str]) -> Steps[set[str]]:
    """Return which of these sessions live in the present store."""
    partitions, times = [keyspace().of_sid(sid) for sid in sids], [0] * len(sids)

    def pack_question(number: int, at: int) -> bytes:
        times[number] = at
        return packing.pack_command("ZSCORE", partitions[number].expire, sids[number])

    found = (yield from ask_each("read", partitions, pack_question, 1)) if sids else []
    return {sid for sid, at, [due] in zip(sids, times, found, strict=True) if due is not None and float(due) > at}
