"""The connection that reaches a partition: the one of a django-redis cache."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.conf import settings
from django_redis import get_redis_connection

if TYPE_CHECKING:
    from redis import Redis

    from django_redsess.keys import Partition


def connection_for(partition: Partition) -> Redis:
    """
    Return the connection to the server that holds ``partition``: that of ``CACHES[SESSION_CACHE_ALIAS]``.

    Raises NotImplementedError when that cache is not one of django-redis.
    """
    connection: Redis = get_redis_connection(settings.SESSION_CACHE_ALIAS)
    return connection
