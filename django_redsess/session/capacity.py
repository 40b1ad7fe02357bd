"""How many sessions there may be, and taking out those that are too many beside a new one."""

from __future__ import annotations

from typing import NamedTuple

from django_redsess.conf import conf
from django_redsess.session.partitions import share_of
from django_redsess.signals import session_ended
from django_redsess.transport import scripts
from django_redsess.transport.announcing import Endings
from django_redsess.transport.keys import Partition, keyspace
from django_redsess.transport.steps import Call

RESERVE_MIN = 100

NO_LIMIT = 2**53
"""More than there can be; the highest number that Lua counts up to."""

ALONG_MIN, ALONG_MAX = 50, 100
"""Beside a new session, so many others are taken out at least, and at most."""


class Batch(NamedTuple):
    """How many sessions a cleaner's call ended, and whether there are ``more`` of the kind."""

    ended: int
    more: bool


class Allowed(NamedTuple):
    """
    How many sessions a partition may have: ``signed_in``; and of guests what these leave of it.

    But guests may always have ``reserve``, and never more than ``guests``.
    """

    signed_in: int
    reserve: int
    guests: int

    def too_many(self, signed_in: int, guests: int) -> int:
        """Count those that are too many of so many; ``lib/eviction.lua`` has the same rule."""
        guests_allowed = min(max(self.signed_in - signed_in, self.reserve), self.guests)
        return max(0, guests - guests_allowed) + max(0, signed_in - self.signed_in)


def allowed(maximum: int | None = None, guests: int | None = None) -> Allowed:
    """
    Return how many sessions each partition may have, where all together may have ``maximum``, and of guests ``guests``.

    None stands for the setting. 1 % of ``maximum``, at least 100, is kept for guests, however many are signed in.
    """
    maximum = conf.MAX_SESSIONS if maximum is None else maximum
    guests = conf.MAX_GUESTS if guests is None else guests
    reserve = min(max(maximum // 100, RESERVE_MIN), maximum)
    partitions = keyspace().count
    return Allowed(*(share_of(each, partitions) for each in (maximum, reserve, NO_LIMIT if guests is None else guests)))


def cleaning_along(partition: Partition, *, due: int, recent: int, guests: int) -> Call[Batch] | None:
    """
    Return what there is to clean beside a new session, or None where these counts say that it is not enough yet.

    So the store stays bounded though no cleaner runs. Enough is 50 of a kind, or of what is too many a twentieth of the
    maximum where that is less. The call ends up to 100: those that are due, then guests', then others.
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


def cleaned(more: int, ended: Endings) -> Batch:
    return Batch(len(ended), bool(more))
