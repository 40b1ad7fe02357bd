"""System checks of moves between stores that concern the core: settings without effect, and what a move has left."""

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

from django_redsess.backend import is_in_use
from django_redsess.checks.cache import may_ask_server
from django_redsess.checks.settings import check_settings, problem
from django_redsess.conf import conf
from django_redsess.exceptions import SessionStoreUnavailable
from django_redsess.session import reading
from django_redsess.session.other_store import other_store
from django_redsess.times import to_column
from django_redsess.transport import packing
from django_redsess.transport.keys import keyspace
from django_redsess.transport.partitions import ask_each
from django_redsess.transport.steps import drive, time_of

APP_OF_MOVES = "django_redsess.contrib.moving"


@checks.register(checks.Tags.security)
def check_moving_engine(**kwargs: Any) -> list[checks.CheckMessage]:
    """Require the app of an engine that moves sessions. Warn of its settings if another engine is in use."""
    if check_settings():
        return []
    if other_store() is None:
        if conf.MOVE_FROM is None and conf.MOVE_TO is None and conf.MOVES is False:
            return []
        message = f"MOVE_FROM, MOVE_TO and MOVES have no effect: SESSION_ENGINE is {settings.SESSION_ENGINE!r}."
        hint = "Set SESSION_ENGINE to the engine that moves. If movesessions has nothing left to move, remove them."
        return [problem("W060", message, hint)]
    if apps.is_installed(APP_OF_MOVES):
        return []
    message = f"SESSION_ENGINE is {settings.SESSION_ENGINE!r}, and {APP_OF_MOVES!r} is not in INSTALLED_APPS."
    return [problem("E097", message, "Add it: the checks of a move and manage.py movesessions are there.")]


@checks.register(checks.Tags.database)
def check_rows(databases: Sequence[str] | None = None, **kwargs: Any) -> list[checks.CheckMessage]:
    """Warn of rows that a move has left in Django's table: their keys are valid cookies here."""
    has_table = apps.is_installed("django.contrib.sessions")
    if not databases or not has_table or not is_in_use() or other_store() is not None or not may_ask_server():
        return []
    from django.contrib.sessions.models import Session

    with suppress(DatabaseError, SessionStoreUnavailable):  # The table may not be there.
        # Rows first: without rows nothing is sent, and the site and its store agree on nothing.
        was_moved = Session.objects.exists() and seconds_since_first_move() is not None
        if was_moved and Session.objects.filter(expire_date__gt=to_column(time_of(reading.read_time().run()))).exists():
            message = "Sessions were moved here, but their rows are still in the table of Django's sessions."
            hint = (
                "Anyone who reads these rows, or a backup, can use the keys. Set SESSION_ENGINE and MOVE_FROM as "
                "they were, and run manage.py movesessions --finish. If nobody needs a session there any more, empty "
                "the table."
            )
            return [problem("W064", message, hint)]
    return []


def seconds_since_first_move() -> float | None:
    """Return how long ago, by its server's clock, the first session was moved; None if none was, or in an outage."""
    # Other checks report a server that fails. Another program may have stored any text as the number.
    with suppress(SessionStoreUnavailable, RedisError, ImproperlyConfigured, ValueError):
        partitions, now = keyspace().partitions, dict[int, int]()

        def pack_question(number: int, at: int) -> bytes:
            now[number] = at
            return packing.pack_command("HGET", partitions[number].totals, "moved_since")

        found = drive(ask_each("read", partitions, pack_question, 1))
        return max((now[number] / 1000 - float(since) for number, [since] in enumerate(found) if since), default=None)
    return None
