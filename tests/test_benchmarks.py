"""The benchmarks, with few sessions: that they run, and that what they measure on is a store like any other."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import redis as redis_py

from benchmarks.fill import fill
from benchmarks.pages import MINUTES, add_samples
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


@pytest.mark.slow
@one_kind_of_server
def test_pages_of_few_and_of_many_sessions_are_measured_with_as_many_rows(tmp_path: Path) -> None:
    file = tmp_path / "pages.json"
    options = ["--small", "100", "--large", "300", "--rounds", "1", "--partitions", "2", "--json", str(file)]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.pages", *options], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert "| sign-in, latest first: last page | 100 |" in done.stdout
    measured = json.loads(file.read_text())
    single = {"one user": 1, "search by sid": 1, "a session": 0, "online.count()": 0}
    for run in measured["runs"]:
        rows = single.get(run["page"], 100)
        assert (run["page"], run["small"]["rows"], run["large"]["rows"]) == (run["page"], rows, rows)
    commands = {run["page"]: run["large"]["commands"] for run in measured["runs"]}
    assert commands["online.count()"] == 2
    # The names of a page, and who is staff.
    assert (measured["queries"]["last seen: first page"], measured["queries"]["staff"]) == ([1, 1], [2, 2])


def test_pages_are_measured_with_a_picture_of_a_whole_day(redis: redis_py.Redis, partitions: int) -> None:
    add_samples(redis, 1000)
    history = online.history()
    assert len(history) == MINUTES
    assert (history[-1].signed_in, history[-1].guests) == (1000, 500)
