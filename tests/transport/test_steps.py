"""The two drivers of steps, and what steps are given for what they yield."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import ResponseError

from django_redsess.signals import EndedSession, Reason, session_ended
from django_redsess.transport.connections import pool
from django_redsess.transport.keys import keyspace
from django_redsess.transport.round_trips import Plain, SendSignal, Steps, adrive, drive
from django_redsess.transport.sending import Pause, Send, command
from testproject.servers import free_port
from tests.helpers.outages import caches

PING = command("PING")

Driver = Callable[[Steps[Any]], Any]


@pytest.fixture(params=["threads", "tasks"])
def driven(request: pytest.FixtureRequest) -> Driver:
    """Either of the two drivers."""
    return drive if request.param == "threads" else lambda steps: asyncio.run(adrive(steps))


def test_steps_are_sent_the_replies_errors_among_them(driven: Driver) -> None:
    def asking() -> Steps[Any]:
        (error,) = yield Send(pool(), command("HGET", "no"), 1)
        return error, (yield Send(pool(), PING * 2, 2))

    error, replies = driven(asking())
    assert (type(error), replies) == (ResponseError, [b"PONG"] * 2)


def test_steps_are_thrown_what_the_connection_met(driven: Driver, settings: Any) -> None:
    there, settings.CACHES = settings.CACHES, caches(f"redis://127.0.0.1:{free_port()}/0")

    def asking() -> Steps[Any]:
        try:
            yield Send(pool(), PING, 1)
        except RedisConnectionError:
            settings.CACHES = there
        return (yield Send(pool(), PING, 1))

    assert driven(asking()) == [b"PONG"]


def test_steps_go_on_after_a_pause(driven: Driver) -> None:
    def pausing() -> Steps[Any]:
        return (yield from Pause(0.001)), (yield from Plain(keyspace().partitions[0], "ping", PING, 1, list))

    assert driven(pausing()) == (None, [b"PONG"])


def test_receivers_are_told_before_the_next_step(driven: Driver) -> None:
    told = []
    ended = EndedSession("0" * 20, "7", Reason.KICKED, datetime.now(UTC))

    def receive(signal: Any, sender: type[EndedSession], **named: Any) -> None:
        told.append(sender(**named))

    def ending() -> Steps[Any]:
        yield SendSignal(ended)
        return list(told)

    session_ended.connect(receive)
    try:
        assert driven(ending()) == [ended]
    finally:
        session_ended.disconnect(receive)
