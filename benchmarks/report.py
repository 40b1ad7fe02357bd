"""What the benchmarks' reports have in common."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from statistics import median
from typing import Any

import django
import redis
from redis.utils import HIREDIS_AVAILABLE


def machine_of(server: str, info: dict[str, Any]) -> str:
    """Describe what was measured on: ``server`` is the name of its kind, ``info`` what it told of itself."""
    return (
        f"{os.cpu_count()} cores ({platform.machine()}), Python {platform.python_version()}, "
        f"Django {django.__version__}, redis-py {redis.__version__} "
        f"(parser: {'hiredis' if HIREDIS_AVAILABLE else 'Python'}), "
        f"{server} {info.get('valkey_version', info['redis_version'])} ({info['mem_allocator']})"
    )


def spread(values: Sequence[float], digits: int = 0) -> str:
    """Write the median of ``values``, and from the least to the most."""
    low, middle, high = (f"{value:,.{digits}f}" for value in (min(values), median(values), max(values)))
    return f"{middle} ({low} to {high})"
