"""Sessions on a real cluster."""

from __future__ import annotations

from typing import Any

from testproject.clusters import Cluster
from tests.support.outages import TIMEOUT, caches


def caches_of(cluster: Cluster, *, timeout: float = TIMEOUT) -> dict[str, Any]:
    """Settings that keep the sessions on ``cluster``, and wait ``timeout`` seconds for a node."""
    made = caches("", timeout=timeout)
    made["sessions"]["LOCATION"] = cluster.urls
    made["sessions"]["OPTIONS"]["CONNECTION_FACTORY"] = "django_redsess.cluster.ClusterConnectionFactory"
    return made
