"""Observers whose spans, metrics and breadcrumbs a test can look at. Settings name the classes here."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import sentry_sdk
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from sentry_sdk.envelope import Envelope
from sentry_sdk.transport import Transport

from django_redsess.contrib import opentelemetry


class Traces:
    """What OpenTelemetry's exporters got."""

    def __init__(self) -> None:
        self._exporter, self._reader = InMemorySpanExporter(), InMemoryMetricReader()
        self.provider = TracerProvider(shutdown_on_exit=False)
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.meters = MeterProvider([self._reader], shutdown_on_exit=False)
        self.request = self.provider.get_tracer("tests").start_as_current_span

    @property
    def spans(self) -> list[ReadableSpan]:
        """The spans of operations, in the order in which they have ended."""
        return [span for span in self._exporter.get_finished_spans() if span.name.startswith("redsess ")]

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.spans if span.name == f"redsess {name}"]

    def clear(self) -> None:
        self._exporter.clear()

    @property
    def metrics(self) -> dict[str, list[Any]]:
        """The points of each metric."""
        data = self._reader.get_metrics_data()
        scopes = [scope for resource in data.resource_metrics for scope in resource.scope_metrics] if data else []
        return {metric.name: list(metric.data.data_points) for scope in scopes for metric in scope.metrics}

    def texts(self) -> list[str]:
        """All names and values, but for the numbers of traces and spans."""
        found: list[Any] = []
        for span in self.spans:
            found += [span.name, span.status.description, *span.attributes.items()]
            found += [(event.name, *event.attributes.items()) for event in span.events]
        for name, points in self.metrics.items():
            found += [name, *(item for point in points for item in point.attributes.items())]
        return list(words(found))


def words(value: Any) -> Iterator[str]:
    """Yield each text in lists, tuples and dicts."""
    if isinstance(value, dict):
        value = list(value.items())
    if isinstance(value, (list, tuple)):
        for each in value:
            yield from words(each)
    elif isinstance(value, str):
        yield value


traces: Traces


class Traced(opentelemetry.Observer):
    """Exports to ``traces``, those of the present test."""

    def __init__(self) -> None:
        super().__init__(traces.provider, traces.meters)


@contextmanager
def traced(settings: Any) -> Iterator[Traces]:
    """Observe all operations by OpenTelemetry."""
    global traces
    traces = Traces()
    settings.REDSESS = {**settings.REDSESS, "OBSERVERS": [f"{__name__}.Traced"]}
    yield traces
    traces.provider.shutdown()
    traces.meters.shutdown()


class Envelopes(Transport):
    """Sentry's transport that keeps what it is to send."""

    def __init__(self, options: Any = None) -> None:
        super().__init__(options)
        self.sent: list[dict[str, Any]] = []

    def capture_envelope(self, envelope: Envelope) -> None:
        self.sent += [json.loads(item.get_bytes()) for item in envelope.items]

    @property
    def transactions(self) -> list[dict[str, Any]]:
        return [event for event in self.sent if event.get("type") == "transaction"]

    @property
    def spans(self) -> list[dict[str, Any]]:
        """The spans of operations in all transactions."""
        found = [span for event in self.transactions for span in event["spans"]]
        return [span for span in found if span["origin"] == "auto.db.redsess"]


@contextmanager
def reporting(settings: Any, transport: Transport | None = None, **options: Any) -> Iterator[Envelopes]:
    """Observe all operations by Sentry. ``options`` are those of ``sentry_sdk.init``."""
    envelopes = Envelopes()
    options = {"traces_sample_rate": 1.0, "default_integrations": False, "auto_enabling_integrations": False, **options}
    sentry_sdk.init("http://public@127.0.0.1:1/1", transport=transport or envelopes, **options)
    settings.REDSESS = {**settings.REDSESS, "OBSERVERS": ["django_redsess.contrib.sentry.Observer"]}
    try:
        with sentry_sdk.isolation_scope():
            yield envelopes
    finally:
        sentry_sdk.get_client().close(timeout=0)
        sentry_sdk.get_global_scope().set_client(None)
