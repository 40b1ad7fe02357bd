"""Which key a session gets, and how it moves to another. All sessions of a user are in the user's home partition."""

from __future__ import annotations

from django_redsess.session import operations, reading
from django_redsess.session.loading import SessionLoading
from django_redsess.session.operations import Outcome, Saving
from django_redsess.transport.keys import bucket_of, bucket_of_user, keyspace, new_key
from django_redsess.transport.steps import Steps


def give_key(session: SessionLoading, user_id: str) -> None:
    """Give ``session`` a key that nobody has had: in the bucket of this user, for a guest in any."""
    session._session_key = key = new_key(bucket_of_user(user_id) if user_id else None)
    session.pending = session.pending._replace(own_key=key)


def rotate_key(session: SessionLoading) -> None:
    """Give ``session`` another key in its bucket. The next save moves it there."""
    old_key = session.pending.rotates_from or session.session_key
    if old_key is not None:
        session.pending = session.pending._replace(rotates_from=old_key)
        session._session_key = new_key(bucket_of(old_key))


def move_home(session: SessionLoading, user_id: str, *, must_create: bool = False, renews: bool = False) -> None:
    """Give ``session`` a key in the bucket of this user, unless it has one there; with ``renews``, a new one anyway."""
    sid, space, pending = session.sid or "", keyspace(), session.pending
    at_home = operations.at_home(sid, user_id)
    if must_create and session.session_key != pending.own_key:
        # Its key was chosen by somebody else, in the right partition at least.
        at_home = space.of_sid(sid) == space.of_user(user_id)
    if at_home and not (renews and pending.rotates_from is None):
        return
    if not must_create:
        session.pending = pending._replace(rotates_from=pending.rotates_from or session.session_key)
    give_key(session, user_id)


def moving_elsewhere(old_sid: str, sid: str, saving: Saving, *, loaded: bytes) -> Steps[Outcome]:
    """Do as :func:`operations.rotate` does, where the new sid is in another partition, and no script reaches both."""
    viewed = yield from operations.viewed_by(old_sid)
    made = yield from operations.create(sid, saving, viewed)
    if made.status == "clock":
        return made
    if made.status == "refused":
        # Of two sign-ins at the same time in a guest's session, the other may have been first.
        old = yield from reading.read(old_sid)
        if old.record is not None:
            return made
        note = yield from reading.note_of(old_sid)
        return Outcome("gone", note=note)
    # This only ends the old one, with a note of where it went.
    outcome = yield from operations.rotate(old_sid, sid, saving, loaded=loaded)
    if outcome.status != "saved":
        yield from operations.end([sid], None)
    return outcome._replace(crowded=outcome.crowded or made.crowded, stored=made.stored or outcome.stored)
