"""How many sessions there may be, and how a new one makes room for itself."""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple

from django_redsess.conf import conf
from django_redsess.exceptions import SessionStoreUnavailable
from django_redsess.session import operations
from django_redsess.session.operations import Outcome, Saving
from django_redsess.session.partitions import share_of
from django_redsess.signals import session_ended
from django_redsess.transport import scripts
from django_redsess.transport.announcing import EndedSessions
from django_redsess.transport.keys import Partition, keyspace
from django_redsess.transport.steps import Call, Steps

RESERVE_MIN = 100

NO_LIMIT = 2**53
"""More than there can be; the highest number that Lua counts up to."""

ALONG_MIN, ALONG_MAX = 50, 100
"""The least and the most sessions that are taken out beside a new one."""


class Batch(NamedTuple):
    """How many sessions a cleaner's call ended, and whether ``more`` are to end."""

    ended: int
    more: bool


class Allowed(NamedTuple):
    """
    How many sessions a partition may have.

    Signed-in ones may be ``signed_in``, and guests as many as these leave of that number. Guests may always have
    ``reserve``, and never more than ``guests``.
    """

    signed_in: int
    reserve: int
    guests: int

    def too_many(self, signed_in: int, guests: int) -> int:
        """Return how many are too many, where there are so many. ``lib/eviction.lua`` has the same rule."""
        guests_allowed = min(max(self.signed_in - signed_in, self.reserve), self.guests)
        return max(0, guests - guests_allowed) + max(0, signed_in - self.signed_in)


def allowed(maximum: int | None = None, guests: int | None = None) -> Allowed:
    """
    Return how many sessions each partition may have.

    All partitions together may have ``maximum``, of which ``guests`` may be guests'. None stands for the setting. 1 %
    of ``maximum``, at least 100, is kept for guests, however many are signed in.
    """
    maximum = conf.MAX_SESSIONS if maximum is None else maximum
    guests = conf.MAX_GUESTS if guests is None else guests
    reserve = min(max(maximum // 100, RESERVE_MIN), maximum)
    partitions = keyspace().count
    return Allowed(*(share_of(each, partitions) for each in (maximum, reserve, NO_LIMIT if guests is None else guests)))


def making_room(sid: str, saving: Saving, outcome: Outcome) -> Steps[None]:
    """Take out what is too many beside the session ``sid``, which was just saved: the user's own, and those of all."""
    crowded, limit = outcome.crowded, saving.limit
    while crowded and limit is not None:
        crowded = yield from operations.end_above(limit, saving.user_id, keep=sid)
    if outcome.stored is None:
        return
    # It was counted before this session came, or got a user.
    due, recent, guests = outcome.stored
    recent, guests = (recent + 1, guests) if saving.user_id else (recent, guests + 1)
    cleaning = cleaning_along(keyspace().of_sid(sid), due=due, recent=recent, guests=guests)
    if cleaning is not None:
        # The session is saved, whatever becomes of that.
        with suppress(SessionStoreUnavailable):
            yield from cleaning


def cleaning_along(partition: Partition, *, due: int, recent: int, guests: int) -> Call[Batch] | None:
    """
    Return the call that cleans beside a new session; None while there is little to clean.

    So the store stays bounded though no cleaner runs. The call is made from 50 sessions on that are due, or from 50
    that are too many (a twentieth of the maximum, if that is less). It ends up to 100: those that are due, then
    guests', then others.
    """
    may = allowed()
    enough = max(1, min(ALONG_MIN, may.signed_in // 20))
    if due < ALONG_MIN and may.too_many(recent, guests) < enough:
        return None
    args = scripts.CLEAN_ALONG.arguments(**limits(may, ALONG_MAX))
    return Call(partition, scripts.CLEAN_ALONG, scripts.CLEAN_ALONG.keys(partition), args, cleaned)


def limits(may: Allowed, limit: int) -> dict[str, int]:
    """Return the arguments of a script that ends up to ``limit`` sessions which are too many."""
    return {
        "maximum": may.signed_in,
        "reserve": may.reserve,
        "guests_maximum": may.guests,
        "limit": limit,
        "named": names_wanted(),
    }


def names_wanted() -> bool:
    """Tell whether anybody asks which sessions have ended: to name thousands takes a good part of the time."""
    return bool(session_ended.receivers)


def cleaned(more: int, ended: EndedSessions) -> Batch:
    return Batch(len(ended), bool(more))
