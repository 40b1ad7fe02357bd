"""Connections: what is an outage, what is a bug, and what is said about it."""

import asyncio
import logging
from typing import Any

import pytest
from redis.exceptions import NoPermissionError, OutOfMemoryError, ResponseError

from django_redsess.backend import SessionStore
from django_redsess.exceptions import SessionStoreUnavailable
from django_redsess.transport import attempts, connections, packing, scripts
from django_redsess.transport.steps import adrive, drive
from tests.helpers import store
from tests.helpers.outages import caches, full
from tests.helpers.pooled import give, take
from tests.helpers.running import wait_until

pytestmark = pytest.mark.both_servers


def test_an_outage_is_logged_when_it_begins_and_when_it_is_over(redis, new_session, caplog) -> None:
    session = new_session(colour="blue")
    caplog.set_level(logging.INFO, logger="django_redsess")
    with full(redis):
        for _ in range(3):
            with pytest.raises(SessionStoreUnavailable):
                SessionStore(session.session_key).save()
            # It still reads: that is no end of the outage.
            assert SessionStore(session.session_key)["colour"] == "blue"
    for _ in range(3):
        SessionStore(session.session_key).save()
    begins, is_over = caplog.records
    assert (begins.levelname, is_over.levelname) == ("ERROR", "INFO")
    assert begins.getMessage().startswith("Sessions can't be reached: OutOfMemoryError: ")
    assert session.session_key not in caplog.text


def test_a_session_that_met_an_outage_asks_no_more(redis, new_session, round_trips) -> None:
    session = SessionStore(new_session(colour="blue").session_key)
    with full(redis), pytest.raises(SessionStoreUnavailable):
        session.save()
    round_trips()
    for use in (session.save, session.load, session.flush, session.cycle_key):
        with pytest.raises(SessionStoreUnavailable):
            use()
    assert round_trips() == 0


TOUCH = packing.pack_command("ZADD", "{redsess}:recent", 1, "sid")
PING = packing.pack_command("PING")


@pytest.fixture(params=["threads", "tasks"])
def fetch(request) -> Any:
    if request.param == "threads":
        return store.fetch
    return lambda *args: asyncio.run(store.afetch(*args))


@pytest.fixture(params=["threads", "tasks"])
def run(request) -> Any:
    """Look no session up, with whatever is sent in front of it."""
    args = "redsess", scripts.FIND, (b"{redsess}:login",), ()
    if request.param == "threads":
        return lambda **more: drive(attempts.run_script(*args, **more))
    return lambda **more: asyncio.run(adrive(attempts.run_script(*args, **more)))


def test_all_replies_are_read_though_an_earlier_one_is_an_error(fetch) -> None:
    wrong = packing.pack_command("HGET", "no")
    pong, *errors, last = fetch("odd", PING + wrong * 3 + packing.pack_command("ECHO", "last"), 5)
    assert (pong, last) == (b"PONG", b"last")
    assert [type(error) for error in errors] == [ResponseError] * 3
    assert fetch("ping", PING, 1) == [b"PONG"]


def test_long_and_many_replies(fetch) -> None:
    # More than is read from a socket at once.
    values = [str(number) * 50_000 for number in range(8)]
    packed = b"".join(packing.pack_command("ECHO", value) + PING for value in values)
    assert fetch("echo", packed, 16) == [part for value in values for part in (value.encode(), b"PONG")]


def test_the_first_reply_decides(fetch, redis) -> None:
    with full(redis):
        with pytest.raises(SessionStoreUnavailable):
            fetch("touch", TOUCH + PING, 2)
        pong, error = fetch("ping", PING + TOUCH, 2)
        assert pong == b"PONG"
        assert isinstance(error, OutOfMemoryError)
    with pytest.raises(ResponseError, match="wrong number"):
        fetch("odd", packing.pack_command("HGET", "no") + PING, 2)
    assert fetch("touch", TOUCH, 1) == [1]
    redis.delete("{redsess}:recent")


def test_what_an_acl_forbids_later_does_not_disturb(fetch, redis, settings, server) -> None:
    redis.acl_setuser("shop", enabled=True, nopass=True, keys=["*"], commands=["+@all", "-zadd"])
    settings.CACHES = caches(server.url.replace("://", "://shop:x@"))
    pong, error = fetch("ping", PING + TOUCH, 2)
    assert (pong, type(error)) == (b"PONG", NoPermissionError)
    with pytest.raises(SessionStoreUnavailable, match="refuses"):
        fetch("touch", TOUCH, 1)
    connections.pool().disconnect()
    redis.acl_deluser("shop")


def test_plain_commands_beside_a_script(run, redis) -> None:
    wrong = packing.pack_command("HGET", "no")
    assert run() == ([0], [])
    reply, (pong, error) = run(extras=attempts.PipelineExtras(PING + wrong, 2))
    assert (reply, pong, type(error)) == ([0], b"PONG", ResponseError)


def test_a_script_that_is_not_known_is_repeated_alone(run, redis) -> None:
    redis.script_flush()
    assert run(extras=attempts.PipelineExtras(packing.pack_command("RPUSH", "{redsess}:list", 1), 1)) == ([0], [1])
    assert redis.delete("{redsess}:list") == 1
    assert run() == ([0], [])


def test_the_clock_is_the_servers(fetch, monkeypatch) -> None:
    monkeypatch.setattr("time.time", lambda: 0.0)
    clock = connections.pool().clock
    (told,) = fetch("time", packing.pack_command("TIME"), 1)
    clock.learn(told)
    at = int(told[0]) * 1000 + int(told[1]) // 1000
    assert clock.now() >= at
    wait_until(lambda: clock.now() >= at + 20)
    # It goes back with the server's.
    clock.learn([b"1000", b"999999"])
    assert 1_000_999 <= clock.now() < at
    assert connections.pool().clock is clock


def test_an_exhausted_pool_is_an_outage(server, settings, new_session) -> None:
    key = new_session(colour="blue").session_key
    settings.CACHES = caches(f"{server.url}?client_name=one", timeout=0.5)
    settings.CACHES["sessions"]["OPTIONS"]["CONNECTION_POOL_KWARGS"] = {"max_connections": 1}
    pool = connections.pool()
    taken = take(pool)
    with pytest.raises(SessionStoreUnavailable):
        SessionStore(key).load()
    give(pool, taken)
    assert SessionStore(key)["colour"] == "blue"
