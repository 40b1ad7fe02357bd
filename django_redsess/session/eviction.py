"""The maximum number of sessions, and the eviction that makes room for a new one."""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple

from django_redsess.conf import conf
from django_redsess.exceptions import SessionStoreUnavailable
from django_redsess.session import operations
from django_redsess.session.operations import Outcome, Saving
from django_redsess.session.user_limit import NO_LIMIT
from django_redsess.signals import Reason, ends_are_wanted
from django_redsess.transport import scripts
from django_redsess.transport.keys import Partition, keyspace
from django_redsess.transport.replicas import confirmation
from django_redsess.transport.steps import EndedSessions, ScriptCall, Steps

RESERVE_MIN = 100

ALONG_MIN, ALONG_MAX = 50, 100
"""The backlog from which a new session cleans up, and the most sessions that it ends then."""


class BatchResult(NamedTuple):
    """The result of a cleaning call: how many sessions ``ended``, and whether ``more`` are left to end."""

    ended: int
    more: bool


class Allowance(NamedTuple):
    """
    The maximum numbers of sessions of a partition.

    ``signed_in`` is the maximum of signed-in sessions. Guests may have what these leave of it, but at least ``reserve``
    and at most ``guests``.
    """

    signed_in: int
    reserve: int
    guests: int

    def too_many(self, signed_in: int, guests: int) -> int:
        """Return how many of the given numbers of sessions are too many. ``too_many`` in Lua has the same rule."""
        guests_allowed = min(max(self.signed_in - signed_in, self.reserve), self.guests)
        return max(0, guests - guests_allowed) + max(0, signed_in - self.signed_in)


def allowance(maximum: int | None = None, guests: int | None = None) -> Allowance:
    """
    Return the maximum numbers of sessions of each partition.

    ``maximum`` is the most sessions of all partitions together, ``guests`` the most guests' sessions among them. None
    stands for the setting. The reserve for guests is 1 % of ``maximum``, at least 100, but never above ``maximum``.
    """
    maximum = conf.MAX_SESSIONS if maximum is None else maximum
    guests = conf.MAX_GUESTS if guests is None else guests
    reserve = min(max(maximum // 100, RESERVE_MIN), maximum)
    space = keyspace()
    return Allowance(
        signed_in=space.quota(maximum),
        reserve=space.quota(reserve),
        guests=space.quota(NO_LIMIT if guests is None else guests),
    )


def evict_after_save(sid: str, saving: Saving, outcome: Outcome) -> Steps[None]:
    """End sessions above a maximum after ``sid`` was saved: first that of its user, then that of the store."""
    crowded, limit = outcome.crowded, saving.limit
    confirms = confirmation(Reason.REPLACED) if crowded else None
    while crowded and limit is not None:
        crowded = yield from operations.end_above(limit, saving.user_id, keep=sid, confirms=confirms)
    if outcome.stored is None:
        return
    # The sessions were counted before this save, so this one is added.
    due, recent, guests, _ = outcome.stored
    recent, guests = (recent + 1, guests) if saving.user_id else (recent, guests + 1)
    cleaning = clean_on_create(keyspace().of_sid(sid), due=due, recent=recent, guests=guests)
    if cleaning is not None:
        # The session is saved, even if the cleaning fails.
        with suppress(SessionStoreUnavailable):
            yield from cleaning


def clean_on_create(partition: Partition, *, due: int, recent: int, guests: int) -> ScriptCall[BatchResult] | None:
    """
    Return the call that cleans up beside a new session. None if there is little to clean.

    This call keeps the store bounded even if no cleaner runs. It is made if 50 sessions are due, or if 50 are too many
    (a twentieth of the maximum, if that is less). It ends up to 100 sessions: due ones first, then guests', then
    others.
    """
    may = allowance()
    enough = max(1, min(ALONG_MIN, may.signed_in // 20))
    if due < ALONG_MIN and may.too_many(recent, guests) < enough:
        return None
    args = scripts.CLEAN_ON_CREATE.arguments(**eviction_args(may, ALONG_MAX))
    return ScriptCall(partition, scripts.CLEAN_ON_CREATE, scripts.CLEAN_ON_CREATE.keys(partition), args, batch_result)


def eviction_args(may: Allowance, limit: int) -> dict[str, int]:
    """Return the arguments of a script that ends up to ``limit`` sessions above the maximum."""
    return {
        "maximum": may.signed_in,
        "reserve": may.reserve,
        "guests_maximum": may.guests,
        "limit": limit,
        "named": ends_are_wanted(),
    }


def batch_result(more: int, ended: EndedSessions) -> BatchResult:
    return BatchResult(len(ended), bool(more))
