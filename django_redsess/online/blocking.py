"""Blocking a user: no sign-in until a time, and the end of all sessions."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import partial

from django_redsess.online.ending import end_all_of_users
from django_redsess.session import blocks
from django_redsess.session.blocks import Block, RestoreResult
from django_redsess.session.other_store import sibling_stores
from django_redsess.session.record import user_of
from django_redsess.session.store import session_of
from django_redsess.signals import Reason, note_block, request_answered, user_blocked, user_unblocked
from django_redsess.times import require_aware
from django_redsess.transport.replicas import EndedCount
from django_redsess.transport.scripts import CONSTANTS
from django_redsess.transport.steps import CallOutside, Steps, in_store
from django_redsess.user_messages import check_message, clean_text

LONGEST = timedelta(days=366)
"""The longest block by a command, or by an administrator who may change the user. Code may set any time."""

LONGEST_OF_OTHERS = timedelta(days=7)
"""The longest block by any other administrator."""

LISTED_MAX: int = CONSTANTS["CONSIDERED_MAX"]
"""How many blocks can be listed."""


def block_and_end(user_id: str, until: datetime, message: str, by: str, internal_note: str) -> Steps[EndedCount]:
    """Block a user, then end all sessions of the user. Return how many have ended."""
    until = require_aware(until, "until")
    words = check_message(message), by, check_message(clean_text(internal_note))
    made, session = Block(user_id, until, *words), session_of(request_answered())
    # The present session is flushed below. Otherwise its save would find it gone, and interrupt the request.
    is_own = session is not None and user_of((yield from session.opening())) == user_id
    # In this order. A sign-in between the two would be left, if the sessions ended first.
    if not (yield from blocks.set_block(made)):
        raise ValueError("until must be ahead, by the clock of the server that stores the sessions.")
    for store in sibling_stores():
        yield from in_store(store, blocks.set_block, made)
    note_block(user_id)
    told, code = made.message, made.message_code
    tell = CallOutside(partial(user_blocked.send_robust, Block, **made._asdict(), message=told, message_code=code))
    try:
        ended = yield from _end_sessions_of_blocked(made)
        if session is not None and is_own:
            yield from session.flushing()
    except Exception:
        # The user is blocked: receivers that keep copies must learn it.
        yield tell
        raise
    yield tell
    return ended


def restore_and_end(block: Block) -> Steps[RestoreResult]:
    """Restore a block that was lost, as ``blocks.restore_block`` does. Then end all sessions."""
    done = yield from blocks.restore_block(block)
    if done == "restored":
        yield from _end_sessions_of_blocked(block)
    return done


def _end_sessions_of_blocked(block: Block) -> Steps[EndedCount]:
    return (yield from end_all_of_users([block.user_id], Reason.KICKED, keep=None, message=block.stored_message))


def unblock_in_every_store(user_id: str) -> Steps[bool]:
    """Lift the block of a user. Return whether there was one."""
    # First, and also without a block here: a receiver that keeps copies must not put the block back.
    yield CallOutside(partial(user_unblocked.send_robust, Block, user_id=user_id))
    lifted = yield from blocks.lift_block(user_id)
    for store in sibling_stores():
        lifted = (yield from in_store(store, blocks.lift_block, user_id)) or lifted
    return lifted


def read_block_in_every_store(user_id: str) -> Steps[Block | None]:
    """Read the block of a user. None if there is none, or it is over."""
    found = yield from blocks.read_block(user_id)
    for store in sibling_stores():
        found = found or (yield from in_store(store, blocks.read_block, user_id))
    return found


def list_blocks(offset: int, limit: int) -> Steps[list[Block]]:
    """Read blocks, those that are over first."""
    return [block for block, _ in (yield from list_blocks_with_origin(offset, limit))]


def list_blocks_with_origin(offset: int, limit: int) -> Steps[list[tuple[Block, bool]]]:
    """Read blocks, and beside each whether this site has set it: see ``blocks.read_blocks``."""
    if offset < 0:
        raise ValueError(f"offset must be 0 or more, not {offset}.")
    if offset + limit > LISTED_MAX:
        raise ValueError(f"Only the first {LISTED_MAX} blocks can be listed.")
    if limit <= 0:
        return []
    stores = sibling_stores()
    if not stores:
        return (yield from blocks.read_blocks(offset, limit))
    # While sessions move, a block is in both stores, or in the one where it was set before.
    found = yield from blocks.read_blocks(0, offset + limit)
    for store in stores:
        found += yield from in_store(store, blocks.read_blocks, 0, offset + limit)
    by_user = {block.user_id: (block, is_own) for block, is_own in reversed(found)}
    return sorted(by_user.values(), key=lambda each: each[0].until)[offset : offset + limit]
