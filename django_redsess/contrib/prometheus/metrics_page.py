"""The page of metrics, in the text formats of Prometheus. It needs the extra ``prometheus``."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed
from prometheus_client import CollectorRegistry, Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector
from redis.exceptions import RedisError

from django_redsess import forks, online
from django_redsess.clock import monotonic
from django_redsess.exceptions import SessionStoreUnavailable
from django_redsess.online import Totals
from django_redsess.transport.keys import Keyspace, keyspace

ASKED_SECONDS = 10
"""The store is asked for its numbers at most once in this time, by each process."""


def metrics_page(accept: str) -> tuple[bytes, str]:
    """Return the page in the format that the header ``accept`` prefers, and its content type."""
    encode, content_type = choose_encoder(accept)
    registry = CollectorRegistry()
    registry.register(_MetricsCollector())
    return encode(registry), content_type


class _MetricsCollector(Collector):
    def collect(self) -> Iterator[Metric]:
        yield from _observed_metrics()
        yield from _store_metrics(_cached_totals())


def _observed_metrics() -> Iterator[Metric]:
    folder = os.environ.get("PROMETHEUS_MULTIPROC_DIR")
    if folder is None:
        # Imported late: with PROMETHEUS_MULTIPROC_DIR set to a missing folder, the import fails.
        from django_redsess.contrib.prometheus import observer

        yield from observer.registry.collect()
        return
    if not Path(folder).is_dir():
        # The observer's line in the log says so.
        return
    together = CollectorRegistry()
    MultiProcessCollector(together)  # type: ignore[no-untyped-call]
    # The files have the metrics of the whole site.
    yield from (metric for metric in together.collect() if metric.name.startswith("redsess_"))


def _store_metrics(totals: Totals | None) -> Iterator[Metric]:
    yield GaugeMetricFamily("redsess_up", "Whether the store could be asked for its numbers.", totals is not None)
    if totals is None:
        return
    sessions = GaugeMetricFamily("redsess_sessions", "Sessions, also due ones that are not removed.", labels=["kind"])
    active = GaugeMetricFamily("redsess_sessions_active", "Sessions seen in the last five minutes.", labels=["kind"])
    for family, signed_in, guests in (
        (sessions, totals.signed_in, totals.guests),
        (active, totals.active, totals.active_guests),
    ):
        family.add_metric(["signed_in"], signed_in)
        family.add_metric(["guest"], guests)
        yield family
    yield GaugeMetricFamily("redsess_sessions_limit", "MAX_SESSIONS.", totals.limit)
    if totals.guests_limit is not None:
        yield GaugeMetricFamily("redsess_guests_limit", "MAX_GUESTS.", totals.guests_limit)
    yield CounterMetricFamily("redsess_sessions_created", "Sessions created by all processes.", totals.created)
    ended = CounterMetricFamily("redsess_sessions_ended", "Sessions ended, by all processes.", labels=["reason"])
    for reason, count in totals.ended.items():
        ended.add_metric([reason], count)
    yield ended
    lag = "For how long the earliest deadline is past. 0 if no session is due."
    yield GaugeMetricFamily("redsess_cleaner_lag_seconds", lag, totals.lag_seconds)
    if totals.sampled_at is not None:
        seen = "The minute in which the cleaner was last seen."
        yield GaugeMetricFamily("redsess_cleaner_seen_timestamp_seconds", seen, totals.sampled_at.timestamp())


class _CachedTotals(NamedTuple):
    at: float
    totals: Totals | None


_totals_by_store: dict[Keyspace, _CachedTotals] = {}
_asking_lock = forks.Lock()


def _cached_totals() -> Totals | None:
    """Return the store's numbers, at most ten seconds old. None if it can't be asked, or could not in that time."""
    # A thread that comes while another one asks waits for the same answer.
    with _asking_lock:
        space = keyspace()
        known = _totals_by_store.get(space)
        if known is None or monotonic() - known.at > ASKED_SECONDS:
            try:
                found = online.totals()
            except (SessionStoreUnavailable, ImproperlyConfigured, RedisError):
                found = None
            known = _totals_by_store[space] = _CachedTotals(monotonic(), found)
        return known.totals


def _clear_totals(*, setting: str, **kwargs: Any) -> None:
    if setting in ("CACHES", "REDSESS", "SESSION_CACHE_ALIAS"):
        _totals_by_store.clear()


setting_changed.connect(_clear_totals)
