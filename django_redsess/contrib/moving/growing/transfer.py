"""
Sessions on their way from one store of this engine to another.

A session is copied to the next store, then taken out of the store before, if it is as it was copied, and then lives in
the next one. A save, an end or a new key in the store before is either found by the second step, or finds the session
gone: so nothing is lost and nothing lives twice. Any process goes on where another one was killed. The second step
names the copy for which it was made, and only that copy arrives. A slow process may make another copy later, of a
session that has ended meanwhile: that copy is deleted.

An end of sessions ends them in the store before first: see ``session/other_store.py``.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from os import urandom
from typing import Any, NamedTuple

from django_redsess.contrib.moving.growing.stores import Stores
from django_redsess.contrib.moving.marks import COPIED, mark_lifetime
from django_redsess.exceptions import SessionStoreUnavailable
from django_redsess.session.record import (
    REVISION_SIZE,
    Record,
    log_unusable,
    pack,
    unpack,
    with_revision,
)
from django_redsess.transport import packing, scripts
from django_redsess.transport.connections import Pause
from django_redsess.transport.keys import keyspace
from django_redsess.transport.partitions import ask_each, batches, together, with_scores
from django_redsess.transport.scripts import Script
from django_redsess.transport.steps import EndedSessions, ScriptCall, Steps, in_store, ms_in

TRIES = 50
"""How often a session is copied again that is saved in the store before meanwhile."""


class Original(NamedTuple):
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

    @property
    def is_unreadable(self) -> bool:
        """Whether it lives there, but this process can't read it."""
        return self.stays and self.due > self.at


def read_originals(sids: Sequence[str]) -> Steps[dict[str, Original]]:
    """Read sessions in the present store."""
    space = keyspace()
    partitions, times = [space.of_sid(sid) for sid in sids], [0] * len(sids)

    def pack_question(number: int, at: int) -> bytes:
        names, sid, command, times[number] = partitions[number], sids[number], packing.pack_command, at
        scores = (command("ZSCORE", name, sid) for name in (names.expire, names.recent, names.guests))
        viewed = command("ZRANGE", names.viewed_by(sid), 0, -1, "WITHSCORES")
        return b"".join([command("HGET", names.login, sid), *scores, viewed])

    # Another program may have stored anything in place of what was viewed.
    found = (yield from ask_each("read", partitions, pack_question, 5, 4)) if sids else []
    return {sid: _build_original(sid, at, *replies) for sid, at, replies in zip(sids, times, found, strict=True)}


def _build_original(sid: str, at: int, packed: bytes | None, due: Any, *rest: Any) -> Original:
    recent, guests, viewed = rest
    due = ms_in(float(due or 0))
    if packed is None or due <= at:
        return Original(at, due=due, stays=packed is not None)
    try:
        record = unpack(sid, packed)
    except Exception as error:  # Another program may have stored anything.
        log_unusable(sid, error)
        return Original(at, due=due, stays=True)
    scored = with_scores(viewed) if isinstance(viewed, list) else []
    items = tuple(part for score, item in scored for part in (item, b"%d" % ms_in(score)))
    return Original(at, record, due, ms_in(float(recent or guests or 0)), items)


def transfer_sessions(both: Stores, sids: Iterable[str], *, are_copied: bool = False) -> Steps[set[str]]:
    """
    Move sessions to the next store. Return the sids of those that this call has moved.

    Afterwards each is there alone, or has ended. Sessions that are due or can't be read stay. ``are_copied`` says that
    there are copies of these sessions in the next store. Then the moves of all end: if a session has ended or stays,
    its copy goes. Raises SessionStoreUnavailable in an outage of either store, or if a session is saved again and again
    meanwhile.
    """
    waiting, outdated, moved = list(sids), dict[str, bytes](), set[str]()
    for tried in range(TRIES):
        if not waiting:
            return moved
        if tried > 2:
            yield Pause(random.uniform(0, 0.02))  # noqa: S311
        found = yield from in_store(both.before, read_originals, waiting)
        has_copy = [sid for sid in waiting if are_copied or sid in outdated]
        if unreadable := [sid for sid in has_copy if found[sid].is_unreadable]:
            yield from in_store(both.next, _arrive, dict.fromkeys(unreadable, b""), stays=True)
        waiting = [sid for sid in waiting if found[sid].record or (sid in has_copy and sid not in unreadable)]
        copied = yield from in_store(both.next, _receive, {sid: found[sid] for sid in waiting}, outdated)
        left = yield from in_store(both.before, _depart, copied, found)
        departed = {sid: name for sid, (outcome, name) in left.items() if outcome != b"changed"}
        moved |= yield from in_store(both.next, _arrive, departed)
        waiting = [sid for sid in waiting if sid not in departed]
        outdated = {sid: copied[sid] for sid in waiting}
    raise SessionStoreUnavailable("Too many requests change a session while it moves to another store.")


def _receive(found: dict[str, Original], outdated: dict[str, bytes]) -> Steps[dict[str, bytes]]:
    """Copy sessions to the present store. Return the name of each one's copy, made by whichever process."""
    calls, names = dict[str, ScriptCall[list[bytes]]](), dict.fromkeys(found, b"")
    for sid, (at, record, due, seen, viewed, _) in found.items():
        if record is None:
            continue
        # If the session has already been there, it departs under this name.
        names[sid] = record.revision
        calls[sid] = _call_script(
            scripts.RECEIVE,
            sid,
            record=with_revision(pack(sid, record), COPIED),
            user_id=record.user_id,
            login_time=record.login_ms or "",
            seen=seen,
            due=due,
            copy=record.revision + urandom(REVISION_SIZE),
            outdated=outdated.get(sid, b""),
            mark_lifetime=mark_lifetime(due, at),
            viewed=viewed,
        )
    replies = yield from _send_calls(calls)
    return names | {sid: name for sid, [name] in replies.items() if name != b"here"}


def _depart(copies: dict[str, bytes], found: dict[str, Original]) -> Steps[dict[str, tuple[bytes, bytes]]]:
    """Take sessions out of the present store. Return what became of each, and for which copy it was taken out."""
    calls = dict[str, ScriptCall[list[bytes]]]()
    for sid, copy in copies.items():
        there = found[sid]
        kept_for = mark_lifetime(there.due, there.at)
        calls[sid] = _call_script(scripts.DEPART, sid, copy=copy, mark_lifetime=kept_for)
    replies = yield from _send_calls(calls)
    return {sid: (outcome, name[0] if name else b"") for sid, [outcome, *name] in replies.items()}


def _arrive(departed: dict[str, bytes], *, stays: bool = False) -> Steps[set[str]]:
    """
    End the moves of sessions. Return which of them are used in the present store now.

    ``departed`` names the copy for which each was taken out of the other store; ``b""`` if it was ended there. If they
    ``stay`` there, their copies go, and others may be made.
    """
    kept_for, script = mark_lifetime(None, 0), scripts.ARRIVE
    calls = {
        sid: _call_script(script, sid, departed=name, mark_lifetime=kept_for, stays=stays)
        for sid, name in departed.items()
    }
    replies = yield from _send_calls(calls)
    return {sid for sid, [outcome] in replies.items() if outcome == b"arrived"}


def find_copies(sids: Sequence[str]) -> Steps[list[str]]:
    """Return which of these sessions of the present store are copies: their moves have not ended."""
    script, found = scripts.COPIES, list[str]()
    for partition, batch in batches(sids):
        waiting = batch
        while waiting:
            args = script.arguments(sids=waiting)
            looked_at, *names = yield from ScriptCall(partition, script, script.keys(partition), args, list[Any])
            found += [name.decode(errors="replace") for name in names]
            waiting = waiting[looked_at:]
    return found


def _call_script(script: Script, sid: str, **given: Any) -> ScriptCall[list[bytes]]:
    """Return a call of ``script`` about the session ``sid`` and its mark. Its result is the reply."""
    partition = keyspace().of_sid(sid)
    keys = script.keys(partition, moved=partition.moved_of(sid))
    return ScriptCall(partition, script, keys, script.arguments(sid=sid, **given), _plain_reply)


def _send_calls(calls: dict[str, ScriptCall[list[bytes]]]) -> Steps[dict[str, list[bytes]]]:
    """Send these calls together. Return the reply to each."""
    return dict(zip(calls, (yield from together(list(calls.values()))) if calls else [], strict=True))


def move_user_sessions(both: Stores, user_id: str) -> Steps[None]:
    """Move all sessions of a user, so that lists and limits in the next store have all of them."""
    yield from transfer_sessions(both, (yield from in_store(both.before, _read_user_sids, user_id)))


def _read_user_sids(user_id: str) -> Steps[list[str]]:
    home = keyspace().of_user(user_id)
    found = yield from ask_each(
        "sign_ins", [home], lambda number, at: packing.pack_command("ZRANGE", home.online_user_of(user_id), 0, -1), 1
    )
    return [sid.decode(errors="replace") for sid in found[0][0]]


def _plain_reply(reply: list[bytes], _: EndedSessions) -> list[bytes]:
    return reply
