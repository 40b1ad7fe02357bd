"""Taking out sessions that are due, and those above the maximum: what the commands run."""

from __future__ import annotations

from collections.abc import Iterator

from django_redsess import store
from django_redsess.call import Call
from django_redsess.conf import conf

BATCH_SIZE = 100


def expired(*, batch_size: int = BATCH_SIZE) -> Iterator[int]:
    """
    End every session whose deadline has passed, ``batch_size`` (1 to 1 000) a call; yield how many after each call.

    Each script looks at the clock itself, so that a session whose deadline moved meanwhile stays.
    """
    yield from _until_done(store.expire(limit=batch_size), batch_size)


def evicted(*, maximum: int | None = None, batch_size: int = BATCH_SIZE) -> Iterator[int]:
    """
    End the sessions longest unseen above ``maximum`` (the setting MAX_SESSIONS when None), ``batch_size`` a call.

    Yields how many after each call. Each script counts anew, so that two cleaners at once don't take out too many.
    """
    calls = store.evict(conf.MAX_SESSIONS if maximum is None else maximum, limit=batch_size)
    yield from _until_done(calls, batch_size)


def _until_done(calls: list[Call[list[store.Ended]]], batch_size: int) -> Iterator[int]:
    for call in calls:
        ended = batch_size
        while ended == batch_size:
            ended = len(call.run())
            yield ended
