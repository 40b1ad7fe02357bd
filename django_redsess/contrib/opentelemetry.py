"""
Spans and metrics of OpenTelemetry. Public.

Needs the extra ``otel``. Names follow OpenTelemetry's conventions for clients of Redis, which may still change.
"""

from __future__ import annotations

import time
from functools import lru_cache, partial
from typing import Any

from opentelemetry import metrics, trace
from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation
from opentelemetry.trace import SpanKind, Status, StatusCode, TracerProvider

from django_redsess.observers import Server
from django_redsess.observers.failures import failure_of

__all__ = ["Observer"]

BUCKETS = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10]
"""Seconds. The conventions recommend these for ``db.client.operation.duration``."""

TOTALS = {"created", "ended", "evicted"}
"""Facts of ``store_counted`` that count from the beginning of the store."""

_SCOPE = "django_redsess"


class Observer:
    """
    Make a span of each operation, under the present span, and metrics of operations and events.

    Name it in ``REDSESS["OBSERVERS"]``. Spans go to ``tracer_provider``, metrics to ``meter_provider``, by default to
    those that the site has set, before or after. Without any, nothing is recorded. A subclass may give others. None has
    a session key, a sid, a user, or the text of an error.
    """

    def __init__(
        self, tracer_provider: TracerProvider | None = None, meter_provider: MeterProvider | None = None
    ) -> None:
        self._tracer = trace.get_tracer(_SCOPE, tracer_provider=tracer_provider)
        self._meter = metrics.get_meter(_SCOPE, meter_provider=meter_provider)
        self._duration = self._meter.create_histogram(
            "db.client.operation.duration",
            unit="s",
            description="Duration of database client operations.",
            explicit_bucket_boundaries_advisory=BUCKETS,
        )
        self._events = self._meter.create_counter(
            "redsess.events", unit="{event}", description="Outages, merged conflicts and refused sign-ins."
        )
        self._gauges: dict[str, Any] = {}
        self._totals: dict[str, float] = {}

    def operation(self, name: str, server: Server, seconds: float, error: BaseException | None) -> None:
        """Make a span that has begun ``seconds`` ago and ends now, and record the duration."""
        of_span, of_metric = _attributes(name, server)
        now = time.time_ns()
        span = self._tracer.start_span(
            of_span["db.query.summary"],
            kind=SpanKind.CLIENT,
            attributes=of_span,
            start_time=now - int(seconds * 1e9),
            record_exception=False,
        )
        if error is not None:
            of_error = _error_attributes(error)
            of_metric = of_metric | of_error
            span.set_attributes(of_error)
            span.set_status(Status(StatusCode.ERROR))
        span.end(now)
        self._duration.record(seconds, of_metric)

    def event(self, name: str, **facts: object) -> None:
        """
        Count the event. Of ``store_counted``, export each number: totals as counters, the others as gauges.

        Only the cleaner tells of ``store_counted``. Each process of a site would export the same numbers, and their sum
        would be wrong.
        """
        if name == "store_counted":
            for fact, number in facts.items():
                if isinstance(number, (int, float)):
                    self._record_number(fact, number)
            return
        texts = {f"redsess.{fact}": text for fact, text in facts.items() if isinstance(text, str)}
        self._events.add(1, {"redsess.event": name, **texts})

    def _record_number(self, fact: str, number: float) -> None:
        name, unit = f"redsess.store.{fact}", "s" if fact.endswith("_seconds") else "{session}"
        if fact in TOTALS:
            is_new = fact not in self._totals
            self._totals[fact] = number
            if is_new:
                self._meter.create_observable_counter(name, [partial(self._observe_total, fact)], unit)
        else:
            if fact not in self._gauges:
                self._gauges[fact] = self._meter.create_gauge(name, unit)
            self._gauges[fact].set(number)

    def _observe_total(self, fact: str, options: CallbackOptions) -> list[Observation]:
        return [Observation(self._totals[fact])]


@lru_cache(maxsize=1024)
def _attributes(name: str, server: Server) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what a span of this operation has, and what a measurement has. Neither may be changed."""
    of_metric: dict[str, Any] = {
        "db.system.name": "redis",
        "db.query.summary": f"redsess {name}",
        "db.operation.name": server.command if server.commands == 1 else "PIPELINE",
        "db.namespace": str(server.database),
        "server.address": server.address,
    }
    if server.port is not None:
        of_metric["server.port"] = server.port
    if server.script:
        of_metric["db.stored_procedure.name"] = server.script
    if server.peer:
        host, _, port = server.peer.rpartition(":")
        of_metric |= {"network.peer.address": host.strip("[]"), "network.peer.port": int(port)}
    batch = {"db.operation.batch.size": server.commands} if server.commands > 1 else {}
    return of_metric | batch, of_metric


def _error_attributes(error: BaseException) -> dict[str, str]:
    failure = failure_of(error)
    code = {"db.response.status_code": failure.code} if failure.code else {}
    return {"error.type": failure.type, **code}
