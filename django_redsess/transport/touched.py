"""The sessions that this process has touched lately: a read of one asks for less."""

from __future__ import annotations

from typing import Any

SESSIONS_MAX = 32_768
"""How many sessions a process remembers for a server. Above it, all are forgotten at once."""


class Touched:
    """
    The sessions of a server that this process has touched in the present ``TOUCH_INTERVAL``, and what it read of them.

    An interval is named by the last-seen time that touches write in it. When another begins, all are forgotten. What is
    lost costs one touch more. Any thread may use an instance: if two threads add sessions while an interval ends, one
    may be taken for touched in the next. Then its last-seen time is late by an interval.
    """

    def __init__(self) -> None:
        self._seen, self._sessions = 0, dict[str, Any]()

    def get(self, name: str, seen: int) -> Any:
        """Return what was read of the session that was touched with this last-seen time. None if it was not."""
        return self._sessions.get(name) if seen == self._seen else None

    def add(self, name: str, seen: int, read: Any) -> None:
        """Note that a session was touched, and what was read of it. ``name`` tells it from those of other stores."""
        if seen != self._seen or len(self._sessions) >= SESSIONS_MAX:
            self._sessions, self._seen = {}, seen
        self._sessions[name] = read

    def forget(self) -> None:
        """Forget all sessions."""
        self._sessions = {}
