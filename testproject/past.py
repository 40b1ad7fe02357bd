"""
What the demo makes up: when its people came, and a day of samples before it started.

It writes behind the engine's back, in the forms that the engine reads. A site never needs this: the engine's own times
are the server's.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import pairwise
from math import cos, pi
from random import Random
from typing import Any

from django.contrib.auth.models import User

from django_redsess.online.samples import REASONS
from django_redsess.session import reading
from django_redsess.session.record import pack, unpack
from django_redsess.signals import Reason
from django_redsess.transport.keys import Partition, keyspace
from django_redsess.transport.packing import command
from django_redsess.transport.steps import Plain

MINUTE, DAY = 60_000, 24 * 60 * 60_000
"""Milliseconds."""

BUSIEST_HOURS_AGO = 3
"""The day that is made up ends in the afternoon, whenever the demo starts."""


def is_missing() -> bool:
    """Return whether the store has no sample of who was online."""
    return not any(_ask(each, ["ZCARD", each.samples])[0] for each in keyspace().partitions)


def move(sids: Sequence[str]) -> list[int]:
    """Spread these sessions over the past day. Return when each began, in milliseconds."""
    chance, now = Random(2), reading.time().run()
    # Most came lately.
    ages = [int(DAY * chance.random() ** 2) + 2 * MINUTE for _ in sids]
    for sid, age in zip(sids, ages, strict=True):
        _move(sid, now - age, now - int(age * chance.random() ** 4))
    return [now - age for age in ages]


def _move(sid: str, began: int, seen: int) -> None:
    """Let a session that has just begun have begun at ``began``, and be seen at ``seen`` for the last time."""
    partition, now = keyspace().of_sid(sid), reading.time().run()
    packed, items = _ask(partition, ["HGET", partition.login, sid], ["ZRANGE", partition.viewed_by(sid), 0, -1])
    record, seconds = unpack(sid, packed), (now - began) // 1000
    older = record._replace(deadline_seconds=record.deadline_seconds - seconds)
    seen_list, commands = partition.guests, list[list[Any]]()
    if record.user_id:
        seen_list, older = partition.recent, older._replace(login_ms=began)
        for name in (partition.online_user, partition.online_user_of(record.user_id)):
            commands.append(["ZADD", name, began, sid])
        at = datetime.fromtimestamp(began / 1000, UTC)
        User.objects.filter(pk=record.user_id).update(last_login=at, date_joined=at - timedelta(days=30))
    for number, item in enumerate(items, 1):
        commands.append(["ZADD", partition.viewed_by(sid), began + (seen - began) * number // len(items), item])
    _ask(
        partition,
        ["HSET", partition.login, sid, pack(sid, older)],
        ["ZINCRBY", partition.expire, -1000 * seconds, sid],
        ["ZADD", seen_list, seen, sid],
        *commands,
    )


def make_samples(signed_in: Sequence[int], guests: Sequence[int]) -> None:
    """Write a sample for each minute of the past day. The sessions that are here now began at these times."""
    partitions, now = keyspace().partitions, reading.time().run()
    minutes = range(now - now % MINUTE - DAY, now - now % MINUTE, MINUTE)
    curves = [_curve(begins, minutes, now) for begins in (signed_in, guests)]
    came = [_came(curve) for curve in curves]
    for number, partition in enumerate(partitions):

        def share(count: int, number: int = number) -> int:
            return count // len(partitions) + (number < count % len(partitions))

        shares = [list(map(share, curve)) for curve in (*curves, *came)]
        texts = [f"{minute} {_counts(*numbers)}" for minute, *numbers in zip(minutes, *shares, strict=True)]
        entries = [part for both in zip(minutes, texts, strict=True) for part in both]
        totals = _totals(*(numbers[-1] for numbers in shares))
        # The store's own samples go on from here.
        counting = [["HINCRBY", partition.totals, field, count] for field, count in totals.items()]
        # Hour by hour: one command for all would take long to pack.
        hours = [["ZADD", partition.samples, *entries[at : at + 120]] for at in range(0, len(entries), 120)]
        _ask(partition, *hours, *counting)


def _totals(users: int, guests: int, users_came: int, guests_came: int) -> dict[str, int]:
    """Return the totals of a partition: users who are gone signed out, and guests' sessions expired."""
    expired = guests_came - guests
    return {
        "created": users_came + guests_came,
        Reason.LOGOUT: users_came - users,
        Reason.EXPIRED: expired,
        f"guests:{Reason.EXPIRED}": expired,
    }


@cache
def _counts(users: int, guests: int, users_came: int, guests_came: int) -> str:
    """Return what a sample has after its minute: see ``take_sample.lua``."""
    totals = _totals(users, guests, users_came, guests_came)
    fields = ["created", *REASONS, *(f"guests:{reason}" for reason in REASONS)]
    return " ".join(map(str, [users, guests, *(totals.get(field, 0) for field in fields)]))


def _curve(begins: Sequence[int], minutes: Sequence[int], now: int) -> list[int]:
    """Return how many were here in each of ``minutes``: more by day than by night, and at last as many as now."""
    chance = Random(3)

    def share(minute: int) -> float:
        hours_ago = (now - minute) / MINUTE / 60
        return 0.56 + 0.44 * cos((hours_ago - BUSIEST_HOURS_AGO) * pi / 12)

    curve, wave = [], 0.0
    for minute in minutes:
        # The last hour leads to the number that is true now.
        wave = 0.97 * wave + chance.gauss(0, 0.03)
        calm = min(1, (now - minute) / (60 * MINUTE))
        count = round(len(begins) * share(minute) / share(now) * (1 + wave * calm))
        curve.append(max(count, sum(begin < minute for begin in begins)))
    return curve


def _came(curve: Sequence[int]) -> list[int]:
    """Return how many had come until each minute: one each few minutes, and all by whom the number grew."""
    came = [curve[0]]
    for minute, (before, after) in enumerate(pairwise(curve)):
        came.append(came[-1] + max(0, after - before) + (minute % 8 == 0))
    return came


def _ask(partition: Partition, *commands: list[Any]) -> list[Any]:
    packed = b"".join(command(*parts) for parts in commands)
    return Plain(partition, "past", packed, len(commands), list, len(commands)).run()
