"""The engines that the benchmark compares, with few sessions: that each does what is measured, and nothing less."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import django
import pytest
from django.conf import settings
from django.core.management import call_command

from benchmarks import scale
from benchmarks.engines import AGAIN, BASE, ENGINES, FLOOR, OURS
from benchmarks.fill import DATA
from benchmarks.operations import AUTH_KEYS, NEW_USERS, data_of, operations_of, side_of
from benchmarks.rounds import Measured, Repeats, measured
from benchmarks.stores import Servers, Stores
from benchmarks.web import left_out, prepare
from benchmarks.web import measured as requests_measured
from benchmarks.web_servers import PROGRAMS, Site, WebError
from testproject.servers import available

KIND = next(iter(available()))
pytestmark = pytest.mark.slow

COUNT = 3
SESSIONS = 12
NAMES = [name for name in ENGINES if name != AGAIN]

ROUND_TRIPS = {
    # What the design promises.
    OURS: {"load": 1, "reload": 1, "change": 2, "create": 1, "sign-in": 2, "end": 1},
    # What the other needs, as counted.
    BASE: {"load": 1, "reload": 1, "change": 3, "create": 2, "sign-in": 6, "end": 1},
}


@pytest.fixture(scope="module")
def servers() -> Iterator[Servers]:
    with closing(Servers(available()[KIND])) as started:
        yield started


def seen_of(name: str, stores: Stores) -> dict[str, Any]:
    """Do each operation, and return what has become of the sessions. Runs in a process of its own."""
    engine = ENGINES[name]
    settings.configure(**engine.settings(stores))
    django.setup()
    if engine.sql:
        call_command("migrate", verbosity=0)
    side = side_of(name)
    side.fill(SESSIONS)

    def loaded(key: str) -> dict[str, Any]:
        return dict(side.session_class(key).load())

    def stored(key: str) -> bool:
        return bool(side.session_class().exists(key))

    seen: dict[str, Any] = {"filled": [loaded(key) for key in side.known]}
    for operation in operations_of(name):
        before = {key: loaded(key) for key in side.known}
        run = side.prepare(operation, COUNT)
        there = [stored(key) for key in side.gone]
        run()
        changed = [key for key in side.known if loaded(key) != before[key]]
        made, gone = [loaded(key) for key in side.made], [stored(key) for key in side.gone]
        new = list(side.made)
        side.tidy()
        left = [key for key in new if stored(key)]
        seen[operation] = {"changed": len(changed), "made": made, "there": there, "gone": gone, "left": left}
    return seen


@pytest.mark.parametrize("name", NAMES)
def test_each_operation_does_to_sessions_what_it_says(servers: Servers, name: str) -> None:
    with get_context("spawn").Pool(1) as process:
        result = process.apply(seen_of, (name, servers.stores))
    expected = data_of("90000000")
    assert [data[AUTH_KEYS[0]] for data in result["filled"]] == [str(90_000_000 + number) for number in range(SESSIONS)]
    assert result["filled"][0].keys() >= expected.keys()
    nothing = {"changed": 0, "made": [], "there": [], "gone": [], "left": []}
    assert result["load"] == result["reload"] == nothing
    # Of nine baskets that are drawn, one may be the one that was there.
    assert 0 < result["change"]["changed"] <= COUNT
    for operation, before in (("create", []), ("sign-in", [True] * COUNT)):
        made = result[operation].pop("made")
        assert [data[AUTH_KEYS[0]] for data in made] == [str(NEW_USERS + number) for number in range(COUNT)]
        assert all(data.keys() >= expected.keys() for data in made)
        gone = [False] * len(before)
        assert result[operation] == {"changed": 0, "there": before, "gone": gone, "left": []}
    assert result["end"] == nothing | {"there": [True] * COUNT, "gone": [False] * COUNT}


@pytest.fixture(scope="module")
def found() -> Measured:
    return measured(KIND, sessions=40, engines=(OURS, BASE, FLOOR), repeats=Repeats(3, count=5, blocks=1))


def test_round_trips_commands_and_time_are_counted(found: Measured) -> None:
    entries = {(entry["engine"], entry["operation"]): entry for entry in found.operations}
    assert set(entries) == {*product((OURS, BASE, FLOOR), operations_of(BASE))}
    for name, round_trips in ROUND_TRIPS.items():
        assert {operation: entries[name, operation]["round_trips"] for operation in round_trips} == round_trips
    for (name, _), entry in entries.items():
        assert entry["client_cpu"] > 0
        assert (entry["server_cpu"] > 0) == (entry["round_trips"] is not None) == (name != FLOOR)
        assert entry["low"] <= entry["ratio"] <= entry["high"]
        # The commands inside of a script are counted, too; those of the cache engine are its round trips.
        if name == BASE:
            assert (entry["low"], entry["ratio"], entry["high"]) == (1, 1, 1)
            assert entry["commands"] == entry["round_trips"]
        elif name == OURS:
            assert entry["commands"] > entry["round_trips"]


def test_stores_with_few_and_with_many_sessions_are_compared() -> None:
    entries = list(scale.measured(KIND, available()[KIND], few=20, many=60, rounds=1, count=3))
    assert [(entry["few"], entry["many"], entry["operation"]) for entry in entries] == [
        (20, 60, operation) for operation in operations_of(OURS)
    ]
    assert min(entry[name] for entry in entries for name in ("ratio", "few_microseconds", "many_microseconds")) > 0


def test_sites_answer_from_the_session_and_are_loaded(servers: Servers) -> None:
    for program in PROGRAMS:
        if reason := left_out(program):
            pytest.skip(reason)
    engines = [ENGINES[OURS], ENGINES[BASE]]
    prepare(engines, servers.stores, 2)
    with ExitStack() as started, tempfile.TemporaryDirectory() as folder:
        for program, engine in product(PROGRAMS, engines):
            site = started.enter_context(closing(Site(program, engine, servers.stores, Path(folder))))
            site.wait()
            site.sign_in(2)
            for view, expected in (("read", DATA["basket"]), ("write", 2)):
                path = f"{site.prefix}{view}/"
                assert [json.loads(site.get(path, cookie)[0]) for cookie in site.cookies] == [expected] * 2
                with pytest.raises(WebError, match="was answered with 404"):
                    site.get(path)
            with pytest.raises(WebError, match="nowhere was not always answered with 200") as caught:
                site.load("nowhere", seconds=1, connections=1)
            told = [cookie.partition("=")[2] in str(caught.value) for cookie in site.cookies]
            assert told == [False, False]
    entries = requests_measured(servers.stores, engines, programs=["gunicorn"], views=["read"], rounds=1)
    assert [(entry["engine"], entry["ratio"] > 0) for entry in entries] == [(OURS, True), (BASE, True)]
