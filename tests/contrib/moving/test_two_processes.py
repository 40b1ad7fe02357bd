"""
Whatever two processes of the site do in whatever order, each at a step of its own, replaced and killed: what has ended
stays ended, what lives lives on, and no change is lost.

The processes share nothing but the stores, requests overlap, and a process dies wherever it is.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest

from tests.contrib.moving.conftest import GROWING
from tests.contrib.moving.process import TRIES_MAX, Process, Template

OPERATIONS = 60

PAUSES = [0, 0.003, 0.006, 0.012]
"""How long a request takes between reading its session and saving it, in seconds, or begins after another one."""

OTHERWISE = "a session that lives was signed out, or a change was lost"

BEFORE = {"PREFIX": "before", "PARTITIONS": 1}
"""The store that sessions are moved from, if it is one of this engine."""


@dataclass
class Expected:
    """
    A session as it has to be. ``cookies`` are all that find it: a session that moves may get another key.

    ``is_here`` is None if that is not known.
    """

    cookies: list[str] = field(repr=False)
    data: dict[str, Any]
    user: str = ""
    is_here: bool | None = None
    over_at: float | None = None
    """When it is over for sure, by this process's monotonic clock."""
    tries: int = 0
    """How many passwords could be tried in it."""


Settings = Callable[[int], dict[str, Any]]


@pytest.fixture(params=["Django's", "ours"])
def settings_of(request: pytest.FixtureRequest, site: Any, store_settings: Any) -> Settings:
    """Return a function that gives the settings of a process at step 1, 2, or 3: the plain engine, after the move."""
    partitions = site("step 2")["redsess"]["PARTITIONS"]

    def given(step: int) -> dict[str, Any]:
        settings: dict[str, Any] = site(f"step {min(step, 2)}")
        if step == 3:
            return {**settings, "engine": "django_redsess.backend", "redsess": {"PARTITIONS": partitions}}
        if request.param == "ours":
            here = {"PREFIX": "redsess", "PARTITIONS": partitions}
            redsess = {**BEFORE, "MOVE_TO": here} if step == 1 else {**here, "MOVE_FROM": BEFORE}
            return {**settings, "engine": GROWING, "redsess": redsess}
        return settings

    if request.param == "ours":
        # Nobody looks whether the keys of the store before agree.
        request.getfixturevalue("left_alone")
    store_settings.SECRET_KEY = "moving"
    store_settings.REDSESS = {**store_settings.REDSESS, "PARTITIONS": partitions}
    return given


class World:
    """Two processes, each at a step; browsers; and what is expected."""

    def __init__(self, random: Random, settings_of: Settings, begun: ExitStack) -> None:
        self.random, self.begun = random, begun
        self.templates = {step: begun.enter_context(closing(Template(settings_of(step)))) for step in (1, 2, 3)}
        self.always_merges = settings_of(1)["engine"] == GROWING
        self.steps = [1, random.choice((1, 2))]
        self.processes = [self.start(step) for step in self.steps]
        self.pool = begun.enter_context(ThreadPoolExecutor(3))
        self.bulk: Future[Any] | None = None
        self.acts: list[str] = []
        self.ended: list[Expected] = []
        self.sessions: list[Expected] = []
        self.blocked: set[str] = set()
        self.inactive: set[str] = set()
        self.users: list[str] = self.processes[0].request(None, "users")["users"]
        for user in [*self.users * 6, *[""] * 12]:
            answered = self.processes[0].request(None, "before", user=user, data={"basket": 0})
            self.sessions.append(Expected([answered["cookie"]], {"basket": 0}, user))

    def start(self, step: int) -> Process:
        return self.begun.enter_context(closing(self.templates[step].fork()))

    def act(self) -> None:
        weights = {
            self.save: 6,
            self.view: 2,
            self.begin: 3,
            self.sign_in: 5,
            self.sign_out: 2,
            self.end_one: 2,
            self.end_user: 1,
            self.end_all: 0.5,
            self.end_guests: 0.5,
            self.block: 1,
            self.lift: 1,
            self.deactivate: 1,
            self.activate: 1,
            self.expire: 2,
            self.save_twice: 7,
            self.save_and_end: 4,
            self.view_twice_and_end: 4,
            self.guess: 3,
            self.change_step: 1.7,
            self.crash: 1.7,
            self.move_all: 1,
        }
        if len(self.sessions) < 6:
            weights = {self.begin: 1}
        [act] = self.random.choices(list(weights), list(weights.values()))
        self.acts.append(f"{act.__name__} {self.steps}")
        act()
        # Seldom all: what was not asked for yet, in a process that moves, is still in the other store.
        self.look(len(self.sessions) if self.random.random() < 0.05 else 2)

    def look(self, most: int) -> None:
        """Look at some sessions in both processes, and at some that have ended."""
        living, ended = self.some(self.sessions, most), self.some(self.ended, most)
        for process in self.random.sample(self.processes, 2):
            for each in living:
                self.lives(each, process)
            for each in ended:
                self.is_over(each, process)

    def told(self, what: str) -> str:
        """What has failed, and what was done before, each with the steps of both processes."""
        return f"{what}, after {len(self.acts)} operations: {'; '.join(self.acts[-15:])}"

    def some(self, sessions: list[Expected], most: int) -> list[Expected]:
        return self.random.sample(sessions, min(most, len(sessions)))

    def lives(self, each: Expected, process: Process) -> None:
        self.note(each, answered := self.ask(each, process, "view"))
        found, expected = (answered["user"], answered["data"], answered["error"]), (each.user, each.data, "")
        assert found == expected, self.told(OTHERWISE)

    def is_over(self, each: Expected, process: Process) -> None:
        if each.over_at is None or time.monotonic() > each.over_at:
            for cookie in each.cookies:
                answered = process.request(cookie, "view")
                answered.pop("cookie")
                assert (answered["user"], answered["data"]) == ("", {}), self.told("a session that has ended was found")

    def ask(self, each: Expected, process: Process, what: str, **arguments: Any) -> dict[str, Any]:
        """Do a request of the browser that has this session. A tab may still send an older cookie."""
        return process.request(self.random.choice(each.cookies), what, **arguments)

    def ask_meanwhile(self, each: Expected, process: Process, what: str, **arguments: Any) -> Future[dict[str, Any]]:
        # The cookie is chosen here: a seed has the same choices in each run.
        return self.pool.submit(process.request, self.random.choice(each.cookies), what, **arguments)

    def note(self, each: Expected, answered: dict[str, Any]) -> None:
        """Take the cookie that was sent. Other cookies find the session as before."""
        cookie, each.is_here = answered.pop("cookie"), answered["here"]
        if cookie is not None and cookie not in each.cookies:
            each.cookies.append(cookie)

    def any_process(self) -> Process:
        return self.random.choice(self.processes)

    def one(self) -> Expected | None:
        return self.random.choice(self.sessions) if self.sessions else None

    def one_to_move(self) -> Expected | None:
        """Any session, but mostly one that may still be in the other store: requests that overlap differ there."""
        found = [each for each in self.sessions if not each.is_here]
        return self.random.choice(found) if found and self.random.random() < 0.8 else self.one()

    def end(self, *sessions: Expected) -> None:
        for each in sessions:
            self.sessions.remove(each)
            self.ended.append(each)

    def end_those_of(self, users: set[str]) -> None:
        self.end(*[each for each in self.sessions if each.user in users])

    def change(self) -> dict[str, Any]:
        value = self.random.choice([None, self.random.randrange(1000)])
        return {self.random.choice(["basket", "colour", "size"]): value}

    def changed(self, data: dict[str, Any], *changes: dict[str, Any]) -> dict[str, Any]:
        merged = dict(data)
        for each in changes:
            merged.update(each)
        return {name: value for name, value in merged.items() if value is not None}

    def view(self) -> None:
        if each := self.one():
            self.lives(each, self.any_process())

    def save(self) -> None:
        if each := self.one():
            changes = self.change()
            answered = self.ask(each, self.any_process(), "save", changes=changes)
            self.note(each, answered)
            each.data = self.changed(each.data, changes)
            found = answered["user"], answered["data"], answered["error"]
            assert found == (each.user, each.data, ""), self.told(OTHERWISE)

    def begin(self) -> None:
        answered = self.any_process().request(None, "save", changes={"basket": 0})
        self.sessions.append(Expected([answered["cookie"]], {"basket": 0}, is_here=answered["here"]))

    def sign_in(self) -> None:
        users = [user for user in self.users if user not in self.inactive]
        if (each := self.one()) is None or not users:
            return
        user = self.random.choice(users)
        answered = self.ask(each, self.any_process(), "sign_in", user=user)
        cookie, is_here = answered.pop("cookie"), answered["here"]
        self.end(each)
        assert answered["error"] == ("refused" if user in self.blocked else ""), self.told(
            "a request did not get through"
        )
        if user not in self.blocked:
            # As Django's login() does: nothing of one user is shown to another.
            data = each.data if each.user in ("", user) else {}
            assert (answered["user"], answered["data"]) == (user, data), self.told(OTHERWISE)
            assert cookie not in each.cookies
            self.sessions.append(Expected([cookie], dict(data), user, is_here))

    def sign_out(self) -> None:
        if each := self.one():
            answered = self.ask(each, self.any_process(), "sign_out")
            assert answered.pop("cookie") is None
            self.end(each)

    def end_one(self) -> None:
        if each := self.one():
            self.any_process().request(None, "end_one", cookie=self.random.choice(each.cookies))
            self.end(each)

    def end_user(self) -> None:
        user = self.random.choice(self.users)
        self.any_process().request(None, "end_user", user=user)
        self.end_those_of({user})

    def end_all(self) -> None:
        self.any_process().request(None, "end_all")
        self.end_those_of(set(self.users))

    def end_guests(self) -> None:
        self.any_process().request(None, "end_guests")
        self.end_those_of({""})

    def block(self) -> None:
        user = self.random.choice(self.users)
        self.any_process().request(None, "block", user=user)
        self.blocked.add(user)
        self.end_those_of({user})

    def lift(self) -> None:
        for user in sorted(self.blocked):
            self.any_process().request(None, "lift", user=user)
        self.blocked.clear()

    def deactivate(self) -> None:
        user = self.random.choice(self.users)
        self.any_process().request(None, "activate", user=user, active=False)
        if user not in self.inactive:
            self.inactive.add(user)
            self.end_those_of({user})

    def activate(self) -> None:
        for user in sorted(self.inactive):
            self.any_process().request(None, "activate", user=user, active=True)
        self.inactive.clear()

    def expire(self) -> None:
        """Give a session a deadline in the past, or one that nobody has to wait for: it is looked at later."""
        if each := self.one():
            seconds = self.random.choice([1, -1])
            answered = self.ask(each, self.any_process(), "expire", seconds=seconds)
            self.note(each, answered)
            assert answered["error"] == "", self.told("a request did not get through")
            each.over_at = time.monotonic() + seconds + 0.3
            self.end(each)

    def save_twice(self) -> None:
        """Two requests of a session at once, one in each process."""
        if (each := self.one_to_move()) is None:
            return
        changes = [{name: self.random.randrange(1000)} for name in ("colour", "size")]
        # Where the engine before saves, the last one wins, as it always did.
        merges = self.always_merges or each.is_here is True or 2 in self.steps
        asked = [
            self.ask_meanwhile(each, process, "save", changes=change, pause=self.random.choice(PAUSES))
            for process, change in zip(self.processes, changes, strict=True)
        ]
        for answered in [future.result() for future in asked]:
            self.note(each, answered)
            assert answered["error"] == "", self.told("a request did not get through")
        both = self.changed(each.data, *changes)
        answered = self.ask(each, self.any_process(), "view")
        self.note(each, answered)
        found, user = answered["data"], answered["user"]
        allowed = [both] if merges else [both, *(self.changed(each.data, change) for change in changes)]
        assert user == each.user
        assert found in allowed, self.told("a change was lost")
        each.data = found

    def save_and_end(self) -> None:
        """A session ends in one process while the other one saves it."""
        if (each := self.one_to_move()) is None:
            return
        first, second = self.random.sample(self.processes, 2)
        changes = self.change()
        pause, later = self.random.choice(PAUSES), self.random.choice(PAUSES)
        saving = self.ask_meanwhile(each, first, "save", changes=changes, pause=pause)
        time.sleep(later)
        ends = self.random.choice(["end_one", "sign_out", "end_user"] if each.user else ["end_one", "sign_out"])
        self.acts[-1] += f", {ends}"
        if ends == "end_user":
            second.request(None, "end_user", user=each.user)
            self.end_those_of({each.user})
        elif ends == "end_one":
            second.request(None, "end_one", cookie=self.random.choice(each.cookies))
            self.end(each)
        else:
            self.ask(each, second, "sign_out")
            self.end(each)
        answered = saving.result()
        if answered["was found"]:
            # The cookie of its answer is worth nothing by now.
            self.note(each, answered)
        elif cookie := answered.pop("cookie"):
            # It came too late, and has begun another session.
            self.sessions.append(Expected([cookie], self.changed({}, changes), is_here=answered["here"]))

    def view_twice_and_end(self) -> None:
        """A session ends while both processes look for it, and may move it."""
        if (each := self.one_to_move()) is None:
            return
        user, cookie = each.user, self.random.choice(each.cookies)
        looking = list[Future[dict[str, Any]]]()
        for process in self.processes:
            looking.append(self.ask_meanwhile(each, process, "view"))
            time.sleep(self.random.choice(PAUSES) / 4)
        process = self.any_process()
        ends = self.random.choice(["end_one", "end_user", "end_all", "block"] if user else ["end_one", "end_guests"])
        self.acts[-1] += f", {ends}"
        if ends == "end_one":
            process.request(None, ends, cookie=cookie)
            self.end(each)
        elif ends in ("end_all", "end_guests"):
            process.request(None, ends)
            self.end_those_of(set(self.users) if ends == "end_all" else {""})
        else:
            process.request(None, ends, user=user)
            self.end_those_of({user})
            if ends == "block":
                self.blocked.add(user)
        for answered in [future.result() for future in looking]:
            self.note(each, answered)

    def guess(self) -> None:
        """Try passwords in a session. Which process counts, and where the session is, makes no difference."""
        each = self.one_to_move()
        if each is None or not each.user or not self.always_merges:
            return
        for _ in range(3):
            each.tries += self.any_process().request(None, "guess", cookie=self.random.choice(each.cookies))["may"]
        assert each.tries <= TRIES_MAX, self.told("too many passwords could be tried")

    def end_the_move(self) -> None:
        """Move all that is left, and look at all with the plain engine."""
        self.finish_bulk()
        for number, process in enumerate(self.processes):
            process.close()
            self.processes[number] = self.start(2)
        self.processes[0].request(None, "move_all")
        plain = self.start(3)
        for each in self.ended:
            self.is_over(each, plain)
        # From another engine, sessions may have got keys that no browser has been told yet.
        for each in self.sessions if self.always_merges else ():
            self.lives(each, plain)

    def replace(self, number: int) -> None:
        step = self.random.choice((1, 2))
        if step == 1:
            # While sessions move in bulk, every process is at step 2.
            self.finish_bulk()
        self.steps[number], self.processes[number] = step, self.start(step)

    def change_step(self) -> None:
        number = self.random.randrange(2)
        self.processes[number].close()
        self.replace(number)

    def crash(self) -> None:
        """A process is killed in the midst of a request, and another one is started."""
        if (each := self.one_to_move()) is None:
            return
        number, what = self.random.randrange(2), self.random.choice(["view", "save", "save", "sign_in", "sign_out"])
        arguments: dict[str, Any] = {}
        changes = self.change()
        if what == "save":
            arguments["changes"] = changes
        elif what == "sign_in":
            arguments["user"] = self.random.choice(self.users)
        self.acts[-1] += f" {what} in {number}"
        # Most requests are short.
        seconds = self.random.random() ** 2 * 0.02
        self.processes[number].die(seconds, self.random.choice(each.cookies), what, **arguments)
        self.replace(number)
        answered = self.ask(each, self.processes[1 - number], "view")
        found = answered["user"], answered["data"]
        if what in ("sign_in", "sign_out") and found == ("", {}):
            answered.pop("cookie")
            self.end(each)
            return
        self.note(each, answered)
        allowed = [each.data, self.changed(each.data, changes)] if what == "save" else [each.data]
        assert found[0] == each.user, self.told(OTHERWISE)
        assert found[1] in allowed, self.told(OTHERWISE)
        each.data = found[1]
        self.lives(each, self.processes[number])

    def move_all(self) -> None:
        """Sessions move in bulk, beside the operations that follow."""
        self.finish_bulk()
        if self.steps == [2, 2]:
            self.bulk = self.pool.submit(self.start(2).request, None, "move_all")

    def finish_bulk(self) -> None:
        if self.bulk is not None:
            self.bulk.result(timeout=60)
            self.bulk = None


@pytest.fixture
def begun() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_whatever_two_processes_do(settings_of: Settings, begun: ExitStack, seed: int) -> None:
    world = World(Random(seed), settings_of, begun)
    for _ in range(OPERATIONS):
        world.act()
    world.finish_bulk()
    time.sleep(max([0.0, *(each.over_at - time.monotonic() for each in world.ended if each.over_at is not None)]))
    world.look(len(world.sessions) + len(world.ended))
    world.end_the_move()
