"""
The places of a pool of connections, and who waits for one: first come, first served.

Nothing here connects or waits: a pool for threads and one for an event loop do it, each in its way.
"""

from __future__ import annotations

import threading
from collections import deque
from os import getpid
from typing import Any, Protocol
from weakref import ref

MANY = 2**31
"""A maximum that redis-py's pools never reach. The maximum of connections is minded here."""


class Place:
    """
    A connection, or the room for one. Who has taken the place is alone with the connection.

    A place that nobody holds any more, and that was not given back, is gone: another may be made. So an interruption
    between any two steps takes no place.
    """

    __slots__ = ("__weakref__", "connection", "fresh_until", "home", "is_open", "known", "line", "server")

    def __init__(self, home: list[Place]) -> None:
        # A list of its pool. In a process that was forked the pool has another, and this one's places are nobody's.
        self.home = home
        self.connection: Any = None
        self.is_open = False
        self.fresh_until = 0.0
        self.line: Any = None
        # Behind Sentinel, the address that the connection led to.
        self.server: tuple[str, int] | None = None
        self.known: _Known


class _Known(ref[Place]):
    # Knows the connection of a place that is gone: it may have replies unread, and is closed.
    __slots__ = ("connection",)

    connection: Any


class Waiting(Protocol):
    """One who waits. ``place`` is what he is given before ``wake`` is called."""

    place: Place | None

    def wake(self) -> None: ...


class Places:
    """
    Up to ``max_connections`` places. The one given back last is taken first.

    ``source`` is the pool of redis-py that makes the connections. All count as in use there, idle ones too.
    ``wait_seconds`` is how long to wait for a free connection; None for ever.
    """

    def __init__(self, source: Any, max_connections: int, wait_seconds: float | None) -> None:
        self.source, self.max_connections, self.wait_seconds = source, max_connections, wait_seconds
        self.is_behind_sentinel = hasattr(source, "sentinel_manager")
        self._follows_master = self.is_behind_sentinel and source.is_master
        self._may_be_moved = bool(getattr(source, "maint_notifications_enabled", bool)())
        self.begin()

    def begin(self) -> None:
        """Begin without any place. Those of the parent of a forked process are not this process's."""
        # Where all open connections lead, behind Sentinel.
        self._master: tuple[str, int] | None = None
        self._idle: list[Place] = []
        self._waiting: deque[Waiting] = deque()
        self._known: list[_Known] = []
        # Python does not run between the end of a place and its entry here: it could be interrupted.
        self._gone: list[_Known] = []
        self._lock = threading.Lock()
        self._pid = getpid()

    def stand_in_line(self, waiting: Waiting) -> None:
        """Give ``waiting`` a place as soon as it is its turn, perhaps at once."""
        with self._lock:
            self._waiting.append(waiting)
            self._serve()

    def leave_line(self, waiting: Waiting) -> None:
        """Give ``waiting`` no place any more. It may have got one meanwhile."""
        with self._lock:
            if waiting in self._waiting:
                self._waiting.remove(waiting)

    def put(self, place: Place) -> None:
        """Let others have ``place``."""
        place.home.append(place)
        # In this order: who waits looks for a place after it has said so.
        if self._waiting:
            self.serve()

    def serve(self) -> None:
        """Give those who wait what places there are."""
        with self._lock:
            self._serve()

    def take_idle(self) -> list[Place]:
        """Take all places that nobody uses."""
        taken = []
        for _ in range(len(self._idle)):
            try:
                taken.append(self._idle.pop())
            except IndexError:
                break
        return taken

    def let_go(self, connection: Any) -> None:
        """Close the ``connection`` of a place that is gone."""

    def has_new_master(self, place: Place) -> bool:
        """Note where the connection of ``place`` leads, just opened. Tell whether the others lead elsewhere."""
        if not self._follows_master:
            return False
        place.server = place.connection.host, place.connection.port
        before, self._master = self._master, self.source.master_address
        return before != self._master

    def _serve(self) -> None:
        while self._waiting:
            try:
                # Others take what is idle without the lock.
                place = self._idle.pop()
            except IndexError:
                made = self._make_place()
                if made is None:
                    return
                place = made
            first = self._waiting[0]
            first.place = place
            self._waiting.popleft()
            first.wake()

    def _make_place(self) -> Place | None:
        if self._gone:
            self._forget_gone()
        if len(self._known) >= self.max_connections:
            return None
        place = Place(self._idle)
        place.known = _Known(place, self._gone.append)
        place.known.connection = None
        self._known.append(place.known)
        return place

    def _forget_gone(self) -> None:
        gone = self._gone[:]
        for known in gone:
            if known in self._known:
                self._known.remove(known)
            # Once, or a connection that is used again would be closed.
            connection, known.connection = known.connection, None
            if connection is not None:
                self.let_go(connection)
        del self._gone[: len(gone)]
