"""System checks of the entry of CACHES that sessions use, and of its server."""

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
from django_redsess.conf import conf
from django_redsess.transport import connections, exchange, scripts
from django_redsess.transport.keys import keyspace

SERVER, SENTINELS = "the server of the sessions", "its sentinels"
ADD = {
    SERVER: "Add to OPTIONS: 'SOCKET_CONNECT_TIMEOUT': 0.5, 'SOCKET_TIMEOUT': 0.5.",
    SENTINELS: "Add to OPTIONS: 'SENTINEL_KWARGS': {'socket_connect_timeout': 0.5, 'socket_timeout': 0.5, "
    "'retry': Retry(NoBackoff(), 0)} (of redis.retry and redis.backoff).",
}
STOP = {
    SERVER: "Remove retry, retry_on_timeout and retry_on_error from LOCATION and CONNECTION_POOL_KWARGS: they multiply "
    "the wait in an outage, and can count a view twice. This app repeats a command once, where that is harmless.",
    SENTINELS: f"{ADD[SENTINELS]} Else redis-py retries up to ten times, and each sentinel that is down costs seconds.",
}


@checks.register(checks.Tags.caches)
def check_cache(**kwargs: Any) -> list[checks.CheckMessage]:
    """Refuse a SESSION_CACHE_ALIAS whose cache is not one of django-redis: sessions use its connections."""
    if not is_in_use():
        return []
    alias = settings.SESSION_CACHE_ALIAS
    entry, subject = settings.CACHES.get(alias), f"SESSION_CACHE_ALIAS names CACHES[{alias!r}]"
    if entry is None or not _is_of_django_redis(entry):
        wrong = "which does not exist" if entry is None else "which is not a cache of django-redis"
        fitting = [name for name, each in settings.CACHES.items() if _is_of_django_redis(each)]
        hint = f"CACHES has {_names(settings.CACHES)}: add one with the BACKEND 'django_redis.cache.RedisCache'."
        if fitting:
            hint = f"Set SESSION_CACHE_ALIAS to one of django-redis in CACHES: {_names(fitting)}."
        return [error("E004", f"{subject}, {wrong}.", hint)]
    try:
        pool = connections.pool().any_node()
        # This does not connect, but raises an error for an unknown option.
        pool.connection_class(**pool.connection_kwargs)
    except Exception as reason:  # Its text may contain a part of the URL, with the password: show its type only.
        if wrong := next(filter(None, map(_wrong_in, _urls(entry))), ""):
            hint = (
                "Write it as 'redis://user:password@host:6379/1'. In a password, write / as %2F, ? as %3F, # as %23, "
                "[ as %5B, ] as %5D and a comma as %2C."
            )
            return [error("E004", f"{subject}, whose LOCATION {wrong}.", hint)]
        hint = "Check its OPTIONS in the documentation of django-redis and redis-py. ShardClient can't keep sessions."
        return [error("E004", f"{subject}, which can't be used ({type(reason).__name__}).", hint)]
    return []


@checks.register(checks.Tags.caches)
def check_decoding(**kwargs: Any) -> list[checks.CheckMessage]:
    """Refuse a connection that decodes replies: a record is bytes."""
    pool = _pools().get(SERVER)
    # In a URL the option is a text, and redis-py takes every text as true, even "false".
    if pool is None or not pool.connection_kwargs.get("decode_responses"):
        return []
    message = f"{_cache()} sets decode_responses: no session can be read."
    hint = "Remove it from LOCATION and CONNECTION_POOL_KWARGS (in a URL, even decode_responses=false sets it)."
    return [error("E007", message, hint)]


@checks.register(checks.Tags.caches)
def check_server(**kwargs: Any) -> list[checks.CheckMessage]:
    """Ask the server whether it may evict sessions, and whether our user may run all commands that this app needs."""
    pools = _pools()
    # Without time-outs, a server that does not answer would hold up manage.py.
    if not pools or any(_missing_timeouts(pool) or _repeats(pool) for pool in pools.values()):
        return []
    # Wrong settings may give no names of keys.
    if check_settings():
        return []
    try:
        found = _refused()
    except Exception:  # The server may not run now, which is no error of the settings.
        return []
    with suppress(Exception):  # The user need not be allowed to run INFO.
        found += _evicting()
    return found


def _refused() -> list[checks.CheckMessage]:
    node = connections.pool().of(keyspace().partitions[0].tag)
    database = node.connection_kwargs.get("db")
    commands = [*scripts.commands(), "BLPOP", "EVAL", "EVALSHA", *(["SELECT"] if database else [])]
    if conf.CONFIRM_ENDS is not None:
        commands.append("WAIT")
    # The keys of one partition stand for those of all.
    names = [keyspace().meta, *keyspace().partitions[0].names]
    try:
        args = scripts.PERMISSIONS.arguments(commands=commands, names=names)
        refused, keys = exchange.ask(node, "EVAL", scripts.PERMISSIONS.text, 0, *args)
    except NoPermissionError as reason:  # Its text names the command and the user.
        message = f"The server of the sessions refuses: {reason}"
    except ResponseError as reason:
        if not str(reason).startswith("unknown command"):  # Too old a server for this question.
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
    hint = f"As an administrator of the server, run: ACL SETUSER … {rules}. Give renamed commands their names back."
    return [warning("W023", message, hint)]


def _evicting() -> list[checks.CheckMessage]:
    found = re.search(
        r"maxmemory_policy:(allkeys-\S+)", force_str(exchange.ask(connections.pool().nodes()[0], "INFO", "memory"))
    )
    if not found:
        return []
    policy = found[1]
    message = f"The server of the sessions has maxmemory-policy {policy}: when its memory is full, it evicts sessions."
    hint = (
        "All sessions of a partition are in one key, and are evicted at once. Set noeviction, and keep caches that "
        "need eviction on another server. (A volatile policy drops the notes of ended sessions only. They say why a "
        "session ended, and which key replaces it: without them, a late request signs its browser out.)"
    )
    return [warning("W008", message, hint)]


@checks.register(checks.Tags.caches)
def check_database(**kwargs: Any) -> list[checks.CheckMessage]:
    """Warn if clearing a cache ends all sessions: clear() empties the whole Redis database."""
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
    """Warn if a server that does not answer would hold up requests for long."""
    effect = (
        "Without them, redis-py 8 waits 5 seconds for a server that does not answer, and older versions wait for ever. "
        "Most commands are sent twice before the visitor gets a 503."
    )
    return [
        warning("W010", f"{_cache()} sets no {' and no '.join(missing)} for {whose}.", f"{ADD[whose]} {effect}")
        for whose, pool in _pools().items()
        if (missing := _missing_timeouts(pool))
    ]


@checks.register(checks.Tags.caches)
def check_waiting(**kwargs: Any) -> list[checks.CheckMessage]:
    """Warn of a pool in which requests wait longer for a connection than for an answer of the server."""
    pool = _pools().get(SERVER)
    if not isinstance(pool, BlockingConnectionPool):
        return []
    if pool.timeout is not None and pool.timeout <= (pool.connection_kwargs.get("socket_timeout") or 0.5):
        return []
    wait = "for ever" if pool.timeout is None else f"{pool.timeout} seconds"
    message = f"{_cache()} has a BlockingConnectionPool that waits {wait} for a free connection."
    hint = (
        "While the server does not answer, requests queue for a connection first. Add to OPTIONS: "
        "'CONNECTION_POOL_KWARGS': {'timeout': 0.5}."
    )
    return [warning("W020", message, hint)]


@checks.register(checks.Tags.caches)
def check_repeats(**kwargs: Any) -> list[checks.CheckMessage]:
    """Warn of retries by redis-py, which multiply ours."""
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
    # The pools that sessions use, without opening a connection; none if they can't be made, which is E004. All
    # sentinels have the same options, so one stands for all.
    if not is_in_use():
        return {}
    try:
        pool = connections.pool().any_node()
        if isinstance(pool, SentinelConnectionPool):
            return {SERVER: pool, SENTINELS: pool.sentinel_manager.sentinels[0].connection_pool}
        return {SERVER: pool}
    except Exception:
        return {}


def _missing_timeouts(pool: Any) -> list[str]:
    names = ("socket_connect_timeout", "socket_timeout")
    return [name for name in names if pool.connection_kwargs.get(name) is None]


def _repeats(pool: Any) -> bool:
    kwargs = pool.connection_kwargs
    if kwargs.get("retry") is not None:
        # redis-py 5 has no public name for it. With 0 retries, the other two options have no effect.
        return bool(getattr(kwargs["retry"], "_retries", 1))
    return bool(kwargs.get("retry_on_timeout") or kwargs.get("retry_on_error"))


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
    """Say what is wrong with ``url``, without quoting it: any part may be of the password."""
    if not isinstance(url, str):
        return "is missing, or not a string"
    schemes = ("redis://", "rediss://", "unix://")
    if not url.startswith(schemes):
        return f"begins with none of {', '.join(schemes)}"
    try:
        urlsplit(url).port  # noqa: B018
    except ValueError:
        return "has a host and port that can't be read"
    try:
        parse_url(url)  # type: ignore[no-untyped-call]
    except ValueError as reason:  # Its text names the option.
        return f"has options that can't be read ({reason})"
    return ""


def _databases(entry: Mapping[str, Any]) -> set[object]:
    # The Redis databases of an entry of CACHES, by its settings; none for a cache of another kind.
    try:
        options = entry.get("OPTIONS", {})
        kwargs = options.get("CONNECTION_POOL_KWARGS", {}) if _is_of_django_redis(entry) else options
        # With sentinels, the host is the name of a service: it means something only together with the sentinels.
        sentinels = frozenset(map(tuple, options.get("SENTINELS", ())))
        found = set[object]()
        for url in _urls(entry):
            at = {"host": "localhost", "port": 6379, "db": 0, **kwargs, **parse_url(url)}  # type: ignore[no-untyped-call]
            host = "localhost" if at["host"] in ("127.0.0.1", "::1") else at["host"]
            found.add((sentinels, at.get("path") or (host, at["port"]), int(at["db"])))
        return found
    except Exception:  # Not a URL of Redis.
        return set()
