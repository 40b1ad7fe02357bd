"""Copies of blocks in the site's database, from which blocks are restored after the server has lost them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from functools import partial
from typing import Any

from django.db import router

from django_redsess import online
from django_redsess.contrib.history.database import short_waits, try_write
from django_redsess.contrib.history.models import BlockCopy
from django_redsess.contrib.history.receivers import existing_users
from django_redsess.online.blocking import LISTED_MAX, list_blocks_with_origin, restore_and_end
from django_redsess.online.labels import server_time
from django_redsess.querysets import user_key
from django_redsess.signals import user_blocked, user_unblocked
from django_redsess.times import to_aware, to_column
from django_redsess.transport.steps import drive


def connect_copies() -> None:
    """Start to keep copies. Called once, when all models are loaded."""
    user_blocked.connect(copy_block, dispatch_uid="django_redsess.contrib.history")
    user_unblocked.connect(delete_copy, dispatch_uid="django_redsess.contrib.history")


def disconnect_copies() -> None:
    """Stop keeping copies."""
    user_blocked.disconnect(dispatch_uid="django_redsess.contrib.history")
    user_unblocked.disconnect(dispatch_uid="django_redsess.contrib.history")


def copy_block(
    sender: Any, user_id: str, until: datetime, stored_message: str, by: str, internal_note: str = "", **kwargs: Any
) -> None:
    """Receive the signal ``user_blocked``."""
    block = online.Block(user_id, until, stored_message, by, internal_note)
    _write_copy(user_id, lambda key, using: _store_copy(key, using, block))


def delete_copy(sender: Any, user_id: str, **kwargs: Any) -> None:
    """Receive the signal ``user_unblocked``."""
    _write_copy(user_id, lambda key, using: BlockCopy.objects.using(using).filter(user_id=key).delete())


def _write_copy(user_id: str, work: Callable[[Any, str], object]) -> None:
    key, using = user_key(user_id), router.db_for_write(BlockCopy)
    if key is not None:
        try_write(partial(work, key, using), rows=1, using=using)


def restore_blocks(go_on: Callable[[], bool] = lambda: True) -> Iterator[tuple[int, int]]:
    """
    Restore blocks that the server has lost. Make the copies agree with the blocks on the server.

    Yield for each copy without a block how many blocks were restored, 1 or 0, and 0 for the rows and sessions that were
    read. ``go_on`` is called before each copy, and False stops the work.
    """
    using = router.db_for_write(BlockCopy)
    copies = BlockCopy.objects.using(using)
    copies.filter(until__lte=to_column(server_time())).delete()
    found = drive(list_blocks_with_origin(0, LISTED_MAX))
    there = {key: block for block, _ in found if (key := user_key(block.user_id)) is not None}
    copied = {copy.pk: _block_of(copy) for copy in copies}
    # A block that another program has written must not survive a new server.
    own = {block for block, is_own in found if is_own}
    wrong = [key for key, block in there.items() if block in own and copied.get(key) != block]
    for key in existing_users(wrong):
        with short_waits(using):
            _store_copy(key, using, there[key])
    for key, block in copied.items():
        if key in there:
            continue
        if not go_on():
            return
        done = drive(restore_and_end(block))
        if done == "lifted":
            # The block was lifted while the database failed, so its copy is still there.
            copies.filter(pk=key, until=to_column(block.until)).delete()
        yield int(done == "restored"), 0


def _store_copy(key: Any, using: str, block: online.Block) -> None:
    copy = {
        "until": to_column(block.until),
        "stored_message": block.stored_message,
        "by": block.by,
        "internal_note": block.internal_note,
    }
    BlockCopy.objects.using(using).update_or_create(user_id=key, defaults=copy)


def _block_of(copy: BlockCopy) -> online.Block:
    # In an hour that occurs twice, take the second: no block ends early.
    return online.Block(
        str(copy.pk), to_aware(copy.until.replace(fold=1)), copy.stored_message, copy.by, copy.internal_note
    )
