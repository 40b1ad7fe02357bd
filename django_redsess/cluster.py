"""Sessions in a Redis or Valkey Cluster: the connection factory for the ``CACHES`` entry of the sessions."""

from __future__ import annotations

from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.utils.module_loading import import_string
from django_redis.pool import ConnectionFactory

from django_redsess.transport.cluster_map import Address, Cluster, format_address

__all__ = ["ClusterConnectionFactory"]

DEFAULT_PORT = 6379


class ClusterConnectionFactory(ConnectionFactory):  # type: ignore[misc]
    """
    Connects sessions to a cluster: ``"CONNECTION_FACTORY": "django_redsess.cluster.ClusterConnectionFactory"``.

    ``LOCATION`` names one node or several. They tell where all nodes are, and one that answers is enough. All other
    options of django-redis hold for each node: credentials, TLS, time-outs, ``CONNECTION_POOL_CLASS`` and
    ``CONNECTION_POOL_KWARGS``. The maximum of connections is that of each node.

    ``OPTIONS["ADDRESS_REMAP"]`` may name a function, for nodes that tell addresses which can't be reached from here: it
    takes a host and a port as a tuple, and returns such a tuple.

    The entry of ``CACHES`` is for sessions only. As a cache, it raises NotImplementedError.
    """

    _pools: dict[str, Any] = {}

    def get_connection(self, params: dict[str, Any]) -> Any:
        """Return an object that has the cluster as its ``connection_pool``, and no other use."""
        return _SessionsOnly(self.get_or_create_connection_pool(params))

    def get_connection_pool(self, params: dict[str, Any]) -> Any:
        """Return the cluster. It makes a pool for each node as django-redis makes one for a server."""
        start = [_address(url) for url in self._urls(params["url"])]
        make_pool, parts = super().get_connection_pool, urlsplit(params["url"])
        account, at, _ = parts.netloc.rpartition("@")

        def of_node(address: Address) -> Any:
            return make_pool(
                {**params, "url": parts._replace(netloc=f"{account}{at}{format_address(address)}").geturl()}
            )

        remap = self.options.get("ADDRESS_REMAP") or None
        return Cluster(start, of_node, import_string(remap) if isinstance(remap, str) else remap)

    def _urls(self, url: str) -> list[str]:
        # django-redis gives one address of LOCATION only.
        for entry in settings.CACHES.values():
            location = entry.get("LOCATION", ())
            urls = location.split(",") if isinstance(location, str) else list(location)
            if url in urls and entry.get("OPTIONS", {}) == self.options:
                return urls
        return [url]


def _address(url: str) -> Address:
    with suppress(ValueError):
        parts = urlsplit(url.strip())
        if parts.scheme in ("redis", "rediss") and parts.hostname:
            return parts.hostname, parts.port or DEFAULT_PORT
    # The URL may have a password, and so may the error.
    raise ImproperlyConfigured("The address of a cluster's node is redis:// or rediss://, a host and a port.")


class _SessionsOnly:
    """Stands for redis-py's client, but has no commands."""

    def __init__(self, cluster: Cluster) -> None:
        self.connection_pool = cluster

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise NotImplementedError(
            f"No {name}() here: this entry of CACHES connects to a cluster, for sessions only. Give the cache another."
        )
