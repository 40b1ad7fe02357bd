"""
What a forked process resets: above all, locks.

A child has one thread. A lock that another thread of its parent had stays locked in it for ever.
"""

from __future__ import annotations

import os
import threading
from typing import Any, Protocol
from weakref import WeakSet


class Resettable(Protocol):
    """An object that a forked child resets."""

    def reset(self) -> None: ...


_resettables: WeakSet[Any] = WeakSet()


def reset_in_child(each: Resettable) -> None:
    """Have ``each.reset()`` called in every child that is forked while ``each`` lives."""
    _resettables.add(each)


def resettables() -> list[Any]:
    """Return all objects that a child resets."""
    return list(_resettables)


def _reset_all() -> None:
    for each in resettables():
        each.reset()


os.register_at_fork(after_in_child=_reset_all)


class Lock:
    """A lock, as a context. In a child it is free."""

    def __init__(self) -> None:
        self.reset()
        reset_in_child(self)

    def reset(self) -> None:
        """Replace the lock by a free one."""
        # Looked up now: gevent replaces it.
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        self._lock.release()
