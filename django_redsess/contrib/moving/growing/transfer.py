"""
Sessions on their way from one store of this engine to another.

A session is copied to the next store, then taken out of the store before, if it is as it was copied, and then lives in
the next one. A save, an end or a new key in the store before is either found by the second step, or finds the session
gone: so nothing is lost and nothing lives twice. Any process goes on where another one was killed.

Who ends sessions ends them in the store before first: see ``session/elsewhere.py``.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from django_redsess.contrib.moving.growing.stores import Stores
from django_redsess.contrib.moving.marks import COPIED, lifetime
from django_redsess.exceptions import SessionStoreUnavailable
from django_redsess.session import reading
from django_redsess.session.address_index import score_of_new
from django_redsess.session.record import Record, log_unusable, pack, unpack, with_revision
from django_redsess.transport import packing, scripts
from django_redsess.transport.exchange import Pause
from django_redsess.transport.keys import keyspace
from django_redsess.transport.partitions import ask_each, together, with_scores
from django_redsess.transport.scripts import Script
from django_redsess.transport.steps import Call, EndedSessions, Steps, in_store

TRIES = 50
"""How often a session is copied again that is saved in the store before meanwhile."""


class Found(NamedTuple):
    """
    A session in the store before, read at that server's time ``at``.

    ``record`` is None if it is not there, or if it ``stays``: it is due, or can't be read. Times are in milliseconds.
    ``viewed`` is item, time, item, time, …
    """

    at: int
    record: Record | None = None
    due: int = 0
    seen: int = 0
    viewed: tuple[bytes, ...] = ()
    stays: bool = False


def read(sids: Sequence[str]) -> Steps[dict[str, Found]]:
    """Read sessions in the present store."""
    space = keyspace()
    partitions, times = [space.of_sid(sid) for sid in sids], [0] * len(sids)

    def reading(number: int, at: int) -> bytes:
        names, sid, command, times[number] = partitions[number], sids[number], packing.command, at
        scores = (command("ZSCORE", name, sid) for name in (names.expire, names.recent, names.guests))
        viewed = command("ZRANGE", names.viewed_by(sid), 0, -1, "WITHSCORES")
        return b"".join([command("HGET", names.login, sid), *scores, viewed])

    # Another program may have stored anything in place of what was viewed.
    found = (yield from ask_each("read", partitions, reading, 5, 4)) if sids else []
    return {sid: _found(sid, at, *replies) for sid, at, replies in zip(sids, times, found, strict=True)}


def _found(sid: str, at: int, packed: bytes | None, due: Any, *rest: Any) -> Found:
    recent, guests, viewed = rest
    due = int(max(0.0, min(float(due or 0), reading.TIME_MAX)))
    if packed is None or due <= at:
        return Found(at, stays=packed is not None)
    try:
        record = unpack(sid, packed)
    except Exception as error:  # Another program may have stored anything.
        log_unusable(sid, error)
        return Found(at, stays=True)
    scored = with_scores(viewed) if isinstance(viewed, list) else []
    items = tuple(part for score, item in scored for part in (item, b"%d" % score))
    return Found(at, record, due, int(float(recent or guests or 0)), items)


def transfer(both: Stores, sids: Iterable[str], *, are_copied: bool = False) -> Steps[set[str]]:
    """
    Move sessions to the next store. Return the sids of those that this call has moved.

    Afterwards each is there alone, or has ended. What is due or can't be read stays. ``are_copied`` says that the
    sessions are in the next store, with the revision :data:`COPIED`: then also those are dealt with that are not in the
    store before any more. Raises SessionStoreUnavailable in an outage of either store, or if a session is saved again
    and again meanwhile.
    """
    waiting, outdated, moved = list(sids), dict[str, bytes](), set[str]()
    for tried in range(TRIES):
        if not waiting:
            return moved
        if tried > 2:
            yield Pause(random.uniform(0, 0.02))  # noqa: S311
        found = yield from in_store(both.before, read, waiting)
        waiting = [
            sid for sid in waiting if found[sid].record or (not found[sid].stays and (are_copied or sid in outdated))
        ]
        copied = yield from in_store(both.next, _receive, {sid: found[sid] for sid in waiting}, outdated)
        left = yield from in_store(both.before, _depart, copied, found)
        lives = {sid: outcome == b"departed" for sid, outcome in left.items() if outcome != b"changed"}
        moved |= yield from in_store(both.next, _arrive, lives)
        waiting = [sid for sid in waiting if sid not in lives]
        outdated = {sid: copied[sid] for sid in waiting}
    raise SessionStoreUnavailable("Too many requests change a session while it moves to another store.")


def _receive(found: dict[str, Found], outdated: dict[str, bytes]) -> Steps[dict[str, bytes]]:
    """Copy sessions to the present store. Return the revision of each, as it was copied by whichever process."""
    calls, revisions = dict[str, Call[bytes]](), dict.fromkeys(found, b"")
    for sid, (at, record, due, seen, viewed, _) in found.items():
        if record is None:
            continue
        revisions[sid] = record.revision
        calls[sid] = _call(
            scripts.RECEIVE,
            sid,
            record=with_revision(pack(sid, record), COPIED),
            user_id=record.user_id,
            login_time=record.login_ms or "",
            seen=seen,
            due=due,
            place=score_of_new(record.client_packed),
            revision=record.revision,
            outdated=outdated.get(sid, b""),
            mark_lifetime=lifetime(due, at),
            viewed=viewed,
        )
    words = yield from _words(calls)
    return revisions | {sid: word for sid, word in words.items() if word not in (b"copied", b"here")}


def _depart(revisions: dict[str, bytes], found: dict[str, Found]) -> Steps[dict[str, bytes]]:
    """Take sessions out of the present store. Return what became of each."""
    calls = dict[str, Call[bytes]]()
    for sid, revision in revisions.items():
        there = found[sid]
        kept_for = lifetime(there.due, there.at)
        calls[sid] = _call(scripts.DEPART, sid, revision=revision, mark_lifetime=kept_for)
    return (yield from _words(calls))


def _arrive(lives: dict[str, bool]) -> Steps[set[str]]:
    """End the moves of sessions: those that live are used in the present store. Return which these are."""
    kept_for, script = lifetime(None, 0), scripts.ARRIVE
    calls = {sid: _call(script, sid, lives=is_living, mark_lifetime=kept_for) for sid, is_living in lives.items()}
    words = yield from _words(calls)
    return {sid for sid, word in words.items() if lives[sid] and word == b"arrived"}


def _call(script: Script, sid: str, **given: Any) -> Call[bytes]:
    """Return a call of ``script`` about the session ``sid`` and its mark. Its result is the word of the reply."""
    partition = keyspace().of_sid(sid)
    keys = script.keys(partition, moved=partition.moved_of(sid))
    return Call(partition, script, keys, script.arguments(sid=sid, **given), _word)


def _words(calls: dict[str, Call[bytes]]) -> Steps[dict[str, bytes]]:
    """Send these calls together. Return the word of each reply."""
    return dict(zip(calls, (yield from together(list(calls.values()))) if calls else [], strict=True))


def move_all_of(both: Stores, user_id: str) -> Steps[None]:
    """Move all sessions of a user: then those that are in the next store are all."""
    yield from transfer(both, (yield from in_store(both.before, _sids_of, user_id)))


def _sids_of(user_id: str) -> Steps[list[str]]:
    home = keyspace().of_user(user_id)
    found = yield from ask_each(
        "sign_ins", [home], lambda number, at: packing.command("ZRANGE", home.online_user_of(user_id), 0, -1), 1
    )
    return [sid.decode(errors="replace") for sid in found[0][0]]


def _word(reply: list[bytes], _: EndedSessions) -> bytes:
    return reply[0]
