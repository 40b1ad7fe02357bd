"""The settings of this app: the dict ``REDSESS``, every key optional."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from django.conf import settings

T = TypeVar("T")


class Conf:
    """Read ``settings.REDSESS`` each time it is asked, so that a test's override takes effect at once."""

    @property
    def PREFIX(self) -> str:
        """What every Redis key begins with, in braces. Two sites on one server differ in it."""
        return self._read("PREFIX", "redsess")

    @property
    def MAX_SESSIONS(self) -> int:
        """How many sessions are kept; above that the ones longest unseen are evicted."""
        return self._read("MAX_SESSIONS", 10_000_000)

    @property
    def TOUCH_INTERVAL(self) -> int:
        """Seconds that must pass before a request writes again that its session was seen."""
        return self._read("TOUCH_INTERVAL", 10)

    @property
    def VIEWED_VIEWS(self) -> Mapping[str, str]:
        """Which views show an item: view name, as ``reverse()`` takes it → the URL keyword that names the item."""
        nothing: Mapping[str, str] = {}
        return self._read("VIEWED_VIEWS", nothing)

    @property
    def VIEWED_PER_SESSION(self) -> int:
        """How many viewed items are kept for a session: the newest."""
        return self._read("VIEWED_PER_SESSION", 25)

    def _read(self, name: str, default: T) -> T:
        given: Mapping[str, T] = getattr(settings, "REDSESS", {})
        return given.get(name, default)


conf = Conf()
