"""
The repair: rows and sessions are compared, missing rows are written, and old rows are deleted.

A process may be killed before it has written a row, and the database may have been down. A failover may bring back
sessions that have ended. So the store is asked for the sessions of open rows, and the database for the rows of living
sessions.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

from django.db import DatabaseError, router
from django.db.models import Exists, OuterRef, Q, QuerySet

from django_redsess import online
from django_redsess.conf import conf
from django_redsess.contrib.history.blocks import restore_blocks
from django_redsess.contrib.history.database import first_line, let_others_write, rows_at_once, short_waits
from django_redsess.contrib.history.models import SignIn
from django_redsess.contrib.history.receivers import FROM_CLIENT, existing_users, ms_of, row_of_beginning, upsert
from django_redsess.exceptions import SessionStoreUnavailable
from django_redsess.online.labels import server_time
from django_redsess.online.listing import SessionFilter, iterate_pages
from django_redsess.online.sign_ins import are_live
from django_redsess.querysets import user_key
from django_redsess.times import to_column

AGE_SECONDS = 300
"""A younger row, or a younger session, is left alone: its counterpart may be about to be written."""

READ_AT_ONCE = 1000
DELETED_AT_ONCE = 5000

logger = logging.getLogger("django_redsess")

GoOn = Callable[[], bool]

Batches = Iterator[tuple[int, int]]
"""For each batch, the number of changed rows, and of rows or sessions that were read."""


def close_ended(go_on: GoOn = lambda: True) -> Batches:
    """
    Close the open rows whose sessions are gone. Their reason is unknown. Yield two counts of each batch.

    ``go_on`` is called before each batch, and False stops the work. In an outage of the server, nothing is closed, and
    SessionStoreUnavailable is raised.
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
        lives = are_live([(str(user), login_ms) for login_ms, _, user in batch])
        gone = [pk for (_, pk, _), is_alive in zip(batch, lives, strict=True) if not is_alive]
        if gone:
            # Before the transaction, which holds a lock: this may ask another server.
            ended_at = to_column(server_time())
            with short_waits(using):
                # An end that was recorded meanwhile is more exact.
                left_open = SignIn.objects.using(using).filter(pk__in=gone, ended_at=None)
                left_open.update(ended_at=ended_at, ended_at_is_approximate=True)
            let_others_write(using)
        yield len(gone), len(batch)


def insert_missing(go_on: GoOn = lambda: True) -> Batches:
    """Insert missing rows of living sessions, and reopen closed ones. See :func:`close_ended`."""
    using = router.db_for_write(SignIn)
    pages = iterate_pages(SessionFilter(), "created_at")
    while go_on() and (sessions := next(pages, None)) is not None:
        until = _until()
        living = {
            (key, ms_of(each.created_at)): each
            for each in sessions
            if each.created_at is not None and (key := user_key(each.user_id)) is not None
        }
        old = [name for name in living if name[1] < until]
        rows = SignIn.objects.using(using).filter(login_ms__in={login_ms for _, login_ms in old})
        there = {(user, login_ms): (pk, at) for user, login_ms, pk, at in rows.values_list(*_NAMED)}
        wrong = [name for name in old if there.get(name, (0, 0))[1] is not None]
        # Some sessions may have ended since they were listed: their rows stay closed.
        lives = are_live([(str(user), login_ms) for user, login_ms in wrong]) if wrong else []
        wrong = [name for name, is_alive in zip(wrong, lives, strict=True) if is_alive]
        changed = 0
        if wrong:
            with short_waits(using):
                changed = _put_right(wrong, living, there, using)
            let_others_write(using)
        yield changed, len(sessions)


_NAMED = ("user_id", "login_ms", "pk", "ended_at")


def _put_right(wrong: list[Any], living: dict[Any, online.Session], there: dict[Any, Any], using: str) -> int:
    missing = [name for name in wrong if name not in there]
    # A deleted user's rows are deleted. The sessions may end a little later.
    users = existing_users([user for user, _ in missing])
    new = [_row_of_session(name[0], living[name]) for name in missing if name[0] in users]
    upsert(new, FROM_CLIENT, using)
    ends = dict(there[name] for name in wrong if name in there)
    if not ends:
        return len(new)
    # An end that was recorded meanwhile is later, and stays.
    closed_rows = SignIn.objects.using(using).filter(pk__in=ends, ended_at__lte=max(ends.values()))
    return len(new) + closed_rows.update(ended_at=None, ended_at_is_approximate=False, reason="", **NOTHING_OF_ENDER)


def _row_of_session(user_key: Any, session: online.Session) -> SignIn:
    assert session.created_at is not None  # noqa: S101
    row = row_of_beginning(user_key, session.created_at, session.address, session.user_agent)
    row.last_seen_at = to_column(session.last_seen_at)
    return row


def prune(go_on: GoOn = lambda: True) -> Batches:
    """
    Delete rows that are older than ``HISTORY_DAYS``. Yield as :func:`close_ended`.

    Rows of living sessions stay. So does each user's latest row, which is needed to recognize new devices, and the
    latest row with a device. Address, user agent, ender, message, internal note and what is stored of an unproven
    request are deleted from these latest rows.
    """
    rows, after = rows_to_prune(), (0, 0)
    later = SignIn.objects.filter(user_id=OuterRef("user_id"), login_ms__gt=OuterRef("login_ms"))
    has_later = Exists(later.filter(~Q(device_cookie="") | Q(device_cookie=OuterRef("device_cookie"))))
    while go_on():
        old = rows.filter(Q(login_ms__gt=after[0]) | Q(login_ms=after[0], pk__gt=after[1]))
        named = old.order_by("login_ms", "pk").values_list("login_ms", "pk", has_later)
        batch = list(named[: rows_at_once(DELETED_AT_ONCE, rows.db)])
        if not batch:
            return
        after = batch[-1][:2]
        gone, latest = ([pk for _, pk, is_old in batch if is_old is wanted] for wanted in (True, False))
        SignIn.objects.using(rows.db).filter(pk__in=gone).delete()
        # These rows are read each hour, and changed once.
        changed = rows.filter(pk__in=latest).exclude(
            address="", user_agent="", ended_by="", stored_message="", internal_note="", **NOTHING_OF_UNPROVEN
        )
        changed.update(**NOTHING_OF_SENDER)
        let_others_write(rows.db)
        yield len(gone), len(batch)


NOTHING_OF_ENDER = {"ended_by": "", "who_ended": "", "stored_message": "", "internal_note": ""}
NOTHING_OF_UNPROVEN = {"unproven_address": "", "unproven_user_agent": ""}
NOTHING_OF_SENDER: dict[str, Any] = {
    "address": "",
    "address_score": None,
    "user_agent": "",
    **NOTHING_OF_ENDER,
    **NOTHING_OF_UNPROVEN,
}


def rows_to_prune() -> QuerySet[SignIn]:
    """Return the rows that :func:`prune` looks at."""
    rows = SignIn.objects.using(router.db_for_write(SignIn))
    if conf.HISTORY_DAYS is None:
        return rows.none()
    before = ms_of(server_time() - timedelta(days=conf.HISTORY_DAYS))
    return rows.filter(login_ms__lt=before, ended_at__isnull=False)


def count_to_compare() -> int:
    """Count what :func:`close_ended` and :func:`insert_missing` look at."""
    return SignIn.objects.using(router.db_for_write(SignIn)).filter(ended_at=None).count() + online.count()


def repair_hourly(sender: Any, go_on: GoOn, **kwargs: Any) -> None:
    """Receive the signal :data:`django_redsess.cleaning.hourly`."""
    try:
        for work in (restore_blocks, close_ended, insert_missing, prune):
            for _ in work(go_on):
                pass
    except (DatabaseError, SessionStoreUnavailable) as error:
        logger.error("Sign-ins are not repaired: %s: %s", type(error).__name__, first_line(error))


def _until() -> int:
    return ms_of(server_time() - timedelta(seconds=AGE_SECONDS))
