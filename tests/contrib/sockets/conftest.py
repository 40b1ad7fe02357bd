"""Sessions that are watched in an event loop of another thread, while the test ends them in its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
from django.contrib.auth.models import User

from django_redsess.contrib.sockets import ended_sessions
from django_redsess.contrib.sockets.ended_sessions import End, WatchedSession, ends
from tests.helpers.accounts import PASSWORD
from tests.helpers.running import wait_until
from tests.helpers.serving import SECONDS


class Loop:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        # A test that fails may leave it running.
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._left = AsyncExitStack()

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(SECONDS)

    def watch(self, session: Any) -> WatchedSession:
        """Watch a session until the test is over."""
        watched: WatchedSession = self.run(self._left.enter_async_context(ends(session)))
        return watched

    def end_of(self, watched: WatchedSession) -> End:
        end: End = self.run(watched.wait())
        return end

    def looked(self, times: int = 2) -> None:
        """Return when the store was asked so many times more. The first may have been under way already."""
        wanted = self.looks + times
        wait_until(lambda: self.looks >= wanted)

    looks = 0

    def leave(self) -> None:
        """Watch nothing any more."""
        self.run(self._left.aclose())

    def close(self) -> None:
        self.leave()
        self.run(self._loop.shutdown_asyncgens())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


@pytest.fixture
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look at the store more often than once a second."""
    monkeypatch.setattr(ended_sessions, "INTERVAL_SECONDS", 0.02)


@pytest.fixture
def loop(fast: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Loop]:
    started = Loop()
    look: Callable[[Any], Coroutine[Any, Any, None]] = ended_sessions._Poller._look

    async def counted(self: Any) -> None:
        await look(self)
        started.looks += 1

    monkeypatch.setattr(ended_sessions._Poller, "_look", counted)
    yield started
    started.close()


@pytest.fixture
def alice() -> User:
    return User.objects.create_user("alice", password=PASSWORD)


@pytest.fixture
def bob() -> User:
    return User.objects.create_user("bob", password=PASSWORD)
