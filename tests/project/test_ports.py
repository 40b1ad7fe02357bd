"""Ports that tests, the demo and benchmarks start their servers on."""

import secrets
import subprocess
import sys
from collections.abc import Iterator
from itertools import count

import pytest

from testproject import servers
from tests.helpers.running import ROOT, run_python

HOLD = """
import time
from testproject import servers

print(servers.free_port(), flush=True)
time.sleep(60)
"""


@pytest.fixture
def given_to_another() -> Iterator[int]:
    """A port that another process was given, and that it does not listen on yet."""
    with subprocess.Popen([sys.executable, "-c", HOLD], cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield int(process.stdout.readline())
        process.kill()


@pytest.mark.unit
def test_no_two_processes_get_the_same_port(given_to_another: int, monkeypatch) -> None:
    one_after_the_other = count()
    monkeypatch.setattr(servers, "FIRST_PORT", given_to_another)
    monkeypatch.setattr(secrets, "randbelow", lambda _: next(one_after_the_other))
    assert servers.free_port() > given_to_another


@pytest.mark.unit
def test_a_process_that_was_given_a_port_ends_without_a_warning() -> None:
    run_python("-W", "error", "-c", "from testproject import servers; servers.free_port()", quiet=True)
