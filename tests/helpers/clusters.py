"""A site whose sessions are in a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from testproject.clusters import Cluster
from tests.helpers.outages import PATIENCE, caches

FACTORY = "django_redsess.cluster.ClusterConnectionFactory"
PARTITIONS = 64


def caches_at(location: str | Sequence[str], *, timeout: float = PATIENCE, **options: Any) -> dict[str, Any]:
    """
    Settings that keep the sessions on the cluster of which ``location`` names some nodes.

    ``options`` are more of django-redis.
    """
    entry = caches("", timeout=timeout)["sessions"]
    more = {"CONNECTION_FACTORY": FACTORY, **options}
    return {"sessions": {**entry, "LOCATION": location, "OPTIONS": {**entry["OPTIONS"], **more}}}


def cluster_caches(cluster: Cluster, *, timeout: float = PATIENCE) -> dict[str, Any]:
    """Settings that keep the sessions on ``cluster``."""
    return caches_at(cluster.urls, timeout=timeout)
