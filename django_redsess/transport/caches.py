"""
The pool of redis-py that an entry of ``CACHES`` describes, whichever backend it has.

django-redis makes a pool itself, also behind Sentinel and for clusters. For an entry of Django's RedisCache or of
django-valkey, the pool is made here from its settings: Django has other pools in each thread, and django-valkey has
those of valkey-py. redis-py speaks to Valkey as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple

import redis
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.utils.module_loading import import_string
from django_redis import get_redis_connection
from redis.connection import parse_url

from django_redsess import forks

TIMEOUT_SECONDS = 0.5
"""The time-out of an entry of Django's RedisCache or django-valkey that sets none: for connecting, and for a reply."""


class Backend(NamedTuple):
    """
    How a backend's entries of ``CACHES`` are written.

    ``path`` is its class, or an ancestor. ``separators`` is a pattern of what stands between addresses in ``LOCATION``,
    and ``schemes`` how these begin. ``options`` tells where the options of connections are: in
    ``CONNECTION_POOL_KWARGS``, or in ``OPTIONS`` itself.
    """

    name: str
    path: str
    separators: str
    schemes: tuple[str, ...]
    options: Literal["CONNECTION_POOL_KWARGS", "OPTIONS"]


SCHEMES = ("redis://", "rediss://", "unix://")
DJANGO_REDIS = Backend("django-redis", "django_redis.cache.RedisCache", ",", SCHEMES, "CONNECTION_POOL_KWARGS")
DJANGO = Backend("Django's RedisCache", "django.core.cache.backends.redis.RedisCache", "[;,]", SCHEMES, "OPTIONS")
DJANGO_VALKEY = Backend(
    "django-valkey",
    "django_valkey.cache.ValkeyCache",
    ",",
    ("valkey://", "valkeys://", *SCHEMES),
    "CONNECTION_POOL_KWARGS",
)
CLUSTER_OF_VALKEY = "django_valkey.cluster_cache.cache.ClusterValkeyCache"
BACKENDS = (DJANGO_REDIS, DJANGO, DJANGO_VALKEY)
NAMES = f"{DJANGO_REDIS.name}, {DJANGO.name} or {DJANGO_VALKEY.name}"


class UnfitEntry(ImproperlyConfigured):
    """
    An entry of ``CACHES`` that can't hold sessions.

    ``about`` is ``entry`` for another backend, ``backend`` for a feature that only caches of django-redis have, and
    ``option`` for an option that redis-py does not have. ``hint`` says what to do.
    """

    def __init__(self, about: Literal["entry", "backend", "option"], message: str, hint: str) -> None:
        super().__init__(message)
        self.about, self.hint = about, hint


class _Description(NamedTuple):
    pool_class: type[redis.ConnectionPool]
    url: str
    options: dict[str, Any]


_MADE: list[tuple[_Description, redis.ConnectionPool]] = []
_LOCK = forks.Lock()


def pool_of(alias: str) -> Any:
    """
    Return a pool of redis-py with the settings of ``CACHES[alias]``, or its cluster. Nothing is connected to.

    One pool is made of equal settings. Raises UnfitEntry if the entry can't hold sessions, and whatever redis-py and
    django-redis raise for an address or an option that is wrong: that may contain the password.
    """
    entry, name = settings.CACHES[alias], f"CACHES[{alias!r}]"
    backend = backend_of(entry)
    if backend is None:
        raise UnfitEntry("entry", f"{name} is not a cache of {NAMES}.", "Sessions need one of these.")
    if backend is DJANGO_REDIS:
        return get_redis_connection(alias).connection_pool
    described = (_of_django if backend is DJANGO else _of_django_valkey)(entry, name)
    with _LOCK:
        for known, pool in _MADE:
            if known == described:
                return pool
        pool = described.pool_class.from_url(described.url, **described.options)
        _MADE.append((described, pool))
        return pool


def backend_of(entry: Mapping[str, Any]) -> Backend | None:
    """Return the backend of an entry of ``CACHES``; None if it is another, or can't be imported."""
    try:
        names = _names_of(import_string(entry["BACKEND"]))
    except Exception:  # It may be any code.
        return None
    if CLUSTER_OF_VALKEY in names:
        return DJANGO_VALKEY
    return next((backend for backend in BACKENDS if backend.path in names), None)


def urls_of(entry: Mapping[str, Any]) -> list[Any]:
    """
    Return the addresses in ``LOCATION``, of which the first is the master's, as redis-py writes them.

    An entry that is no text is returned as it is. An empty ``LOCATION`` gives None.
    """
    location, backend = entry.get("LOCATION"), backend_of(entry)
    if isinstance(location, str):
        location = re.split(backend.separators if backend else "[;,]", location)
    urls = list(location or [None])
    return [_as_redis_url(url) for url in urls] if backend is DJANGO_VALKEY else urls


def options_of(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the options of connections in an entry of ``CACHES``, without those of the address."""
    options: Mapping[str, Any] = entry.get("OPTIONS", {})
    backend = backend_of(entry)
    if backend is None or backend.options == "OPTIONS":
        return options
    return options.get("CONNECTION_POOL_KWARGS", {})  # type: ignore[no-any-return]


def _of_django(entry: Mapping[str, Any], name: str) -> _Description:
    options = dict(entry.get("OPTIONS", {}))
    _refuse_special(name, [each for each in ("SENTINELS", "CONNECTION_FACTORY") if options.get(each)])
    # The serializer is the cache's own.
    options.pop("serializer", None)
    pool_class = _pool_class(options.pop("pool_class", None), "pool_class", name)
    if isinstance(parser := options.pop("parser_class", None), str):
        parser = import_string(parser)
    if parser is not None:
        options["parser_class"] = parser
    return _describe(pool_class, urls_of(entry)[0], options)


OF_VALKEY = frozenset(
    (
        *("host", "port", "path", "db", "username", "password", "credential_provider", "client_name", "protocol"),
        *("socket_timeout", "socket_connect_timeout", "socket_keepalive", "socket_keepalive_options", "socket_type"),
        *("socket_read_size", "health_check_interval", "retry_on_timeout", "max_connections", "timeout", "queue_class"),
        *("ssl_keyfile", "ssl_certfile", "ssl_password", "ssl_ca_certs", "ssl_ca_data", "ssl_ca_path", "ssl_cert_reqs"),
        *("ssl_check_hostname", "ssl_min_version", "ssl_ciphers", "ssl_validate_ocsp", "ssl_validate_ocsp_stapled"),
        *("ssl_ocsp_context", "ssl_ocsp_expected_cert", "encoding", "encoding_errors", "decode_responses"),
    )
)
"""The options of valkey-py that redis-py has, too, with the same meaning."""


def _of_django_valkey(entry: Mapping[str, Any], name: str) -> _Description:
    given = entry.get("OPTIONS", {})
    special = ["SENTINELS"] if given.get("SENTINELS") else []
    if CLUSTER_OF_VALKEY in _names_of(import_string(entry["BACKEND"])):
        special.append(f"BACKEND {entry['BACKEND']}")
    factory = given.get("CONNECTION_FACTORY") or getattr(settings, "DJANGO_VALKEY_CONNECTION_FACTORY", None)
    if factory not in (None, "django_valkey.pool.ConnectionFactory"):
        special.append(f"CONNECTION_FACTORY {factory}")
    client = given.get("CLIENT_CLASS", "django_valkey.client.DefaultClient")
    # Those for sentinels and shards derive from the default.
    if {"SentinelClient", "ShardClient"} & {each.rpartition(".")[2] for each in _names_of(import_string(client))}:
        special.append(f"CLIENT_CLASS {client}")
    _refuse_special(name, special)
    options = {
        option: given[setting]
        for setting, option in (
            ("USERNAME", "username"),
            ("PASSWORD", "password"),
            ("SOCKET_TIMEOUT", "socket_timeout"),
            ("SOCKET_CONNECT_TIMEOUT", "socket_connect_timeout"),
        )
        if given.get(setting)
    }
    for option, value in given.get("CONNECTION_POOL_KWARGS", {}).items():
        if option in OF_VALKEY:
            options[option] = value
        # The parser is redis-py's own, and an empty value asks for nothing.
        elif option != "parser_class" and value:
            raise UnfitEntry(
                "option",
                f"{name} sets {option} in CONNECTION_POOL_KWARGS: sessions connect by redis-py, which can't use it.",
                "Remove it, or give the sessions an entry of their own without it.",
            )
    pool_class = _pool_class(given.get("CONNECTION_POOL_CLASS"), "CONNECTION_POOL_CLASS", name)
    return _describe(pool_class, urls_of(entry)[0], options)


POOLS = {
    f"{client}.connection.{pool.__name__}": pool
    for client in ("redis", "valkey")
    for pool in (redis.ConnectionPool, redis.BlockingConnectionPool)
}


def _pool_class(given: Any, option: str, name: str) -> type[redis.ConnectionPool]:
    if given is None:
        return redis.ConnectionPool
    found = import_string(given) if isinstance(given, str) else given
    path = f"{found.__module__}.{found.__qualname__}"
    if path not in POOLS:
        _refuse_special(name, [f"{option} {path}"])
    return POOLS[path]


def _refuse_special(name: str, options: Iterable[str]) -> None:
    if named := " and ".join(options):
        raise UnfitEntry(
            "backend",
            f"{name} has {named}: sessions use Sentinel, clusters and other classes of pools by django-redis only.",
            f"Set its BACKEND to {DJANGO_REDIS.path!r}, and write its OPTIONS as django-redis has them.",
        )


def _describe(pool_class: type[redis.ConnectionPool], url: Any, options: dict[str, Any]) -> _Description:
    for option in ("socket_timeout", "socket_connect_timeout"):
        options.setdefault(option, TIMEOUT_SECONDS)
    if pool_class is redis.BlockingConnectionPool:
        # As in the other pool: the wait for a connection is no longer than the wait for a reply.
        of_url: dict[str, Any] = parse_url(url)  # type: ignore[no-untyped-call]
        options.setdefault("timeout", of_url.get("socket_timeout", options["socket_timeout"]))
    return _Description(pool_class, url, options)


def _as_redis_url(url: Any) -> Any:
    if not isinstance(url, str):
        return url
    scheme, colon, rest = url.partition(":")
    scheme = {"valkey": "redis", "valkeys": "rediss"}.get(scheme.lower(), scheme.lower())
    # valkey-py takes a path alone, too.
    slashes = "//" if scheme == "unix" and not rest.startswith("//") else ""
    return f"{scheme}{colon}{slashes}{rest}"


def _names_of(found: Any) -> set[str]:
    # Names, because the packages need not be installed.
    return {f"{each.__module__}.{each.__qualname__}" for each in found.__mro__}
