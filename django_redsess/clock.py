"""The monotonic clock of this process, by which it measures how long something takes."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial


def _counting() -> Callable[[], float]:
    # In a test that freezes time, freezegun replaces time.monotonic in each module that has imported it. Frozen times
    # are decades off the real ones. A time-out noted then would last for decades after the test.
    # On Linux, CLOCK_MONOTONIC stands still while the computer sleeps. After hours of sleep, the server's time would
    # still count as fresh for a second. A sandbox may lack CLOCK_BOOTTIME.
    for name in ("CLOCK_BOOTTIME", "CLOCK_MONOTONIC"):
        with suppress(AttributeError, OSError):
            count = partial(time.clock_gettime, getattr(time, name))
            count()
            return count
    return partial(time.monotonic)


monotonic: Callable[[], float] = _counting()
"""Return seconds since some time in the past, those of sleep among them. Tests that freeze time do not change it."""
