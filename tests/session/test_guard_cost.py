"""What a guard costs: nothing without the app; with it, no round trip more, and no call more for a session unbound."""

import gc
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
from django.http import HttpRequest

from django_redsess import online
from django_redsess.backend import SessionStore
from django_redsess.session import binding
from django_redsess.session.binding import Binding
from django_redsess.session.client import Client
from django_redsess.session.state import Visit
from django_redsess.transport.connections import server_of
from django_redsess.transport.keys import keyspace
from tests.session.visits import opened

BINDING = Binding(b"an  id  ", 1_790_000_000_000, 1_790_000_000_000, b"\x02" * 33)
OF_THE_GUARD = {"claim", "is_admitted", "proving", "proving_own", "_deleting_proven", "bringing_request", "bind"}


class Guard:
    """Takes every request for one that proves the binding."""

    asked = 0

    def prepare(self, request: HttpRequest, session: SessionStore) -> None:
        pass

    def claim(self, request: Any) -> bytes:
        return BINDING.id

    def admits(self, *about: Any) -> bool:
        self.asked += 1
        return True


@pytest.fixture
def unguarded(monkeypatch) -> None:
    monkeypatch.setattr(binding, "guard", None)


@pytest.fixture
def guard(monkeypatch) -> Guard:
    guard = Guard()
    monkeypatch.setattr(binding, "guard", guard)
    return guard


def called(run: Callable[[], object]) -> list[str]:
    """Return the names of the functions of Python that ``run`` calls."""
    names: list[str] = []

    def note(frame: FrameType, event: str, arg: object) -> None:
        if event == "call":
            names.append(frame.f_code.co_name)

    gc.disable()
    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(None)
        gc.enable()
    return names[1:]


def sign_in(session: SessionStore) -> None:
    session["_auth_user_id"] = "8"
    session.signed_in()
    session.save()


def change(session: SessionStore) -> None:
    session["colour"] = "red"
    session.save()


WAYS: dict[str, Callable[[SessionStore], object]] = {
    "load": lambda session: opened(session),
    "save": lambda session: change(opened(session)),
    "create": lambda session: SessionStore().create(),
    "new key": lambda session: (session.cycle_key(), session.save()),
    "sign-in": lambda session: sign_in(SessionStore()),
    "delete": lambda session: session.delete(),
    "delete by key": lambda session: SessionStore().delete(session.session_key),
    "flush": lambda session: session.flush(),
    "end": lambda session: online.end(str(session.sid)),
}


@pytest.mark.usefixtures("unguarded")
@pytest.mark.parametrize("way", WAYS)
def test_without_a_guard_nothing_asks_for_it(new_session, way: str) -> None:
    session = new_session("7", colour="blue")
    assert not OF_THE_GUARD.intersection(called(lambda: WAYS[way](session)))


@pytest.fixture
def bound(new_session, guard) -> SessionStore:
    session: SessionStore = new_session("7", colour="blue")
    session.bind(BINDING)
    session.save()
    return session


def brought(session: SessionStore) -> SessionStore:
    """Return the session as the middleware opens it for a request."""
    found = SessionStore(session.session_key)
    found.visit, found.brought_by = Visit(lambda: Client("192.0.2.1", "Mozilla")), HttpRequest()
    return found


def forget() -> None:
    """Go on as a process that has touched no session yet."""
    for partition in keyspace().partitions:
        server_of(partition).invalidate_reads()


def test_an_unbound_load_calls_no_function_more_with_a_guard(monkeypatch, settings, new_session, guard) -> None:
    settings.REDSESS = {**settings.REDSESS, "TOUCH_INTERVAL": 1_000_000}
    session = new_session("7", colour="blue")
    opened(session)
    with_guard = called(brought(session).load)
    monkeypatch.setattr(binding, "guard", None)
    assert called(brought(session).load) == with_guard
    assert not guard.asked


@pytest.mark.parametrize("is_bound", [False, True])
def test_a_load_takes_one_round_trip_with_a_guard(new_session, guard, round_trips, bound, is_bound: bool) -> None:
    session = bound if is_bound else new_session("8", colour="blue")
    opened(session)
    forget()
    round_trips()
    # The first touches the session, the second does not.
    for _ in range(2):
        assert brought(session)["colour"] == "blue"
        assert round_trips() == 1
    assert guard.asked == (2 if is_bound else 0)


def test_a_bound_session_is_saved_in_one_round_trip_and_ends_in_two(guard, round_trips, bound) -> None:
    session = brought(bound)
    session.get("colour")
    round_trips()
    change(session)
    assert round_trips() == 1
    # The end loads it first: only the record says that it is bound.
    brought(session).delete()
    assert round_trips() == 2
    assert guard.asked == 2
