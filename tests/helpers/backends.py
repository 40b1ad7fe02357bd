"""Entries of ``CACHES`` that hold sessions, as each backend has them written."""

from typing import Any

from django.core.cache import caches

BACKENDS = {
    "django-redis": "django_redis.cache.RedisCache",
    "Django": "django.core.cache.backends.redis.RedisCache",
    "django-valkey": "django_valkey.cache.ValkeyCache",
}
OTHERS = [name for name in BACKENDS if name != "django-redis"]
"""Those whose settings are read, and whose pools are not used."""


def entry(backend: str, url: str, *, seconds: float | None = None, pool_class: str = "", **options: Any) -> Any:
    """
    Return an entry of ``backend`` for the server at ``url``.

    ``seconds`` is the time-out for connecting and for a reply; None sets none. ``pool_class`` is the name of a class of
    pools. ``options`` are those of connections.
    """
    if backend == "Django":
        given = dict(options)
        if seconds is not None:
            given |= {"socket_connect_timeout": seconds, "socket_timeout": seconds}
        if pool_class:
            given["pool_class"] = f"redis.{pool_class}"
    else:
        given = {"CONNECTION_POOL_KWARGS": options}
        if seconds is not None:
            given |= {"SOCKET_CONNECT_TIMEOUT": seconds, "SOCKET_TIMEOUT": seconds}
        if pool_class:
            given["CONNECTION_POOL_CLASS"] = f"{'valkey' if backend == 'django-valkey' else 'redis'}.{pool_class}"
    if backend == "django-valkey" and url.startswith("redis"):
        url = f"valkey{url.removeprefix('redis')}"
    return {"BACKEND": BACKENDS[backend], "LOCATION": url, "OPTIONS": given}


def pool_of_cache(alias: str) -> Any:
    """Return the pool that the cache itself uses, of redis-py or valkey-py."""
    cache: Any = caches[alias]
    if hasattr(cache, "client"):
        return cache.client.get_client().connection_pool
    return cache._cache.get_client(write=True).connection_pool
