"""Spans and breadcrumbs of Sentry: inside its transactions, and nowhere else."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import sentry_sdk
from django.contrib.auth.models import User
from django.test import AsyncClient, Client

from django_redsess import observers
from django_redsess.backend import SessionStore
from django_redsess.exceptions import SessionStoreUnavailable
from tests.helpers.outages import TIMEOUT, caches, end_outage
from tests.helpers.traces import Envelopes, reporting
from tests.helpers.visitors import Browser

request = sentry_sdk.start_transaction


@pytest.fixture
def sentry(settings, known_scripts) -> Iterator[Envelopes]:
    with reporting(settings) as envelopes:
        yield envelopes


def test_a_span_says_what_was_done_and_where(sentry: Envelopes, server, new_session) -> None:
    session = new_session()
    with request(name="GET"):
        SessionStore(session.session_key).load()
    (transaction,) = sentry.transactions
    (span,) = transaction["spans"]
    assert (span["op"], span["description"], span["status"]) == ("db.redis", "redsess read", "ok")
    assert span["parent_span_id"] == transaction["contexts"]["trace"]["span_id"]
    expected = {"db.system": "redis", "db.operation": "PIPELINE", "db.name": "0", "server.address": "127.0.0.1"}
    assert {name: span["data"].get(name) for name in expected} == expected
    assert span["data"]["server.port"] == server.port
    assert transaction["start_timestamp"] <= span["start_timestamp"] < span["timestamp"] <= transaction["timestamp"]


def test_outside_of_a_transaction_nothing_is_made(sentry: Envelopes, new_session) -> None:
    SessionStore(new_session().session_key).load()
    assert sentry.sent == []


def test_a_transaction_that_is_not_sampled_gets_no_span(settings, new_session) -> None:
    with reporting(settings, traces_sample_rate=0.0) as sentry:
        with request(name="GET") as transaction:
            SessionStore(new_session().session_key).load()
        assert transaction.sampled is False
        assert sentry.transactions == []
    assert len(observers.chosen) == 1


@pytest.mark.parametrize("client", [Client, AsyncClient])
@pytest.mark.django_db
def test_spans_of_a_request_are_in_its_transaction(sentry: Envelopes, settings, client: Any) -> None:
    alice = User.objects.create_user("alice")
    settings.ROOT_URLCONF = "tests.helpers.site.urls"
    browser = Browser(client())
    browser.sign_in(alice)
    with request(name="GET /who/"):
        for path in (f"{browser.views}/who/", "/who/"):
            assert browser.get(path).content == b"alice"
    assert [span["description"] for span in sentry.spans].count("redsess read") == 2


def test_each_task_and_each_thread_has_its_own_transaction(sentry: Envelopes, new_session) -> None:
    keys = [str(new_session(number=number).session_key) for number in range(8)]

    async def in_a_task(key: str) -> None:
        with sentry_sdk.isolation_scope(), request(name="task"):
            await SessionStore(key).aload()

    def in_a_thread(key: str) -> None:
        with sentry_sdk.isolation_scope(), request(name="thread"):
            SessionStore(key).load()

    async def all_at_once() -> None:
        await asyncio.gather(*map(in_a_task, keys))

    asyncio.run(all_at_once())
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(in_a_thread, keys))
    found = [[span["description"] for span in transaction["spans"]] for transaction in sentry.transactions]
    assert found == [["redsess read"]] * 16


def test_a_cancelled_request_has_its_span(sentry: Envelopes, proxy, settings, new_session) -> None:
    key = new_session().session_key
    settings.CACHES = caches(proxy.url)
    SessionStore(key).load()

    async def cancelled() -> None:
        proxy.silence()
        with request(name="GET"):
            task = asyncio.create_task(SessionStore(key).aload())
            await asyncio.sleep(0.05)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(cancelled())
    proxy.restore()
    (span,) = sentry.spans
    assert (span["description"], span["status"], span["data"]["error.type"]) == (
        "redsess read",
        "cancelled",
        "cancelled",
    )


def test_an_outage_is_unavailable_and_leaves_breadcrumbs(sentry: Envelopes, proxy, settings, new_session) -> None:
    key = new_session().session_key
    settings.CACHES = caches(proxy.url, timeout=TIMEOUT)
    SessionStore(key).load()
    proxy.refuse()
    with request(name="GET"), pytest.raises(SessionStoreUnavailable):
        SessionStore(key).load()
    proxy.restore()
    end_outage()
    (span,) = sentry.spans
    assert (span["status"], span["data"]["error.type"]) == ("unavailable", "redis.exceptions.ConnectionError")
    sentry_sdk.capture_message("Something else has happened.")
    crumbs = [crumb["message"] for crumb in sentry.sent[-1]["breadcrumbs"]["values"] if crumb["category"] == "redsess"]
    assert crumbs == ["outage_begun", "outage_over"]


def test_numbers_of_the_store_leave_no_breadcrumb(sentry: Envelopes) -> None:
    observers.notify_event("store_counted", signed_in=7)
    sentry_sdk.capture_message("Something has happened.")
    assert not sentry.sent[-1].get("breadcrumbs", {}).get("values")


def test_streamed_spans_are_left_to_sentry(settings, new_session) -> None:
    """Such a span begins when it is made, and so can't be made afterwards."""
    with reporting(settings, trace_lifecycle="stream") as sentry:
        with sentry_sdk.traces.start_span(name="GET"):
            session = new_session(colour="blue")
            assert SessionStore(session.session_key)["colour"] == "blue"
        assert sentry.spans == []
    assert len(observers.chosen) == 1
