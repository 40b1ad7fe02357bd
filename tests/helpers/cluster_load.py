"""
Visitors who use their sessions all the time, some in threads and some in tasks of an event loop.

Each keeps account of what was acknowledged, so that afterwards it is known what was lost, and which end was undone.
"""

import asyncio
import itertools
import random
import threading
import time
from collections import ChainMap, Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from django.contrib.auth import SESSION_KEY

from django_redsess import online, viewed
from django_redsess.backend import SessionStore
from django_redsess.exceptions import SessionStoreUnavailable
from tests.helpers.both import Ask, twins
from tests.helpers.store import faults

THREADS = TASKS = 4

users = itertools.count(1000)


class LostError(Exception):
    """A session that was acknowledged is not there."""


@dataclass
class Account:
    """What was acknowledged to one visitor. ``unknown`` is what may have happened: the answer was an outage."""

    saves: Counter[str] = field(default_factory=Counter)
    unknown_saves: Counter[str] = field(default_factory=Counter)
    signed_in: set[str] = field(default_factory=set)
    ended: set[str] = field(default_factory=set)
    views: int = 0
    unknown_views: int = 0


class Load:
    """All visitors together, and what they met."""

    def __init__(self) -> None:
        self.accounts = [Account() for _ in range(THREADS + TASKS)]
        self.requests = self.refused = 0
        self.errors: list[Exception] = []
        self.refused_at: list[float] = []
        self.longest = 0.0
        self._lock, self._stop, self._go_on = threading.Lock(), threading.Event(), threading.Event()
        self._go_on.set()
        self._busy = 0
        for account in self.accounts:
            for _ in range(12):
                account.saves[_new(str(next(users)))] = 0

    @contextmanager
    def running(self) -> Iterator[None]:
        threads = [threading.Thread(target=self._visit, args=(each,)) for each in self.accounts[:THREADS]]
        threads.append(threading.Thread(target=lambda: asyncio.run(self._tasks())))
        for thread in threads:
            thread.start()
        try:
            # All have begun.
            self.go_on_for(300)
            yield
            self.go_on_for(300)
        finally:
            self._stop.set()
            self._go_on.set()
            for thread in threads:
                thread.join()

    def go_on_for(self, requests: int) -> None:
        """Wait until so many more requests were answered by what they asked for."""
        enough, deadline = self.requests - self.refused + requests, time.monotonic() + 60
        while self.requests - self.refused < enough and not self.errors:
            assert time.monotonic() < deadline, self
            time.sleep(0.01)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Let nobody ask anything meanwhile."""
        self._go_on.clear()
        while self._busy:
            time.sleep(0.01)
        yield
        self._go_on.set()

    def __str__(self) -> str:
        seconds = self.refused_at[-1] - self.refused_at[0] if self.refused_at else 0
        return (
            f"{self.requests} requests, {self.refused} refused within {seconds:.1f} s, longest {self.longest:.2f} s, "
            f"{len(self.errors)} errors, {self.lost_saves()} lost saves, {self.lost_sign_ins()} lost sign-ins, "
            f"{self.undone_ends()} undone ends, {self.wrong_views()} wrong views"
        )

    def lost_saves(self) -> int:
        saves = ChainMap(*(account.saves for account in self.accounts))
        return sum(max(0, count - SessionStore(key).get("count", 0)) for key, count in saves.items())

    def double_saves(self) -> int:
        return sum(
            max(0, SessionStore(key).get("count", 0) - count - account.unknown_saves[key])
            for account in self.accounts
            for key, count in account.saves.items()
        )

    def lost_sign_ins(self) -> int:
        return sum(not SessionStore(key).exists(key) for account in self.accounts for key in account.signed_in)

    def undone_ends(self) -> int:
        return sum(SessionStore(key).exists(key) for account in self.accounts for key in account.ended)

    def wrong_views(self) -> int:
        """Return by how many the views are too few (negative) or too many."""
        least = sum(account.views for account in self.accounts)
        most = least + sum(account.unknown_views for account in self.accounts)
        found = viewed.total().views
        return min(0, found - least) or max(0, found - most)

    def assert_sound(self) -> None:
        """See that nobody met anything else than an outage, and that all keys agree."""
        assert self.errors == []
        assert self.double_saves() == 0
        assert faults() == []

    def assert_nothing_lost(self) -> None:
        self.assert_sound()
        assert (self.lost_saves(), self.lost_sign_ins(), self.undone_ends(), self.wrong_views()) == (0, 0, 0, 0), self

    async def _tasks(self) -> None:
        await asyncio.gather(*(self._avisit(account) for account in self.accounts[THREADS:]))

    def _visit(self, account: Account) -> None:
        while not self._stop.is_set():
            self._go_on.wait()
            with self._asking():
                _chosen()[0](account)

    async def _avisit(self, account: Account) -> None:
        while not self._stop.is_set():
            while not self._go_on.is_set():
                await asyncio.sleep(0.01)
            with self._asking():
                await _chosen()[1](account)

    @contextmanager
    def _asking(self) -> Iterator[None]:
        with self._lock:
            self._busy += 1
        began = time.monotonic()
        try:
            yield
        except SessionStoreUnavailable:
            with self._lock:
                self.refused += 1
                self.refused_at.append(time.monotonic())
        except LostError:
            pass
        except Exception as error:
            self.errors.append(error)
        with self._lock:
            self._busy -= 1
            self.requests += 1
            self.longest = max(self.longest, time.monotonic() - began)


def _new(user: str = "") -> str:
    session = SessionStore()
    session["count"] = 0
    if user:
        session[SESSION_KEY] = user
    session.save()
    return session.session_key or ""


def _key(account: Account) -> str:
    return random.choice(list(account.saves))


async def save(ask: Ask, account: Account) -> None:
    key = _key(account)
    session = SessionStore(key)
    count = await ask(session, "get", "count")
    if count is None:
        raise LostError
    session["count"] = count + 1
    account.unknown_saves[key] += 1
    await ask(session, "save")
    account.saves[key] += 1
    account.unknown_saves[key] -= 1


async def sign_in(ask: Ask, account: Account) -> None:
    session = SessionStore()
    session["colour"] = "blue"
    await ask(session, "save")
    await ask(session, "cycle_key")
    session[SESSION_KEY] = str(next(users))
    session.signed_in()
    await ask(session, "save")
    account.signed_in.add(session.session_key or "")


async def kick(ask: Ask, account: Account) -> None:
    if account.signed_in:
        key = account.signed_in.pop()
        await ask(online, "end", SessionStore(key).sid or "")
        account.ended.add(key)


async def view(ask: Ask, account: Account) -> None:
    session = SessionStore(_key(account))
    account.unknown_views += 1
    noted = await ask(viewed, "record", session, random.randrange(20))
    account.unknown_views -= 1
    account.views += noted


WAYS, SHARES = [twins(way) for way in (save, sign_in, kick, view)], (12, 3, 2, 3)


def _chosen() -> Any:
    return random.choices(WAYS, SHARES)[0]
