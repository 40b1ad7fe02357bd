"""A site whose sessions are in a cluster."""

from __future__ import annotations

from typing import Any

from testproject.clusters import Cluster
from tests.support.outages import TIMEOUT, caches

FACTORY = "django_redsess.cluster.ClusterConnectionFactory"
PARTITIONS = 64


def cluster_caches(cluster: Cluster, *, timeout: float = TIMEOUT, **options: Any) -> dict[str, Any]:
    """Return ``CACHES`` with the sessions in ``cluster``. ``options`` are more of django-redis."""
    entry = caches("", timeout=timeout)["sessions"]
    more = {"CONNECTION_FACTORY": FACTORY, **options}
    return {"sessions": {**entry, "LOCATION": cluster.urls, "OPTIONS": {**entry["OPTIONS"], **more}}}
