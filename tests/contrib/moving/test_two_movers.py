"""
Two requests that move one session at the same time, and an end of it: whatever the order, nobody is signed in again.

All orders are made: of the steps of both moves, each of which may be killed after any step, and of the end between any
two of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial
from itertools import cycle, islice, product
from random import Random
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command

from django_redsess import online
from django_redsess.backend import SessionStore
from django_redsess.contrib.moving.growing import in_bulk
from django_redsess.contrib.moving.growing.stores import site_stores
from django_redsess.contrib.moving.growing.transfer import transfer_sessions
from tests.contrib.moving.conftest import grow, session_of
from tests.contrib.moving.test_ends import (
    OWN,
    block_for_a_moment,
    deactivate_for_a_moment,
    end_all,
    end_user,
    in_own_store,
    the_store_before,
)
from tests.contrib.moving.test_interleavings import Work
from tests.helpers.properties import cases
from tests.helpers.store import sid_of, using

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("partitions", "moving"),
    pytest.mark.parametrize("partitions", [4], indirect=True),
]


@pytest.fixture
def grows(moving: Any, left_alone: None) -> None:
    grow(moving, **OWN)


def end_by_sid(user: User, key: str) -> None:
    online.end(sid_of(key))


def sign_out(user: User, key: str) -> None:
    session = session_of(key)
    session.load()
    session.flush()


def of_user(function: Callable[[User], object]) -> Callable[[User, str], None]:
    def end(user: User, key: str) -> None:
        function(user)

    end.__name__ = function.__name__
    return end


ENDS = [end_by_sid, sign_out, *map(of_user, (end_user, end_all, block_for_a_moment, deactivate_for_a_moment))]

END = 2
"""What stands in an order for the end. 0 and 1 stand for a step of either move."""


def orders(steps: int) -> Iterator[list[int]]:
    """All orders of two moves, of at most so many steps each, with one end. The first one is the one that begins."""

    def moves(left: tuple[int, int]) -> Iterator[list[int]]:
        yield []
        for number in (0, 1):
            if left[number]:
                rest = (left[0] - (number == 0), left[1] - (number == 1))
                yield from ([number, *each] for each in moves(rest))

    for each in moves((steps, steps)):
        if each[:1] != [1]:
            yield from ([*each[:place], END, *each[place:]] for place in range(len(each) + 1))


def works_of(key: str) -> list[Work]:
    """Two moves of one session."""
    return [Work(lambda number: nullcontext(), 2, transfer_sessions(site_stores(), [sid_of(key)])) for _ in range(2)]


def play(order: list[int], works: list[Work], end: Callable[[], None]) -> None:
    for number in order:
        if number == END:
            end()
        elif not works[number].done:
            works[number].go_on()


def steps_of(work: Work) -> int:
    count = 0
    while not work.done:
        work.go_on()
        count += 1
    return count


def move_all() -> None:
    for _ in in_bulk.move_sessions():
        pass


def plain_user(key: str) -> str:
    """Whose session this is for the engine that a site has when the move is over."""
    return str(SessionStore(key).load().get("_auth_user_id", ""))


@pytest.mark.usefixtures("grows")
@pytest.mark.parametrize("every", [23, pytest.param(1, marks=pytest.mark.slow)], ids=["some", "all"])
def test_what_ends_while_two_requests_move_it_stays_ended(step, every: int) -> None:
    alice = User.objects.create_user("alice")
    # Neighbouring orders differ in one step only: so each step meets each end, though each order has one of them.
    turns = cycle(product(ENDS, (True, False)))
    with step(2):
        for order in islice(orders(moving_steps(alice)), None, None, every):
            end, is_asked_for = next(turns)
            key = in_own_store(str(alice.pk))
            play(order, works_of(key), partial(end, alice, key))
            if is_asked_for:
                assert session_of(key).load() == {}, (order, end.__name__)
            else:
                move_all()
            assert plain_user(key) == "", (order, end.__name__)
            assert online.count(guests=True) == 0


@pytest.mark.usefixtures("grows")
def test_two_requests_of_which_any_is_killed_move_a_session_once(step) -> None:
    alice = User.objects.create_user("alice")
    with step(2):
        is_asked_for = cycle((True, False))
        found = [order for order in orders(moving_steps(alice)) if order[-1] == END]
        for order in Random(3).sample(found, cases(len(found))):
            key = in_own_store(str(alice.pk))
            play(order[:-1], works_of(key), lambda: None)
            if next(is_asked_for):
                assert session_of(key)["_auth_user_id"] == str(alice.pk)
            else:
                move_all()
            assert plain_user(key) == str(alice.pk), order
            with using(the_store_before()):
                assert online.count() == 0
            assert online.end_all() == 1


def moving_steps(user: User) -> int:
    """In how many steps a session moves, in a process that has used both stores before."""
    for _ in range(2):
        steps = steps_of(works_of(in_own_store(str(user.pk)))[0])
    online.end_all()
    return steps


@pytest.mark.parametrize("count", [36, pytest.param(1500, marks=pytest.mark.slow)])
def test_what_ends_while_two_requests_move_it_from_another_engine_stays_ended(old_session, step, count: int) -> None:
    alice, random = User.objects.create_user("alice"), Random(count)
    with step(2):
        steps = max(steps_of(move_of(str(old_session(str(alice.pk)).session_key))) for _ in range(2))
        online.end_all()
        for end, is_asked_for in islice(cycle(product(ENDS, (True, False))), count):
            # Either move may be killed.
            order = [0] * random.randrange(steps + 1) + [1] * random.randrange(steps + 1)
            random.shuffle(order)
            order.insert(random.randrange(len(order) + 1), END)
            key = str(old_session(str(alice.pk)).session_key)
            play(order, [move_of(key) for _ in range(2)], partial(end, alice, key))
            if is_asked_for:
                assert session_of(key).load() == {}, (order, end.__name__)
            else:
                call_command("movesessions", verbosity=0)
                call_command("movesessions", finish=True, verbosity=0)
            assert online.count(guests=True) == 0, (order, end.__name__)


def move_of(key: str) -> Work:
    """A request that moves a session of another engine."""
    return Work(lambda number: nullcontext(), 2, session_of(key).loading())
