"""No trace, metric or breadcrumb has a session key, a sid, a user or the text of an error, whatever is done."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
import sentry_sdk
from redis.exceptions import RedisError

from django_redsess.exceptions import SessionStoreUnavailable
from tests.helpers import every_operation
from tests.helpers.outages import TIMEOUT, caches, end_outage, full
from tests.helpers.slot_operations import OPERATIONS, World, reads_of
from tests.helpers.traces import Traces, reporting, traced, words

USER = "7301"

OF_SPANS = {
    *("db.system.name", "db.query.summary", "db.operation.name", "db.operation.batch.size", "db.namespace"),
    *("db.stored_procedure.name", "db.response.status_code", "server.address", "server.port", "error.type"),
    *("network.peer.address", "network.peer.port"),
}

IDENTIFIER = re.compile(r"[A-Za-z0-9_-]{18,}")
"""Whatever is as long as a sid or a session key, and may be one."""


@contextmanager
def observed(settings: Any, kind: str) -> Iterator[Any]:
    """Observe in this way, and yield a function that returns all texts that were exported, and how many spans."""
    if kind == "opentelemetry":
        with traced(settings) as traces:
            yield lambda: _of(traces)
        return
    with reporting(settings, traces_sampler=lambda context: True, _experiments={"max_spans": 10_000}) as sentry:
        transaction = sentry_sdk.start_transaction(name="all")
        transaction.__enter__()

        def found() -> tuple[list[str], int]:
            sentry_sdk.capture_message("end")
            transaction.__exit__(None, None, None)
            spans = sentry.spans
            crumbs = sentry.sent[0].get("breadcrumbs", {}).get("values", [])
            return list(words([_without_ids(each) for each in [*spans, *crumbs]])), len(spans)

        yield found


def _of(traces: Traces) -> tuple[list[str], int]:
    assert {name for span in traces.spans for name in span.attributes or {}} <= OF_SPANS
    return traces.texts(), len(traces.spans)


def _without_ids(told: dict[str, Any]) -> dict[str, Any]:
    """Leave out the numbers of traces and spans, which are random."""
    return {name: told.get(name) for name in ("op", "description", "status", "tags", "data", "message", "category")}


def assert_nothing_is_told(texts: list[str], *secrets: str) -> None:
    # Not compared in the assert: its output would show them.
    told = {text for text in texts if IDENTIFIER.search(re.sub(r"redis\.exceptions\.\w+", "", text))}
    told -= {text for text in told if text.startswith(("db.", "redsess"))}
    are_told = len(told) + sum(secret in text for text in texts for secret in secrets)
    assert are_told == 0


KINDS = pytest.mark.parametrize("kind", ["opentelemetry", "sentry"])


@KINDS
def test_by_no_operation(settings, redis, kind: str) -> None:
    with observed(settings, kind) as found:
        for operation in OPERATIONS:
            world = World(redis)
            next(operation(world))
            redis.flushall()
        world = World(redis)
        for read in reads_of(world).values():
            read()
        redis.flushall()
        texts, spans = found()
    assert spans > 10 * len(OPERATIONS)
    assert_nothing_is_told(texts, "192.0.2.1", "Mozilla", "Call us", "lamp", "blue")
    assert not {"6", "7", "8", "9"} & set(texts)


async def use() -> list[str]:
    """Do all that there is for asynchronous sites. Return the keys of the sessions."""
    keys = [await every_operation.acreate({"colour": "blue", "_auth_user_id": USER}) for _ in range(3)]
    await every_operation.achange(keys[0], {"name": "alice"})
    await every_operation.asign_in(keys[0], USER)
    await every_operation.arotate(keys[1])
    await every_operation.aflush(keys[2])
    return keys


@KINDS
def test_by_no_asynchronous_operation(settings, kind: str) -> None:
    with observed(settings, kind) as found:
        keys = asyncio.run(use())
        texts, spans = found()
    assert spans > 3
    assert_nothing_is_told(texts, *keys, USER, "alice")


@KINDS
@pytest.mark.parametrize("how", ["refused", "silent", "full", "wrong type"])
def test_by_no_outage_and_no_error(settings, redis, proxy, kind: str, how: str) -> None:
    key = every_operation.create({"colour": "blue", "_auth_user_id": USER})
    settings.CACHES = caches(proxy.url, timeout=TIMEOUT)
    with observed(settings, kind) as found:
        with suppress(SessionStoreUnavailable, RedisError):
            if how == "full":
                with full(redis):
                    every_operation.change(key, {"text": "x" * 10_000})
            elif how == "wrong type":
                # As if something foreign had written there.
                for name in redis.keys():
                    redis.delete(name)
                    redis.set(name, f"alice {USER}")
                every_operation.change(key, {"colour": "red"})
            else:
                proxy.refuse() if how == "refused" else proxy.silence()
                every_operation.change(key, {"colour": "red"})
        proxy.restore()
        redis.flushall()
        end_outage()
        texts, spans = found()
    assert spans > 0
    assert {"error.type"} & set(texts)
    assert_nothing_is_told(texts, key, USER, "alice")
