"""Visitors who write while the master is replaced, and what is left of what they were told is written."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from math import inf
from typing import NamedTuple

import redis as redis_py
from django.contrib.sessions.backends.base import UpdateError

from django_redsess import online
from django_redsess.backend import SessionStore
from django_redsess.exceptions import SessionStoreUnavailable
from tests.helpers.store import keyspace

MOMENT = 0.5
"""Seconds. A thread may get its reply before another one's refusal, and note the time of it later."""

ELDERS = 300
"""Sessions that each thread has from the beginning, and ends later."""


class Outcome(NamedTuple):
    """
    What became of the writes.

    ``lost`` are sessions, or changes to one, that were acknowledged and are not there. ``lost_later`` are those of them
    that were acknowledged after the first refusal. ``undone`` are those of the ``ended`` that are back. ``seconds`` are
    from the first refusal to the last. ``longest`` is the longest request.
    """

    requests: int
    refused: int
    lost: int
    lost_later: int
    ended: int
    undone: int
    seconds: float
    longest: float


class Writers:
    """
    Threads that create, change and end sessions.

    Each session is created, and some are changed or ended later, by one thread. What was refused may have been done or
    not, so nothing is expected of that session.
    """

    def __init__(self, count: int) -> None:
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._write, args=(number,)) for number in range(count)]
        self.errors: list[Exception] = []
        self._colours: dict[str, str] = {}
        self._ended: set[str] = set()
        self._keys: dict[str, str] = {}
        self._at: dict[str, float] = {}
        self._requests, self._refused_at, self._longest = 0, list[float](), 0.0

    @contextmanager
    def busy(self) -> Iterator[None]:
        """Let them write in the body, and then until all are served again."""
        for thread in self._threads:
            thread.start()
        try:
            yield
        finally:
            self._over.set()
            for thread in self._threads:
                thread.join()

    @property
    def written(self) -> int:
        return len(self._colours) + len(self._ended)

    @property
    def refused(self) -> int:
        return len(self._refused_at)

    def outcome(self, master: redis_py.Redis) -> Outcome:
        """Compare what was acknowledged with what the ``master`` of now holds."""
        there = {name.decode() for each in keyspace().partitions for name in master.hkeys(each.login)}
        lost = self._colours.keys() - there
        lost |= {sid for sid in self._colours.keys() & there if self._colour(sid) != self._colours[sid]}
        first, *_, last = self._refused_at or [inf, inf]
        return Outcome(
            requests=self._requests,
            refused=self.refused,
            lost=len(lost),
            lost_later=sum(self._at[sid] > first + MOMENT for sid in lost),
            ended=len(self._ended),
            undone=len(self._ended & there),
            seconds=round(last - first, 1) if self._refused_at else 0.0,
            longest=round(self._longest, 2),
        )

    def _colour(self, sid: str) -> str:
        # Only what was changed is worth reading: what was created has one colour.
        return "blue" if self._colours[sid] == "blue" else str(SessionStore(self._keys[sid])["colour"])

    def _write(self, number: int) -> None:
        made: list[SessionStore] = []
        # What they end is older than the failover: its end can be undone.
        elders = [self._new(number, each) for each in range(ELDERS)]
        for elder in elders:
            elder.save()
        while not self._over.is_set():
            try:
                self._round(number, made, elders)
            except Exception as error:  # Shown by the test.
                self.errors.append(error)
            time.sleep(0.002)

    def _round(self, number: int, made: list[SessionStore], elders: list[SessionStore]) -> None:
        session = self._new(number, len(made))
        if self._asked(session, session.save):
            made.append(session)
            self._keys[session.sid] = session.session_key or ""
            with self._lock:
                self._colours[session.sid] = "blue"
        if len(made) % 5 == 0 and len(made) > 10:
            self._change(made[-5])
            if elders:
                elder = elders.pop()
                if self._asked(elder, lambda: online.end(elder.sid)):
                    self._ended.add(elder.sid)

    def _new(self, thread: int, number: int) -> SessionStore:
        session = SessionStore()
        session.update({"_auth_user_id": str(1000 * thread + number % 1000), "colour": "blue"})
        return session

    def _change(self, session: SessionStore) -> None:
        changed = SessionStore(session.session_key)

        def change() -> None:
            if "colour" not in changed:
                raise UpdateError
            changed["colour"] = "red"
            changed.save()

        # What was lost is counted as missing.
        with suppress(UpdateError):
            if self._asked(session, change):
                self._colours[session.sid] = "red"

    def _asked(self, session: SessionStore, ask: Callable[[], object]) -> bool:
        """Tell whether it was acknowledged. If not, nothing is expected of ``session`` from now on."""
        begun = time.monotonic()
        try:
            ask()
            self._at[session.sid] = time.monotonic()
            return True
        except SessionStoreUnavailable:
            with self._lock:
                self._refused_at.append(time.monotonic())
                self._colours.pop(session.sid, None)
            time.sleep(0.05)
            return False
        finally:
            self._requests += 1
            self._longest = max(self._longest, time.monotonic() - begun)
