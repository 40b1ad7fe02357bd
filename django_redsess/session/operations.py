"""
The operations on sessions in Redis. Each is one round trip: one script, or a few plain commands.

The functions here send nothing. Each returns a step (see :mod:`django_redsess.transport.steps`). Other steps yield from
it, or ``step.run()`` or ``await step.arun()`` sends it. An operation on every partition returns a step for each. Ending
sessions may take several steps, one after another.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple

from django_redsess.session.addresses import Entry, adding_keys, packed_change
from django_redsess.session.counting import Stored, counting, stored
from django_redsess.session.limits import Limit
from django_redsess.session.partitions import batches
from django_redsess.session.reading import Loaded, rotated_to, templates
from django_redsess.session.record import has_user, revision_of
from django_redsess.session.viewing import viewing, viewing_keys
from django_redsess.signals import EndedSession, Reason
from django_redsess.transport import scripts
from django_redsess.transport.confirming import Confirmation, EndedList, confirmation, worth
from django_redsess.transport.keys import bucket_of, bucket_of_user, is_sid, keyspace
from django_redsess.transport.steps import Call, EndedSessions, Plain, Steps

AT_ONCE_MAX = scripts.CONSTANTS["AT_ONCE_MAX"]
"""The most sessions or items that one call ends or looks up. A larger call would block the server for too long."""

LAST_SECOND = 250_000_000_000
"""In the year 9892. A later deadline is shown as this one, because Python's dates end soon after."""


class Saving(NamedTuple):
    """
    What a save writes.

    ``record`` was made by the time ``at``. ``due`` is the deadline. Both are milliseconds of the server's clock. With
    ``later_stays``, a later stored deadline is kept. ``login_ms`` is 0 for a guest. ``item`` is the item that the
    request views, or ``""``. Its view is recorded at most once: a repetition of the save leaves it out. ``limit`` is
    enforced only when a session is created or gets another key. ``place`` is what becomes of the session's entry in the
    index of addresses: see :mod:`django_redsess.session.addresses`.
    """

    record: bytes
    user_id: str
    login_ms: int
    at: int
    due: int
    later_stays: bool = False
    item: str = ""
    limit: Limit | None = None
    place: str = ""


class Outcome(NamedTuple):
    """
    The result of a save. ``status`` is one of:

    - ``saved``
    - ``gone``: the session has ended or has another key; ``note`` says which
    - ``changed``: another request has saved first; ``record`` is the stored record
    - ``clock``: the record must be made again, by the time ``at``
    - ``again``: the short script leaves the save to the general one
    - ``taken``: another session has the sid of this new session
    - ``refused``: the user already has the maximum number of sessions

    ``item`` is the item to view, if its view was certainly not recorded. ``crowded`` says that the user may still have
    too many sessions, more than one script ends: :func:`end_above` ends the others. ``stored`` is the number of
    sessions just before the save, if they were counted.
    """

    status: str
    record: bytes = b""
    note: str = ""
    item: str = ""
    crowded: bool = False
    at: int = 0
    stored: Stored | None = None

    @property
    def rotated_to(self) -> str:
        """The new sid of the session, if it has got another key, else ``""``."""
        return rotated_to(self.note)


SAVED, AGAIN = Outcome("saved"), Outcome("again")


def prolong(loaded: Loaded, due: int) -> Call[bool]:
    """Move the deadline of a session to ``due``, if it is still the one that was read. True if it was moved."""
    partition = keyspace().of_sid(loaded.sid)
    args = scripts.PROLONG.arguments(sid=loaded.sid, read=loaded.due, due=due)
    seen_list = partition.recent if has_user(loaded.record or b"") else partition.guests
    return Call(partition, scripts.PROLONG, scripts.PROLONG.keys(partition, seen_list=seen_list), args, bool)


def change(
    sid: str, record: bytes, *, revision: bytes, loaded: bytes, due: int = 0, entry: Entry | None = None
) -> Plain[Outcome]:
    """
    Replace the record of a session that still has the revision ``loaded``. This is the short way to save.

    A ``due`` other than 0 becomes its deadline, if it is later. The caller must know that nothing else has to change.
    ``revision`` is that of ``record``. ``entry`` is the new one in the index of addresses, if the address has changed.
    """
    space = keyspace()
    partition, _, _, changing = templates(space.prefix, space.count)[space.number_of(sid) if space.count > 1 else 0]
    at = b"%d" % due if due else b""
    if entry is None:
        packed = changing % (sid.encode(), loaded, len(record), record, len(at), at)
    else:
        packed = packed_change(partition, entry, (sid, loaded, record, at))

    def changed(replies: list[Any]) -> Outcome:
        found = replies[0]
        # The client repeats a command whose reply was lost. Then its record is stored already.
        if found == 1 or (found and revision_of(found) == revision):
            return SAVED
        return Outcome("changed", found) if found else AGAIN

    return Plain(partition, scripts.CHANGE.task, packed, 1, changed, script=scripts.CHANGE)


def add(sid: str, saving: Saving) -> Call[Outcome]:
    """Add a session under a new, unused sid. This is the short way to create. Also count the sessions before it."""
    partition = keyspace().of_sid(sid)
    keys = adding_keys(partition, bool(saving.user_id), bool(saving.place))
    args = scripts.ADD.arguments(
        sid=sid,
        record=saving.record,
        at=saving.at,
        due=saving.due,
        user_id=saving.user_id,
        place=saving.place,
        limit=saving.limit.maximum if saving.limit else None,
        full_at=saving.limit.full_at if saving.limit else None,
    )

    def read(reply: int | bytes, counts: Sequence[Any]) -> Outcome:
        if isinstance(reply, bytes):
            return Outcome("clock", at=int(reply))
        return Outcome("saved", stored=stored(counts)) if reply else AGAIN

    asked = counting(partition, saving.user_id)
    return Call(partition, scripts.ADD, keys, args, read, scripts.ADD.once(first=1), *asked)


def create(sid: str, saving: Saving, viewed: Sequence[bytes] | None = None, *, is_new: bool = False) -> Call[Outcome]:
    """
    Add a session.

    ``is_new`` says that the sid is certainly unused, so the script does not look for it. ``viewed`` is for a session
    that comes from another partition. It has the items that the session viewed there and the times of their views, as
    :func:`viewed_by` returns them.
    """
    partition = keyspace().of_sid(sid)
    args = scripts.CREATE.arguments(sid=sid, **_written(saving), **_limit(saving.limit), viewed=viewed)
    # A repetition may find the session that the first attempt created.
    once = scripts.CREATE.once(is_new=is_new, **viewing(saving.item))
    keys = viewing_keys(partition, saving.item)
    confirms = confirmation(Reason.REPLACED) if saving.limit else None
    return Call(partition, scripts.CREATE, keys, args, _outcome, once, *counting(partition, saving.user_id), confirms)


def save(sid: str, saving: Saving, *, loaded: bytes) -> Call[Outcome]:
    """
    Replace the record of a live session that still has the revision ``loaded``. Otherwise nothing is written.

    An empty ``loaded`` fits any revision.
    """
    partition = keyspace().of_sid(sid)
    args = scripts.SAVE.arguments(sid=sid, **_written(saving), later_stays=saving.later_stays, loaded=loaded)
    once = scripts.SAVE.once(**viewing(saving.item))
    return Call(partition, scripts.SAVE, viewing_keys(partition, saving.item), args, _outcome, once)


def rotate(old_sid: str, sid: str, saving: Saving, *, loaded: bytes) -> Call[Outcome]:
    """
    Move a live session to a new sid, with a new record, if it still has the revision ``loaded``.

    If the new sid belongs to another partition, create the session there first, because no script reaches both
    partitions. This call then only ends the old session, and leaves a note with the new sid. It records no view.
    """
    partition = keyspace().of_sid(old_sid)
    if not same_partition(old_sid, sid):
        saving = saving._replace(record=b"", item="", limit=None)
    args = scripts.ROTATE.arguments(old_sid=old_sid, sid=sid, **_written(saving), loaded=loaded, **_limit(saving.limit))
    once = scripts.ROTATE.once(**viewing(saving.item))
    keys = viewing_keys(partition, saving.item)
    confirms = confirmation(Reason.REPLACED) if saving.limit else None
    signs_in = saving.user_id if saving.login_ms == saving.at else ""
    return Call(partition, scripts.ROTATE, keys, args, _outcome, once, *counting(partition, signs_in), confirms)


def end_above(limit: Limit, user_id: str, *, keep: str, confirms: Confirmation | None = None) -> Call[bool]:
    """End up to 250 sessions of this user above ``limit``. The new session ``keep`` stays. True if more are left."""
    partition = keyspace().of_user(user_id)
    args = scripts.END_ABOVE.arguments(user_id=user_id, sid=keep, limit=limit.maximum, policy=limit.policy)
    keys = scripts.END_ABOVE.keys(partition)
    return Call(partition, scripts.END_ABOVE, keys, args, lambda crowded, _: bool(crowded), confirmation=confirms)


def viewed_by(sid: str) -> Call[list[bytes]]:
    """Read the items that a session viewed, to move them with it: item, time, item, time, …"""
    partition, script = keyspace().of_sid(sid), scripts.RECENT_ITEMS
    return Call(partition, script, script.keys(partition), script.arguments(sid=sid, limit=0), list)


def same_partition(sid: str, other_sid: str) -> bool:
    """Return whether one script can reach both sessions."""
    space = keyspace()
    return space.count == 1 or space.of_sid(sid) == space.of_sid(other_sid)


def at_home(sid: str, user_id: str) -> bool:
    """Return whether the sid is in the bucket of this user. A guest (``""``) may have any sid."""
    return not user_id or bucket_of(sid) == bucket_of_user(user_id)


def end(
    sids: Sequence[str],
    reason: Reason | None,
    *,
    message: str = "",
    latest: int | None = None,
    keep_users: Collection[str] = (),
    follow: bool = False,
) -> Steps[EndedList]:
    """
    End sessions, up to 250 a call. Return those that have ended. Only kicks are confirmed by replicas.

    An end with a ``reason`` of None is not reported: it removes sessions that nobody has used. ``message`` is for the
    users of these sessions. Sessions that began after ``latest`` (milliseconds of the server's clock) stay, and so do
    those of ``keep_users``. With ``follow``, a session that has got another key is ended under its new sid.
    """
    ended: list[EndedSession] = []
    stays = {"began_by": latest, "since": None, "kept_sids": (), "kept_users": keep_users}
    of_no_list = {"low": "", "high": "", "skipped": None}
    args = partial(scripts.END.arguments, reason=reason or "", message=message, **stays, **of_no_list)
    confirms, named = confirmation() if reason is Reason.KICKED else None, set(sids)
    while sids:
        others: list[str] = []
        for partition, batch in batches(sids):
            while batch:
                keys, named_args = scripts.END.keys(partition), args(sids=batch)
                call = Call(partition, scripts.END, keys, named_args, with_ended, confirmation=confirms)
                (dealt_with, *_, moved), gone = yield from call
                ended += gone
                others += [sid.decode(errors="replace") for sid in moved]
                batch = batch[dealt_with:]
        # Foreign notes may point in a circle.
        sids = [sid for sid in others if is_sid(sid) and sid not in named] if follow else []
        named.update(sids)
    return EndedList(ended, *worth(confirms))


def counted_elsewhere(sid: str, item: str) -> bool:
    """Return whether the views of ``item`` are counted in another partition than that of the session."""
    space = keyspace()
    return space.count > 1 and space.of_sid(sid) != space.of_item(item)


def _written(saving: Saving) -> dict[str, str | bytes | int]:
    return {
        "record": saving.record,
        "user_id": saving.user_id,
        "login_time": saving.login_ms or "",
        "at": saving.at,
        "due": saving.due,
        "place": saving.place,
    }


def _limit(limit: Limit | None) -> dict[str, str | int | None]:
    maximum, policy, full_at, _ = limit or (None, "", None, True)
    return {"limit": maximum, "policy": policy, "full_at": full_at}


def _outcome(reply: list[bytes], _: EndedSessions, counts: Sequence[Any] = ()) -> Outcome:
    word, more, item = (*reply, b"", b"")[:3]
    record = more if word == b"changed" else b""
    note = more.decode(errors="replace") if word == b"gone" else ""
    at = int(more) if word == b"clock" else 0
    there = stored(counts) if counts else None
    return Outcome(word.decode(), record, note, item.decode(), more == b"crowded", at, there)


def with_ended(reply: list[Any], ended: EndedSessions) -> tuple[list[Any], list[EndedSession]]:
    """Return the reply of a script, and the sessions that it ended."""
    return reply, list(ended)


def time_of(milliseconds: bytes) -> datetime:
    """Return the datetime of a time that the server wrote."""
    return datetime.fromtimestamp(max(0, min(float(milliseconds or 0) / 1000, LAST_SECOND)), UTC)
