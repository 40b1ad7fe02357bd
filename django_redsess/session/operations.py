"""
The operations that change sessions in Redis. Each is one round trip: one script, or a few plain commands.

For those that read, see :mod:`~django_redsess.session.reading`.

The functions here send nothing. Each returns a step (see :mod:`django_redsess.transport.steps`). Other steps yield from
it, or ``step.run()`` or ``await step.arun()`` sends it. Ending sessions may take several steps.

The fixed parts of plain commands are packed in advance. The round trip that adds a session also asks how many there
are, and for the message that waits for the user.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from django_redsess.conf import conf
from django_redsess.session.reading import SID_PLACEHOLDER, Loaded, pack_template, rotated_to
from django_redsess.session.record import REVISION_SIZE, has_user, revision_of
from django_redsess.session.user_limit import Limit
from django_redsess.signals import EndedSession, Reason
from django_redsess.transport import packing, scripts
from django_redsess.transport.keys import (
    PREFIXES_KEPT,
    Keyspace,
    Partition,
    bucket_of,
    bucket_of_user,
    is_sid,
    keyspace,
)
from django_redsess.transport.partitions import batches
from django_redsess.transport.replicas import Confirmation, EndedList, confirmation, replica_status
from django_redsess.transport.scripts import Script
from django_redsess.transport.steps import EndedSessions, Pipeline, ScriptCall, Steps


class SessionCounts(NamedTuple):
    """
    The sessions of a partition: how many are ``due``, signed in (``recent``), and ``guests``.

    ``message`` waits for the user who signs in. None if there is none.
    """

    due: int
    recent: int
    guests: int
    message: bytes | None = None


def counting_commands(partition: Partition, user_id: str = "") -> tuple[Callable[[int], bytes], int]:
    """
    Return a function that packs these commands for a time of the server, and their number.

    ``user_id`` is the user who signs in, or ``""``.
    """
    packed = _counting_commands(partition)
    if not user_id:
        return packed, 3
    reading = packing.pack_command("GET", partition.message_of(user_id))
    return lambda now: packed(now) + reading, 4


@lru_cache(maxsize=1024)
def _counting_commands(partition: Partition) -> Callable[[int], bytes]:
    recent, guests = packing.pack_command("ZCARD", partition.recent), packing.pack_command("ZCARD", partition.guests)
    return lambda now: packing.pack_command("ZCOUNT", partition.expire, "-inf", now) + recent + guests


def session_counts(counts: Sequence[Any]) -> SessionCounts | None:
    """Read the replies to the commands. None if the sessions could not be counted."""
    due, recent, guests, message = (*counts, None)[:4]
    if not all(isinstance(count, int) for count in (due, recent, guests)):
        return None
    # Another program may have stored anything as the message.
    return SessionCounts(due, recent, guests, message if isinstance(message, bytes) else None)


AT_ONCE_MAX = scripts.CONSTANTS["AT_ONCE_MAX"]
"""The most sessions or items that one call ends or looks up. A larger call would block the server for too long."""


class Saving(NamedTuple):
    """
    The content of a save.

    ``record`` was made by the time ``at``. ``due`` is the deadline. Both are milliseconds of the server's clock. With
    ``later_stays``, a later stored deadline is kept. ``login_ms`` is 0 for a guest. ``limit`` is enforced
    only when a session is created or gets another key. ``name`` is what observers are told, if not the task of the
    script. With ``follows``, sockets that watch the session under its old key go on under the new one.
    """

    record: bytes
    user_id: str
    login_ms: int
    at: int
    due: int
    later_stays: bool = False
    limit: Limit | None = None
    name: str = ""
    follows: bool = False


class Outcome(NamedTuple):
    """
    The result of a save. ``status`` is one of:

    - ``saved``
    - ``gone``: the session has ended or has another key; ``note`` says which
    - ``changed``: another request has saved first; ``record`` is the stored record
    - ``moved``: an earlier save that was interrupted has moved the session to its new key, with this ``record``
    - ``clock``: the record must be made again, by the time ``at``
    - ``again``: the short script leaves the save to the general one
    - ``taken``: another session has the sid of this new session
    - ``refused``: the user already has the maximum number of sessions
    - ``blocked``: the user may not sign in for a time

    ``crowded`` says that the user may still have
    too many sessions, more than one script ends: :func:`end_above` ends the others. ``stored`` is the number of
    sessions just before the save, if they were counted.
    """

    status: str
    record: bytes = b""
    note: str = ""
    crowded: bool = False
    at: int = 0
    stored: SessionCounts | None = None

    @property
    def rotated_to(self) -> str:
        """The new sid of the session, if it has got another key, else ``""``."""
        return rotated_to(self.note)


SAVED, AGAIN = Outcome("saved"), Outcome("again")


def prolong(loaded: Loaded, due: int) -> ScriptCall[bool]:
    """Move the deadline of a session to ``due``, if it is still the one that was read. True if it was moved."""
    partition = keyspace().of_sid(loaded.sid)
    args = scripts.PROLONG.arguments(sid=loaded.sid, read=loaded.due, due=due)
    seen_list = partition.recent if has_user(loaded.record or b"") else partition.guests
    return ScriptCall(partition, scripts.PROLONG, scripts.PROLONG.keys(partition, seen_list=seen_list), args, bool)


@lru_cache(maxsize=PREFIXES_KEPT)
def save_templates(prefix: str, count: int) -> list[tuple[Partition, bytes]]:
    """Return for each partition the packed call of ``save_fast``, with placeholders for its arguments."""
    revision, any_length = b"$%d\r\n%%b\r\n" % REVISION_SIZE, b"$%d\r\n%b\r\n"
    args = SID_PLACEHOLDER + revision + any_length + any_length
    return [
        (each, pack_template(9, "EVALSHA", scripts.SAVE_FAST.digest, "2", each.login, each.expire) + args)
        for each in Keyspace(prefix, count).partitions
    ]


def save_fast(sid: str, record: bytes, *, revision: bytes, loaded: bytes, due: int = 0) -> Pipeline[Outcome]:
    """
    Replace the record of a session that still has the revision ``loaded``. This is enough for most saves.

    A ``due`` other than 0 becomes its deadline, if it is later. The caller must know that nothing else has to change.
    ``revision`` is that of ``record``.
    """
    space = keyspace()
    partition, template = save_templates(space.prefix, space.count)[space.number_of(sid) if space.count > 1 else 0]
    at = b"%d" % due if due else b""
    packed = template % (sid.encode(), loaded, len(record), record, len(at), at)

    def outcome_of_save(replies: list[Any]) -> Outcome:
        found = replies[0]
        # The client repeats a command whose reply was lost. Then its record is stored already.
        if found == 1 or (found and revision_of(found) == revision):
            return SAVED
        return Outcome("changed", found) if found else AGAIN

    return Pipeline(partition, scripts.SAVE_FAST.task, packed, 1, outcome_of_save, script=scripts.SAVE_FAST)


@lru_cache(maxsize=2048)
def _create_fast_keys(partition: Partition, *, has_user: bool) -> tuple[bytes, ...]:
    if not has_user:
        return scripts.CREATE_FAST.keys(partition, seen_list=partition.guests)
    return scripts.CREATE_FAST.keys(
        partition,
        seen_list=partition.recent,
        online_user=partition.online_user,
        online_user_of=partition.online_user_of(""),
        blocked=partition.blocked,
    )


def create_fast(sid: str, saving: Saving) -> ScriptCall[Outcome]:
    """Add a session under a new, unused sid: enough for most new sessions. Count the sessions before it, too."""
    partition = keyspace().of_sid(sid)
    keys = _create_fast_keys(partition, has_user=bool(saving.user_id))
    args = scripts.CREATE_FAST.arguments(
        sid=sid,
        record=saving.record,
        at=saving.at,
        due=saving.due,
        user_id=saving.user_id,
        limit=saving.limit.maximum if saving.limit else None,
        full_at=saving.limit.full_at if saving.limit else None,
    )

    def outcome_of_create(reply: int | bytes, counts: Sequence[Any]) -> Outcome:
        if isinstance(reply, bytes):
            return Outcome("clock", at=int(reply))
        return Outcome("saved", stored=session_counts(counts)) if reply else AGAIN

    first_attempt_args = scripts.CREATE_FAST.first_attempt_args(first=1)
    before, reply_count = counting_commands(partition, saving.user_id)
    return ScriptCall(
        partition,
        scripts.CREATE_FAST,
        keys,
        args,
        outcome_of_create,
        first_attempt_args=first_attempt_args,
        before=before,
        reply_count=reply_count,
        name=saving.name,
    )


def create(
    sid: str, saving: Saving, viewed: Sequence[bytes] | None = None, *, is_new: bool = False
) -> ScriptCall[Outcome]:
    """
    Add a session.

    ``is_new`` says that the sid is certainly unused, so the script does not look for it. ``viewed`` is for a session
    that comes from another partition. It has the items that the session viewed there and the times of their views, as
    :func:`reading.read_viewed_items` returns them.
    """
    partition = keyspace().of_sid(sid)
    args = scripts.CREATE.arguments(sid=sid, **_saving_args(saving), **_limit_args(saving.limit), viewed=viewed)
    # A repetition may find the session that the first attempt created.
    first_attempt_args = scripts.CREATE.first_attempt_args(is_new=is_new)
    before, reply_count = counting_commands(partition, saving.user_id)
    return ScriptCall(
        partition,
        scripts.CREATE,
        scripts.CREATE.keys(partition),
        args,
        _outcome_of,
        first_attempt_args=first_attempt_args,
        before=before,
        reply_count=reply_count,
        confirmation=confirmation(Reason.REPLACED) if saving.limit and conf.CONFIRM_ENDS else None,
        name=saving.name,
    )


def save(sid: str, saving: Saving, *, loaded: bytes) -> ScriptCall[Outcome]:
    """
    Replace the record of a live session that still has the revision ``loaded``. Otherwise nothing is written.

    An empty ``loaded`` fits any revision.
    """
    partition = keyspace().of_sid(sid)
    args = scripts.SAVE.arguments(sid=sid, **_saving_args(saving), later_stays=saving.later_stays, loaded=loaded)
    keys = scripts.SAVE.keys(partition)
    return ScriptCall(partition, scripts.SAVE, keys, args, _outcome_of, name=saving.name)


def rotate(old_sid: str, sid: str, saving: Saving, *, loaded: bytes) -> ScriptCall[Outcome]:
    """
    Move a live session to a new sid, with a new record, if it still has the revision ``loaded``.

    If the new sid belongs to another partition, create the session there first, because no script reaches both
    partitions. This call then only ends the old session, and leaves a note with the new sid.
    """
    partition = keyspace().of_sid(old_sid)
    if not same_partition(old_sid, sid):
        saving = saving._replace(record=b"", limit=None, name="")
    args = scripts.ROTATE.arguments(
        old_sid=old_sid,
        sid=sid,
        **_saving_args(saving),
        loaded=loaded,
        **_limit_args(saving.limit),
        follows=saving.follows,
    )
    before, reply_count = counting_commands(partition, saving.user_id if saving.login_ms == saving.at else "")
    return ScriptCall(
        partition,
        scripts.ROTATE,
        scripts.ROTATE.keys(partition),
        args,
        _outcome_of,
        before=before,
        reply_count=reply_count,
        confirmation=confirmation(Reason.REPLACED) if saving.limit and conf.CONFIRM_ENDS else None,
        name=saving.name,
    )


def end_above(limit: Limit, user_id: str, *, keep: str, confirms: Confirmation | None = None) -> ScriptCall[bool]:
    """End up to 250 sessions of this user above ``limit``. The new session ``keep`` stays. True if more are left."""
    partition = keyspace().of_user(user_id)
    args = scripts.END_ABOVE.arguments(user_id=user_id, sid=keep, limit=limit.maximum, policy=limit.policy)
    keys = scripts.END_ABOVE.keys(partition)
    return ScriptCall(partition, scripts.END_ABOVE, keys, args, lambda crowded, _: bool(crowded), confirmation=confirms)


def same_partition(sid: str, other_sid: str) -> bool:
    """Return whether one script can reach both sessions."""
    space = keyspace()
    return space.count == 1 or space.of_sid(sid) == space.of_sid(other_sid)


def at_home(sid: str, user_id: str) -> bool:
    """Return whether the sid is in the bucket of this user. A guest (``""``) may have any sid."""
    return not user_id or bucket_of(sid) == bucket_of_user(user_id)


EndCall = ScriptCall[tuple[list[Any], list[EndedSession]]]
"""Returns the reply of the script, and the sessions that it ended."""


class Ending(NamedTuple):
    """
    How sessions are ended. An end with a ``reason`` of None is not reported: nobody has used these sessions.

    ``message`` is for the users of these sessions. These sessions stay: those that began after ``latest`` (milliseconds
    of the server's clock), those not seen ``since``, the sids ``kept_sids``, and those of ``kept_users``. ``by`` is the
    user whose request ends them, ``""`` if none does.
    """

    reason: Reason | None = None
    message: str = ""
    latest: int | None = None
    since: str | None = None
    kept_sids: Collection[str] = ()
    kept_users: Collection[str] = ()
    confirms: Confirmation | None = None
    by: str = ""

    def call_end_sids(self, partition: Partition, sids: Sequence[str]) -> EndCall:
        """End up to 250 of ``sids``."""
        script = scripts.END_SIDS
        return self._call(script, partition, script.keys(partition), sids=sids)

    def call_end_range(self, partition: Partition, name: str, low: str, high: str, skipped: int) -> EndCall:
        """End up to 250 of a list, with scores from ``low`` to ``high``: those after the ``skipped`` lowest."""
        script = scripts.END_RANGE
        return self._call(script, partition, script.keys(partition, source=name), low=low, high=high, skipped=skipped)

    def _call(self, script: Script, partition: Partition, keys: tuple[bytes, ...], **which: Any) -> EndCall:
        args = script.arguments(
            reason=self.reason or "",
            message=self.message,
            began_by=self.latest,
            since=self.since,
            kept_sids=self.kept_sids,
            kept_users=self.kept_users,
            **which,
        )
        return ScriptCall(
            partition, script, keys, args, _with_ended, confirmation=self.confirms, by=self.by, message=self.message
        )


def end_by_sid(sids: Sequence[str], ending: Ending, *, follow: bool = False) -> Steps[EndedList]:
    """
    End sessions, up to 250 a call. Return those that have ended. Only kicks are confirmed by replicas.

    With ``follow``, a session that has got another key is ended under its new sid.
    """
    ended: list[EndedSession] = []
    confirms, asked = ending.confirms, set(sids)
    if confirms is None and ending.reason is Reason.KICKED:
        confirms = confirmation()
    ending = ending._replace(confirms=confirms)
    while sids:
        others: list[str] = []
        for partition, batch in batches(sids):
            while batch:
                (dealt_with, moved), gone = yield from ending.call_end_sids(partition, batch)
                ended += gone
                others += [sid.decode(errors="replace") for sid in moved]
                batch = batch[dealt_with:]
        # Foreign notes may point in a circle.
        sids = [sid for sid in others if is_sid(sid) and sid not in asked] if follow else []
        asked.update(sids)
    return EndedList(ended, **replica_status(confirms))


def _saving_args(saving: Saving) -> dict[str, str | bytes | int]:
    return {
        "record": saving.record,
        "user_id": saving.user_id,
        "login_time": saving.login_ms or "",
        "at": saving.at,
        "due": saving.due,
    }


def _limit_args(limit: Limit | None) -> dict[str, str | int | None]:
    if limit is None:
        return {"limit": None, "policy": "", "full_at": None}
    return {"limit": limit.maximum, "policy": limit.policy, "full_at": limit.full_at}


def _outcome_of(reply: list[bytes], _: EndedSessions, counts: Sequence[Any] = ()) -> Outcome:
    word, more = (*reply, b"")[:2]
    record = more if word in (b"changed", b"moved") else b""
    note = more.decode(errors="replace") if word == b"gone" else ""
    at = int(more) if word == b"clock" else 0
    there = session_counts(counts) if counts else None
    return Outcome(word.decode(), record, note, more == b"crowded", at, there)


def _with_ended(reply: list[Any], ended: EndedSessions) -> tuple[list[Any], list[EndedSession]]:
    return reply, list(ended)
