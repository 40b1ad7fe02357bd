"""Web servers whose clocks are an hour fast or slow: the server's clock alone says what is due and what was when."""

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest

from django_redsess import online, viewed
from django_redsess.backend import SessionStore
from tests.helpers import every_operation
from tests.helpers.child import Child
from tests.helpers.store import keyspace, make_due, make_seen, now_of, stored

pytestmark = pytest.mark.both_servers

HOUR = 3600
MEMBER = {"_auth_user_id": "7", "colour": "blue"}


@pytest.fixture(scope="module")
def children(server) -> Iterator[dict[str, Child]]:
    started = {name: Child(server, ahead_by_seconds=seconds) for name, seconds in {"fast": HOUR, "slow": -HOUR}.items()}
    yield started
    for child in started.values():
        child.close()


@pytest.fixture
def on(children, settings) -> Callable[..., Any]:
    """Return a function that runs an operation on the ``fast`` or the ``slow`` web server, with the same settings."""
    settings.REDSESS = {"TOUCH_INTERVAL": 0}
    settings.SESSION_COOKIE_AGE = 100

    def run(name: str, operation: Callable[..., Any], *args: Any) -> Any:
        shared = {setting: getattr(settings, setting) for setting in ("REDSESS", "SESSION_COOKIE_AGE")}
        return children[name].run(operation, *args, settings=shared).result

    return run


@pytest.fixture(params=["fast", "slow"])
def web_server(request, on) -> Callable[..., Any]:
    """Return a function that runs an operation on a web server with a wrong clock: once a fast one, once a slow one."""
    return lambda operation, *args: on(request.param, operation, *args)


def now(redis: Any) -> float:
    """The server's time, in seconds."""
    return now_of(redis).timestamp()


def seconds_left(redis: Any, session_key: str) -> float:
    """How long the session has until its deadline."""
    sid = SessionStore(session_key).sid
    return float(redis.zscore(keyspace().of_sid(sid).expire, sid)) / 1000 - now(redis)


def seen(session_key: str) -> datetime:
    return online.get(SessionStore(session_key).sid).last_seen_at


def is_about(seconds: float, expected: float) -> bool:
    """Whether a time is the expected one, or a little less for what the test has taken."""
    return expected - 5 < seconds <= expected + 0.001


@pytest.mark.parametrize(("data", "age"), [({}, 100), ({"_session_expiry": 300}, 300)], ids=["default", "set_expiry"])
def test_a_session_lives_as_long_as_it_should(web_server, redis, new_session, data, age: int) -> None:
    key = web_server(every_operation.create, {**MEMBER, **data})
    assert is_about(seconds_left(redis, key), age)
    web_server(every_operation.change, key, {"colour": "red"})
    # A save may move the deadline by a twentieth more, so that the next need not.
    assert age - 5 < seconds_left(redis, key) <= age * 1.05 + 1
    assert SessionStore(key)["colour"] == "red"
    # One that was stored by another server.
    key = new_session("7", colour="blue", _session_expiry=2 if age == 300 else 100).session_key
    assert web_server(every_operation.request, key, {})["data"]["colour"] == "blue"
    assert web_server(every_operation.request, key, {"colour": "red"})["cookie"] == key
    assert SessionStore(key)["colour"] == "red"


def test_what_is_due_is_over_and_nothing_else_is_cleaned(web_server, redis, new_session) -> None:
    due = [new_session("8") for _ in range(3)]
    kept = new_session("7", colour="blue")
    make_due(redis, *[session.sid for session in due])
    assert web_server(every_operation.request, due[0].session_key, {})["data"] == {}
    assert not web_server(every_operation.view, due[0].session_key, "lamp")
    # The list of who is online takes out what new sessions leave.
    web_server(every_operation.create, {"colour": "red"})
    assert web_server(every_operation.count) == 1
    assert web_server(every_operation.clean) == 0
    assert stored(redis) == 2
    assert [session.sid for session in online.sessions()] == [kept.sid]


def test_the_idle_limit_counts_from_the_servers_time(web_server, settings, redis) -> None:
    settings.REDSESS = {"TOUCH_INTERVAL": 1, "IDLE_TIMEOUT": 60}
    key = web_server(every_operation.create, MEMBER)
    assert is_about(seconds_left(redis, key), 63)
    web_server(every_operation.change, key, {"colour": "red"})
    assert is_about(seconds_left(redis, key), 63)


@pytest.mark.parametrize(("first", "second"), [("fast", "slow"), ("slow", "fast")])
def test_the_absolute_limit_counts_from_sign_in_whoever_saves(on, settings, first: str, second: str) -> None:
    settings.REDSESS = {"TOUCH_INTERVAL": 0, "ABSOLUTE_TIMEOUT": 60}
    key = on(first, every_operation.create, MEMBER)
    for name in (second, first):
        on(name, every_operation.change, key, {"by": name})
        on(name, every_operation.request, key, {})
        [session] = online.sessions()
        assert session.expires_at - session.created_at == timedelta(seconds=60)
    on(second, every_operation.rotate, key)
    [session] = online.sessions()
    assert session.expires_at - session.created_at == timedelta(seconds=60)


@pytest.mark.parametrize(("limit", "expected"), [({"SLIDING": True}, 105), ({"IDLE_TIMEOUT": 60}, 63)])
def test_a_deadline_moves_with_a_request_from_the_servers_time(web_server, settings, redis, limit, expected) -> None:
    settings.REDSESS = {"TOUCH_INTERVAL": 0, **limit}
    key = web_server(every_operation.create, MEMBER)
    sid = SessionStore(key).sid
    redis.zincrby(keyspace().of_sid(sid).expire, -40_000, sid)
    web_server(every_operation.request, key, {})
    assert is_about(seconds_left(redis, key), expected)


def test_login_and_last_seen_are_the_servers_time_and_never_decrease(on, redis) -> None:
    for name, ahead in {"fast": HOUR, "slow": -HOUR}.items():
        assert all(abs(time - now(redis) - ahead) < 60 for time in on(name, every_operation.clock))
    guest = on("fast", every_operation.create, {"colour": "blue"})
    on("slow", every_operation.sign_in, guest, "8")
    key = on("fast", every_operation.create, MEMBER)
    for session in online.sessions():
        assert is_about(now(redis) - session.created_at.timestamp(), 5)
    times = [seen(key)]
    for number in range(3):
        for name in ("fast", "slow"):
            on(name, every_operation.request, key, {})
            times.append(seen(key))
            on(name, every_operation.change, key, {"number": number})
            times.append(seen(key))
    assert times == sorted(times)
    assert is_about(now(redis) - times[0].timestamp(), 5)
    assert times[-1] - times[0] < timedelta(seconds=10)


@pytest.mark.parametrize("data", [{}, {"colour": "red"}], ids=["read", "changed"])
def test_last_seen_does_not_go_back_with_the_servers_own_clock(web_server, redis, new_session, data) -> None:
    session = new_session("7", colour="blue")
    in_an_hour = redis.time()[0] * 1000 + HOUR * 1000
    make_seen(redis, session.sid, in_an_hour)
    web_server(every_operation.request, session.session_key, data)
    assert seen(session.session_key).timestamp() == in_an_hour / 1000
    assert [found.last_seen_at.timestamp() for found in online.sessions()] == [in_an_hour / 1000]


def test_viewed_items_are_in_the_order_of_their_views(on, redis, new_session) -> None:
    session = new_session("7")
    for number, name in enumerate(["fast", "slow", "fast", "slow"]):
        assert on(name, every_operation.view, session.session_key, f"item {number}")
    found = viewed.recent(session)
    assert [item.item for item in found] == ["item 3", "item 2", "item 1", "item 0"]
    assert is_about(now(redis) - found[0].at.timestamp(), 5)
