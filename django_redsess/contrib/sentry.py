"""
Spans and breadcrumbs of Sentry. Public.

Needs the extra ``sentry``.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime

import sentry_sdk
from sentry_sdk.tracing import Span

from django_redsess.observers import Server
from django_redsess.observers.failures import failure_of

__all__ = ["Observer"]

_STATUSES = {"cancelled": "cancelled", "timeout": "deadline_exceeded", "unreachable": "unavailable"}
"""Sentry's statuses, by the outcomes of failures. A server that refuses is an ``internal_error``."""


class Observer:
    """
    Make a span of each operation within Sentry's transaction, and a breadcrumb of each event.

    Name it in ``REDSESS["OBSERVERS"]``. Outside of a transaction, and in one that is not sampled, no span is made. None
    has a session key, a sid, a user, or the text of an error.
    """

    def operation(self, name: str, server: Server, seconds: float, error: BaseException | None) -> None:
        """Make a span that has begun ``seconds`` ago and ends now."""
        parent = sentry_sdk.get_current_span()
        # With `trace_lifecycle="stream"` spans are of another class, and begin when they are made.
        if not isinstance(parent, Span) or not parent.sampled:
            return
        now = time.time()
        span = parent.start_child(
            op="db.redis",
            name=f"redsess {name}",
            origin="auto.db.redsess",
            start_timestamp=datetime.fromtimestamp(now - seconds, UTC),
        )
        span.set_data("db.system", "redis")
        span.set_data("db.operation", server.command if server.commands == 1 else "PIPELINE")
        span.set_data("db.name", str(server.database))
        span.set_data("server.address", server.address)
        if server.port is not None:
            span.set_data("server.port", server.port)
        if server.script:
            span.set_data("db.stored_procedure.name", server.script)
        if server.peer:
            span.set_data("network.peer.address", server.peer)
        if error is None:
            span.set_status("ok")
        else:
            failure = failure_of(error)
            span.set_status(_STATUSES.get(failure.outcome, "internal_error"))
            span.set_data("error.type", failure.type)
        span.finish(end_timestamp=datetime.fromtimestamp(now, UTC))

    def event(self, name: str, **facts: object) -> None:
        """Leave a breadcrumb: an error that Sentry reports later has it. ``store_counted`` leaves none."""
        if name != "store_counted":
            level = "warning" if name in ("outage_begun", "session_not_proven") else "info"
            sentry_sdk.add_breadcrumb(category="redsess", message=name, level=level, data=facts)
