"""New session keys: in the bucket of a user, in another partition, or in place of a key that may be copied."""

from __future__ import annotations

from contextlib import suppress

from django_redsess.exceptions import SessionStoreUnavailable
from django_redsess.session import operations
from django_redsess.session.known import SessionState
from django_redsess.session.operations import Ending, Outcome, Saving
from django_redsess.transport.connections import of
from django_redsess.transport.keys import bucket_of, bucket_of_user, keyspace, new_key
from django_redsess.transport.steps import Steps


def give_key(session: SessionState, user_id: str) -> None:
    """Give ``session`` a new, unused key: in the bucket of this user, or in a random bucket for a guest."""
    session._session_key = key = new_key(bucket_of_user(user_id) if user_id else None)
    session.pending = session.pending._replace(own_key=key)


def rotate_key(session: SessionState) -> None:
    """Give ``session`` another key in the same bucket. The next save moves the session to it."""
    old_key = session.pending.rotates_from or session.session_key
    if old_key is not None:
        session.pending = session.pending._replace(rotates_from=old_key)
        session._session_key = new_key(bucket_of(old_key))


def move_home(session: SessionState, user_id: str, *, must_create: bool = False, renews: bool = False) -> None:
    """
    Give ``session`` a key in the bucket of this user, unless it has one there.

    With ``renews``, it gets a new key even then, unless a new key is pending already. With ``must_create``, the session
    is not stored yet, so there is no old key to move from.
    """
    sid, space, pending = session.sid or "", keyspace(), session.pending
    at_home = operations.at_home(sid, user_id)
    if must_create and session.session_key != pending.own_key:
        # The caller has chosen this key. It only needs to be in the right partition.
        at_home = space.of_sid(sid) == space.of_user(user_id)
    if at_home and not (renews and pending.rotates_from is None):
        return
    if not must_create:
        session.pending = pending._replace(rotates_from=pending.rotates_from or session.session_key)
    give_key(session, user_id)


def moving_elsewhere(old_sid: str, sid: str, saving: Saving, *, loaded: bytes) -> Steps[Outcome]:
    """Do as :func:`operations.rotate` does, for a new sid in another partition. No script reaches both partitions."""
    viewed = yield from operations.viewed_by(old_sid)
    made = yield from operations.create(sid, saving, viewed)
    if made.status in ("clock", "blocked"):
        return made
    if made.status == "refused":
        # Two requests may sign in at once from one guest's session. The other one may have been first.
        old = yield from operations.read(old_sid)
        if old.record is not None:
            return made
        note = yield from operations.note_of(old_sid)
        return Outcome("gone", note=note)
    # This only ends the old session, and leaves a note with the new sid.
    try:
        outcome = yield from operations.rotate(old_sid, sid, saving, loaded=loaded)
    except SessionStoreUnavailable:
        # Nobody gets the new key. Another node, or one that only refuses, may still end the session under it.
        if not of(keyspace().of_sid(sid)).outages.out_of_reach.known:
            with suppress(SessionStoreUnavailable):
                yield from operations.end([sid], Ending())
        raise
    if outcome.status != "saved":
        yield from operations.end([sid], Ending())
    return outcome._replace(crowded=outcome.crowded or made.crowded, stored=made.stored or outcome.stored)
