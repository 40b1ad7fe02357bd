"""Observers: what they are told, by whom, and what they cost where there are none."""

import asyncio
import gc
import logging
import socket
import sys
import threading
import time
from collections.abc import Iterator
from types import CodeType, FrameType
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import timezone
from redis.exceptions import OutOfMemoryError

from django_redsess import cleaning, observers, online
from django_redsess.backend import SessionStore
from django_redsess.cleaning import wake_up
from django_redsess.exceptions import SessionLimitReached, SessionStoreUnavailable, SignInRefused
from django_redsess.observers import Server
from tests.helpers import checks, every_operation
from tests.helpers.outages import TIMEOUT, caches, frozen, full, lines_of
from tests.helpers.public_names import source
from tests.helpers.running import ROOT
from tests.helpers.store import attempts, keyspace

HERE = f"{__name__}.{{}}"


class Notes:
    """Keeps what it is told."""

    operations: list[tuple[str, Server, float, BaseException | None]] = []
    events: list[tuple[str, dict[str, object]]] = []

    def operation(self, name: str, server: Server, seconds: float, error: BaseException | None) -> None:
        self.operations.append((name, server, seconds, error))

    def event(self, name: str, **facts: object) -> None:
        self.events.append((name, facts))


class Fails(Notes):
    def operation(self, name: str, server: Server, seconds: float, error: BaseException | None) -> None:
        raise ArithmeticError(name)


class Slow(Notes):
    """Takes too long: so much goes the clock on that it is measured by."""

    now, takes = 0.0, 0.0

    def operation(self, name: str, server: Server, seconds: float, error: BaseException | None) -> None:
        super().operation(name, server, seconds, error)
        Slow.now += Slow.takes

    def event(self, name: str, **facts: object) -> None:
        super().event(name, **facts)
        Slow.now += Slow.takes


class Sleeps(Notes):
    def operation(self, name: str, server: Server, seconds: float, error: BaseException | None) -> None:
        super().operation(name, server, seconds, error)
        time.sleep(0.05)


ELSEWHERE = ("rotate", "viewed", "recent_items", "time")
"""What a sign-in does besides, where the user's home is another partition."""


def names() -> list[str]:
    """Return the names of the operations since the last call."""
    told = [name for name, *_ in Notes.operations]
    Notes.operations.clear()
    return told


def observe(settings: Any, *classes: str) -> None:
    settings.REDSESS = {**settings.REDSESS, "OBSERVERS": [HERE.format(each) for each in classes]}


@pytest.fixture
def notes(redis, settings, known_scripts, new_session) -> Iterator[type[Notes]]:
    observe(settings, "Notes")
    # What a process asks each partition once is asked.
    online.count()
    new_session().flush()
    Notes.operations.clear()
    Notes.events.clear()
    yield Notes
    observe(settings)


def use() -> None:
    """Create a session, read it, change it, sign in, end it."""
    session = SessionStore()
    session["colour"] = "blue"
    session.save()
    session = SessionStore(session.session_key)
    session["colour"] = "red"
    session.save()
    session.cycle_key()
    session["_auth_user_id"] = "7"
    session.signed_in()
    session.save()
    session.flush()


async def ause() -> None:
    session = SessionStore()
    await session.aset("colour", "blue")
    await session.asave()
    session = SessionStore(session.session_key)
    await session.aset("colour", "red")
    await session.asave()
    await session.acycle_key()
    await session.aset("_auth_user_id", "7")
    session.signed_in()
    await session.asave()
    await session.aflush()


@pytest.mark.on_cluster
def test_each_operation_is_told_by_its_name(redis, partitions, notes) -> None:
    use()
    # The user's home may be another partition: then the old session ends there.
    expected = ["create", "read", "save", "sign_in", "end"]
    assert [name for name in names() if name not in ELSEWHERE] == expected
    asyncio.run(ause())
    assert [name for name in names() if name not in ELSEWHERE] == expected
    online.sessions()
    assert set(names()) == {"page"}
    online.end("-" * 20)
    assert set(names()) <= {"end", "time"}


def test_where_it_was_sent_and_as_what(redis, settings, notes, new_session) -> None:
    session = new_session(colour="blue")
    SessionStore(session.session_key).load()
    assert [name for name, *_ in notes.operations] == ["create", "read"]
    (_, created, _, _), (_, read, seconds, error) = notes.operations
    host, port = "127.0.0.1", redis.connection_pool.connection_kwargs["port"]
    assert (read.address, read.port, read.database, read.peer) == (host, port, 0, "")
    # The session was created a moment ago, so the time is known.
    assert (read.script, read.commands) == ("", 2)
    assert (created.script, created.commands > 1) == ("create_fast", True)
    assert 0 < seconds < TIMEOUT * 10
    assert error is None


def test_on_a_cluster_the_node_is_told_beside_the_configured_address(clustered, settings, new_session) -> None:
    observe(settings, "Notes")
    Notes.operations.clear()
    try:
        for _ in range(8):
            new_session()
        told = {server.peer for _, server, _, _ in Notes.operations}
        assert len(told) > 1
        assert all(peer.count(":") == 1 for peer in told)
        assert len({(server.address, server.port) for _, server, _, _ in Notes.operations}) == 1
    finally:
        observe(settings)


def test_without_observers_nothing_is_called(redis, new_session) -> None:
    use()
    called = list[CodeType]()

    def note(frame: FrameType, event: str, arg: object) -> None:
        if event == "call":
            called.append(frame.f_code)

    gc.disable()
    sys.setprofile(note)
    try:
        use()
    finally:
        sys.setprofile(None)
        gc.enable()
    assert len(called) > 100
    assert attempts.notify_observers.__code__ not in called
    assert observers.__file__ not in {code.co_filename for code in called}


def test_observers_that_are_named_no_more_are_called_no_more(redis, settings, notes, new_session) -> None:
    observe(settings)
    new_session()
    assert notes.operations == []


def test_one_that_raises_is_logged_once_and_left_out(redis, settings, notes, caplog, new_session) -> None:
    observe(settings, "Fails", "Notes")
    new_session(colour="blue")
    use()
    assert lines_of(caplog, "django_redsess", logging.ERROR) == [
        "Fails failed, and is not called again in this process."
    ]
    assert {"create", "read", "save", "sign_in", "end"}.issubset(names())


@pytest.fixture
def slow(settings, notes, monkeypatch) -> type[Slow]:
    """Measure observers by a clock that only the slow one moves."""
    Slow.now, Slow.takes = 1000.0, 0.0
    monkeypatch.setattr(observers, "monotonic", lambda: Slow.now)
    observe(settings, "Slow", "Notes")
    # What a process asks once is asked.
    use()
    observers.chosen[0].calls, Slow.takes = 0, 2.0
    return Slow


def calls_in(use: Any) -> tuple[int, int]:
    """Use sessions; return how often the slow observer was called, and how often the other one."""
    began = Slow.now
    Notes.operations.clear()
    use()
    called = round((Slow.now - began) / Slow.takes)
    return called, len(Notes.operations) - called


def test_a_slow_one_costs_one_call_and_pauses_while_the_others_are_told(slow, caplog) -> None:
    assert calls_in(use) == (1, 5)
    assert calls_in(lambda: asyncio.run(ause())) == (0, 5)
    observers.notify_event("conflict_merged", merges=1)
    assert (slow.now, len(Notes.events)) == (1002.0, 1)
    assert lines_of(caplog, "django_redsess", logging.WARNING) == [
        "Slow is too slow, and is not called for 60 s: requests waited for it for 2.0 s (calls: 1)."
    ]


def test_each_pause_of_a_slow_one_is_longer_up_to_an_hour(slow, caplog) -> None:
    pauses = []
    for _ in range(8):
        assert calls_in(use)[0] == 1
        [called] = observers.chosen[:1]
        pauses.append(called.pauses_until - slow.now)
        slow.now = called.pauses_until
    assert pauses == [60, 120, 240, 480, 960, 1920, 3600, 3600]
    # One that was well for long begins anew.
    slow.now += 3601
    assert calls_in(use)[0] == 1
    assert observers.chosen[0].pauses_until - slow.now == 60


def test_what_is_a_little_slow_adds_up_and_what_is_slow_now_and_then_does_not(slow, caplog) -> None:
    slow.takes = 0.055
    for _ in range(10):
        use()
    assert len(lines_of(caplog, "django_redsess", logging.WARNING)) == 1
    assert "1.2 s (calls: 21)" in caplog.text
    caplog.clear()
    slow.now = observers.chosen[0].pauses_until
    for number in range(600):
        slow.takes = 0.4 if number % 100 == 0 else 0.0001
        use_once()
    assert lines_of(caplog, "django_redsess", logging.WARNING) == []


def use_once() -> None:
    observers.notify_event("conflict_merged", merges=1)


def test_one_that_sleeps_is_left_out_after_what_it_may_spare(settings, notes, monkeypatch) -> None:
    monkeypatch.setattr(observers, "SPARE_SECONDS", 0.02)
    observe(settings, "Sleeps")
    use()
    assert len(names()) == 1


def test_an_outage_is_told_when_it_begins_and_when_it_is_over(redis, settings, notes, new_session) -> None:
    session = new_session(colour="blue")
    names()
    with full(redis):
        for _ in range(2):
            with pytest.raises(SessionStoreUnavailable):
                SessionStore(session.session_key).save()
    SessionStore(session.session_key).save()
    failed = [error for _, _, _, error in notes.operations if error is not None]
    assert {type(error.__cause__) for error in failed} == {OutOfMemoryError}
    (begun, begun_facts), (over, over_facts) = notes.events
    assert (begun, begun_facts) == ("outage_begun", {"server": "", "error": "OutOfMemoryError"})
    assert (over, over_facts.pop("server")) == ("outage_over", "")
    assert over_facts.pop("seconds") > 0  # type: ignore[operator]
    assert over_facts == {}


def test_a_silent_server_takes_the_seconds_that_are_told(redis, own_server, settings, notes, new_session) -> None:
    settings.CACHES = {**settings.CACHES, **caches(own_server.url, timeout=TIMEOUT)}
    session = new_session(colour="blue")
    names()
    with frozen(own_server), pytest.raises(SessionStoreUnavailable):
        SessionStore(session.session_key).load()
    [(name, _, seconds, error)] = notes.operations
    # Two attempts.
    assert (name, seconds >= 2 * TIMEOUT, type(error)) == ("read", True, SessionStoreUnavailable)


def test_a_cancelled_request_is_told_too(own_server, settings, notes, new_session) -> None:
    settings.CACHES = {**settings.CACHES, **caches(own_server.url)}
    session = new_session(colour="blue")

    async def cancelled() -> None:
        await SessionStore(session.session_key).aload()
        names()
        with frozen(own_server):
            reading = asyncio.create_task(SessionStore(session.session_key).aload())
            await asyncio.sleep(0.1)
            reading.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reading

    asyncio.run(cancelled())
    [(name, _, seconds, error)] = notes.operations
    assert (name, seconds >= 0.05) == ("read", True)
    assert isinstance(error, asyncio.CancelledError | GeneratorExit)


def test_a_merge_is_told(redis, notes, new_session) -> None:
    session = new_session(colour="blue")
    first, second = SessionStore(session.session_key), SessionStore(session.session_key)
    first["a"], second["b"] = 1, 2
    first.save()
    second.save()
    assert notes.events == [("conflict_merged", {"merges": 1})]


@pytest.mark.django_db
def test_a_refused_sign_in_is_told(redis, settings, notes, client, set_limit) -> None:
    user = User.objects.create_user("lena")
    set_limit(1, "refuse")
    client.force_login(user)
    with pytest.raises(SessionLimitReached):
        type(client)().force_login(user)
    assert notes.events == [("sign_in_refused", {"reason": "limit"})]
    notes.events.clear()
    online.block(user, until=timezone.now() + timezone.timedelta(hours=1))
    with pytest.raises(SignInRefused):
        type(client)().force_login(user)
    assert notes.events == [("sign_in_refused", {"reason": "block"})]
    online.unblock(user)


def test_checks_are_told(redis, notes) -> None:
    checks.messages()
    assert "check" in names()


def test_the_wait_of_the_cleaner_is_told(redis, notes) -> None:
    waker, (readable, other) = wake_up.WakeUpSleeper(keyspace().partitions), socket.socketpair()
    ringing = threading.Timer(0.2, redis.rpush, (keyspace().partitions[0].wake, "1"))
    ringing.start()
    with readable, other:
        waker.sleep(30, until=readable)
    waker.close()
    ringing.join()
    [(name, _, seconds, error)] = notes.operations
    assert (name, 0.1 < seconds < 20, error) == ("wait", True, None)


def test_no_observer_learns_who_it_was(redis, notes) -> None:
    session = SessionStore()
    session["_auth_user_id"] = "4711"
    session.save()
    key, sid = session.session_key, session.sid
    SessionStore(key).load()
    every_operation.end(sid)
    told = repr(notes.operations) + repr(notes.events)
    assert told.count("Server(") >= 3
    for secret in (key, sid, "4711"):
        assert secret not in told
    list(cleaning.expire_sessions())


@pytest.mark.unit
def test_the_reference_names_all_operations_and_events() -> None:
    told = source.operations() | {*source.events()}
    assert {"page", "read", "blocks", "outage_begun", "check", "wait"} <= told
    reference = (ROOT / "docs" / "reference" / "observers.rst").read_text()
    assert [name for name in sorted(told) if f"``{name}``" not in reference] == []
