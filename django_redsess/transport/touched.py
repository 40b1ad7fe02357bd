"""The sessions that this process has touched lately: a read of one asks for less."""

from __future__ import annotations

SESSIONS_MAX = 32_768
"""How many sessions a process remembers for a server. Above it, all are forgotten at once."""


class Touched:
    """
    The sessions of a server that this process has touched in the present ``TOUCH_INTERVAL``.

    An interval is named by the last-seen time that touches write in it. When another begins, all are forgotten. What is
    lost costs one touch more. Any thread may use an instance: if two threads add sessions while an interval ends, one
    may be taken for touched in the next. Then its last-seen time is late by an interval.
    """

    def __init__(self) -> None:
        self._seen, self._sessions = 0, dict[str, bool]()

    def get(self, name: str, seen: int) -> bool | None:
        """Return what was added with the session, if it was touched with this last-seen time; else None."""
        return self._sessions.get(name) if seen == self._seen else None

    def add(self, name: str, seen: int, deadline_in_record: bool) -> None:
        """
        Note that a session was touched with the last-seen time ``seen``.

        ``name`` tells it from those of other stores. ``deadline_in_record`` is whether its deadline was not before the
        one in its record.
        """
        if seen != self._seen or len(self._sessions) >= SESSIONS_MAX:
            self._sessions, self._seen = {}, seen
        self._sessions[name] = deadline_in_record

    def clear(self) -> None:
        """Forget all sessions."""
        self._sessions = {}
