"""System checks: a wrong setting is told at start, with a hint, and not by the first visitor's request."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from django.conf import settings
from django.contrib.sessions.middleware import SessionMiddleware as DjangoSessionMiddleware
from django.core import checks
from django.core.cache import InvalidCacheBackendError, caches
from django.utils.module_loading import import_string
from django_redis import get_redis_connection
from django_redis.cache import RedisCache
from redis.connection import parse_url
from redis.sentinel import SentinelConnectionPool

from django_redsess import limits
from django_redsess.backend import is_in_use
from django_redsess.conf import Conf, conf
from django_redsess.middleware import SessionMiddleware, ViewedItemsMiddleware, places_of

SETTING_NAMES = sorted(name for name in vars(Conf) if name.isupper())


class Rule(NamedTuple):
    """What a setting must be: ``allows`` tells whether a value is that, ``words`` says it to a person."""

    allows: Any
    words: str


def _is_int_from(least: int, value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _is_path(value: object) -> bool:
    return isinstance(value, str) and "." in value


TRUE_OR_FALSE = Rule(lambda value: isinstance(value, bool), "True or False")
AT_LEAST_ONE = Rule(lambda value: _is_int_from(1, value), "an integer of 1 or more")
SECONDS_OR_NONE = Rule(
    lambda value: value is None or _is_int_from(1, value), "a number of seconds, an integer of 1 or more, or None"
)

RULES = {
    "PREFIX": Rule(
        lambda value: isinstance(value, str) and bool(value) and not set(value) & set("{}"),
        "a text that is not empty and has no brace in it",
    ),
    "MAX_SESSIONS": AT_LEAST_ONE,
    "MAX_SESSIONS_PER_USER": Rule(
        lambda value: limits.is_maximum(value) or _is_path(value),
        "an integer of 1 or more, None, or the dotted path of a function, such as 'shop.people.sessions_of'",
    ),
    "SESSION_LIMIT_POLICY": Rule(
        lambda value: value in limits.POLICIES, "one of 'end_oldest', 'end_least_recent' and 'refuse'"
    ),
    "END_ON_DEACTIVATION": TRUE_OR_FALSE,
    "END_ON_DELETION": TRUE_OR_FALSE,
    "END_ON_PASSWORD_CHANGE": TRUE_OR_FALSE,
    "TOUCH_INTERVAL": Rule(lambda value: _is_int_from(0, value), "a number of seconds: an integer of 0 or more"),
    "PARTITIONS": Rule(
        lambda value: _is_int_from(1, value) and value <= 1024 and value.bit_count() == 1,
        "a power of two from 1 to 1024",
    ),
    "IDLE_TIMEOUT": SECONDS_OR_NONE,
    "ABSOLUTE_TIMEOUT": SECONDS_OR_NONE,
    "SLIDING": TRUE_OR_FALSE,
    "PASSIVE_PATHS": Rule(
        lambda value: (
            isinstance(value, list | tuple) and all(isinstance(path, str) and path.startswith("/") for path in value)
        ),
        "a list or tuple of paths, each a text that begins with '/'",
    ),
    "PASSIVE_HEADER": Rule(
        lambda value: isinstance(value, str) and bool(value), "the name of a header, a text that is not empty"
    ),
    "TRUSTED_PROXIES": Rule(lambda value: _is_int_from(0, value), "an integer of 0 or more"),
    "CLIENT_ADDRESS": Rule(
        lambda value: value in ("full", "truncated", "none"), "one of 'full', 'truncated' and 'none'"
    ),
    "VIEWED_VIEWS": Rule(
        lambda value: (
            isinstance(value, Mapping) and all(isinstance(part, str) for item in value.items() for part in item)
        ),
        "a dict of texts, view name to URL keyword, such as {'shop:product': 'slug'}",
    ),
    "VIEWED_GUESTS": TRUE_OR_FALSE,
    "VIEWED_RESOLVE": Rule(
        lambda value: value is None or _is_path(value),
        "None, or the dotted path of a function, such as 'shop.models.products_by_slug'",
    ),
    "VIEWED_PER_SESSION": AT_LEAST_ONE,
    "VIEWED_LIMIT": AT_LEAST_ONE,
}

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


def _warning(number: str, message: str, hint: str) -> checks.CheckMessage:
    return checks.Warning(message, hint=hint, id=f"django_redsess.{number}")


def _error(number: str, message: str, hint: str | None = None) -> checks.CheckMessage:
    return checks.Error(message, hint=hint, id=f"django_redsess.{number}")


@checks.register(checks.Tags.security)
def check_settings(**kwargs: Any) -> list[checks.CheckMessage]:
    """Refuse unknown names and wrong types in ``settings.REDSESS``."""
    given = getattr(settings, "REDSESS", {})
    if not isinstance(given, Mapping):
        return [_error("E001", "REDSESS must be a dict.")]
    names, default = f"It knows {', '.join(SETTING_NAMES)}.", "Leave it out for its default."
    unknown = [name for name in given if name not in SETTING_NAMES]
    wrong = [name for name, rule in RULES.items() if name in given and not rule.allows(given[name])]
    return [_error("E002", f"REDSESS has no setting {name!r}.", names) for name in unknown] + [
        _error("E003", f"REDSESS[{name!r}] must be {RULES[name].words}; it is {given[name]!r}.", default)
        for name in wrong
    ]


@checks.register(checks.Tags.security)
def check_middleware(**kwargs: Any) -> list[checks.CheckMessage]:
    """Ask for our session middleware, and for no other beside it."""
    found = [settings.MIDDLEWARE[at] for at in places_of(DjangoSessionMiddleware)]
    ours = [settings.MIDDLEWARE[at] for at in places_of(SessionMiddleware)]
    if ours and len(found) > 1:
        message = f"MIDDLEWARE has more than one session middleware: {', '.join(found)}."
        hint = f"Each replaces the session that the one above it opened, and all save it. Keep {ours[0]!r} only."
        return [_error("E006", message, hint)]
    if ours or not is_in_use():
        return []
    hint = (
        "Put it in place of Django's SessionMiddleware. Without, no address, browser and last visit are noted, no "
        "cookie is renewed, and no 503 is answered when Redis can't be reached."
    )
    return [_warning("W005", "'django_redsess.middleware.SessionMiddleware' is not in MIDDLEWARE.", hint)]


@checks.register(checks.Tags.security)
def check_viewed(**kwargs: Any) -> list[checks.CheckMessage]:
    """Ask for the middleware that records views where views are named, and for a function that can be imported."""
    if not isinstance(getattr(settings, "REDSESS", {}), Mapping):
        return []
    found = []
    recording, opening = places_of(ViewedItemsMiddleware), places_of(DjangoSessionMiddleware)
    if conf.VIEWED_VIEWS and not recording:
        message = "REDSESS['VIEWED_VIEWS'] is set, and nothing records those views."
        hint = "Add 'django_redsess.middleware.ViewedItemsMiddleware' to MIDDLEWARE, below the session middleware."
        found.append(_warning("W014", message, hint))
    if recording and opening and min(recording) < min(opening):
        message = "ViewedItemsMiddleware stands above the session middleware: no view is recorded."
        found.append(_error("E015", message, f"Move it in MIDDLEWARE, below {settings.MIDDLEWARE[min(opening)]!r}."))
    if _is_path(conf.VIEWED_RESOLVE) and not _is_function(conf.VIEWED_RESOLVE):
        message = f"REDSESS['VIEWED_RESOLVE'], {conf.VIEWED_RESOLVE!r}, can't be imported, or called."
        hint = "It names a function that takes a list of item ids, and returns a dict of these to objects."
        found.append(_error("E016", message, hint))
    return found


@checks.register(checks.Tags.security)
def check_limit(**kwargs: Any) -> list[checks.CheckMessage]:
    """Ask for a function that can be imported, where one tells how many sessions a user may have."""
    if not isinstance(getattr(settings, "REDSESS", {}), Mapping):
        return []
    path = conf.MAX_SESSIONS_PER_USER
    if not _is_path(path) or _is_function(path):
        return []
    message = f"{limits.MAXIMUM}, {path!r}, can't be imported, or called: nobody could sign in."
    return [_error("E017", message, "It names a function that takes a user, and returns an integer, or None.")]


@checks.register(checks.Tags.security)
def check_serializer(**kwargs: Any) -> list[checks.CheckMessage]:
    """Refuse a ``SESSION_SERIALIZER`` that does not work, and warn of one that pickles."""
    if not is_in_use():
        return []
    name, of_django = settings.SESSION_SERIALIZER, "'django.contrib.sessions.serializers.JSONSerializer'"
    try:
        serializer = import_string(name)()
        data = serializer.dumps({})
        works = isinstance(data, bytes) and serializer.loads(data) == {}
    except Exception:  # It may be any code.
        works = False
    if not works:
        message = f"SESSION_SERIALIZER {name!r} can't be imported, or does not read what it wrote."
        hint = f"It names a class with dumps(), which returns bytes, and loads(). Django's own is {of_django}."
        return [_error("E012", message, hint)]
    if not data.startswith(b"\x80"):
        return []
    hint = "Reading a pickle can run any code: whoever writes to Redis and knows SECRET_KEY takes over the site."
    return [_warning("W013", f"SESSION_SERIALIZER {name!r} pickles.", f"{hint} Use {of_django}.")]


@checks.register(checks.Tags.caches)
def check_cache(**kwargs: Any) -> list[checks.CheckMessage]:
    """Refuse a ``SESSION_CACHE_ALIAS`` whose cache is not one of django-redis: sessions live on its connection."""
    if not is_in_use():
        return []
    alias = settings.SESSION_CACHE_ALIAS
    wrong, hint = "is no cache of django-redis", "Set its BACKEND to 'django_redis.cache.RedisCache'."
    try:
        if isinstance(caches[alias], RedisCache):
            get_redis_connection(alias)
            return []
    except InvalidCacheBackendError:
        pass
    except Exception as error:  # Its text is left out: it may show a part of the URL, with the password.
        wrong = f"can't be used ({type(error).__name__})"
        hint = "Compare its LOCATION and OPTIONS with what django-redis takes. ShardClient can't keep sessions."
    return [_error("E004", f"SESSION_CACHE_ALIAS names CACHES[{alias!r}], which {wrong}.", hint)]


@checks.register(checks.Tags.caches)
def check_decoding(**kwargs: Any) -> list[checks.CheckMessage]:
    """Refuse a connection that turns answers into text: a record is bytes."""
    pool = _pools().get(SERVER)
    # redis-py takes it from a URL as text, and any text is true, "false" as well.
    if pool is None or not pool.connection_kwargs.get("decode_responses"):
        return []
    message = f"{_cache()} sets decode_responses: no session can be read."
    hint = "Take it out of LOCATION and CONNECTION_POOL_KWARGS (in a URL, even decode_responses=false sets it)."
    return [_error("E007", message, hint)]


@checks.register(checks.Tags.caches)
def check_eviction(**kwargs: Any) -> list[checks.CheckMessage]:
    """Warn of a server that drops keys without a TTL, as all those of sessions are, when its memory is full."""
    pools = _pools()
    # Asking must not hold up a command of the site for longer than the time-outs say.
    if not pools or any(_missing_timeouts(pool) or _repeats(pool) for pool in pools.values()):
        return []
    try:
        policy = str(get_redis_connection(settings.SESSION_CACHE_ALIAS).info("memory")["maxmemory_policy"])
    except Exception:  # Out of reach, or not allowed to us: the checks must not depend on a server that runs.
        return []
    if not policy.startswith("allkeys-"):
        return []
    message = f"The server of the sessions has maxmemory-policy {policy}: when its memory is full, it drops sessions."
    hint = (
        "All of a partition are in one key, and go at once. Set noeviction (or a volatile policy: their keys have no "
        "TTL), and keep caches that need eviction on another server."
    )
    return [_warning("W008", message, hint)]


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
    return [_warning("W009", message, hint) for message in messages]


@checks.register(checks.Tags.caches)
def check_timeouts(**kwargs: Any) -> list[checks.CheckMessage]:
    """Warn where a server that does not answer would hold up requests for long."""
    without = (
        "Without, redis-py 8 waits 5 seconds for a server that does not answer, and older versions without end; most "
        "commands are sent twice before the visitor gets a 503."
    )
    return [
        _warning("W010", f"{_cache()} sets no {' and no '.join(missing)} for {whose}.", f"{ADD[whose]} {without}")
        for whose, pool in _pools().items()
        if (missing := _missing_timeouts(pool))
    ]


@checks.register(checks.Tags.caches)
def check_repeats(**kwargs: Any) -> list[checks.CheckMessage]:
    """Warn of redis-py's own retries below ours."""
    return [
        _warning("W011", f"{_cache()} lets redis-py repeat commands to {whose}.", STOP[whose])
        for whose, pool in _pools().items()
        if _repeats(pool)
    ]


def _is_function(path: Any) -> bool:
    try:
        return callable(import_string(path))
    except Exception:  # It may be any code.
        return False


def _cache() -> str:
    return f"CACHES[{settings.SESSION_CACHE_ALIAS!r}]"


def _pools() -> dict[str, Any]:
    # The connections that sessions use, none of them opened; nothing where they can't be made, which is E004.
    # All sentinels are described by the same options, so one stands for them.
    if not is_in_use():
        return {}
    try:
        pool = get_redis_connection(settings.SESSION_CACHE_ALIAS).connection_pool
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


def _databases(entry: Mapping[str, Any]) -> set[object]:
    # Which Redis databases an entry of CACHES uses, as its settings say; nothing for other kinds of caches.
    try:
        location, options = entry["LOCATION"], entry.get("OPTIONS", {})
        of_django_redis = issubclass(import_string(entry["BACKEND"]), RedisCache)
        given = options.get("CONNECTION_POOL_KWARGS", {}) if of_django_redis else options
        urls = re.split("," if of_django_redis else "[;,]", location) if isinstance(location, str) else location
        # Behind sentinels, the host is the name of a service, and they tell which.
        sentinels = frozenset(map(tuple, options.get("SENTINELS", ())))
        found = set[object]()
        for url in urls:
            at = {"host": "localhost", "port": 6379, "db": 0, **given, **parse_url(url)}  # type: ignore[no-untyped-call]
            host = "localhost" if at["host"] in ("127.0.0.1", "::1") else at["host"]
            found.add((sentinels, at.get("path") or (host, at["port"]), int(at["db"])))
        return found
    except Exception:  # No URL of Redis.
        return set()
