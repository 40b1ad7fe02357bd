"""The store's numbers of now, and its counts since its beginning: what a monitoring system asks for."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django_redsess.conf import conf
from django_redsess.online.listing import seconds_of_active
from django_redsess.online.sampling import REASONS, TOTALS, count_in
from django_redsess.signals import Reason
from django_redsess.transport.keys import keyspace
from django_redsess.transport.packing import pack_command
from django_redsess.transport.partitions import ask_each, with_scores
from django_redsess.transport.steps import Steps, time_of


@dataclass(frozen=True, slots=True)
class Totals:
    """
    The numbers of a store at the time ``at``, all partitions together.

    ``signed_in`` and ``guests`` are how many sessions there are; due ones count until they are removed. ``active`` and
    ``active_guests`` are those of them that were seen in the last five minutes. ``limit`` is ``MAX_SESSIONS``, and
    ``guests_limit`` is ``MAX_GUESTS``, or None.

    ``created``, ``ended`` and ``guests_ended`` count from the beginning of the store: all sessions, those that have
    ended, by reason, and the guests' part of these. Whichever process created or ended a session, it is counted.

    ``lag_seconds`` is for how long the earliest deadline is past: 0.0 if no session is due. ``sampled_at`` is when
    ``cleansessions --forever`` was last seen: the minute of the newest sample, in the partition that has waited for
    one the longest; None if no partition has a sample.
    """

    at: datetime
    signed_in: int
    guests: int
    active: int
    active_guests: int
    limit: int
    guests_limit: int | None
    created: int
    ended: dict[Reason, int]
    guests_ended: dict[Reason, int]
    lag_seconds: float
    sampled_at: datetime | None


_REPLIES = 7


def read_totals() -> Steps[Totals]:
    """Read the numbers by plain commands: one pipeline for each server, in which no session is ended or touched."""
    partitions = keyspace().partitions
    times = dict[int, int]()

    def pack_commands(number: int, at: int) -> bytes:
        partition, times[number] = partitions[number], at
        since = f"{at - seconds_of_active() * 1000:.0f}"
        return b"".join(
            (
                pack_command("HMGET", partition.totals, *TOTALS),
                pack_command("ZCARD", partition.online_user),
                pack_command("ZCARD", partition.guests),
                pack_command("ZCOUNT", partition.recent, since, "+inf"),
                pack_command("ZCOUNT", partition.guests, since, "+inf"),
                pack_command("ZRANGE", partition.expire, 0, 0, "WITHSCORES"),
                pack_command("ZRANGE", partition.samples, -1, -1, "WITHSCORES"),
            )
        )

    found = yield from ask_each("totals", partitions, pack_commands, _REPLIES)
    totals, *counts, firsts, newest = zip(*found, strict=True)
    created, *ended = (sum(map(count_in, numbers)) for numbers in zip(*totals, strict=True))
    deadlines = [(number, score) for number, reply in enumerate(firsts) for score, _ in with_scores(reply)]
    sampled = [score for reply in newest for score, _ in with_scores(reply)]
    signed_in, guests, active, active_guests = map(sum, counts)
    return Totals(
        at=time_of(max(times.values())),
        signed_in=signed_in,
        guests=guests,
        active=active,
        active_guests=active_guests,
        limit=conf.MAX_SESSIONS,
        guests_limit=conf.MAX_GUESTS,
        created=created,
        ended=dict(zip(REASONS, ended[: len(REASONS)], strict=True)),
        guests_ended=dict(zip(REASONS, ended[len(REASONS) :], strict=True)),
        lag_seconds=max((max(0.0, times[number] - deadline) / 1000 for number, deadline in deadlines), default=0.0),
        sampled_at=time_of(min(sampled)) if sampled else None,
    )
