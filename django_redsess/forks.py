"""
What a forked process begins anew: locks first of all.

A child has one thread. A lock that another thread of its parent had stays locked in it for ever.
"""

from __future__ import annotations

import os
import threading
from typing import Any, Protocol
from weakref import WeakSet


class Beginning(Protocol):
    """What a child begins anew, by ``begin()``."""

    def begin(self) -> None: ...


_known: WeakSet[Any] = WeakSet()


def begins_anew(each: Beginning) -> None:
    """Have ``each.begin()`` called in every child that is forked while ``each`` lives."""
    _known.add(each)


def every() -> list[Any]:
    """Return all that a child begins anew."""
    return list(_known)


def _begin() -> None:
    for each in every():
        each.begin()


os.register_at_fork(after_in_child=_begin)


class Lock:
    """A lock, as a context. In a child it is free."""

    def __init__(self) -> None:
        self.begin()
        begins_anew(self)

    def begin(self) -> None:
        """Take a lock that nobody has."""
        # Looked up now: gevent replaces it.
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        self._lock.release()
