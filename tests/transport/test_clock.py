"""What a process knows of a server's clock."""

import errno
import runpy
import time

import pytest

from django_redsess import clock as clock_module
from django_redsess.transport import pools
from django_redsess.transport.pools import Clock

pytestmark = pytest.mark.unit


def test_a_clock_that_was_never_told_knows_nothing() -> None:
    assert (Clock().now(), Clock().fresh()) == (None, None)


def test_a_time_is_carried_on_and_is_fresh_for_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    monotonic = 50.0
    monkeypatch.setattr(pools, "monotonic", lambda: monotonic)
    known = Clock()
    assert known.learn([b"1000", b"250000"]) == 1_000_250
    monotonic = 51.0
    assert (known.fresh(), known.now()) == (1_001_250, 1_001_250)
    monotonic = 51.1
    assert (known.fresh(), known.now()) == (None, 1_001_350)
    known.learn_from_script(2_000_000)
    assert (known.fresh(), known.now()) == (2_000_000, 2_000_000)
    known.expire()
    assert (known.fresh(), known.now()) == (None, 2_000_000)


@pytest.mark.parametrize(("has_clock", "expected"), [(True, 3600.0), (False, 1.0)])
def test_time_goes_on_while_a_computer_sleeps(
    monkeypatch: pytest.MonkeyPatch, has_clock: bool, expected: float
) -> None:
    monkeypatch.setattr(time, "CLOCK_BOOTTIME", 7, raising=False)
    monkeypatch.setattr(time, "CLOCK_MONOTONIC", 1, raising=False)

    def clock_gettime(number: int) -> float:
        if number == 7 and not has_clock:
            # As in a sandbox that has no such clock.
            raise OSError(errno.EINVAL, "Invalid argument")
        return {7: 3600.0, 1: 1.0}[number]

    monkeypatch.setattr(time, "clock_gettime", clock_gettime, raising=False)
    assert runpy.run_path(clock_module.__file__ or "")["monotonic"]() == expected
