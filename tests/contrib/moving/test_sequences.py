"""
Whatever is done in whatever order, by two processes of steps 1 and 2: what has ended stays ended, what lives lives on,
and no change is lost.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.contrib.sessions.backends.base import UpdateError
from django.core.management import call_command

from django_redsess import online
from django_redsess.backend import SessionStore
from django_redsess.exceptions import SignInRefused
from tests.contrib.moving.conftest import grow, session_of
from tests.contrib.moving.test_ends import OWN, in_own_store
from tests.contrib.moving.test_interleavings import KILLED, Work, stop

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("partitions", "moving")]


@dataclass
class Expected:
    """A session as it has to be: its cookie, None once it has ended, and its data."""

    cookie: str | None
    data: dict[str, Any] = field(default_factory=dict)

    @property
    def user(self) -> str:
        return str(self.data.get("_auth_user_id", ""))


class World:
    """Two processes, each at a step; browsers; and what is expected."""

    def __init__(self, random: Random, step: Any, users: list[User], before: Any, *, merges: bool) -> None:
        self.random, self.step, self.users = random, step, users
        # Whether the engine of the release before loses no change of requests that overlap.
        self.merges = merges
        self.steps = [1, 1]
        self.blocked: set[str] = set()
        self.dead: list[str] = []
        self.counts: Counter[str] = Counter()
        data = {"basket": 0}
        self.sessions = [Expected(before(each, **data), {**data, "_auth_user_id": each}) for each in self.ids * 2]
        self.sessions += [Expected(before("", basket=0), {"basket": 0}) for _ in range(2)]

    @property
    def ids(self) -> list[str]:
        return [str(user.pk) for user in self.users]

    def act(self) -> None:
        acts = [self.view, self.save, self.save, self.sign_in, self.begin, self.sign_out, self.end_one, self.end_user]
        acts += [self.end_all, self.block, self.lift, self.change_step, self.change_step, self.move_all, self.die]
        if self.merges or self.steps != [1, 1]:
            acts.append(self.both)
        act = self.random.choice(acts)
        self.counts[act.__name__] += 1
        with self.step(self.random.choice(self.steps)):
            act()
        self.look()

    def look(self) -> None:
        for each in self.sessions:
            if each.cookie is not None:
                with self.step(self.random.choice(self.steps)):
                    session = session_of(each.cookie)
                    assert session.load() == each.data, self.counts
                    each.cookie = self.sent(each.cookie, session)
        for cookie in self.random.sample(self.dead, min(5, len(self.dead))):
            with self.step(self.random.choice(self.steps)):
                assert session_of(cookie).load() == {}, self.counts

    def sent(self, cookie: str, session: SessionStore) -> str:
        """The cookie that the browser has after the answer."""
        return str(session.session_key) if session.modified else cookie

    def one(self, *, user: bool | None = None) -> Expected | None:
        found = [each for each in self.sessions if each.cookie and (user is None or bool(each.user) is user)]
        return self.random.choice(found) if found else None

    def is_over(self, each: Expected) -> None:
        if each.cookie is not None:
            self.dead.append(each.cookie)
        each.cookie = None

    def view(self) -> None:
        pass

    def save(self) -> None:
        if each := self.one():
            session = session_of(each.cookie)
            each.data["basket"] = session["basket"] = self.random.randrange(1000)
            session.save()
            each.cookie = str(session.session_key)

    def both(self) -> None:
        """Two requests that overlap, each in a process."""
        if each := self.one():
            first, second = session_of(each.cookie), session_of(each.cookie)
            with self.step(self.steps[0]):
                each.data["colour"] = first["colour"] = self.random.randrange(1000)
            with self.step(self.steps[1]):
                each.data["size"] = second["size"] = self.random.randrange(1000)
            with self.step(self.steps[0]):
                first.save()
            with self.step(self.steps[1]):
                second.save()
            each.cookie = str(second.session_key)

    def begin(self) -> None:
        session = session_of()
        session["basket"] = 0
        session.save()
        self.sessions.append(Expected(str(session.session_key), {"basket": 0}))

    def sign_in(self) -> None:
        each, user = self.one(user=False), self.random.choice(self.ids)
        if each is None:
            return
        session = session_of(each.cookie)
        session["_auth_user_id"] = user
        try:
            session.cycle_key()
            session.signed_in()
            session.save()
        except SignInRefused:
            assert user in self.blocked
            # As Django's login() does by the engine's middleware: nobody is signed in.
            self.is_over(each)
            session.flush()
            return
        assert user not in self.blocked
        self.is_over(each)
        each.data["_auth_user_id"] = user
        each.cookie = str(session.session_key)

    def sign_out(self) -> None:
        if each := self.one():
            session = session_of(each.cookie)
            session.load()
            session.flush()
            self.is_over(each)

    def end_one(self) -> None:
        if each := self.one(user=True):
            session = session_of(each.cookie)
            session["basket"] = 1
            online.end(session.sid)
            with pytest.raises(UpdateError):
                session.save()
            self.is_over(each)

    def end_user(self) -> None:
        user = self.random.choice(self.users)
        online.end_user(user)
        self.end_those_of({str(user.pk)})

    def end_all(self) -> None:
        if self.random.random() < 0.3:
            online.end_all()
            self.end_those_of(set(self.ids))

    def end_those_of(self, users: set[str]) -> None:
        for each in self.sessions:
            if each.user in users:
                self.is_over(each)

    def block(self) -> None:
        user = self.random.choice(self.users)
        online.block(user, until=datetime.now(UTC) + timedelta(hours=1))
        self.blocked.add(str(user.pk))
        self.end_those_of({str(user.pk)})

    def lift(self) -> None:
        for user in self.users:
            assert online.unblock(user) is (str(user.pk) in self.blocked)
        self.blocked.clear()

    def change_step(self) -> None:
        self.steps[self.random.randrange(2)] = self.random.choice((1, 2))

    def move_all(self) -> None:
        if self.steps == [2, 2]:
            with self.step(2):
                call_command("movesessions", verbosity=0)

    def die(self) -> None:
        """A process is killed while it loads, saves or ends a session."""
        each = self.one()
        if each is None:
            return
        number, what = self.random.choice(self.steps), self.random.choice(("load", "save", "end"))
        session = session_of(each.cookie)
        value = self.random.randrange(1000)

        def work() -> Any:
            data = yield from session.opening()
            if what == "end":
                yield from session.flushing()
            elif what == "save":
                data["basket"] = value
                yield from session.saving()

        stop(Work(self.step, number, work()), self.random.randrange(1, 14), KILLED)
        with self.step(number):
            again = session_of(each.cookie)
            if what == "end":
                # The visitor clicks once more.
                again.flush()
                self.is_over(each)
                return
            found = again.load()
            assert found in (each.data, {**each.data, "basket": value} if what == "save" else each.data)
            each.data = found
            each.cookie = self.sent(str(each.cookie), again)


@pytest.mark.parametrize("other", ["Django's", "ours"])
@pytest.mark.parametrize("seed", [*range(6), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(6, 24))])
def test_whatever_is_done(request, moving, old_session, step, left_alone, other: str, seed: int) -> None:
    if other == "ours":
        grow(moving, **OWN)

    def before(user: str, **data: Any) -> str:
        return in_own_store(user, **data) if other == "ours" else str(old_session(user, **data).session_key)

    users = [User.objects.create_user(name) for name in ("alice", "bob", "carol")]
    world = World(Random(seed), step, users, before, merges=other == "ours")
    for _ in range(40):
        world.act()
