"""The benchmarks, with few sessions: that they run, and that what they measure on is a store like any other."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections import Counter
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import redis as redis_py

from benchmarks import python_cost, views
from benchmarks.administrator import MINUTES, add_samples
from benchmarks.engines import BASE, OURS
from benchmarks.fill import fill
from django_redsess import cleaning, online, viewed
from django_redsess.transport.keys import keyspace, sid_of
from testproject import servers
from tests.helpers.behind import faults, make_older, stored

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("due", [False, True])
def test_what_is_filled_in_is_what_the_engine_writes(redis: redis_py.Redis, partitions: int, due: bool) -> None:
    fill(redis, 1200, users=500, due=due)
    assert (stored(redis), faults()) == (1200, [])
    newest = online.sessions(limit=1) if not due else []
    assert [(session.user_id, session.address[:4]) for session in newest] == [("200", "198.")][: len(newest)]
    assert sum(item.views for item in viewed.popular(limit=100)) == 6000
    assert viewed.total()[:2] == (100, 6000)
    assert sum(cleaning.expired()) == (1200 if due else 0)


@pytest.mark.parametrize("ways", [(), ("--ways", "cleansessions, excess")])
def test_cleaners_are_measured_beside_the_listing(tmp_path: Path, ways: tuple[str, ...]) -> None:
    file = tmp_path / "clean.json"
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.clean", "--sessions", "1500", "--rounds", "1", "--json", str(file), *ways],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "| listing |" in done.stdout
    runs = {run["way"]: run for run in json.loads(file.read_text())["runs"]}
    assert runs["listing"]["left_behind"] > 0
    others = [run["left_behind"] for way, run in runs.items() if way != "listing"]
    assert others == ([0] if ways else [0, 0, 0, 0])


def test_functions_and_microseconds_of_a_load_and_a_save_are_counted() -> None:
    pytest.importorskip("hiredis", reason="what it reads is what is given again")
    [(_, binary), *_] = servers.available().items()
    entries = python_cost.measured(binary, engines=(OURS, BASE), rounds=2, count=20)
    names = ["load", "load and save", *python_cost.REQUESTS.values(), "save"]
    assert [(entry["engine"], entry["operation"]) for entry in entries] == [*product((OURS, BASE), names)]
    for load, both, without, reads, writes, save in (entries[:6], entries[6:]):
        assert 0 == without["functions_of_redis_py"] < reads["functions_of_redis_py"] < writes["functions_of_redis_py"]
        for name in ("functions", "functions_of_redis_py", "functions_besides"):
            assert 0 < load[name] < both[name]
            assert load[name] + save[name] == pytest.approx(both[name])
        # The same each time, for each.
        assert load["functions"] == round(load["functions"])
        assert load["functions"] == load["functions_of_redis_py"] + load["functions_besides"]
    for of_ours, of_base in zip(entries[:2], entries[6:8], strict=True):
        assert 0 < of_ours["own_microseconds"] < of_ours["microseconds"]
        assert (of_base["own_microseconds"], of_base["ratio"]) == (None, 1)


@pytest.mark.slow
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
    scripts = {run["page"]: run["large"]["scripts"] for run in measured["runs"]}
    # Two partitions are counted by plain commands. The rows of a page and the picture above it are read by scripts.
    assert (scripts["online.count()"], scripts["sign-in: first page"]) == (0, 4)
    # The names of a page, and who is staff.
    assert (measured["queries"]["last seen: first page"], measured["queries"]["staff"]) == ([1, 1], [2, 2])


def test_pages_are_measured_with_a_picture_of_a_whole_day(redis: redis_py.Redis, partitions: int) -> None:
    add_samples(redis, 1000)
    history = online.history()
    assert len(history) == MINUTES
    assert (history[-1].signed_in, history[-1].guests) == (1000, 500)


def test_all_ways_of_recording_views_are_measured_with_the_same_ones(tmp_path: Path) -> None:
    file = tmp_path / "views.json"
    options = ["--sessions", "4", "--items", "40", "--rounds", "2", "--views", "50", "--json", str(file)]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.views", *options], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert "| listing | 1.00 (1.00 to 1.00) |" in done.stdout
    measured = json.loads(file.read_text())
    dice = random.Random(views.SEED)
    items = [f"item-{number}" for number in range(1, 41)]
    # Two rounds, and the one before them that is not measured.
    expected = Counter(item for _ in range(3) for _, item in views.some_views(dice, items, 4, 50))
    assert measured["counted"] == dict.fromkeys(views.WAYS, expected)
    assert Counter((run["way"], run["round"]) for run in measured["runs"]) == Counter(
        (way, number) for way in views.WAYS for number in (1, 2)
    )


@pytest.mark.parametrize("way", views.WAYS)
def test_a_way_of_recording_views_counts_them_and_keeps_the_newest(
    server: servers.Server, settings: Any, way: str
) -> None:
    settings.CACHES = views.caches_of(server)
    items = [f"item-{number}" for number in range(30)]
    side = views.Side(way, server)
    side.fill([items[:25], items[5:]])
    some = [(0, "item-28"), (1, "item-28"), (0, "item-3"), (0, "item-29"), (0, "item-28")]
    side.measure(1, some)
    assert side.counted() == {"item-28": 3, "item-3": 1, "item-29": 1}
    before = [item for item in items[24:1:-1] if item != "item-3"]
    assert side.histories() == [
        ["item-28", "item-29", "item-3", *before],
        ["item-28", "item-29", *items[27:4:-1]],
    ]


@pytest.mark.parametrize(
    ("way", "commands", "round_trips"),
    [
        ("listing", 5, 5),
        ("listing, again", 5, 5),
        ("listing in one pipeline", 5, 1),
        ("listing in one MULTI/EXEC", 7, 1),
        ("engine, every view noted", None, 1),
        ("engine, sliding", None, 2),
        ("engine, defaults", None, 1),
    ],
)
def test_commands_and_round_trips_of_a_view_are_counted(
    server: servers.Server, settings: Any, way: str, commands: int | None, round_trips: int
) -> None:
    settings.CACHES = views.caches_of(server)
    side = views.Side(way, server)
    side.fill([["item-1"]] * 3)
    some = views.some_views(random.Random(1), ["item-1", "item-2"], 3, 20)
    side.measure(0, some)
    result = side.measure(1, some)
    assert (result.commands if commands else None, result.round_trips) == (commands, round_trips)


@pytest.mark.parametrize(("way", "moves"), [("engine, sliding", True), ("engine, defaults", False)])
def test_the_engine_moves_the_deadline_where_it_slides(
    server: servers.Server, settings: Any, way: str, moves: bool
) -> None:
    settings.CACHES = views.caches_of(server)
    side = views.Side(way, server)
    side.fill([["item-1"]])
    sid = sid_of(side.tokens[0])
    make_older(side.conn, sid, 2 * 3600)
    expire = keyspace().of_sid(sid).expire
    deadline = side.conn.zscore(expire, sid)
    side.measure(1, [(0, "item-1")])
    assert (side.conn.zscore(expire, sid) > deadline) == moves


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--views", "0"], "--views must be at least 1"),
        (["--items", "-1"], "--items must be at least 1"),
        (["--json", "nowhere/views.json"], "--json: there is no folder nowhere"),
    ],
)
def test_what_can_not_be_measured_is_refused_at_once(arguments: list[str], message: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.views", *arguments], cwd=ROOT, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.endswith(f"error: {message}\n")
