"""What observers export: collected from observers that are told of operations and events here."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from redis.exceptions import OutOfMemoryError

from django_redsess.contrib import opentelemetry as otel
from django_redsess.contrib.prometheus import metrics_page, observer
from django_redsess.observers import Server
from django_redsess.online import Totals
from django_redsess.signals import Reason
from tests.helpers.public_names import source

ONE = Server("shop.example", 6379, 0, command="GET")
SEVERAL = Server("shop.example", 6379, 0, peer="192.0.2.1:6379", script="save", commands=3, command="EVALSHA")

TEXTS = {"error", "reason", "server"}
"""The facts of events that are texts. The others are numbers."""


def prometheus() -> Iterator[str]:
    """Return the metrics with their types and labels."""
    seen = dict.fromkeys(("signed_in", "guests", "active", "active_guests", "limit", "guests_limit", "created"), 1)
    ended, now = dict.fromkeys(Reason, 1), datetime.now(UTC)
    totals = Totals(at=now, **seen, ended=ended, guests_ended=ended, lag_seconds=0.0, sampled_at=now)  # type: ignore[arg-type]
    for metric in metrics_page._store_metrics(totals):
        labels = {name for sample in metric.samples for name in sample.labels}
        yield _metric(metric.name, metric.type, labels)
    # Without a value, a metric with labels has no samples.
    for each in vars(observer).values():
        if isinstance(each, (observer.Counter, observer.Gauge, observer.Histogram)):
            [described] = each.describe()
            yield _metric(described.name, described.type, each._labelnames)


def _metric(name: str, kind: str, labels: Any) -> str:
    of_labels = f"{{{', '.join(sorted(labels))}}}" if labels else ""
    return f"{name}{'_total' if kind == 'counter' else ''} {kind}{of_labels}"


def opentelemetry() -> Iterator[str]:
    """Return the spans and metrics with their attributes."""
    exporter, reader = InMemorySpanExporter(), InMemoryMetricReader()
    traces, meters = TracerProvider(shutdown_on_exit=False), MeterProvider([reader], shutdown_on_exit=False)
    traces.add_span_processor(SimpleSpanProcessor(exporter))
    told = otel.Observer(traces, meters)
    told.operation("read", ONE, 0.1, None)
    told.operation("save", SEVERAL, 0.1, OutOfMemoryError("OOM"))
    for name, facts in source.events().items():
        told.event(name, **{fact: "text" if fact in TEXTS else 1 for fact in facts})
    for span in exporter.get_finished_spans():
        yield from (f"span {span.name.split()[0]} …: {attribute}" for attribute in span.attributes or ())
    data = reader.get_metrics_data()
    assert data is not None
    for metric in (each for found in data.resource_metrics for scope in found.scope_metrics for each in scope.metrics):
        yield f"metric {metric.name} {type(metric.data).__name__.lower()}"
        for point in metric.data.data_points:
            yield from (f"metric {metric.name}: {attribute}" for attribute in point.attributes or ())
    traces.shutdown()
    meters.shutdown()


def sentry() -> Iterator[str]:
    """Return what spans and breadcrumbs have, by the constants in the code: Sentry's client would be the process's."""
    [tree] = [tree for path, tree in source.trees().items() if path.name == "sentry.py"]
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        function = ast.unparse(call.func)
        if function.endswith(".set_data"):
            yield f"span data {ast.literal_eval(call.args[0])}"
        for keyword in call.keywords:
            if keyword.arg in ("category", "op", "origin") and isinstance(keyword.value, ast.Constant):
                yield f"{function.rpartition('.')[2]} {keyword.arg} {keyword.value.value}"
