"""The clock of a server."""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic


class Clock:
    """
    The clock of a server: its last reply to ``TIME``, carried on by the monotonic clock of this process.

    The wall clock of this process is never used. Any thread may use an instance, since its state is one number.
    """

    def __init__(self) -> None:
        self._ahead: float | None = None

    def learn(self, time_reply: Sequence[bytes | int]) -> int:
        """Take a reply to ``TIME`` that has just come, and return it in milliseconds."""
        seconds, microseconds = time_reply
        milliseconds = int(seconds) * 1000 + int(microseconds) / 1000
        self._ahead = milliseconds - monotonic() * 1000
        return int(milliseconds)

    def now(self) -> int | None:
        """Return the server's time in milliseconds; None before the first reply."""
        ahead = self._ahead
        return None if ahead is None else int(ahead + monotonic() * 1000)
