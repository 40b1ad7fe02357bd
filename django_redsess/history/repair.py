"""
Making up for what was not written: rows and sessions are compared, and old rows are deleted.

A process may be killed before it has written a row, and the database may have been down. A failover may bring back
sessions that have ended. So rows that are open are asked for in the store, and living sessions in the database.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import DatabaseError, router
from django.db.models import Q

from django_redsess import online
from django_redsess.conf import conf
from django_redsess.history.blocks import put_back
from django_redsess.history.models import SignIn
from django_redsess.history.recording import FROM_CLIENT, ms_of, row_of_beginning, stored, upsert, user_key
from django_redsess.history.writing import short_waits

AGE_SECONDS = 300
"""A younger row, or a younger session, may be one whose other half is about to be written."""

READ_AT_ONCE = 1000
DELETED_AT_ONCE = 5000

logger = logging.getLogger("django_redsess")

GoOn = Callable[[], bool]


def closed(go_on: GoOn = lambda: True) -> Iterator[int]:
    """
    Close the rows whose sessions are gone, without a reason: it was not recorded. Yield how many of each batch.

    ``go_on`` is called before each batch, and False stops the work.
    """
    using = router.db_for_write(SignIn)
    after = (0, 0)
    while go_on():
        rows = SignIn.objects.using(using).filter(ended_at=None, login_ms__lt=_until())
        rows = rows.filter(Q(login_ms__gt=after[0]) | Q(login_ms=after[0], pk__gt=after[1]))
        batch = list(rows.order_by("login_ms", "pk").values_list("login_ms", "pk", "user_id")[:READ_AT_ONCE])
        if not batch:
            return
        after = batch[-1][:2]
        lives = online.lives([(str(user), login_ms) for login_ms, _, user in batch])
        gone = [pk for (_, pk, _), is_alive in zip(batch, lives, strict=True) if not is_alive]
        if gone:
            with short_waits(using):
                # If the end is recorded meanwhile, that is the better one.
                left_open = SignIn.objects.using(using).filter(pk__in=gone, ended_at=None)
                left_open.update(ended_at=stored(datetime.now(UTC)), ended_is_about=True)
        yield len(gone)


def made_up(go_on: GoOn = lambda: True) -> Iterator[int]:
    """Insert the rows of living sessions that have none, and open those that were closed. Yield as :func:`closed`."""
    using = router.db_for_write(SignIn)
    offset = 0
    while go_on():
        sessions = online.sessions(offset=offset, limit=READ_AT_ONCE, order="login_at")
        if not sessions:
            return
        offset += len(sessions)
        living = {
            (key, ms_of(each.login_at)): each
            for each in sessions
            if each.login_at is not None and (key := user_key(each.user_id)) is not None
        }
        times = [login_ms for _, login_ms in living if login_ms < _until()]
        if not times:
            return
        rows = SignIn.objects.using(using).filter(login_ms__range=(min(times), max(times)))
        there = {(user, login_ms): (pk, at) for user, login_ms, pk, at in rows.values_list(*_NAMED)}
        wrong = [name for name in living if name[1] < _until() and there.get(name, (0, 0))[1] is not None]
        # Some may have ended since they were listed, and their rows were closed rightly.
        lives = online.lives([(str(user), login_ms) for user, login_ms in wrong]) if wrong else []
        wrong = [name for name, is_alive in zip(wrong, lives, strict=True) if is_alive]
        if wrong:
            with short_waits(using):
                _put_right(wrong, living, there, using)
        yield len(wrong)


_NAMED = ("user_id", "login_ms", "pk", "ended_at")


def _put_right(wrong: list[Any], living: dict[Any, online.Session], there: dict[Any, Any], using: str) -> None:
    missing = [living[name] for name in wrong if name not in there]
    new = list[SignIn]()
    for each in missing:
        assert each.login_at is not None  # noqa: S101
        row = row_of_beginning(user_key(each.user_id), each.login_at, each.address, each.user_agent)
        row.seen_at = stored(each.seen_at)
        new.append(row)
    upsert(new, FROM_CLIENT, using)
    closed_rows = SignIn.objects.using(using).filter(pk__in=[there[name][0] for name in wrong if name in there])
    closed_rows.update(ended_at=None, ended_is_about=False, reason="", by="", message="")


def pruned(go_on: GoOn = lambda: True) -> Iterator[int]:
    """Delete rows that are older than ``HISTORY_DAYS``, except those of living sessions. Yield as :func:`closed`."""
    if conf.HISTORY_DAYS is None:
        return
    using = router.db_for_write(SignIn)
    before = ms_of(datetime.now(UTC) - timedelta(days=conf.HISTORY_DAYS))
    old = SignIn.objects.using(using).filter(login_ms__lt=before, ended_at__isnull=False).order_by("login_ms")
    while go_on():
        keys = list(old.values_list("pk", flat=True)[:DELETED_AT_ONCE])
        if not keys:
            return
        SignIn.objects.using(using).filter(pk__in=keys).delete()
        yield len(keys)


def hourly(sender: Any, go_on: GoOn, **kwargs: Any) -> None:
    """Receive the signal :data:`django_redsess.cleaning.hourly`."""
    try:
        for work in (put_back, closed, made_up, pruned):
            for _ in work(go_on):
                pass
    except DatabaseError as error:
        words = str(error).strip().partition("\n")[0]
        logger.error("Sign-ins are not repaired: %s: %s", type(error).__name__, words)


def _until() -> int:
    return int((time.time() - AGE_SECONDS) * 1000)
