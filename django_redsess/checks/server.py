"""System checks of the entry of CACHES that sessions use, and of the server behind it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.core import checks
from django.utils.encoding import force_str
from django.utils.module_loading import import_string
from django_redis.cache import RedisCache
from redis.connection import BlockingConnectionPool, parse_url
from redis.exceptions import NoPermissionError, ResponseError
from redis.sentinel import SentinelConnectionPool

from django_redsess.backend import is_in_use
from django_redsess.checks.settings import check_settings, error, warning
from django_redsess.transport import client, scripts
from django_redsess.transport.keys import keyspace

SERVER, SENTINELS = "the server of the sessions", "its sentinels"
ADD = {
    SERVER: "Add to OPTIONS: 'SOCKET_CONNECT_TIMEOUT': 0.5, 'SOCKET_TIMEOUT': 0.5.",
    SENTINELS: "Add to OPTIONS: 'SENTINEL_KWARGS': {'socket_connect_timeout': 0.5, 'socket_timeout': 0.5, "
    "'retry': Retry(NoBackoff(), 0)} (of redis.retry and redis.backoff).",
}
STOP = {
    SERVER: "Take retry, retry_on_timeout and retry_on_error out of LOCATION and CONNECTION_POOL_KWARGS: they multiply "
    "the wait in an outage, and can count a view twice. A command is repeated once without, where that is harmless.",
    SENTINELS: f"{ADD[SENTINELS]} Else redis-py retries up to ten times, and a sentinel that is down costs seconds.",
}


@checks.register(checks.Tags.caches)
def check_cache(**kwargs: Any) -> list[checks.CheckMessage]:
    """Refuse a ``SESSION_CACHE_ALIAS`` whose cache is not one of django-redis: sessions live on its connection."""
    if not is_in_use():
        return []
    alias = settings.SESSION_CACHE_ALIAS
    entry, named = settings.CACHES.get(alias), f"SESSION_CACHE_ALIAS names CACHES[{alias!r}]"
    if entry is None or not _is_of_django_redis(entry):
        wrong = "which there is not" if entry is None else "which is no cache of django-redis"
        fitting = [name for name, each in settings.CACHES.items() if _is_of_django_redis(each)]
        hint = f"CACHES has {_names(settings.CACHES)}: add one with the BACKEND 'django_redis.cache.RedisCache'."
        if fitting:
            hint = f"Set SESSION_CACHE_ALIAS to one of django-redis in CACHES: {_names(fitting)}."
        return [error("E004", f"{named}, {wrong}.", hint)]
    try:
        pool = client.pool()
        # This connects to nothing, but fails on an option that there is not.
        pool.connection_class(**pool.connection_kwargs)
    except Exception as reason:  # Its text is left out: it may show a part of the URL, with the password.
        if wrong := next(filter(None, map(_wrong_in, _urls(entry))), ""):
            hint = (
                "It is like 'redis://user:password@host:6379/1'. In a password, write / as %2F, ? as %3F, # as %23, "
                "[ as %5B, ] as %5D and a comma as %2C."
            )
            return [error("E004", f"{named}, whose LOCATION {wrong}.", hint)]
        hint = "Compare its OPTIONS with what django-redis and redis-py take. ShardClient can't keep sessions."
        return [error("E004", f"{named}, which can't be used ({type(reason).__name__}).", hint)]
    return []


@checks.register(checks.Tags.caches)
def check_decoding(**kwargs: Any) -> list[checks.CheckMessage]:
    """Refuse a connection that turns answers into text: a record is bytes."""
    pool = _pools().get(SERVER)
    # redis-py takes it from a URL as text, and any text is true, "false" as well.
    if pool is None or not pool.connection_kwargs.get("decode_responses"):
        return []
    message = f"{_cache()} sets decode_responses: no session can be read."
    hint = "Take it out of LOCATION and CONNECTION_POOL_KWARGS (in a URL, even decode_responses=false sets it)."
    return [error("E007", message, hint)]


@checks.register(checks.Tags.caches)
def check_server(**kwargs: Any) -> list[checks.CheckMessage]:
    """Ask the server whether it would drop sessions, and whether its user may do all that this app does."""
    pools = _pools()
    # Asking must not hold up a command of the site for longer than the time-outs say.
    if not pools or any(_missing_timeouts(pool) or _repeats(pool) for pool in pools.values()):
        return []
    # Nor can names of keys be made of wrong settings.
    if check_settings():
        return []
    try:
        found = _refused()
    except Exception:  # Out of reach: the checks must not depend on a server that runs.
        return []
    with suppress(Exception):  # It need not be allowed to ask for that.
        found += _evicting()
    return found


def _refused() -> list[checks.CheckMessage]:
    database = client.pool().connection_kwargs.get("db")
    commands = [*scripts.commands(), "BLPOP", "EVAL", "EVALSHA", *(["SELECT"] if database else [])]
    # Those of one partition stand for all.
    names = [keyspace().meta, *keyspace().partitions[0].names]
    try:
        args = scripts.PERMISSIONS.arguments(commands=commands, names=names)
        refused, keys = client.ask("EVAL", scripts.PERMISSIONS.text, 0, *args)
    except NoPermissionError as reason:  # It names the command, and the user.
        message = f"The server of the sessions refuses: {reason}"
    except ResponseError as reason:
        if not str(reason).startswith("unknown command"):  # A server that can't tell.
            return []
        message = "The server of the sessions has no EVAL: every request would fail."
    else:
        wrong = [
            f"can't {verb} {', '.join(sorted(map(force_str, found)))}{where}"
            for verb, found, where in (("run", refused, " on keys of sessions"), ("use", keys, ""))
            if found
        ]
        if not wrong:
            return []
        message = f"The user of {_cache()} {' and '.join(wrong)}."
    rules = f"~{keyspace().pattern} {' '.join(f'+{name.lower()}' for name in sorted(commands))}"
    hint = (
        f"As an administrator of the server: ACL SETUSER … {rules}. A command that was renamed needs its own name back."
    )
    return [warning("W023", message, hint)]


def _evicting() -> list[checks.CheckMessage]:
    found = re.search(r"maxmemory_policy:(allkeys-\S+)", force_str(client.ask("INFO", "memory")))
    if not found:
        return []
    policy = found[1]
    message = f"The server of the sessions has maxmemory-policy {policy}: when its memory is full, it drops sessions."
    hint = (
        "All of a partition are in one key, and go at once. Set noeviction, and keep caches that need eviction on "
        "another server. (A volatile policy drops the notes of ended sessions only: of why they ended, and under which "
        "key one goes on, without which a late request signs its browser out.)"
    )
    return [warning("W008", message, hint)]


@checks.register(checks.Tags.caches)
def check_database(**kwargs: Any) -> list[checks.CheckMessage]:
    """Warn where clearing a cache ends all sessions: it empties the Redis database, not only what the cache wrote."""
    if not _pools():
        return []
    alias = settings.SESSION_CACHE_ALIAS
    ours = _databases(settings.CACHES[alias])
    shared = [name for name, entry in settings.CACHES.items() if name != alias and ours & _databases(entry)]
    messages = [
        f"CACHES[{name!r}] is in the Redis database of the sessions: its clear() ends them all." for name in shared
    ]
    if alias == "default":
        messages.append("Sessions are in the default cache: cache.clear() ends them all.")
    hint = (
        "clear() sends FLUSHDB, which empties the whole Redis database, whatever KEY_PREFIX is. Give sessions an alias "
        "and a database of their own: SESSION_CACHE_ALIAS = 'sessions', and CACHES['sessions'] at LOCATION 'redis://…/1'."
    )
    return [warning("W009", message, hint) for message in messages]


@checks.register(checks.Tags.caches)
def check_timeouts(**kwargs: Any) -> list[checks.CheckMessage]:
    """Warn where a server that does not answer would hold up requests for long."""
    without = (
        "Without, redis-py 8 waits 5 seconds for a server that does not answer, and older versions without end; most "
        "commands are sent twice before the visitor gets a 503."
    )
    return [
        warning("W010", f"{_cache()} sets no {' and no '.join(missing)} for {whose}.", f"{ADD[whose]} {without}")
        for whose, pool in _pools().items()
        if (missing := _missing_timeouts(pool))
    ]


@checks.register(checks.Tags.caches)
def check_waiting(**kwargs: Any) -> list[checks.CheckMessage]:
    """Warn of a pool in which requests queue for longer than the server itself is waited for."""
    pool = _pools().get(SERVER)
    if not isinstance(pool, BlockingConnectionPool):
        return []
    if pool.timeout is not None and pool.timeout <= (pool.connection_kwargs.get("socket_timeout") or 0.5):
        return []
    wait = "without end" if pool.timeout is None else f"{pool.timeout} seconds"
    message = f"{_cache()} has a BlockingConnectionPool that waits {wait} for a connection that is free."
    hint = (
        "While the server does not answer, requests queue there before they wait for it. Add to OPTIONS: "
        "'CONNECTION_POOL_KWARGS': {'timeout': 0.5}."
    )
    return [warning("W020", message, hint)]


@checks.register(checks.Tags.caches)
def check_repeats(**kwargs: Any) -> list[checks.CheckMessage]:
    """Warn of redis-py's own retries below ours."""
    return [
        warning("W011", f"{_cache()} lets redis-py repeat commands to {whose}.", STOP[whose])
        for whose, pool in _pools().items()
        if _repeats(pool)
    ]


def _cache() -> str:
    return f"CACHES[{settings.SESSION_CACHE_ALIAS!r}]"


def _names(aliases: Iterable[str]) -> str:
    return ", ".join(map(repr, aliases))


def _pools() -> dict[str, Any]:
    # The connections that sessions use, none of them opened; nothing where they can't be made, which is E004.
    # All sentinels are described by the same options, so one stands for them.
    if not is_in_use():
        return {}
    try:
        pool = client.pool()
        if isinstance(pool, SentinelConnectionPool):
            return {SERVER: pool, SENTINELS: pool.sentinel_manager.sentinels[0].connection_pool}
        return {SERVER: pool}
    except Exception:
        return {}


def _missing_timeouts(pool: Any) -> list[str]:
    names = ("socket_connect_timeout", "socket_timeout")
    return [name for name in names if pool.connection_kwargs.get(name) is None]


def _repeats(pool: Any) -> bool:
    given = pool.connection_kwargs
    if given.get("retry") is not None:
        # No public name for it in redis-py 5. With a retry that repeats nothing, the other two have no effect.
        return bool(getattr(given["retry"], "_retries", 1))
    return bool(given.get("retry_on_timeout") or given.get("retry_on_error"))


def _is_of_django_redis(entry: Mapping[str, Any]) -> bool:
    try:
        return issubclass(import_string(entry["BACKEND"]), RedisCache)
    except Exception:  # It may be any code.
        return False


def _urls(entry: Mapping[str, Any]) -> list[Any]:
    location = entry.get("LOCATION")
    if isinstance(location, str):
        return re.split("," if _is_of_django_redis(entry) else "[;,]", location)
    return list(location or [None])


def _wrong_in(url: object) -> str:
    """Say which part of ``url`` can't be read, without a word of it: where it is wrong, any may be of the password."""
    if not isinstance(url, str):
        return "is missing, or no text"
    schemes = ("redis://", "rediss://", "unix://")
    if not url.startswith(schemes):
        return f"begins with none of {', '.join(schemes)}"
    try:
        urlsplit(url).port  # noqa: B018
    except ValueError:
        return "has no host and port that can be read"
    try:
        parse_url(url)  # type: ignore[no-untyped-call]
    except ValueError as reason:  # It names the option.
        return f"has options that can't be read ({reason})"
    return ""


def _databases(entry: Mapping[str, Any]) -> set[object]:
    # Which Redis databases an entry of CACHES uses, as its settings say; nothing for other kinds of caches.
    try:
        options = entry.get("OPTIONS", {})
        given = options.get("CONNECTION_POOL_KWARGS", {}) if _is_of_django_redis(entry) else options
        # Behind sentinels, the host is the name of a service, and they tell which.
        sentinels = frozenset(map(tuple, options.get("SENTINELS", ())))
        found = set[object]()
        for url in _urls(entry):
            at = {"host": "localhost", "port": 6379, "db": 0, **given, **parse_url(url)}  # type: ignore[no-untyped-call]
            host = "localhost" if at["host"] in ("127.0.0.1", "::1") else at["host"]
            found.add((sentinels, at.get("path") or (host, at["port"]), int(at["db"])))
        return found
    except Exception:  # No URL of Redis.
        return set()
