"""
What the demo makes up: when its people came, and a month of samples before it started.

It writes behind the engine's back, in the forms that the engine reads. A site never needs this: the engine's own times
are the server's.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import chain, groupby, pairwise
from math import cos, pi
from random import Random
from typing import Any

from django.contrib.auth.models import User

from django_redsess import online
from django_redsess.online.sampling import KEPT_SECONDS, REASONS, slot_of
from django_redsess.session import reading
from django_redsess.session.record import pack, unpack
from django_redsess.signals import Reason
from django_redsess.transport.keys import Partition, keyspace
from django_redsess.transport.packing import pack_command
from django_redsess.transport.steps import Pipeline

MINUTE, HOUR, DAY = 60_000, 60 * 60_000, 24 * 60 * 60_000
"""Milliseconds."""

BUSIEST_HOURS_AGO = 3
"""The month that is made up ends in the afternoon, whenever the demo starts."""

WEEKEND = 0.5
"""How many come on a Saturday or Sunday, compared with a working day."""

ACTIVE = 0.35
"""What part of those who are signed in, and of the guests, is active at the busiest time."""


def is_missing() -> bool:
    """Return whether the store has no sample."""
    return not any(_ask(each, ["ZCARD", each.samples])[0] for each in keyspace().partitions)


def move(sids: Sequence[str]) -> list[int]:
    """Spread these sessions over the past day. Return when each began, in milliseconds."""
    chance, now = Random(2), reading.read_time().run()
    # Most came lately.
    ages = [int(DAY * chance.random() ** 2) + 2 * MINUTE for _ in sids]
    for sid, age in zip(sids, ages, strict=True):
        _move(sid, now - age, now - int(age * chance.random() ** 4))
    return [now - age for age in ages]


def _move(sid: str, began: int, seen: int) -> None:
    """Let a session that has just begun have begun at ``began``, and be seen at ``seen`` for the last time."""
    partition, now = keyspace().of_sid(sid), reading.read_time().run()
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
    """Write the samples that a cleaner would have of the past month. The sessions that are here now began then."""
    partitions, now = keyspace().partitions, reading.read_time().run()
    last = now - now % MINUTE
    minutes = range(last - KEPT_SECONDS * 1000, last, MINUTE)
    curves = [_curve(sorted(begins), minutes, now) for begins in (signed_in, guests)]
    at_last = online.count(active=True), online.count(active=True, guests="only")
    active = [_active(curve, minutes, now, count) for curve, count in zip(curves, at_last, strict=True)]
    whole = list(zip(minutes, *curves, *active, *map(_came, curves), strict=True))
    slots = [_slot(list(group)) for _, group in groupby(whole, lambda row: _slot_start(row[0], now))]
    for number, partition in enumerate(partitions):

        def share(count: int, number: int = number) -> int:
            return count // len(partitions) + (number < count % len(partitions))

        shares = [(at, *map(share, counts)) for at, *counts in slots]
        texts = [(at, f"{at} {_counts(users, guests, *came)}") for at, users, guests, _, _, *came in shares]
        of_active = [(at, f"{at} {users} {guests}") for at, _, _, users, guests, *_ in shares]
        totals = _totals(*shares[-1][1:3], *shares[-1][5:])
        # The store's own samples go on from here.
        counting = [["HINCRBY", partition.totals, *total] for total in totals.items()]
        _ask(partition, *_added(partition.samples, texts), *_added(partition.samples_active, of_active), *counting)


def _added(name: str, entries: Sequence[tuple[int, str]]) -> list[list[Any]]:
    # Sixty at a time: one command for all would take long to pack.
    return [["ZADD", name, *chain(*entries[at : at + 60])] for at in range(0, len(entries), 60)]


def _slot_start(minute: int, now: int) -> int:
    length = slot_of(timedelta(milliseconds=now - minute)) // timedelta(milliseconds=1)
    return minute - minute % length


def _slot(rows: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """Return what a cleaner keeps of these minutes: the first, the most who were here, and the last totals."""
    highest = (max(row[place] for row in rows) for place in (1, 2, 3, 4))
    return (rows[0][0], *highest, *rows[-1][5:])


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
    """Return what a sample has after its minute: see ``take_sample`` in ``lua/online.lua``."""
    totals = _totals(users, guests, users_came, guests_came)
    fields = ["created", *REASONS, *(f"guests:{reason}" for reason in REASONS)]
    return " ".join(map(str, [users, guests, *(totals.get(field, 0) for field in fields)]))


def _curve(begins: Sequence[int], minutes: Sequence[int], now: int) -> list[int]:
    """Return how many were here in each of ``minutes``: most on working days, and at last as many as now."""
    chance, at_last = Random(3), _share(now, now)
    curve, wave = [], 0.0
    for minute in minutes:
        # The last hour leads to the number that is true now.
        wave = 0.97 * wave + chance.gauss(0, 0.03)
        calm = min(1, (now - minute) / HOUR)
        count = round(len(begins) * _share(minute, now) / at_last * (1 + wave * calm))
        curve.append(max(count, bisect_left(begins, minute)))
    return curve


def _active(curve: Sequence[int], minutes: Sequence[int], now: int, at_last: int) -> list[int]:
    """Return how many of those here were active in each of ``minutes``: fewer by night, and at last ``at_last``."""
    chance, wave, active = Random(4), 0.0, []
    for minute, count in zip(minutes, curve, strict=True):
        wave = 0.9 * wave + chance.gauss(0, 0.08)
        # Who is here by night has mostly left the window open.
        usual = ACTIVE * count * _share(minute, now) * (1 + wave)
        calm = min(1, (now - minute) / HOUR)
        active.append(max(0, min(count, round(usual * calm + at_last * (1 - calm)))))
    return active


def _share(minute: int, now: int) -> float:
    """Return what part of the most were here in that minute: by night less than by day, and less at a weekend."""
    days_after_busiest = (minute - now) / DAY + BUSIEST_HOURS_AGO / 24
    # A day is from night to night: at midnight of the clock, the number would jump.
    busiest = now - BUSIEST_HOURS_AGO * HOUR + round(days_after_busiest) * DAY
    # The first of January 1970 was a Thursday.
    is_weekend = (busiest // DAY + 3) % 7 >= 5
    return (0.56 + 0.44 * cos(2 * pi * days_after_busiest)) * (WEEKEND if is_weekend else 1)


def _came(curve: Sequence[int]) -> list[int]:
    """Return how many had come until each minute: one each few minutes, and all by whom the number grew."""
    came = [curve[0]]
    for minute, (before, after) in enumerate(pairwise(curve)):
        came.append(came[-1] + max(0, after - before) + (minute % 8 == 0))
    return came


def _ask(partition: Partition, *commands: list[Any]) -> list[Any]:
    packed = b"".join(pack_command(*parts) for parts in commands)
    return Pipeline(partition, "past", packed, len(commands), list, len(commands)).run()
