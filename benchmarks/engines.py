"""The session engines that are compared, each with the settings of a site that uses it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.stores import Stores

TIMEOUT = 5
"""Seconds for connecting to a server and for its reply: so long that it never interrupts a measurement."""

REDIS = {"SOCKET_CONNECT_TIMEOUT": TIMEOUT, "SOCKET_TIMEOUT": TIMEOUT}

CACHES = {
    "django-redis": ("django_redis.cache.RedisCache", REDIS),
    "Django": (
        "django.core.cache.backends.redis.RedisCache",
        {"socket_connect_timeout": TIMEOUT, "socket_timeout": TIMEOUT},
    ),
}
"""The clients of Redis: the cache's class, and its options."""

# Like the other servers, it answers before anything is on disk.
SQLITE_AT_START = "PRAGMA journal_mode=MEMORY; PRAGMA synchronous=OFF;"

DEVICE_BOUND = "django_redsess.contrib.device_bound"

DJANGO_MIDDLEWARE = "django.contrib.sessions.middleware.SessionMiddleware"


@dataclass(frozen=True)
class Engine:
    """
    A session engine as a site would use it.

    ``needs`` are modules besides Django's and ours. ``cache`` is the client of Redis, a name in CACHES above, if any.
    ``sql``: whether its sessions are in SQLite. ``database`` is its number on servers that engines share. ``apps`` and
    ``middleware`` are for the settings. ``opens_with_client``: its SessionStore needs address and browser of the
    request, and its sessions refer to users in the table of users. ``redsess`` is the setting REDSESS. ``is_bound``:
    its sessions are bound to devices.
    """

    name: str
    session_engine: str
    database: int
    needs: tuple[str, ...] = ()
    cache: str = ""
    sql: bool = False
    apps: tuple[str, ...] = ()
    middleware: str = DJANGO_MIDDLEWARE
    opens_with_client: bool = False
    redsess: Mapping[str, Any] = field(default_factory=dict)
    is_bound: bool = False

    @property
    def is_ours(self) -> bool:
        return self.session_engine == "django_redsess.backend"

    @property
    def uses_redis(self) -> bool:
        """Whether its sessions, or copies of them, are in Redis."""
        return bool(self.cache) or self.name == REDIS_SESSIONS

    def left_out(self) -> str:
        """Return why it can't be measured here, or ``""`` if it can."""
        for module in self.needs:
            try:
                import_module(module)
            except Exception as error:  # A module for another Python or Django may raise anything.
                return f"{module} can't be imported: {error}"
        return ""

    def settings(self, stores: Stores) -> dict[str, Any]:
        """Return the settings of a site, for ``settings.configure(**…)``."""
        settings = {
            "SECRET_KEY": "the benchmark's key, known to everyone: never use it for a real site",
            "ALLOWED_HOSTS": ["*"],
            "ROOT_URLCONF": "benchmarks.site",
            "USE_TZ": True,
            "DEFAULT_AUTO_FIELD": "django.db.models.BigAutoField",
            "INSTALLED_APPS": [
                *self.apps,
                "django.contrib.auth",
                "django.contrib.contenttypes",
                "django.contrib.sessions",
            ],
            "MIDDLEWARE": [self.middleware, "django.contrib.auth.middleware.AuthenticationMiddleware"],
            "DATABASES": {"default": self._database(stores)},
            "CACHES": {
                "default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"},
                **({"sessions": self._cache(stores)} if self.cache else {}),
            },
            "SESSION_ENGINE": self.session_engine,
        }
        if self.cache:
            settings["SESSION_CACHE_ALIAS"] = "sessions"
        if self.is_ours:
            settings["REDSESS"] = dict(self.redsess)
        if self.name == REDIS_SESSIONS:
            settings["SESSION_REDIS"] = {
                "host": "127.0.0.1",
                "port": stores.redis_port,
                "db": self.database,
                "prefix": "session",
                "socket_timeout": TIMEOUT,
            }
        return settings

    def _cache(self, stores: Stores) -> dict[str, Any]:
        backend, options = CACHES[self.cache]
        return {
            "BACKEND": backend,
            "LOCATION": f"redis://127.0.0.1:{stores.redis_port}/{self.database}",
            "OPTIONS": options,
        }

    def _database(self, stores: Stores) -> dict[str, Any]:
        return {
            "ENGINE": "django.db.backends.sqlite3",
            "CONN_MAX_AGE": None,  # Connections last as long as the process, as those to Redis do.
            "NAME": Path(stores.folder) / f"engine-{self.database}.sqlite3",
            "OPTIONS": {"timeout": 20, "init_command": SQLITE_AT_START},
        }


OURS = "django-redsess"
PARTITIONED = "django-redsess, 64 partitions"
ENCRYPTED = "django-redsess, encrypted"
BOUND = "django-redsess, bound to devices"
BASE = "cache (django-redis)"
"""What most sites would use instead of ours: every ratio compares with it."""
AGAIN = "cache (django-redis), again"
"""The same engine again. It shows how much two equal engines differ: a smaller difference means nothing."""
FLOOR = "dict in the process"
"""For no real site. It shows how much of each time is Django's own part."""
REDIS_SESSIONS = "django-redis-sessions"

CACHE, CACHED_DB, DB = (f"django.contrib.sessions.backends.{name}" for name in ("cache", "cached_db", "db"))

_OURS = Engine(
    OURS,
    "django_redsess.backend",
    1,
    cache="django-redis",
    apps=("django_redsess",),
    middleware="django_redsess.middleware.SessionMiddleware",
)

_ALL = (
    _OURS,
    replace(_OURS, name=PARTITIONED, database=13, redsess={"PARTITIONS": 64}),
    replace(_OURS, name=ENCRYPTED, database=12, needs=("cryptography",), redsess={"ENCRYPT": True}),
    replace(
        _OURS,
        name=BOUND,
        database=14,
        needs=("jwt",),
        apps=("django_redsess", DEVICE_BOUND),
        is_bound=True,
        redsess={"DEVICE_BOUND_SECONDS": 3600},
    ),
    Engine(BASE, CACHE, 2, cache="django-redis"),
    Engine(AGAIN, CACHE, 3, cache="django-redis"),
    Engine("cache (Django's own Redis cache)", CACHE, 4, cache="Django"),
    Engine("cached_db (django-redis, SQLite)", CACHED_DB, 5, cache="django-redis", sql=True),
    Engine("db (SQLite)", DB, 7, sql=True),
    Engine(REDIS_SESSIONS, "redis_sessions.session", 9, ("redis_sessions",)),
    Engine(
        "django-qsessions",
        "qsessions.backends.cached_db",
        10,
        ("qsessions",),
        cache="django-redis",
        sql=True,
        apps=("qsessions",),
        middleware="qsessions.middleware.SessionMiddleware",
        opens_with_client=True,
    ),
    Engine(FLOOR, "benchmarks.floor", 11),
)

ENGINES = {engine.name: engine for engine in _ALL}
"""By name, in the order of tables."""
