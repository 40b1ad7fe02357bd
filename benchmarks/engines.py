"""The session engines that are compared, each with the settings of a site that uses it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from django.core.cache import caches
from django.core.management import call_command
from django.utils import timezone
from django_redis import get_redis_connection

from benchmarks import floor
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

KEPT = None
"""CONN_MAX_AGE: connections to databases last as long as the process, as those to Redis do."""

DJANGO_MIDDLEWARE = "django.contrib.sessions.middleware.SessionMiddleware"


@dataclass(frozen=True)
class Engine:
    """
    A session engine as a site would use it.

    ``needs`` are modules besides Django's and ours. ``cache`` is the client of Redis, a name in CACHES above; ``sql``
    is the database of its sessions; either may be ``""``. ``database`` is its number on servers that engines share.
    ``apps`` and ``middleware`` are for the settings. ``opens_with_client``: its SessionStore needs address and browser
    of the request, and its sessions refer to users in the table of users.
    """

    name: str
    session_engine: str
    database: int
    needs: tuple[str, ...] = ()
    cache: str = ""
    sql: str = ""
    apps: tuple[str, ...] = ()
    middleware: str = DJANGO_MIDDLEWARE
    opens_with_client: bool = False

    @property
    def is_ours(self) -> bool:
        return self.session_engine == "django_redsess.backend"

    @property
    def uses_redis(self) -> bool:
        """Whether its sessions, or copies of them, are in Redis."""
        return bool(self.cache) or self.name == REDIS_SESSIONS

    def left_out(self, stores: Stores) -> str:
        """Return why it can't be measured here, or ``""`` if it can."""
        for module in self.needs:
            try:
                import_module(module)
            except Exception as error:  # A module for another Python or Django may raise anything.
                return f"{module} can't be imported: {error}"
        if self.sql == "postgresql" and stores.postgres_port is None:
            return f"no PostgreSQL: {stores.postgres_left_out}"
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
            settings["REDSESS"] = {}
        if self.name == REDIS_SESSIONS:
            settings["SESSION_REDIS"] = {
                "host": "127.0.0.1",
                "port": stores.redis_port,
                "db": self.database,
                "prefix": "session",
                "socket_timeout": TIMEOUT,
            }
        return settings

    def make_database(self, stores: Stores) -> None:
        """Make the database and its tables, if they are missing. Call it after ``django.setup()``."""
        if self.sql == "postgresql":
            import psycopg

            where = {"host": "127.0.0.1", "port": stores.postgres_port, "user": "postgres", "autocommit": True}
            with psycopg.connect("dbname=postgres", **where) as connection:  # type: ignore[arg-type]
                name = self._database(stores)["NAME"]
                there = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [name]).fetchone()
                if there is None:
                    connection.execute(f"CREATE DATABASE {name}")
        call_command("migrate", verbosity=0)

    def _cache(self, stores: Stores) -> dict[str, Any]:
        backend, options = CACHES[self.cache]
        return {
            "BACKEND": backend,
            "LOCATION": f"redis://127.0.0.1:{stores.redis_port}/{self.database}",
            "OPTIONS": options,
        }

    def _database(self, stores: Stores) -> dict[str, Any]:
        if self.sql == "postgresql":
            return {
                "ENGINE": "django.db.backends.postgresql",
                "CONN_MAX_AGE": KEPT,
                "HOST": "127.0.0.1",
                "PORT": stores.postgres_port,
                "USER": "postgres",
                "NAME": f"engine_{self.database}",
            }
        return {
            "ENGINE": "django.db.backends.sqlite3",
            "CONN_MAX_AGE": KEPT,
            "NAME": Path(stores.folder) / f"engine-{self.database}.sqlite3",
            "OPTIONS": {"timeout": 20, "init_command": SQLITE_AT_START},
        }


OURS = "django-redsess"
BASE = "cache (django-redis)"
"""What most sites would use instead of ours: every ratio compares with it."""
AGAIN = "cache (django-redis), again"
"""The same engine again. It shows how much two equal engines differ: a smaller difference means nothing."""
FLOOR = "dict in the process"
"""For no real site. It shows how much of each time is Django's own part."""
REDIS_SESSIONS = "django-redis-sessions"

CACHE, CACHED_DB, DB = (f"django.contrib.sessions.backends.{name}" for name in ("cache", "cached_db", "db"))

_ALL = (
    Engine(
        OURS,
        "django_redsess.backend",
        1,
        cache="django-redis",
        apps=("django_redsess",),
        middleware="django_redsess.middleware.SessionMiddleware",
    ),
    Engine(BASE, CACHE, 2, cache="django-redis"),
    Engine(AGAIN, CACHE, 3, cache="django-redis"),
    Engine("cache (Django's own Redis cache)", CACHE, 4, cache="Django"),
    Engine("cached_db (django-redis, SQLite)", CACHED_DB, 5, cache="django-redis", sql="sqlite"),
    Engine("cached_db (django-redis, PostgreSQL)", CACHED_DB, 6, ("psycopg",), cache="django-redis", sql="postgresql"),
    Engine("db (SQLite)", DB, 7, sql="sqlite"),
    Engine("db (PostgreSQL)", DB, 8, ("psycopg",), sql="postgresql"),
    Engine(REDIS_SESSIONS, "redis_sessions.session", 9, ("redis_sessions",)),
    Engine(
        "django-qsessions",
        "qsessions.backends.cached_db",
        10,
        ("qsessions",),
        cache="django-redis",
        sql="sqlite",
        apps=("qsessions",),
        middleware="qsessions.middleware.SessionMiddleware",
        opens_with_client=True,
    ),
    Engine(FLOOR, "benchmarks.floor", 11),
)

ENGINES = {engine.name: engine for engine in _ALL}
"""By name, in the order of tables."""


def store_at_once(engine: Engine, sessions: Sequence[Any]) -> None:
    """Store ``sessions`` in few commands. The result is what ``engine`` stores when each of them is saved."""
    if engine.opens_with_client:
        for session in sessions:
            session.update({"_qsessions_ip": session.ip, "_qsessions_user_agent": session.user_agent})
    if engine.sql:
        rows = [session.create_model_instance(session._session) for session in sessions]
        if engine.opens_with_client:
            for row in rows:
                row.created_at = timezone.now()
        type(rows[0]).objects.bulk_create(rows)
    if engine.cache:
        cache: Any = caches["sessions"]
        with _client_of(engine).pipeline(transaction=False) as together:
            for session in sessions:
                key = session.cache_key_prefix + session.session_key
                if engine.cache == "Django":
                    name, content = cache.make_and_validate_key(key), cache._cache._serializer.dumps(session._session)
                else:
                    name, content = cache.client.make_key(key), cache.client.encode(session._session)
                together.set(name, content, ex=session.get_expiry_age())
            together.execute()
    elif engine.name == REDIS_SESSIONS:
        with sessions[0].server.pipeline(transaction=False) as together:
            for session in sessions:
                name = session.get_real_stored_key(session.session_key)
                together.setex(name, session.get_expiry_age(), session.encode(session._session))
            together.execute()
    elif not engine.sql:
        for session in sessions:
            floor.SESSIONS[session.session_key] = session.serializer().dumps(session._session)


def end_at_once(engine: Engine, session_class: Any, keys: Sequence[str]) -> None:
    """Delete the sessions of these ``keys``, in few commands if that is easy."""
    if engine.sql:
        session_class.get_model_class().objects.filter(session_key__in=keys).delete()
    if engine.cache:
        caches["sessions"].delete_many([session_class.cache_key_prefix + key for key in keys])
    elif not engine.sql:
        for key in keys:
            session_class(key).delete()


def _client_of(engine: Engine) -> Any:
    if engine.cache == "Django":
        cache: Any = caches["sessions"]
        return cache._cache.get_client(None, write=True)
    return get_redis_connection("sessions")
