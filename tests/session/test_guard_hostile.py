"""What a thief tries, and what an operator meets: each found by somebody who read the code to break it."""

from collections.abc import Callable
from typing import Any

import pytest
from django.http import HttpRequest

from django_redsess import online
from django_redsess.backend import SessionStore
from django_redsess.exceptions import SessionNotProven
from django_redsess.middleware import visit_of
from django_redsess.session import binding
from django_redsess.session.binding import Binding
from django_redsess.signals import RequestScope

BINDING = Binding(b"an  id  ", 1_790_000_000_000, 1_790_000_000_000, b"\x02" * 33)


class Strict:
    """A guard that takes only these requests for proven."""

    def __init__(self) -> None:
        self.proven: list[HttpRequest] = []

    def prepare(self, request: HttpRequest, session: SessionStore) -> None:
        pass

    def claim(self, request: Any) -> bytes:
        return BINDING.id if request in self.proven else b""

    def admits(self, session: SessionStore, request: Any, *about: Any) -> bool:
        if request not in self.proven:
            raise SessionNotProven("not proven")
        return True


@pytest.fixture
def strict(monkeypatch) -> Strict:
    guard = Strict()
    monkeypatch.setattr(binding, "guard", guard)
    return guard


@pytest.fixture
def bound(new_session, strict) -> SessionStore:
    session: SessionStore = new_session("7", colour="blue")
    session.bind(BINDING)
    session.save()
    return session


def empty_and_rotate(session: SessionStore) -> None:
    session.clear()
    session.cycle_key()


def rotated_and_saved(session: SessionStore) -> None:
    empty_and_rotate(session)
    session.save()


def rotated_and_deleted(session: SessionStore) -> None:
    empty_and_rotate(session)
    session.delete()


def rotated_and_flushed(session: SessionStore) -> None:
    empty_and_rotate(session)
    session.flush()


@pytest.mark.parametrize("way", [rotated_and_saved, rotated_and_deleted, rotated_and_flushed])
@pytest.mark.parametrize("is_proven", [True, False])
def test_a_session_that_is_emptied_and_gets_a_new_key_is_asked_for_under_its_old_one(
    bound, strict, way: Callable[[SessionStore], None], is_proven: bool
) -> None:
    request: Any = HttpRequest()
    request.COOKIES["sessionid"] = bound.session_key
    request.session = SessionStore(bound.session_key)
    if is_proven:
        strict.proven.append(request)
    with RequestScope(request, visit_of):
        if is_proven:
            way(request.session)
        else:
            with pytest.raises(SessionNotProven):
                way(request.session)
    assert (online.get(str(bound.sid)) is None) is is_proven
