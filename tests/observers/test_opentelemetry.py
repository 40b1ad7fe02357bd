"""Spans and metrics of OpenTelemetry: where they stand, what they say, and what they never say."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import AsyncClient, Client
from opentelemetry import trace
from opentelemetry.trace import SpanKind, StatusCode

from django_redsess import observers, online
from django_redsess.backend import SessionStore
from django_redsess.exceptions import SessionStoreUnavailable
from tests.helpers import every_operation
from tests.helpers.outages import TIMEOUT, caches, end_outage, full
from tests.helpers.traces import Traced, Traces, traced
from tests.helpers.visitors import Browser


@pytest.fixture
def traces(settings, known_scripts) -> Iterator[Traces]:
    with traced(settings) as traces:
        yield traces


@pytest.fixture
def alice(db) -> User:
    return User.objects.create_user("alice", password="secret")


def test_a_span_says_what_was_done_and_where(traces: Traces, server, new_session) -> None:
    session = new_session()
    traces.clear()
    SessionStore(session.session_key).load()
    (span,) = traces.spans
    assert (span.name, span.kind, span.status.status_code) == ("redsess read", SpanKind.CLIENT, StatusCode.UNSET)
    expected = {
        "db.system.name": "redis",
        "db.query.summary": "redsess read",
        "db.operation.name": "PIPELINE",
        "db.operation.batch.size": 2,
        "db.namespace": "0",
        "server.address": "127.0.0.1",
        "server.port": server.port,
    }
    assert dict(span.attributes or {}) == expected
    assert span.start_time is not None
    assert span.end_time is not None
    assert span.start_time < span.end_time


def test_a_script_is_named(traces: Traces, new_session) -> None:
    session = new_session()
    traces.clear()
    session["colour"] = "red"
    session.save()
    session.flush()
    found = [
        (span.attributes["db.operation.name"], span.attributes["db.stored_procedure.name"]) for span in traces.spans
    ]
    assert found == [("EVALSHA", "save_fast"), ("EVALSHA", "end_sids")]


def test_a_duration_is_measured_for_each_operation(traces: Traces, new_session) -> None:
    session = new_session()
    for _ in range(3):
        SessionStore(session.session_key).load()
    points = traces.metrics["db.client.operation.duration"]
    (reads,) = [point for point in points if point.attributes["db.query.summary"] == "redsess read"]
    assert reads.count == 3
    assert reads.explicit_bounds == (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10)
    assert 0 < reads.sum < 3


@pytest.mark.parametrize("client", [Client, AsyncClient])
@pytest.mark.django_db
def test_spans_of_a_request_are_under_its_span(traces: Traces, settings, alice, client: Any) -> None:
    settings.ROOT_URLCONF = "tests.helpers.site.urls"
    browser = Browser(client())
    browser.sign_in(alice)
    traces.clear()
    with traces.request("GET /who/") as request:
        # Over ASGI, the second is a synchronous view: it runs in another thread.
        for path in (f"{browser.views}/who/", "/who/"):
            assert browser.get(path).content == b"alice"
    parents = {span.parent.span_id for span in traces.spans if span.parent}
    assert len(traces.named("read")) == 2
    assert parents == {request.get_span_context().span_id}


def test_each_task_and_each_thread_has_its_own_parent(traces: Traces, new_session) -> None:
    keys = [str(new_session(number=number).session_key) for number in range(8)]
    expected = {}

    async def in_a_task(key: str) -> None:
        with traces.request("task") as request:
            await SessionStore(key).aload()
            expected[request.get_span_context().span_id] = "task"

    def in_a_thread(key: str) -> None:
        with traces.request("thread") as request:
            SessionStore(key).load()
            expected[request.get_span_context().span_id] = "thread"

    async def all_at_once() -> None:
        await asyncio.gather(*map(in_a_task, keys))

    traces.clear()
    asyncio.run(all_at_once())
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda key: copy_context().run(in_a_thread, key), keys))
    assert sorted(span.parent.span_id for span in traces.named("read") if span.parent) == sorted(expected)
    assert len(expected) == 16


def test_a_cancelled_request_has_its_span_at_once(traces: Traces, proxy, settings, new_session) -> None:
    key = new_session().session_key
    settings.CACHES = caches(proxy.url)
    SessionStore(key).load()
    traces.clear()

    async def cancelled() -> int:
        proxy.silence()
        with traces.request("GET") as request:
            task = asyncio.create_task(SessionStore(key).aload())
            await asyncio.sleep(0.05)
            task.cancel()
            try:
                await task
            except asyncio.CancelledError:
                assert [span.name for span in traces.spans] == ["redsess read"]
            return request.get_span_context().span_id

    parent = asyncio.run(cancelled())
    proxy.restore()
    (span,) = traces.named("read")
    assert span.parent is not None
    assert span.parent.span_id == parent
    assert span.attributes["error.type"] == "cancelled"
    assert span.status.status_code is StatusCode.ERROR
    assert span.start_time < span.end_time


def test_an_outage_is_an_error_of_its_cause(traces: Traces, proxy, settings, new_session) -> None:
    key = new_session().session_key
    settings.CACHES = caches(proxy.url, timeout=TIMEOUT)
    SessionStore(key).load()
    traces.clear()
    proxy.refuse()
    with pytest.raises(SessionStoreUnavailable):
        SessionStore(key).load()
    proxy.restore()
    end_outage()
    first, *_ = traces.named("read")
    assert first.attributes["error.type"] == "redis.exceptions.ConnectionError"
    assert "db.response.status_code" not in first.attributes
    assert (first.status.status_code, first.status.description) == (StatusCode.ERROR, None)
    failed = [each for each in traces.metrics["db.client.operation.duration"] if "error.type" in each.attributes]
    assert [each.count for each in failed] == [1]
    events = {each.attributes["redsess.event"]: each.value for each in traces.metrics["redsess.events"]}
    assert events == {"outage_begun": 1, "outage_over": 1}


def test_a_refusal_has_the_servers_code(traces: Traces, redis, new_session) -> None:
    session = new_session("7")
    session["text"] = "x" * 10_000
    with full(redis), pytest.raises(SessionStoreUnavailable):
        session.save()
    end_outage()
    (span,) = [span for span in traces.spans if span.status.status_code is StatusCode.ERROR]
    assert span.name == "redsess save"
    assert span.attributes["error.type"] == span.attributes["db.response.status_code"] == "OOM"


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (
            observers.Server("sessions", None, 1, peer="10.0.0.7:6380", command="TIME"),
            {"server.address": "sessions", "network.peer.address": "10.0.0.7", "network.peer.port": 6380},
        ),
        (
            observers.Server("node-1", 7000, 1, peer="[2001:db8::7]:7001", command="TIME"),
            {
                "server.address": "node-1",
                "server.port": 7000,
                "network.peer.address": "2001:db8::7",
                "network.peer.port": 7001,
            },
        ),
        (observers.Server("/run/valkey.sock", None, 1, command="TIME"), {"server.address": "/run/valkey.sock"}),
    ],
    ids=["Sentinel", "cluster", "Unix socket"],
)
def test_a_span_says_which_node_it_was(traces: Traces, where: observers.Server, expected: dict[str, Any]) -> None:
    Traced().operation("time", where, 0.25, None)
    (span,) = traces.spans
    attributes = dict(span.attributes or {})
    assert (attributes["db.operation.name"], attributes["db.namespace"]) == ("TIME", "1")
    assert {name: at for name, at in attributes.items() if name.startswith(("server.", "network."))} == expected
    assert span.start_time is not None
    assert span.end_time is not None
    assert span.end_time - span.start_time == 250_000_000


def test_numbers_of_the_store_are_gauges_and_its_totals_counters(traces: Traces) -> None:
    observers.notify_event("store_counted", signed_in=7, guests=3, lag_seconds=0.5, created=20, guests_limit=None)
    observers.notify_event("store_counted", signed_in=8, guests=2, lag_seconds=0.0, created=21, guests_limit=None)
    gauges = {name: [point.value for point in points] for name, points in traces.metrics.items()}
    assert gauges == {
        "redsess.store.signed_in": [8],
        "redsess.store.guests": [2],
        "redsess.store.lag_seconds": [0.0],
        "redsess.store.created": [21],
    }


def test_without_a_provider_nothing_is_recorded(settings, new_session) -> None:
    settings.REDSESS = {**settings.REDSESS, "OBSERVERS": ["django_redsess.contrib.opentelemetry.Observer"]}
    session = new_session(colour="blue")
    assert SessionStore(session.session_key)["colour"] == "blue"
    assert not trace.get_current_span().is_recording()
    assert len(observers.chosen) == 1


def test_asynchronous_operations_have_the_same_spans(traces: Traces) -> None:
    def names() -> list[str]:
        found = [span.name for span in traces.spans]
        traces.clear()
        return found

    # The first one in a store also reads what the site and the store agree on.
    every_operation.flush(every_operation.create({}))
    names()
    key = every_operation.create({"colour": "blue"})
    every_operation.change(key, {"colour": "red"})
    every_operation.flush(key)
    synchronous = names()

    async def asynchronous() -> None:
        key = await every_operation.acreate({"colour": "blue"})
        await every_operation.achange(key, {"colour": "red"})
        await every_operation.aflush(key)

    asyncio.run(asynchronous())
    assert names() == synchronous
    assert online.count() == 0
