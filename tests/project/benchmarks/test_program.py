"""The benchmarks as a program, with few sessions: that they run, and that they measure a store like any other."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import redis as redis_py

from benchmarks.__main__ import parsed
from benchmarks.engines import BASE, OURS
from benchmarks.fill import fill
from benchmarks.targets import judged
from django_redsess import cleaning, online, viewed
from testproject import servers
from tests.helpers.behind import faults, stored

ROOT = Path(__file__).parents[3]
KIND, BINARY = next(iter(servers.available().items()))


@pytest.mark.slow
@pytest.mark.parametrize("due", [False, True])
def test_what_is_filled_in_is_what_the_engine_writes(redis: redis_py.Redis, partitions: int, due: bool) -> None:
    fill(redis, 1200, users=500, due=due)
    assert (stored(redis), faults()) == (1200, [])
    newest = online.sessions(limit=1) if not due else []
    assert [(session.user_id, session.address[:4]) for session in newest] == [("200", "198.")][: len(newest)]
    assert sum(item.views for item in viewed.popular(limit=100)) == 6000
    assert sum(cleaning.expired()) == (1200 if due else 0)


@pytest.mark.unit
def test_a_target_is_judged_by_its_limit_and_by_how_much_two_of_the_same_differ() -> None:
    row = {"operation": "load", "server": "valkey", "low": 0.5, "high": 2}
    results = {
        "operations": [
            row | {"engine": OURS, "ratio": 0.9},
            row | {"engine": "cache (django-redis), again", "ratio": 1.0},
        ]
    }
    expected = {(0.9, 1.0): "reached, 5 %", (1.9, 1.0): "**not reached**, by 100 %", (1.9, 3.0): "about there"}
    for (ours, again), verdict in expected.items():
        results["operations"][0]["ratio"], results["operations"][1]["ratio"] = ours, again
        [each] = next(found for target, found in judged(results) if target.name == "load")
        assert each.verdict.startswith(verdict)


@pytest.mark.unit
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--quick", "--targets"], "--quick and --targets exclude each other"),
        (["--rounds", "0"], "--rounds must be at least 1"),
        (["--quick", "--only", "pages"], "--only: pages is not part of --quick"),
        (["--output", __file__], "is no folder"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parsed(arguments)
    assert message in capsys.readouterr().err


@pytest.mark.slow
def test_a_section_that_fails_is_told_and_the_results_of_others_are_kept(tmp_path: Path) -> None:
    """The server here can't have as many databases as one section wants."""
    poor = tmp_path / "poor-server"
    poor.write_text(
        f'#!/bin/sh\ncase "$*" in *--databases*) [ -e {tmp_path}/once ] && exit 1; touch {tmp_path}/once;; esac\n'
        f'exec {BINARY} "$@"\n'
    )
    poor.chmod(0o755)
    command = ["-m", "benchmarks", "--only", "operations", "bytes", "--server", "redis", "--output", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, *command, "--rounds", "1"],
        cwd=ROOT,
        env={**os.environ, "REDIS_SERVER": str(poor), "QUICK": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    told = json.loads((tmp_path / "results.json").read_text())
    assert (list(told["failed"]), told["bytes"]) == (["bytes"], [])
    assert {OURS, BASE} <= {entry["engine"] for entry in told["operations"]}
