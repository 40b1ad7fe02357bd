"""Viewed items: the keys and arguments of a script that may also record a view."""

from __future__ import annotations

from functools import lru_cache

from django_redsess.conf import conf
from django_redsess.session.partitions import share_of
from django_redsess.transport import scripts
from django_redsess.transport.keys import Partition, keyspace


def viewing_keys(partition: Partition, item: str) -> tuple[bytes, ...]:
    """Return the keys of a script that may record a view of ``item`` (``""`` for none)."""
    space = keyspace()
    return _viewing_keys(partition, bool(item) and (space.count == 1 or space.of_item(item) == partition))


@lru_cache(maxsize=2048)
def _viewing_keys(partition: Partition, counts: bool) -> tuple[bytes, ...]:
    popularity = {"popularity": partition.viewed} if counts else {}
    return scripts.RECORD_VIEW.keys(partition, **popularity)


def viewing(item: str) -> dict[str, bytes | int]:
    """Return the arguments for a view of ``item``; none for ``""``."""
    if not item:
        return {}
    return {"item": item.encode(), "keep": conf.VIEWED_PER_SESSION, "items_max": items_max()}


def items_max() -> int:
    """Return the most items that one partition counts."""
    return share_of(conf.VIEWED_LIMIT, keyspace().count)
