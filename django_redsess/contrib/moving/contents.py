"""The data of sessions that another engine has pickled: JSON can't keep all of them."""

from __future__ import annotations

import logging
from datetime import datetime
from functools import lru_cache
from typing import Any

from django.conf import settings

from django_redsess.session.merge import same
from django_redsess.session.record import DEADLINE_MAX, USER_ID_MAX, check_depth, user_of
from django_redsess.transport.keys import sid_of

logger = logging.getLogger("django_redsess")


def is_movable(row: Any) -> bool:
    """Tell whether a source's ``row`` can be written here: a dict of few levels, a user id and a deadline that fit."""
    try:
        check_depth(row.data)
        deadline = 0 if row.deadline_ms is None else row.deadline_ms
        # The server's numbers can't hold more.
        fits = len(user_of(row.data).encode()) <= USER_ID_MAX and 0 <= deadline <= DEADLINE_MAX * 1000
        return fits and isinstance(row.data, dict)
    except Exception:  # What was pickled may be anything.
        return False


def log_unmovable(key: str, why: str) -> None:
    """Log once that the session ``key`` of the other store can't be read, or can't be written here."""
    # A name in a store may have any characters.
    log_unusable_sid(sid_of(key.encode("unicode_escape").decode()), why)


def keep_serializable(data: dict[str, Any], serializer: Any) -> dict[str, Any]:
    """
    Return what ``serializer`` keeps of ``data``, as it reads them again.

    The date of ``set_expiry()`` is converted. Values that it can't write are left out, and values that it changes (a
    tuple becomes a list) are kept as changed. The log names each such key once.
    """
    expiry = data.get("_session_expiry")
    if isinstance(expiry, datetime):
        data = {**data, "_session_expiry": expiry.isoformat()}
    written = serializer()
    try:
        read = written.loads(written.dumps(data))
    except Exception:  # A serializer may raise anything.
        read = {}
        for key, value in data.items():
            try:
                read |= written.loads(written.dumps({key: value}))
            except Exception:
                _log_value_once(str(key), "left out: it can't be written by the serializer of this site")
    for key, value in data.items():
        if key in read and not same(read[key], value, written):
            _log_value_once(str(key), "changed: the serializer of this site reads it as another type")
        elif not isinstance(key, str) and str(key) in read:
            _log_value_once(str(key), "changed: the serializer of this site reads the key as a text")
    return dict(read)


@lru_cache(maxsize=1000)
def _log_value_once(key: str, what: str) -> None:
    logger.warning("The value of %r in sessions that are moved is %s.", key[:100], what)


LATE_SECONDS = 300
"""A request of step 1 may save the row of a session that was moved meanwhile. No request takes longer than this."""


def log_if_saved_late(data: dict[str, Any], deadline_ms: int | None, mark: str) -> None:
    """
    Log once if a row was saved long after its session was copied here: no process of step 1 or 2 does that.

    The ``mark`` of the session has the deadline that the row had then. It is compared first, because the clock of the
    web server that saved the row may be off.
    """
    _, *times = mark.split(" ")
    expiry = data.get("_session_expiry") or settings.SESSION_COOKIE_AGE
    if deadline_ms is None or len(times) != 2 or not isinstance(expiry, int):
        return
    had, copied = map(int, times)
    deadline = deadline_ms // 1000
    if deadline > had + LATE_SECONDS and deadline - expiry > copied + LATE_SECONDS:
        _log_release_before()


@lru_cache(maxsize=1)
def _log_release_before() -> None:
    logger.warning(
        "A process of the release before seems to run beside step 2: it has saved a session that had moved here. What "
        "it changes is lost, and sessions that have ended live on there. Stop it, or set REDSESS['MOVES'] to False in "
        "every process until it is gone."
    )


@lru_cache(maxsize=10_000)
def log_unusable_sid(sid: str, why: str) -> None:
    """Log once that the session ``sid`` of the other store can't be used here, and ``why``."""
    logger.warning("Session %s of the other store can't be used here: %s.", sid, why)
