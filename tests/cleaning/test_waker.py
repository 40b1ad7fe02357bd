"""The sleep of a cleaner alone: how long it lasts, what ends it, and what becomes of it when a connection breaks."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import redis as redis_py

from django_redsess.cleaning.wake_up import WakeUpSleeper
from tests.helpers.outages import TIMEOUT, caches, frozen
from tests.helpers.running import asleep, wait_until
from tests.helpers.store import keyspace

pytestmark = pytest.mark.both_servers

of_four = pytest.mark.parametrize("partitions", [4], indirect=True)
"""With one, there is less to wait for, and the same way to do it."""

LONG, SOON = 60, 15
"""Seconds to wait for what ends a wait early, and those that it takes at most, on a machine however slow."""


class Sleeper:
    """A waker, and what can wake it besides the server."""

    def __init__(self) -> None:
        self.waker = WakeUpSleeper(keyspace().partitions)
        self.until, self._other_end = socket.socketpair()

    def sleep(self, seconds: float) -> float:
        """Wait for so long; return how long it was."""
        began = time.monotonic()
        self.waker.sleep(seconds, until=self.until)
        return time.monotonic() - began

    def interrupt(self) -> None:
        self._other_end.send(b".")

    def wait_interrupted(self, seconds: float) -> None:
        """Begin to wait, and be told to do something else, so that the questions are still open."""
        self.interrupt()
        self.sleep(seconds)
        self.until.recv(1)

    def close(self) -> None:
        self.waker.close()
        self.until.close()
        self._other_end.close()


@pytest.fixture
def sleeper() -> Iterator[Sleeper]:
    made = Sleeper()
    yield made
    made.close()


@contextmanager
def once_asleep(client: redis_py.Redis, act: Callable[[], Any]) -> Iterator[None]:
    """Do ``act`` in another thread, as soon as the sleeper waits for the server."""

    def wait_and_act() -> None:
        wait_until(lambda: asleep(client) == 1)
        act()

    thread = threading.Thread(target=wait_and_act)
    thread.start()
    yield
    thread.join()


def waiting(client: redis_py.Redis) -> list[dict[str, str]]:
    """The connections of wakers, whether an answer is outstanding or not."""
    return [each for each in client.client_list() if each["cmd"] == "blpop"]


def ring(client: redis_py.Redis, partition: int = 0) -> None:
    client.lpush(keyspace().partitions[partition].wake, "earlier")


def assert_hears(sleeper: Sleeper, client: redis_py.Redis) -> None:
    """See that a bell ends a wait, whatever happened before."""
    with once_asleep(client, lambda: ring(client)):
        assert sleeper.sleep(LONG) < SOON


def test_a_wait_lasts_its_time(redis, sleeper) -> None:
    for seconds in (0.3, 0.01, 0, -1):
        assert seconds <= sleeper.sleep(seconds) < seconds + SOON


@of_four
def test_a_bell_of_any_partition_ends_the_wait(partitions, redis, sleeper) -> None:
    for partition in range(partitions):
        with once_asleep(redis, lambda partition=partition: ring(redis, partition)):
            assert sleeper.sleep(LONG) < SOON
    assert not any(redis.exists(partition.wake) for partition in keyspace().partitions)


def test_what_becomes_or_is_readable_ends_the_wait(redis, sleeper) -> None:
    with once_asleep(redis, sleeper.interrupt):
        assert sleeper.sleep(LONG) < SOON
    assert sleeper.sleep(LONG) < SOON


def test_a_bell_while_nobody_listens_ends_the_next_wait(redis, partitions, sleeper) -> None:
    ring(redis, partitions - 1)
    assert sleeper.sleep(LONG) < SOON
    # Once only.
    assert sleeper.sleep(0.2) >= 0.2


@of_four
def test_a_bell_between_two_waits_ends_the_second(partitions, redis, sleeper) -> None:
    sleeper.wait_interrupted(LONG)
    wait_until(lambda: asleep(redis) == 1)
    # The server gives it to the connection that still asks: nothing is left for another question.
    ring(redis)
    wait_until(lambda: asleep(redis) == 0)
    assert not redis.exists(keyspace().partitions[0].wake)
    assert sleeper.sleep(LONG) < SOON
    assert sleeper.sleep(0.2) >= 0.2


@of_four
def test_an_answer_without_a_bell_does_not_end_the_next_wait(partitions, redis, sleeper) -> None:
    sleeper.wait_interrupted(0.1)
    # The question outlives its wait, and is answered between the two.
    wait_until(lambda: asleep(redis) == 0)
    assert sleeper.sleep(0.2) >= 0.2
    assert_hears(sleeper, redis)


@of_four
def test_an_answer_to_an_earlier_question_does_not_end_a_longer_wait(partitions, redis, sleeper) -> None:
    sleeper.wait_interrupted(0.2)
    # Answered in the middle of this one, which then has to ask again.
    threading.Timer(0.5, ring, [redis]).start()
    assert 0.4 < sleeper.sleep(LONG) < SOON


@of_four
def test_a_connection_that_is_killed_in_a_wait_or_between_two_is_no_error_and_the_next_hears(
    partitions, redis, sleeper
) -> None:
    def kill() -> None:
        for connection in waiting(redis):
            redis.client_kill_filter(_id=connection["id"])

    with once_asleep(redis, kill):
        assert sleeper.sleep(0.5) >= 0.5
    assert waiting(redis) == []
    assert_hears(sleeper, redis)
    kill()
    assert sleeper.sleep(0.3) >= 0.3
    assert_hears(sleeper, redis)


def test_a_server_that_goes_is_no_error_and_is_heard_again(own_server, settings, sleeper, caplog) -> None:
    settings.CACHES = caches(own_server.url)
    with once_asleep(own_server.client, own_server.stop):
        assert sleeper.sleep(1) >= 1
    # While it is away too.
    assert sleeper.sleep(0.3) >= 0.3
    own_server.start()
    assert_hears(sleeper, own_server.client)
    # Whoever waits finds out by asking for the sessions, and tells that.
    assert caplog.records == []


def test_a_wait_may_be_longer_than_the_time_out_of_other_commands(redis, settings, sleeper) -> None:
    options = {"SOCKET_CONNECT_TIMEOUT": 2, "SOCKET_TIMEOUT": 0.2}
    settings.CACHES = {"sessions": {**settings.CACHES["sessions"], "OPTIONS": options}}
    assert sleeper.sleep(1) >= 1
    [connection] = waiting(redis)
    assert_hears(sleeper, redis)
    assert [each["id"] for each in waiting(redis)] == [connection["id"]]


def test_a_server_that_forbids_to_wait_is_told_once(redis, server, settings, sleeper, caplog) -> None:
    redis.acl_setuser("deaf", enabled=True, passwords=["+pass"], keys=["*"], commands=["+@all", "-blpop"])
    try:
        settings.CACHES = caches(f"redis://deaf:pass@127.0.0.1:{server.port}/0")
        for _ in range(3):
            assert sleeper.sleep(0.2) >= 0.2
    finally:
        redis.acl_deluser("deaf")
    [warning] = caplog.records
    assert (warning.name, warning.levelname) == ("django_redsess", "WARNING")
    assert keyspace().partitions[0].wake in warning.getMessage()
    assert "pass@" not in caplog.text


@of_four
def test_one_connection_waits_for_all_partitions_and_closing_closes_it(partitions, redis) -> None:
    sleeper = Sleeper()
    before = {each["id"] for each in redis.client_list()}
    sleeper.sleep(0.1)
    sleeper.sleep(0.1)
    assert len({each["id"] for each in redis.client_list()} - before) == 1
    sleeper.close()
    wait_until(lambda: {each["id"] for each in redis.client_list()} <= before)


@of_four
def test_calls_of_several_partitions_end_a_wait_each(partitions, redis, sleeper) -> None:
    for partition in range(partitions):
        ring(redis, partition)
    for _ in range(partitions):
        assert sleeper.sleep(LONG) < SOON
    assert sleeper.sleep(0.2) >= 0.2


def test_a_frozen_server_does_not_prolong_a_wait(own_server, settings, sleeper) -> None:
    settings.CACHES = caches(own_server.url, timeout=TIMEOUT)
    with frozen(own_server):
        assert 0.3 <= sleeper.sleep(0.3) < 5
