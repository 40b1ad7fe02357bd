"""The clock of a server, as far as this process knows it."""

from __future__ import annotations

from collections.abc import Sequence

from django_redsess.clock import monotonic

FRESH_SECONDS = 1.0
"""For how long a read goes by the time that another reply has told. Then it asks for the time again."""


class Clock:
    """
    The clock of a server: the last time that it told, carried on by the monotonic clock of this process.

    The wall clock of this process is never used. Any thread may use an instance, since its state is one pair.
    """

    moved_ms = 0
    """By how much a test has moved the clocks of all servers ahead: see :mod:`django_redsess.testing`."""

    def __init__(self) -> None:
        # How far the server's clock is ahead of the monotonic one, in milliseconds, and until when that is fresh.
        self._ahead: float | None = None
        self._fresh_until = 0.0

    def learn(self, time_reply: Sequence[bytes | int]) -> int:
        """Take a reply to ``TIME`` that has just come, and return it in milliseconds."""
        seconds, microseconds = time_reply
        milliseconds = int(seconds) * 1000 + int(microseconds) / 1000
        self._take(milliseconds)
        return int(milliseconds) + self.moved_ms

    def learn_from_script(self, milliseconds: int) -> None:
        """Take the time of a script that has just replied: see ``now`` in ``lua/common.lua``."""
        self._take(milliseconds - self.moved_ms)

    def _take(self, milliseconds: float) -> None:
        at = monotonic()
        self._ahead = milliseconds - at * 1000
        self._fresh_until = at + FRESH_SECONDS

    def now(self) -> int | None:
        """Return the server's time in milliseconds; None before the first reply."""
        ahead = self._ahead
        return None if ahead is None else int(ahead + monotonic() * 1000) + self.moved_ms

    def fresh(self) -> int | None:
        """Return the server's time in milliseconds; None unless a reply of the last second has told it."""
        at, ahead = monotonic(), self._ahead
        if ahead is None or at > self._fresh_until:
            return None
        return int(ahead + at * 1000) + self.moved_ms

    def expire(self) -> None:
        """Have the next read ask for the time: the server may be another now."""
        self._fresh_until = 0.0
