"""System checks of sessions that move here: what the settings say of it, how long it has taken, and what is left."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from django.apps import apps
from django.conf import settings
from django.core import checks
from django.core.exceptions import ImproperlyConfigured
from django.db import DatabaseError
from redis.exceptions import RedisError

from django_redsess import growing
from django_redsess.backend import is_in_use
from django_redsess.checks.server import ASKS_SERVER, OF_UNFIT, databases_of, may_ask
from django_redsess.checks.settings import check_settings, problem
from django_redsess.conf import conf
from django_redsess.exceptions import SessionStoreUnavailable
from django_redsess.growing.stores import stores
from django_redsess.moving import SessionStore
from django_redsess.moving.sources import now_here, source
from django_redsess.times import stored
from django_redsess.transport import aliases, sending
from django_redsess.transport.keys import Store, keyspace
from django_redsess.transport.round_trips import ask_each, drive, time_of


@checks.register(checks.Tags.security)
def check_source(**kwargs: Any) -> list[checks.CheckMessage]:
    """Require a source that can be used, if sessions move; else warn of settings that have no effect."""
    if check_settings():
        return []
    is_growing = is_in_use(growing.SessionStore)
    if not (is_growing or is_in_use(SessionStore)):
        if conf.MOVE_FROM is None and conf.MOVE_TO is None and conf.MOVES is False:
            return []
        message = f"MOVE_FROM, MOVE_TO and MOVES have no effect: SESSION_ENGINE is {settings.SESSION_ENGINE!r}."
        hint = "Set SESSION_ENGINE to the engine that moves; or remove them, when movesessions leaves nothing to move."
        return [problem("W060", message, hint)]
    try:
        if is_growing:
            return _of_own(stores().other)
        found = source()
    except ImproperlyConfigured as error:
        return [problem("E059", str(error))]
    if found.engine is None and not conf.MOVES:
        message = f"{type(found).__name__} has no engine, and REDSESS['MOVES'] is False: nothing can be saved there."
        return [problem("E061", message, "Set its attribute 'engine', or MOVES to True.")]
    return []


def _of_own(there: Store) -> list[checks.CheckMessage]:
    here, name = (settings.SESSION_CACHE_ALIAS, conf.PREFIX), "MOVE_FROM" if conf.MOVE_TO is None else "MOVE_TO"
    entries = [settings.CACHES.get(alias, {}) for alias in (there.alias, here[0])]
    try:
        aliases.pool_of(there.alias)
    except Exception as error:  # It may be any code. Its text may have the password, unless it is ours.
        if isinstance(error, aliases.UnfitEntry):
            return [problem(OF_UNFIT[error.about], f"{name}: {error}", error.hint)]
    same = entries[0].get("LOCATION") == entries[1].get("LOCATION") or databases_of(entries[0]) & databases_of(
        entries[1]
    )
    if there.prefix != here[1] or not same:
        return []
    message = f"{name} is the same server with the same PREFIX, {there.prefix!r}: both stores would have one name."
    return [problem("E062", message, f"Give the next store another PREFIX than the one before: here, or in {name}.")]


@checks.register(ASKS_SERVER)
def check_duration(**kwargs: Any) -> list[checks.CheckMessage]:
    """Warn if sessions have been moving for longer than a cookie lives: then all that can move has moved."""
    is_growing = is_in_use(growing.SessionStore)
    moves = conf.MOVE_TO is None if is_growing else is_in_use(SessionStore) and conf.MOVES
    if not (moves and may_ask()):
        return []
    seconds = _seconds_since_first()
    if seconds is None or seconds <= settings.SESSION_COOKIE_AGE:
        return []
    message = "Sessions have been moving for longer than SESSION_COOKIE_AGE: none is left that could still move."
    finish = "" if is_growing else " --finish"
    hint = (
        f"Run manage.py movesessions{finish}, set SESSION_ENGINE to 'django_redsess.backend', and remove MOVE_FROM and "
        "MOVES."
    )
    return [problem("W063", message, hint)]


@checks.register(checks.Tags.database)
def check_rows(databases: Sequence[str] | None = None, **kwargs: Any) -> list[checks.CheckMessage]:
    """Warn of rows that a move has left in Django's table: their keys are valid cookies here."""
    has_table = apps.is_installed("django.contrib.sessions")
    if not databases or not has_table or not is_in_use() or is_in_use(SessionStore) or not may_ask():
        return []
    from django.contrib.sessions.models import Session

    with suppress(DatabaseError, SessionStoreUnavailable):  # The table may not be there.
        # In this order: without rows, nothing is sent, and nothing agreed about the store.
        was_moved = Session.objects.exists() and _seconds_since_first() is not None
        if was_moved and Session.objects.filter(expire_date__gt=stored(time_of(now_here()))).exists():
            message = "Sessions were moved here, and rows of theirs are left in the table of Django's sessions."
            hint = (
                "Whoever reads them, or a backup, can use the keys. Set SESSION_ENGINE and MOVE_FROM as they were, and "
                "run manage.py movesessions --finish; or, if no session there is needed any more, empty the table."
            )
            return [problem("W064", message, hint)]
    return []


def _seconds_since_first() -> float | None:
    """Return how long ago, by its server's clock, the first session was moved; None if none was, or in an outage."""
    # What is wrong with the server, other checks say.
    with suppress(SessionStoreUnavailable, RedisError, ImproperlyConfigured):
        partitions, now = keyspace().partitions, dict[int, int]()

        def reading(number: int, at: int) -> bytes:
            now[number] = at
            return sending.command("HGET", partitions[number].totals, "moved_since")

        found = drive(ask_each("read", partitions, reading, 1))
        return max((now[number] / 1000 - float(since) for number, [since] in enumerate(found) if since), default=None)
    return None
