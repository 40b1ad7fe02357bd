"""
An observer that counts for Prometheus. Public. It needs the extra ``prometheus``.

Name ``"django_redsess.contrib.prometheus.observer.Observer"`` in ``REDSESS["OBSERVERS"]``.
:func:`django_redsess.contrib.prometheus.views.metrics` shows what it has counted.
"""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from django_redsess.observers import Server
from django_redsess.observers.failures import failure_of

__all__ = ["Observer"]

registry = CollectorRegistry()
"""What one process has counted. It is not the library's own registry: another page would show it a second time."""

BUCKETS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 1.5)
"""Seconds: from a round trip on the same machine to two time-outs of half a second, with a repetition."""

# At the level of the module: observers are made anew when settings change, and a metric is made but once.
OPERATIONS = Histogram(
    "redsess_operation_seconds",
    "Seconds of an operation on the sessions' server, repetitions included.",
    ["operation", "outcome", "server"],
    buckets=BUCKETS,
    registry=registry,
)
CONFLICTS = Counter(
    "redsess_conflicts_merged",
    "Times that a save met another request's change of the same session, and merged both.",
    registry=registry,
)
REFUSED = Counter(
    "redsess_sign_ins_refused",
    "Sign-ins that were refused: the user is blocked (block), or has too many sessions (limit).",
    ["reason"],
    registry=registry,
)
NOT_PROVEN = Counter(
    "redsess_requests_not_proven",
    "Requests without proof for a session that is bound to a device: refused, opened as DEVICE_BOUND says, or excused.",
    ["outcome"],
    registry=registry,
)
OUTAGES = Counter("redsess_outages", "Outages that have begun.", ["server"], registry=registry)
OUTAGE = Gauge(
    "redsess_outage",
    "How many outages a process knows of that are not over: of the process with the most.",
    ["server"],
    multiprocess_mode="livemax",
    registry=registry,
)


class Observer:
    """Counts operations by their seconds, name, outcome and server, and events."""

    def __init__(self) -> None:
        # Looking up a series by its labels takes longer than counting.
        self._count: dict[tuple[str, str, str], Callable[[float], None]] = {}

    def operation(self, name: str, server: Server, seconds: float, error: BaseException | None) -> None:
        """Count an operation."""
        labels = name, "ok" if error is None else failure_of(error).outcome, _server_label(server)
        count = self._count.get(labels)
        if count is None:
            count = self._count[labels] = OPERATIONS.labels(*labels).observe
        count(seconds)

    def event(self, name: str, **facts: object) -> None:
        """Count an event. Unknown events are ignored."""
        if name == "conflict_merged":
            CONFLICTS.inc()
        elif name == "sign_in_refused":
            REFUSED.labels(facts["reason"]).inc()
        elif name == "session_not_proven":
            NOT_PROVEN.labels(facts["outcome"]).inc()
        elif name == "outage_begun":
            OUTAGES.labels(facts["server"]).inc()
            OUTAGE.labels(facts["server"]).inc()
        elif name == "outage_over":
            OUTAGE.labels(facts["server"]).dec()


def _server_label(server: Server) -> str:
    return server.peer or (server.address if server.port is None else f"{server.address}:{server.port}")
