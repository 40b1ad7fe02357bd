"""The stores that sessions are moved from: one adapter for each kind. A row is read, its session is never loaded."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from importlib import import_module
from typing import Any

from django.conf import settings
from django.contrib.sessions.backends import cache, db, file, signed_cookies
from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed
from django.utils.module_loading import import_string

from django_redsess.conf import conf
from django_redsess.contrib.moving.sources.base import Source
from django_redsess.contrib.moving.sources.database import DatabaseSource
from django_redsess.contrib.moving.sources.engines import (
    CacheSource,
    EngineSource,
    FileSource,
    RedisSessionsSource,
    SignedCookieSource,
)


@lru_cache(maxsize=1)
def source() -> Source:
    """Return the store that ``MOVE_FROM`` names. Raises ImproperlyConfigured if that can't be."""
    named: Any = conf.MOVE_FROM
    if named is None:
        raise ImproperlyConfigured(
            "SESSION_ENGINE is django_redsess.contrib.moving, and REDSESS['MOVE_FROM'] does not say where sessions are "
            "moved from. Name the engine that the site had, such as 'django.contrib.sessions.backends.db'."
        )
    alias = settings.SESSION_CACHE_ALIAS
    if isinstance(named, Mapping):
        if "SESSION_ENGINE" not in named:
            raise ImproperlyConfigured(
                "SESSION_ENGINE is django_redsess.contrib.moving, and REDSESS['MOVE_FROM'] describes another store of "
                "this engine. From there, sessions move with SESSION_ENGINE = 'django_redsess.contrib.moving.growing'."
            )
        named, alias = named["SESSION_ENGINE"], named.get("SESSION_CACHE_ALIAS", alias)
    try:
        engine = import_module(named).SessionStore
    except (ImportError, AttributeError):
        return _source_of_class(named)
    for known, adapter in ADAPTERS.items():
        if issubclass(engine, known):
            return adapter(engine, alias)
    if engine.__module__ in OF_PEERS:
        return OF_PEERS[engine.__module__](engine, alias)
    raise ImproperlyConfigured(
        f"REDSESS['MOVE_FROM'] is {named!r}, an engine that is not known here. Name a subclass of "
        "django_redsess.contrib.moving.Source that reads its rows."
    )


ADAPTERS: dict[type[Any], type[EngineSource]] = {
    db.SessionStore: DatabaseSource,
    cache.SessionStore: CacheSource,
    file.SessionStore: FileSource,
    signed_cookies.SessionStore: SignedCookieSource,
}


OF_PEERS: dict[str, type[EngineSource]] = {
    "redis_sessions.session": RedisSessionsSource,
    "user_sessions.backends.db": DatabaseSource,
}


def _source_of_class(named: str) -> Source:
    try:
        found = import_string(named)
    except ImportError as error:
        raise ImproperlyConfigured(f"REDSESS['MOVE_FROM'] is {named!r}, which can't be imported: {error}") from error
    if not (isinstance(found, type) and issubclass(found, Source)):
        raise ImproperlyConfigured(f"REDSESS['MOVE_FROM'] is {named!r}, neither a session engine nor a Source.")
    return found()


def _forget_source(*, setting: str, **kwargs: Any) -> None:
    if setting in ("REDSESS", "CACHES", "SESSION_CACHE_ALIAS"):
        source.cache_clear()


setting_changed.connect(_forget_source)
