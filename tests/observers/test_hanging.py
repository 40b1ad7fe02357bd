"""An exporter that hangs holds up no request."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import sentry_sdk
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from sentry_sdk.envelope import Envelope
from sentry_sdk.transport import HttpTransport

from django_redsess.backend import SessionStore
from tests.helpers.traces import reporting, traced

QUEUE = 50
"""How many spans OpenTelemetry keeps for an exporter that hangs. The others are dropped."""


class Hanging:
    """Hangs until it is let go."""

    def __init__(self) -> None:
        self.hangs, self.let_go = threading.Event(), threading.Event()

    def __call__(self) -> None:
        self.hangs.set()
        assert self.let_go.wait(60)


@pytest.fixture
def hanging() -> Iterator[Hanging]:
    hanging = Hanging()
    yield hanging
    hanging.let_go.set()


def use_sessions(session: SessionStore, times: int) -> None:
    for number in range(times):
        found = SessionStore(session.session_key)
        found["number"] = number
        found.save()


def test_of_opentelemetry(settings, hanging: Hanging, new_session) -> None:
    class Exporter(SpanExporter):
        def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
            hanging()
            return SpanExportResult.SUCCESS

    with traced(settings) as traces:
        traces.provider.add_span_processor(
            BatchSpanProcessor(Exporter(), QUEUE, schedule_delay_millis=10, max_export_batch_size=10)
        )
        session = new_session()
        assert hanging.hangs.wait(30)
        use_sessions(session, 2 * QUEUE)
        # It has hung all the time: nobody has waited for it.
        assert not hanging.let_go.is_set()
        assert len(traces.named("read")) == 2 * QUEUE
        hanging.let_go.set()


def test_of_sentry(settings, hanging: Hanging, new_session) -> None:
    class Sending(HttpTransport):
        def _send_envelope(self, envelope: Envelope) -> Any:
            hanging()

    # Sentry's integrations would change Django for all tests after this one.
    bare = sentry_sdk.Client(
        "http://public@127.0.0.1:1/1", default_integrations=False, auto_enabling_integrations=False
    )
    with reporting(settings, Sending({**bare.options})):
        session = new_session()
        with sentry_sdk.start_transaction(name="GET"):
            use_sessions(session, 1)
        assert hanging.hangs.wait(30)
        # More than Sentry keeps for sending.
        for _ in range(150):
            with sentry_sdk.start_transaction(name="GET"):
                use_sessions(session, 1)
        assert not hanging.let_go.is_set()
        hanging.let_go.set()
    assert SessionStore(session.session_key)["number"] == 0
