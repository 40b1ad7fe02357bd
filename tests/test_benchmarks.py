"""The benchmarks, with few sessions: that they run, and that what they measure on is a store like any other."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import redis as redis_py

from benchmarks.fill import fill
from django_redsess import cleaner, online, viewed
from tests.behind import faults, stored
from tests.faults.conftest import one_kind_of_server

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("due", [False, True])
def test_what_is_filled_in_is_what_the_engine_writes(redis: redis_py.Redis, partitions: int, due: bool) -> None:
    fill(redis, 1200, users=500, due=due)
    assert (stored(redis), faults()) == (1200, [])
    newest = online.sessions(limit=1) if not due else []
    assert [(session.user_id, session.address[:4]) for session in newest] == [("200", "198.")][: len(newest)]
    assert sum(item.views for item in viewed.popular(limit=100)) == 6000
    assert sum(cleaner.expired()) == (1200 if due else 0)


@one_kind_of_server
def test_cleaners_are_measured_beside_the_listing(tmp_path: Path) -> None:
    file = tmp_path / "clean.json"
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.clean", "--sessions", "1500", "--rounds", "1", "--json", str(file)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "| listing |" in done.stdout
    runs = {run["way"]: run for run in json.loads(file.read_text())["runs"]}
    assert runs["listing"]["left_behind"] > 0
    assert [run["left_behind"] for way, run in runs.items() if way != "listing"] == [0, 0, 0, 0]
