"""
Measure what observers cost a load: ``python -m benchmarks.observers``.

It is done as in benchmarks/python_cost.py, and needs hiredis, too: each observer has a process of its own, replies are
kept, and only Python is measured, in rounds in which the observers take turns in random order. A time is compared with
that of the load without observers in the same round. "Again" is a second process without any: so much do two that do
the same differ.

OpenTelemetry's spans go to a batch processor whose exporter throws them away. Its thread shares the process, and its
time counts. Sentry's transaction spans a whole round, and keeps all spans.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from importlib.util import find_spec
from multiprocessing import get_context
from statistics import median
from typing import Any

from tqdm import tqdm

from benchmarks import python_cost
from benchmarks.engines import OURS
from benchmarks.ratios import paired
from benchmarks.report import table
from benchmarks.stores import Servers, Stores
from testproject.servers import available

ROUNDS, COUNT = 60, 200
PACKAGE = "django_redsess.observers"
BASE = "none"


class Silent:
    """An observer that does nothing."""

    def operation(self, *args: Any) -> None:
        pass

    def event(self, *args: Any, **facts: Any) -> None:
        pass


@contextmanager
def opentelemetry(share: float) -> Iterator[None]:
    """Sample this share of the requests; one request lasts a round."""
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
    from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased

    class Nowhere(SpanExporter):
        def export(self, spans: Any) -> SpanExportResult:
            return SpanExportResult.SUCCESS

    provider = TracerProvider(sampler=ParentBased(TraceIdRatioBased(share)))
    provider.add_span_processor(BatchSpanProcessor(Nowhere()))
    trace.set_tracer_provider(provider)
    with provider.get_tracer("benchmarks").start_as_current_span("request"):
        yield


@contextmanager
def sentry() -> Iterator[None]:
    import sentry_sdk

    sentry_sdk.init("http://public@127.0.0.1:1/1", traces_sample_rate=1.0, _experiments={"max_spans": 10_000_000})
    transaction = sentry_sdk.start_transaction(name="request")
    sentry_sdk.get_current_scope().span = transaction
    yield


OBSERVERS: dict[str, tuple[str, Callable[[], Any] | None]] = {
    BASE: ("", None),
    "again": ("", None),
    "one that does nothing": ("benchmarks.observers.Silent", None),
    "OpenTelemetry without SDK": (f"{PACKAGE}.opentelemetry.Observer", None),
    "OpenTelemetry, not sampled": (f"{PACKAGE}.opentelemetry.Observer", lambda: opentelemetry(0.0)),
    "OpenTelemetry, sampled": (f"{PACKAGE}.opentelemetry.Observer", lambda: opentelemetry(1.0)),
    "Sentry, in no transaction": (f"{PACKAGE}.sentry.Observer", None),
    "Sentry, in a transaction": (f"{PACKAGE}.sentry.Observer", sentry),
}
"""The observers, each with its class, and what surrounds its loads."""

if find_spec(f"{PACKAGE}.prometheus"):
    OBSERVERS["Prometheus"] = (f"{PACKAGE}.prometheus.Observer", None)


def measured(rounds: int, count: int) -> list[list[str]]:
    """Measure each observer: its name, functions that a load calls, microseconds, and how much more than none."""
    names = list(OBSERVERS)
    microseconds: dict[str, list[float]] = {name: [] for name in names}
    with ExitStack() as stack:
        servers = stack.enter_context(closing(Servers(next(iter(available().values())))))
        processes = {
            name: stack.enter_context(ProcessPoolExecutor(1, get_context("spawn"), _observe, (name, servers.stores)))
            for name in names
        }
        functions = {
            name: process.submit(python_cost.functions_of, "load", count).result()[0]
            for name, process in processes.items()
        }
        for _ in tqdm(range(rounds), unit="round", disable=None):
            for name in random.sample(names, len(names)):
                microseconds[name].append(processes[name].submit(python_cost.microseconds_of, count).result())
    lines = []
    for name in names:
        ratio = paired(microseconds[name], microseconds[BASE])
        more = [of_name - of_base for of_name, of_base in zip(microseconds[name], microseconds[BASE], strict=True)]
        compared = f"{ratio.ratio:.2f} ({ratio.low:.2f} to {ratio.high:.2f})"
        lines.append(
            [name, f"{functions[name]:.1f}", f"{median(microseconds[name]):.1f}", f"{median(more):+.1f}", compared]
        )
    return lines


def _observe(name: str, stores: Stores) -> None:
    python_cost.configure(OURS, stores)
    from django.conf import settings
    from django.test import override_settings

    observer, around = OBSERVERS[name]
    if around is not None:
        # Entered and never left: it lasts as long as the process.
        _kept.enter_context(around())
    if observer:
        override_settings(REDSESS={**getattr(settings, "REDSESS", {}), "OBSERVERS": [observer]}).enable()


_kept = ExitStack()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"how often each is measured (default: {ROUNDS})")
    options = parser.parse_args()
    head = ["A load, observed by", "functions", "µs", "µs more", "ratio to none (95 %)"]
    print(table(head, measured(options.rounds, COUNT)))


if __name__ == "__main__":
    main()
