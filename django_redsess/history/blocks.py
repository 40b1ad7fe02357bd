"""Copies of blocks in the site's database, and putting back those that the server has forgotten."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import Any

from django.db import router, transaction
from django.utils import timezone

from django_redsess import online
from django_redsess.history.models import BlockCopy
from django_redsess.history.recording import nothing, stored, user_key
from django_redsess.history.writing import write
from django_redsess.signals import user_blocked, user_unblocked


def connect() -> None:
    """Keep copies from now on. Called once, when all models are loaded."""
    user_blocked.connect(blocked, dispatch_uid="django_redsess.history")
    user_unblocked.connect(unblocked, dispatch_uid="django_redsess.history")


def disconnect() -> None:
    """Keep no copies from now on."""
    user_blocked.disconnect(dispatch_uid="django_redsess.history")
    user_unblocked.disconnect(dispatch_uid="django_redsess.history")


def blocked(sender: Any, user_id: str, until: datetime, message: str, by: str, **kwargs: Any) -> None:
    """Receive the signal ``user_blocked``."""
    copy = {"until": stored(until), "message": message, "by": by}
    _write(user_id, lambda key, using: BlockCopy.objects.using(using).update_or_create(user_id=key, defaults=copy))


def unblocked(sender: Any, user_id: str, **kwargs: Any) -> None:
    """Receive the signal ``user_unblocked``."""
    _write(user_id, lambda key, using: BlockCopy.objects.using(using).filter(user_id=key).delete())


def _write(user_id: str, work: Callable[[Any, str], object]) -> None:
    key, using = user_key(user_id), router.db_for_write(BlockCopy)
    if key is not None:
        write(partial(work, key, using), nothing, rows=1, using=using)


def put_back(go_on: Callable[[], bool] = lambda: True) -> Iterator[int]:
    """
    Block the users again whose blocks the server has forgotten, and delete copies of blocks that are over.

    Yield 1 for each user who is blocked again. ``go_on`` is called before each, and False stops the work.
    """
    using = router.db_for_write(BlockCopy)
    copies = BlockCopy.objects.using(using)
    copies.filter(until__lte=stored(datetime.now(UTC))).delete()
    for copy in list(copies.select_related("user")):
        if not go_on():
            return
        if online.block_of(copy.user) is not None:
            continue
        with transaction.atomic(using):
            # Who lifts a block deletes its copy first. Where the database locks rows, that waits for this.
            left = copies.select_for_update().filter(pk=copy.pk).first()
            if left is not None:
                until = timezone.make_aware(left.until) if timezone.is_naive(left.until) else left.until
                # By the server's clock it may be over.
                with suppress(ValueError):
                    online.restore_block(online.Block(online.user_id_of(copy.user), until, left.message, left.by))
                    yield 1
