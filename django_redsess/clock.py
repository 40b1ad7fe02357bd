"""The monotonic clock of this process, by which it measures how long something takes."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

# In a test that freezes time, freezegun replaces time.monotonic in each module that has imported it. Its times are
# decades ahead of the real ones. What was noted then would hold for decades after the test.
monotonic: Callable[[], float] = (
    partial(time.clock_gettime, time.CLOCK_MONOTONIC) if hasattr(time, "clock_gettime") else partial(time.monotonic)
)
"""Return seconds since some time in the past. Tests that freeze time do not change it."""
