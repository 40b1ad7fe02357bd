"""System checks of sessions that move here: what the settings say of it, and how long it has taken."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core import checks
from django.core.exceptions import ImproperlyConfigured

from django_redsess.backend import is_in_use
from django_redsess.checks.cache import ASKS_SERVER, NUMBERS_OF_UNFIT, databases_of, may_ask_server
from django_redsess.checks.moving import seconds_since_first_move
from django_redsess.checks.server import check_agreement
from django_redsess.checks.settings import check_settings, problem
from django_redsess.conf import conf
from django_redsess.contrib.moving import SessionStore, growing
from django_redsess.contrib.moving.growing.stores import site_stores
from django_redsess.contrib.moving.sources import source
from django_redsess.transport import caches
from django_redsess.transport.keys import Store, using


@checks.register(checks.Tags.security)
def check_source(**kwargs: Any) -> list[checks.CheckMessage]:
    """Require another store that can be used, if sessions move."""
    is_growing = is_in_use(growing.SessionStore)
    if check_settings() or not (is_growing or is_in_use(SessionStore)):
        return []
    try:
        if is_growing:
            return _check_sibling(site_stores().other)
        found = source()
    except ImproperlyConfigured as error:
        return [problem("E059", str(error))]
    if found.engine is None and not conf.MOVES:
        message = f"{type(found).__name__} has no engine, and REDSESS['MOVES'] is False: nothing can be saved there."
        return [problem("E061", message, "Set its attribute 'engine', or MOVES to True.")]
    return []


def _check_sibling(there: Store) -> list[checks.CheckMessage]:
    here, name = (settings.SESSION_CACHE_ALIAS, conf.PREFIX), "MOVE_FROM" if conf.MOVE_TO is None else "MOVE_TO"
    entries = [settings.CACHES.get(alias, {}) for alias in (there.alias, here[0])]
    try:
        caches.pool_of(there.alias)
    except Exception as error:  # It may be any code. Its text may have the password, unless it is ours.
        if isinstance(error, caches.UnfitEntry):
            return [problem(NUMBERS_OF_UNFIT[error.about], f"{name}: {error}", error.hint)]
    same = entries[0].get("LOCATION") == entries[1].get("LOCATION") or databases_of(entries[0]) & databases_of(
        entries[1]
    )
    if there.prefix != here[1] or not same:
        return []
    message = f"{name} is the same server with the same PREFIX, {there.prefix!r}: both stores would have one name."
    return [problem("E062", message, f"Give the next store another PREFIX than the one before: here, or in {name}.")]


@checks.register(ASKS_SERVER)
def check_sibling_agreement(**kwargs: Any) -> list[checks.CheckMessage]:
    """Refuse PARTITIONS, a SECRET_KEY or a release that do not suit the other store of this engine."""
    if not is_in_use(growing.SessionStore) or check_source():
        return []
    with using(site_stores().other):
        found = check_agreement()
    for each in found:
        each.msg = f"{'MOVE_FROM' if conf.MOVE_TO is None else 'MOVE_TO'}: {each.msg}"
    return found


@checks.register(ASKS_SERVER)
def check_duration(**kwargs: Any) -> list[checks.CheckMessage]:
    """Warn if sessions have been moving for longer than a cookie lives: then all that can move has moved."""
    is_growing = is_in_use(growing.SessionStore)
    moves = conf.MOVE_TO is None if is_growing else is_in_use(SessionStore) and conf.MOVES
    if not (moves and may_ask_server()):
        return []
    seconds = seconds_since_first_move()
    if seconds is None or seconds <= settings.SESSION_COOKIE_AGE:
        return []
    message = "Sessions have been moving for longer than SESSION_COOKIE_AGE: none is left that could still move."
    finish = "" if is_growing else " --finish"
    hint = (
        f"Run manage.py movesessions{finish}, set SESSION_ENGINE to 'django_redsess.backend', and remove MOVE_FROM and "
        "MOVES."
    )
    return [problem("W063", message, hint)]
