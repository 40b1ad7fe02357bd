"""
Two requests to one session, of a process of each step: whatever the order of what they write and read.

Operations are generators of what they wait for. So a test can let each of several go on by one, in any order, and can
stop one in the middle, as a process that is killed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

import pytest
from django.conf import settings
from django.contrib.sessions.backends.base import UpdateError
from django.contrib.sessions.models import Session
from django.test import override_settings

from django_redsess import online
from django_redsess.contrib.moving import SessionStore
from tests.helpers.properties import cases
from tests.helpers.store import Steps, drive

pytestmark = [
    pytest.mark.usefixtures("partitions", "moving"),
    pytest.mark.parametrize("partitions", [4], indirect=True),
]

NOT_STARTED = object()
ORDERS = 60
"""How many orders CI tries, of all that there are."""


class Work:
    """An operation of a process at this step, which goes on by one thing that it waits for."""

    def __init__(self, at: Any, number: int, steps: Steps[Any]) -> None:
        self._at, self._number, self._steps = at, number, steps
        self._wanted: Any = NOT_STARTED
        self.done = False
        self.error: BaseException | None = None
        self.result: Any = None

    def go_on(self) -> None:
        with self._at(self._number):
            try:
                if self._wanted is NOT_STARTED:
                    self._wanted = next(self._steps)
                    return
                try:
                    reply = drive(_only(self._wanted))
                except Exception as error:
                    self._wanted = self._steps.throw(error)
                else:
                    self._wanted = self._steps.send(reply)
            except StopIteration as end:
                self.done, self.result = True, end.value
            except UpdateError as error:
                self.done, self.error = True, error

    def fail(self, error: Exception) -> None:
        """Do what it waits for, but have it learn nothing but this error."""
        with self._at(self._number):
            drive(_only(self._wanted))
            self._steps.throw(error)


def _only(wanted: Any) -> Steps[Any]:
    return (yield wanted)


def turns(first: int, second: int) -> Iterator[list[int]]:
    """Some of the orders in which one can go on so many times, and the other so many: which one is next."""
    random, order = Random(1), [0] * first + [1] * second
    for _ in range(cases(ORDERS)):
        random.shuffle(order)
        yield list(order)


def together(order: list[int], works: list[Work]) -> None:
    for number in order:
        if not works[number].done:
            works[number].go_on()
    for work in works:
        while not work.done:
            work.go_on()


def change(session: SessionStore) -> Steps[None]:
    data = yield from session.opening()
    data["colour"] = "red"
    session.modified = True
    yield from session.saving()


def new_key(session: SessionStore) -> Steps[None]:
    yield from session.cycling()
    yield from session.saving()


def end(session: SessionStore) -> Steps[None]:
    yield from session.opening()
    yield from session.flushing()


@pytest.fixture
def found(step: Any) -> Any:
    """Return a function that loads a session in both steps, and returns what is found."""

    def load(key: str) -> dict[str, Any]:
        seen = []
        for number in (1, 2, 1):
            with step(number):
                seen.append(SessionStore(key).load())
        assert seen[0] == seen[1] == seen[2]
        return seen[0]

    return load


def test_a_change_of_the_first_step_survives_a_move(old_session, step, found) -> None:
    for order in turns(8, 12):
        key = old_session("7", basket=1).session_key
        late, moves = SessionStore(key), SessionStore(key)
        works = [Work(step, 1, change(late)), Work(step, 2, moves.opening())]
        together(order, works)
        assert works[0].error is None
        assert works[1].result["basket"] == 1
        assert found(key) == {"_auth_user_id": "7", "basket": 1, "colour": "red"}
        assert online.count() == 1
        online.end(*(each.sid for each in online.sessions()))


def test_two_changes_survive_a_move(old_session, step, found) -> None:
    def put(session: SessionStore) -> Steps[None]:
        data = yield from session.opening()
        data["size"] = "L"
        yield from session.saving()

    for order in turns(8, 14):
        key = old_session(basket=1).session_key
        late, moves = SessionStore(key), SessionStore(key)
        works = [Work(step, 1, change(late)), Work(step, 2, put(moves))]
        together(order, works)
        assert [work.error for work in works] == [None, None]
        assert found(key) == {"basket": 1, "colour": "red", "size": "L"}


def test_an_end_beside_a_move_is_an_end(old_session, step, found) -> None:
    for index, order in enumerate(turns(9, 12)):
        number = 1 + index % 2
        key = old_session("7", basket=1).session_key
        row = Session.objects.get(pk=key)
        ends, moves = SessionStore(key), SessionStore(key)
        together(order, [Work(step, number, end(ends)), Work(step, 2, moves.opening())])
        assert found(key) == {}
        assert online.count() == 0
        # A process of the release before writes it once more.
        row.save(force_insert=True)
        assert found(key) == {}


def test_an_end_between_a_copy_and_its_mark_is_an_end(old_session, step) -> None:
    """It is by a process that does not know yet by which secret key the session gets its new key."""
    key = old_session("7", basket=1).session_key

    @contextmanager
    def newer(number: int) -> Iterator[None]:
        secrets = {"SECRET_KEY": "newer", "SECRET_KEY_FALLBACKS": [settings.SECRET_KEY]}
        with step(number), override_settings(**secrets):
            yield

    moves = Work(newer, 2, SessionStore(key).opening())
    while online.count() == 0:
        moves.go_on()
    with step(1):
        SessionStore(key).flush()
    while not moves.done:
        moves.go_on()
    assert online.count() == 0


def test_a_new_key_beside_a_move_is_the_only_one(old_session, step, found) -> None:
    for index, order in enumerate(turns(10, 12)):
        number = 1 + index % 2
        data = {"basket": 1, **({"_auth_user_id": "7"} if index % 3 else {})}
        key = old_session(**data).session_key
        renews, moves = SessionStore(key), SessionStore(key)
        works = [Work(step, number, new_key(renews)), Work(step, 2, moves.opening())]
        together(order, works)
        assert works[0].error is None
        assert renews.session_key != key
        assert found(key) == {}
        assert found(renews.session_key) == data
        with step(2):
            SessionStore(renews.session_key).load()
        assert len(online.end(*(each.sid for each in online.sessions(guests=True)))) == 1


def test_six_requests_at_once_move_a_session_once(old_session, step) -> None:
    random = Random(2)
    for _ in range(cases(ORDERS)):
        key = old_session("7", basket=1).session_key
        sessions = [SessionStore(key) for _ in range(6)]
        works = [Work(step, 2, session.opening()) for session in sessions]
        together([random.randrange(6) for _ in range(60)], works)
        assert [work.result for work in works] == [{"_auth_user_id": "7", "basket": 1}] * 6
        assert len({session.session_key for session in sessions}) == 1
        assert online.count() == 1
        online.end(*(each.sid for each in online.sessions()))


LOST = "its reply is lost"
KILLED = "the process is killed"


@pytest.mark.parametrize("what", [KILLED, LOST])
def test_a_move_that_stops_anywhere_signs_nobody_out(old_session, step, found, what: str) -> None:
    for times in range(1, 14):
        key = old_session("7", basket=1).session_key
        stop(Work(step, 2, SessionStore(key).opening()), times, what)
        assert found(key) == {"_auth_user_id": "7", "basket": 1}
        with step(2):
            SessionStore(key).load()
        assert online.count() == 1
        online.end(*(each.sid for each in online.sessions()))


@pytest.mark.parametrize("what", [KILLED, LOST])
@pytest.mark.parametrize("number", [1, 2])
def test_an_end_that_stops_anywhere_can_be_repeated(old_session, step, found, number: int, what: str) -> None:
    for times in range(1, 14):
        key = old_session("7", basket=1).session_key
        row = Session.objects.get(pk=key)
        stop(Work(step, number, end(SessionStore(key))), times, what)
        with step(number):
            SessionStore(key).flush()
        Session.objects.filter(pk=key).delete()
        row.save(force_insert=True)
        assert found(key) == {}
        assert online.count() == 0


def stop(work: Work, times: int, what: str) -> None:
    """Let it do so many things, and no more."""
    for _ in range(times):
        if not work.done:
            work.go_on()
    if what == LOST and not work.done:
        with pytest.raises(ConnectionError):
            work.fail(ConnectionError())
