"""Sessions by their sign-in: those of a user that began at a time, of which the history has a row."""

from __future__ import annotations

from collections.abc import Sequence

from django_redsess.online.listing import sids_of
from django_redsess.session.other_store import sibling_stores
from django_redsess.transport import packing
from django_redsess.transport.keys import keyspace
from django_redsess.transport.partitions import ask_each
from django_redsess.transport.steps import Steps, drive, in_store

SAME_SIGN_IN_MAX = 10
"""The most sessions that are found by a user and the millisecond of a sign-in."""


def sids_of_sign_ins(sign_ins: Sequence[tuple[str, int]]) -> list[list[str]]:
    """
    Return for each user id and login time in milliseconds the sids of that user's sessions with it. Due ones count.

    While sessions move from another store of this engine, they may be there.
    """
    return drive(_sids_of_sign_ins(sign_ins))


def are_live(sign_ins: Sequence[tuple[str, int]]) -> list[bool]:
    """Tell of each user id and login time in milliseconds whether a session of that user has it. Due ones count."""
    return [bool(sids) for sids in sids_of_sign_ins(sign_ins)]


def _sids_of_sign_ins(sign_ins: Sequence[tuple[str, int]]) -> Steps[list[list[str]]]:
    found = yield from _sids_of_sign_ins_here(sign_ins)
    for store in sibling_stores():
        there = yield from in_store(store, _sids_of_sign_ins_here, sign_ins)
        found = [here or others for here, others in zip(found, there, strict=True)]
    return found


def _sids_of_sign_ins_here(sign_ins: Sequence[tuple[str, int]]) -> Steps[list[list[str]]]:
    partitions = [keyspace().of_user(user_id) for user_id, _ in sign_ins]

    def pack_range(number: int, at: int) -> bytes:
        user_id, login_ms = sign_ins[number]
        name = partitions[number].online_user_of(user_id)
        return packing.pack_command("ZRANGE", name, login_ms, login_ms, "BYSCORE", "LIMIT", 0, SAME_SIGN_IN_MAX)

    replies = yield from ask_each("sign_ins", partitions, pack_range, 1)
    return [sids_of((member,) for member in members) for [members] in replies]
