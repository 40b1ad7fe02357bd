"""System checks of the entry of CACHES that sessions use. They ask no server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.core import checks
from django.core.exceptions import ImproperlyConfigured
from redis.connection import parse_url

from django_redsess.backend import is_in_use
from django_redsess.checks.settings import check_settings, problem
from django_redsess.conf import conf
from django_redsess.transport import caches, connections, sources
from django_redsess.transport.causes import WRITE_AS
from django_redsess.transport.keys import keyspace
from django_redsess.transport.sources import retries_of

ASKS_SERVER = "session_server"
"""The tag of the checks that ask the server."""

SERVER, SENTINELS = "the server of the sessions", "its sentinels"
TIMEOUTS = "{'SOCKET_CONNECT_TIMEOUT': 0.5, 'SOCKET_TIMEOUT': 0.5}"
ADD_TO_SENTINELS = (
    "Add to OPTIONS: 'SENTINEL_KWARGS': {'socket_connect_timeout': 0.5, 'socket_timeout': 0.5, "
    "'retry': Retry(NoBackoff(), 0)} (of redis.retry and redis.backoff)."
)
TO_SENTINELS = (
    "'CLIENT_CLASS': 'django_redis.client.SentinelClient', 'CONNECTION_FACTORY': "
    "'django_redis.pool.SentinelConnectionFactory', and 'SENTINELS': [('host', 26379), …]. LOCATION is "
    "'redis://name/0', with the name of the master as the sentinels have it."
)
OF_DJANGO_REDIS = f"OPTIONS in upper case are for django-redis: set BACKEND to {caches.DJANGO_REDIS.path!r}."
NUMBERS_OF_UNFIT = {"entry": "E004", "backend": "E069", "option": "E070"}


@checks.register(checks.Tags.caches)
def check_cache(**kwargs: Any) -> list[checks.CheckMessage]:
    """Refuse a SESSION_CACHE_ALIAS whose cache can't hold sessions: they connect with its settings."""
    if not is_in_use():
        return []
    alias = settings.SESSION_CACHE_ALIAS
    entry, subject = settings.CACHES.get(alias), f"SESSION_CACHE_ALIAS names CACHES[{alias!r}]"
    backend = None if entry is None else caches.backend_of(entry)
    if entry is None or backend is None:
        return [problem("E004", f"{subject}, {_what_is_there(entry)}.", _what_to_set(alias, entry))]
    if backend is caches.DJANGO_REDIS and "SENTINELS" in entry.get("OPTIONS", {}) and SENTINELS not in pools_by_role():
        message = f"CACHES[{alias!r}] has SENTINELS, but nothing that asks them: its LOCATION is taken for a host."
        return [problem("E053", message, hint_for_django_redis(TO_SENTINELS))]
    try:
        pool = connections.pool().any_node()
        # This does not connect. It raises an error for an unknown option.
        pool.connection_class(**pool.connection_kwargs)
    except caches.UnfitEntry as unfit:
        return [problem(NUMBERS_OF_UNFIT[unfit.about], f"{unfit}", unfit.hint)]
    except Exception as reason:  # Its text may contain a part of the URL, with the password: show its type only.
        if wrong := next(filter(None, (_fault_of_url(url, backend) for url in caches.urls_of(entry))), ""):
            return [problem("E004", f"{subject}, whose LOCATION {wrong}.", WRITE_AS)]
        # The names in OPTIONS are no secret.
        named = [name for name in caches.options_of(entry) if f"'{name}'" in str(reason)]
        said = f"{type(reason).__name__}: {named[0]}" if named else type(reason).__name__
        hint = (
            f"Check its OPTIONS in the documentation of {backend.name} and redis-py. ShardClient can't keep sessions."
        )
        if backend is caches.DJANGO and named and named[0].isupper():
            hint = f"{OF_DJANGO_REDIS} Those of {backend.name} are redis-py's, such as 'socket_timeout'."
        return [problem("E004", f"{subject}, which can't be used ({said}).", hint)]
    return []


def _what_is_there(entry: Mapping[str, Any] | None) -> str:
    """Say what is wrong with an entry of CACHES that can't hold sessions."""
    if entry is None:
        return "which does not exist"
    backend = entry.get("BACKEND")
    return f"whose BACKEND {backend!r} is no cache of {caches.NAMES}: sessions need a Redis or Valkey server"


def _what_to_set(alias: str, entry: Mapping[str, Any] | None) -> str:
    """Say which other entry can hold sessions, or how to write this one."""
    fitting = [name for name, each in settings.CACHES.items() if caches.backend_of(each)]
    if fitting:
        return f"Set SESSION_CACHE_ALIAS = {fitting[0]!r}: this entry of CACHES can hold them."
    good = f"'BACKEND': {caches.DJANGO_REDIS.path!r}, 'LOCATION': 'redis://127.0.0.1:6379/1', 'OPTIONS': {TIMEOUTS}"
    if entry is None:
        return f"Add to CACHES: {alias!r}: {{{good}}}."
    if alias == "default":
        return f"Leave it as it is. Set SESSION_CACHE_ALIAS = 'sessions', and add to CACHES: 'sessions': {{{good}}}."
    return f"Write this entry as {alias!r}: {{{good}}}."


def hint_for_django_redis(options: str) -> str:
    """Return a hint that has ``options`` added to the entry of the sessions, which only django-redis has."""
    is_one = _backend_of_sessions() is caches.DJANGO_REDIS
    return f"{'Add' if is_one else f'Set BACKEND to {caches.DJANGO_REDIS.path!r}, and add'} to OPTIONS: {options}"


def _backend_of_sessions() -> caches.Backend | None:
    return caches.backend_of(settings.CACHES.get(settings.SESSION_CACHE_ALIAS, {}))


def _name_of_options() -> str:
    backend = _backend_of_sessions()
    return backend.options if backend else "OPTIONS"


@checks.register(checks.Tags.caches)
def check_locations(**kwargs: Any) -> list[checks.CheckMessage]:
    """Warn of a LOCATION that names several servers: only a cluster's factory uses all of them."""
    pool = pools_by_role().get(SERVER)
    if pool is None or pool.cluster is not None or pool.is_behind_sentinel:
        return []
    urls = caches.urls_of(settings.CACHES[settings.SESSION_CACHE_ALIAS])
    if len(urls) < 2:
        return []
    message = f"LOCATION of {name_of_cache()} names {len(urls)} servers: sessions are on the first only."
    hint = (
        "Name one. A cluster needs the factory of this app in OPTIONS. Replicas that take over need Sentinel. Both "
        "need django-redis."
    )
    return [problem("W055", message, hint)]


@checks.register(checks.Tags.caches)
def check_database(**kwargs: Any) -> list[checks.CheckMessage]:
    """Warn if clearing a cache ends all sessions: clear() empties the whole Redis database."""
    pool = pools_by_role().get(SERVER)
    if pool is None:
        return []
    alias = settings.SESSION_CACHE_ALIAS
    ours = databases_of(settings.CACHES[alias])
    shared = [name for name, entry in settings.CACHES.items() if name != alias and ours & databases_of(entry)]
    effect = "is in the Redis database of the sessions: its clear() ends them all."
    messages = [f"CACHES[{name!r}] {effect}" for name in shared]
    if alias == "default" and pool.cluster is None:
        messages.append("Sessions are in the default cache: cache.clear() ends them all.")
    elif alias == "default":
        messages.append("Sessions are in the default cache, whose factory is for sessions only: cache.get() fails.")
    hint = (
        "clear() sends FLUSHDB, which empties the whole Redis database, whatever KEY_PREFIX is. Give sessions an alias "
        "and a database of their own: SESSION_CACHE_ALIAS = 'sessions', and CACHES['sessions'] at LOCATION 'redis://…/1'."
    )
    return [problem("W009", message, hint) for message in messages]


@checks.register(checks.Tags.caches)
def check_timeouts(**kwargs: Any) -> list[checks.CheckMessage]:
    """Warn if a server that does not answer would hold up requests for long."""
    effect = (
        "Without them, redis-py 8 waits 5 seconds for a server that does not answer, and older versions wait for ever. "
        "Most commands are sent twice before the visitor gets a 503."
    )
    found = []
    for whose, pool in pools_by_role().items():
        if not (missing := _missing_timeouts(pool)):
            continue
        add = "Add to OPTIONS: 'SOCKET_CONNECT_TIMEOUT': 0.5, 'SOCKET_TIMEOUT': 0.5."
        if whose == SENTINELS:
            add = ADD_TO_SENTINELS
        elif _backend_of_sessions() is not caches.DJANGO_REDIS:
            # Other backends get a default from this app.
            named = " and ".join(missing)
            add = f"Remove {named} from {_name_of_options()}, or set 0.5 there: the default for sessions is 0.5."
        elif misspelt := ", ".join(_misspelt_timeouts()):
            add = f"Did you mean {misspelt}? {add}"
        message = f"{name_of_cache()} sets no {' and no '.join(missing)} for {whose}."
        found.append(problem("W010", message, f"{add} {effect}"))
    return found


def _misspelt_timeouts() -> Iterator[str]:
    """Yield names in OPTIONS that are nearly those of time-outs. django-redis ignores names that it does not know."""
    options = settings.CACHES[settings.SESSION_CACHE_ALIAS].get("OPTIONS", {})
    known = ("SOCKET_CONNECT_TIMEOUT", "SOCKET_TIMEOUT")
    for name in map(str, options):
        if name not in known and (meant := get_close_matches(name.upper(), known, n=1, cutoff=0.85)):
            yield f"{meant[0]!r}, not {name!r}"


@checks.register(checks.Tags.caches)
def check_pool_timeout(**kwargs: Any) -> list[checks.CheckMessage]:
    """Warn if requests wait longer for a free connection than for an answer of the server."""
    pool = pools_by_role().get(SERVER)
    if pool is None:
        return []
    wait_seconds, timeout = pool.wait_seconds, pool.connection_kwargs.get("socket_timeout")
    # Another pool has no time-out of its own.
    if wait_seconds == timeout or (wait_seconds is not None and wait_seconds <= (timeout or 0.5)):
        return []
    wait = "for ever" if wait_seconds is None else f"{wait_seconds} seconds"
    message = f"{name_of_cache()} has a BlockingConnectionPool that waits {wait} for a free connection."
    add = "'timeout': 0.5" if _name_of_options() == "OPTIONS" else "'CONNECTION_POOL_KWARGS': {'timeout': 0.5}"
    hint = f"While the server does not answer, requests queue for a connection first. Add to OPTIONS: {add}."
    return [problem("W020", message, hint)]


@checks.register(checks.Tags.caches)
def check_retries(**kwargs: Any) -> list[checks.CheckMessage]:
    """Warn of retries by redis-py, which multiply ours."""
    where = f"retry, retry_on_timeout and retry_on_error from LOCATION and {_name_of_options()}"
    stop = {
        SERVER: f"Remove {where}: they multiply the wait in an outage, and can count a view twice. This app repeats a "
        "command once, where that is harmless.",
        SENTINELS: f"{ADD_TO_SENTINELS} Otherwise redis-py retries up to ten times, and each sentinel that is down "
        "costs seconds.",
    }
    return [
        problem("W011", f"{name_of_cache()} lets redis-py repeat commands to {whose}.", stop[whose])
        for whose, pool in pools_by_role().items()
        if _has_retries(pool)
    ]


@checks.register(checks.Tags.caches)
def check_event_loops(**kwargs: Any) -> list[checks.CheckMessage]:
    """Warn of connection classes that work in threads only, and of options that event loops ignore."""
    return [each for whose, pool in pools_by_role().items() for each in _find_lost_in_event_loops(whose, pool)]


def _find_lost_in_event_loops(whose: str, pool: Any) -> Iterator[checks.CheckMessage]:
    try:
        pool.connection_class(**pool.connection_kwargs)
    except Exception:  # Threads can't use it either: that is E004.
        return
    try:
        counterpart = sources.class_like(pool.connection_class)
    except ImproperlyConfigured as reason:
        hint = "Derive a class that does the same from that in redis.asyncio, and name it in ASYNC_CONNECTION_CLASS."
        if conf.ASYNC_CONNECTION_CLASS is not None:
            yield problem("E073", f"{reason}", hint)
        else:
            hint += " If the site has no asynchronous requests, silence this check."
            yield problem("W072", f"{reason} Under ASGI, every request fails.", hint)
        return
    names = sources.lost_options(counterpart, pool)
    subject, effect = f"{name_of_cache()} sets", f"for {whose}, which event loops do not know. Under ASGI,"
    if refused := ", ".join(filter(sources.protects, names)):
        hint = "Nothing is sent without that protection. Remove it, or serve the site by WSGI."
        yield problem("W071", f"{subject} {refused} {effect} sessions refuse to connect.", hint)
    if missing := ", ".join(name for name in names if not sources.protects(name)):
        hint = "If they need it, derive classes of connections that do it by themselves: see ASYNC_CONNECTION_CLASS."
        yield problem("W071", f"{subject} {missing} {effect} connections go without it.", hint)


def may_ask_server() -> bool:
    """Tell whether checks may ask the server. Without time-outs, a silent server would hold up manage.py."""
    found = pools_by_role()
    if not found or any(_missing_timeouts(pool) or _has_retries(pool) for pool in found.values()):
        return False
    # Wrong settings may give no names of keys, and a wrong entry of CACHES no connection.
    if check_settings() or check_cache():
        return False
    try:
        keyspace()
    except Exception:  # A PREFIX that is a function may need a request, and raise anything without.
        return False
    return True


def name_of_cache() -> str:
    """Return the name of the entry of the sessions, for messages."""
    return f"CACHES[{settings.SESSION_CACHE_ALIAS!r}]"


def pools_by_role() -> dict[str, Any]:
    """
    Return a pool of ``SERVER``, and behind Sentinel one of ``SENTINELS``, without opening a connection.

    The dict is empty if no pool can be made, which is E004. All nodes have the same options, and so have all sentinels.
    """
    if not is_in_use():
        return {}
    try:
        pool = connections.pool().any_node()
        if pool.is_behind_sentinel:
            return {SERVER: pool, SENTINELS: pool.source.sentinel_manager.sentinels[0].connection_pool}
        return {SERVER: pool}
    except Exception:
        return {}


def _missing_timeouts(pool: Any) -> list[str]:
    names = ("socket_connect_timeout", "socket_timeout")
    return [name for name in names if pool.connection_kwargs.get(name) is None]


def _has_retries(pool: Any) -> bool:
    kwargs = pool.connection_kwargs
    if kwargs.get("retry") is not None:
        # With 0 retries, the other two options have no effect.
        return retries_of(kwargs["retry"]) != 0
    return bool(kwargs.get("retry_on_timeout") or kwargs.get("retry_on_error"))


def _fault_of_url(url: object, backend: caches.Backend) -> str:
    """Say what is wrong with ``url``. Never quote it: any part may belong to the password."""
    if not isinstance(url, str):
        return "is missing, or not a string"
    if not url.startswith(caches.SCHEMES):
        return f"begins with none of {', '.join(backend.schemes)}"
    try:
        urlsplit(url).port  # noqa: B018
    except ValueError:
        return "has a host and port that can't be read"
    try:
        parse_url(url)  # type: ignore[no-untyped-call]
    except ValueError as reason:  # Its text names the option.
        return f"has options that can't be read ({reason})"
    return ""


def databases_of(entry: Mapping[str, Any]) -> set[object]:
    """Return the Redis databases of an entry of CACHES, by its settings; none for a cache of another kind."""
    try:
        kwargs = caches.options_of(entry)
        # With sentinels, the host is the name of a service: it means something only together with the sentinels.
        sentinels = frozenset(map(tuple, entry.get("OPTIONS", {}).get("SENTINELS", ())))
        found = set[object]()
        for url in caches.urls_of(entry):
            at = {"host": "localhost", "port": 6379, "db": 0, **kwargs, **parse_url(url)}  # type: ignore[no-untyped-call]
            host = "localhost" if at["host"] in ("127.0.0.1", "::1") else at["host"]
            found.add((sentinels, at.get("path") or (host, at["port"]), int(at["db"])))
        return found
    except Exception:  # Not a URL of Redis.
        return set()
