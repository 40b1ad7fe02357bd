"""``manage.py movesessions`` beside visitors who use their sessions and end some. It is killed, and goes on."""

from __future__ import annotations

import json
import random
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from django.contrib.auth import SESSION_KEY
from django.contrib.sessions.backends.db import SessionStore as DatabaseSession
from django.core.management import call_command

from django_redsess import online
from django_redsess.backend import SessionStore as OwnSessionStore
from django_redsess.contrib.moving.growing.stores import site_stores
from tests.contrib.moving.conftest import grow
from tests.contrib.moving.process import answer, started
from tests.helpers.outages import caches
from tests.helpers.running import wait_until
from tests.helpers.sentinels import behind_sentinel
from tests.helpers.store import faults, sid_of, stored, using

ROWS, USED, THREADS = 2000, 160, 4
FEW_ROWS = 600
USERS = 50
FEWEST = 20
"""How many sessions of a thread do not end."""


Ask = Callable[[str | None, str], dict[str, Any]]


class Used:
    """A session that is used: the cookies that find it, those that find it no more, and how often it was visited."""

    def __init__(self, key: str) -> None:
        self.keys, self.dead, self.visits = [key], list[str](), 1

    def use(self, ask: Ask, what: str) -> None:
        answered = ask(self.keys[-1], what)
        assert answered["found"] == self.visits, f"signed out, or a change was lost, at {what}"
        if what != "visit":
            self.dead += self.keys
            self.keys = []
        if answered["key"] and answered["key"] not in self.keys:
            self.keys.append(answered["key"])
        self.visits += 1

    def found(self, ask: Ask) -> bool:
        """Tell whether each of its cookies finds what it must."""
        return all(ask(key, "look")["found"] == self.visits for key in self.keys) and not self.returned(ask)

    def returned(self, ask: Ask) -> bool:
        """Tell whether a cookie finds something that finds it no more."""
        return any(ask(key, "look")["found"] for key in self.dead)


@contextmanager
def visited(sessions: Sequence[Used], asks: Sequence[Ask]) -> Iterator[None]:
    """Have threads use ``sessions`` meanwhile, and end some. Each request is for one of ``asks``."""
    over, done = threading.Event(), threading.Semaphore(0)

    def visit(number: int) -> None:
        chance, own = random.Random(number), [each for each in sessions[number::THREADS] if each.keys]
        while not over.is_set():
            each = chance.choice(own)
            [what] = chance.choices(["visit", "sign in", "end"], [15, 2, 1] if len(own) > FEWEST else [1, 0, 0])
            each.use(chance.choice(asks), what)
            if not each.keys:
                own.remove(each)
            done.release()

    def wait(requests: int) -> None:
        for _ in range(requests):
            assert done.acquire(timeout=20)

    with ThreadPoolExecutor(THREADS) as pool:
        threads = [pool.submit(visit, number) for number in range(THREADS)]
        try:
            wait(100)
            yield
            wait(100)
        finally:
            over.set()
            for thread in threads:
                thread.result()


def data_of(number: int) -> dict[str, Any]:
    return {"visits": 1, **({SESSION_KEY: str(number % USERS)} if number % 2 else {})}


@pytest.fixture
def rows(site: Callable[[str], dict[str, Any]], store_settings: Any) -> list[str]:
    """The keys of many rows of the release before: half of them are guests'. This process has the site's settings."""
    store_settings.SECRET_KEY = "moving"
    store_settings.REDSESS = {**store_settings.REDSESS, **site("step 2")["redsess"]}
    session, found = DatabaseSession(), []
    for data in map(data_of, range(ROWS)):
        # A key that is not looked for in the table.
        found.append((OwnSessionStore()._get_new_session_key(), session.encode(data), "2100-01-01 00:00:00"))
    with sqlite3.connect(site("before")["database"]) as database:
        database.executemany("INSERT INTO django_session VALUES (?, ?, ?)", found)
    return [key for key, _, _ in found]


@pytest.mark.slow
def test_the_command_is_killed_and_goes_on_and_goes_back(site, begin, rows, server) -> None:
    def run(which: str, *options: str) -> dict[str, Any]:
        with started(site(which), "movesessions", "--json", *options) as command:
            printed, _ = command.communicate(timeout=60)
        assert command.returncode == 0
        return json.loads(printed)

    used = [Used(key) for key in rows[:USED]]
    before, first, second = begin("before"), begin("step 2"), begin("step 2")
    with visited(used, [first.request, second.request]):
        with started(site("step 2"), "movesessions") as command:
            # Each session that has moved leaves a mark: until it has moved more than those that are used.
            wait_until(lambda: server.client.dbsize() > USED + 2 * USERS)
            command.kill()
        assert stored(server.client) < ROWS
        assert run("step 2")["left"] == 0
    assert run("step 2")["done"] == 0
    live = sum(bool(each.keys) for each in used) + ROWS - USED
    assert online.count(guests=True) == len(online.sessions(guests=True, limit=2 * ROWS)) == live
    assert faults() == []
    assert all(each.found(process.request) for each in used for process in (first, second))
    # The way back: sessions that got a key here have no row, and what has ended has none, either.
    third, fourth = begin("step 1"), begin("step 1")
    with visited(used, [third.request, fourth.request]):
        assert run("step 1", "--back")["left"] == 0
    # What was changed since.
    counted = run("step 1", "--back")
    assert counted["left"] == 0
    for each in used:
        assert not each.returned(before.request)
        assert each.dead or before.request(each.keys[0], "look")["found"] == each.visits
    assert run("step 2", "--finish")["left"] == 0
    with sqlite3.connect(site("before")["database"]) as database:
        assert database.execute("SELECT count(*) FROM django_session").fetchone() == (0,)
    assert all(each.found(second.request) for each in used)


@pytest.mark.usefixtures("left_alone")
@pytest.mark.parametrize(
    "where",
    ["more partitions", *(pytest.param(name, marks=pytest.mark.slow) for name in ("a cluster", "behind sentinels"))],
)
def test_a_store_of_ours_moves(where, request, server, moving, step, tmp_path) -> None:
    with ExitStack() as ended:
        there, here = caches(server.url), caches(server.url)
        if where == "a cluster":
            request.getfixturevalue("clustered")
            here = moving.CACHES
        elif where == "behind sentinels":
            own_server = request.getfixturevalue("own_server")
            there, here = (ended.enter_context(behind_sentinel(each, tmp_path)) for each in (server, own_server))
        moving.CACHES = {"there": there["sessions"], "sessions": here["sessions"]}
        named = {"SESSION_CACHE_ALIAS": "there", "PREFIX": "before", "PARTITIONS": 1}
        moving.REDSESS = {**moving.REDSESS, "PARTITIONS": 64}
        grow(moving, **named)
        with using(site_stores().other):
            made = [OwnSessionStore() for _ in range(FEW_ROWS)]
            for number, session in enumerate(made):
                session.update(data_of(number))
                session.save()
        used = [Used(session.session_key) for session in made]
        with step(1), visited(used[:USED], [answer]):
            pass
        with step(2):
            with visited(used[:USED], [answer]):
                call_command("movesessions", verbosity=0)
            sids = sorted(sid_of(each.keys[-1]) for each in used if each.keys)
            assert sorted(session.sid for session in online.sessions(guests=True, limit=2 * ROWS)) == sids
            assert online.count(guests=True) == len(sids)
            assert sum(online.count(user_ids=[str(user)]) for user in range(USERS)) == online.count()
            assert faults() == []
            assert all(each.found(answer) for each in used[:USED])
            with using(site_stores().other):
                assert online.count(guests=True) == 0
            assert all(each.found(answer) for each in used[:USED])
