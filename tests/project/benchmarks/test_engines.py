"""The engines that the benchmark compares, with few sessions: that each does what is measured, and nothing less."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import closing
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any

import django
import psutil
import pytest
import redis as redis_py
from django.conf import settings

from benchmarks import scale
from benchmarks.bare import ALL, GET, LISTING, SCRIPTS, operations_of, side_of
from benchmarks.engines import AGAIN, BASE, ENGINES, FLOOR, OURS, Engine
from benchmarks.operations import AUTH_KEYS, NEW_USERS, data_of
from benchmarks.rounds import Measured, Repeats, measured
from benchmarks.stores import Servers, Stores
from benchmarks.worker import Worker, WorkerFailed
from django_redsess.transport.keys import keyspace
from testproject.servers import available

ROOT = Path(__file__).parents[3]
KIND = next(iter(available()))
pytestmark = pytest.mark.slow

COUNT = 3
SESSIONS = 12

APART = (AGAIN, LISTING)
"""The one is the base by another name, the other has no sessions that Django could load."""

ROUND_TRIPS = {
    # What the design promises.
    (OURS, "load"): 1,
    (OURS, "change"): 2,
    (OURS, "create"): 1,
    (OURS, "sign-in"): 2,
    (OURS, "end"): 1,
    (OURS, "view"): 1,
    # What the others need, as counted.
    (BASE, "load"): 1,
    (BASE, "change"): 3,
    (BASE, "create"): 2,
    (BASE, "sign-in"): 6,
    (BASE, "end"): 1,
    (SCRIPTS, "load"): 1,
    (SCRIPTS, "change"): 2,
    (SCRIPTS, "create"): 1,
    (SCRIPTS, "sign-in"): 2,
    (SCRIPTS, "end"): 1,
    (SCRIPTS, "view"): 1,
    (GET, "load"): 1,
    (LISTING, "view"): 5,
}


@pytest.fixture(scope="module")
def servers() -> Iterator[Servers]:
    """Servers of all kinds; in the end it sees that nothing of them is left."""
    with closing(Servers(available()[KIND], postgres=True)) as started:
        of_postgres = [started.postgres.process, *started.postgres.process.children()] if started.postgres else []
        assert all(map(is_alive, of_postgres))
        yield started
    assert have_ended(of_postgres)
    assert not started.postgres or not started.postgres.folder.exists()


def is_alive(process: psutil.Process) -> bool:
    """Tell whether it has not ended, be it that nobody has asked how."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def have_ended(processes: list[psutil.Process]) -> bool:
    """Tell whether they all have, or do so in a moment: some end when they notice that others have."""
    for _ in range(100):
        if not any(map(is_alive, processes)):
            return True
        time.sleep(0.05)
    return False


@pytest.fixture(scope="module")
def seen(servers: Servers) -> dict[str, Future[dict[str, Any]]]:
    """What :func:`seen_of` returns, by engine: each engine needs a process, and two are busy at a time."""
    here = [name for name, engine in ALL.items() if not engine.left_out(servers.stores)]
    # They begin where one has imported all of this: importing would take most of the time.
    context = get_context("forkserver")
    context.set_forkserver_preload([__name__])
    with ProcessPoolExecutor(2, context, max_tasks_per_child=1) as processes:
        return {name: processes.submit(seen_of, name, servers.stores) for name in here if name not in APART}


def seen_of(name: str, stores: Stores) -> dict[str, Any]:
    """Do each operation, and return what has become of the sessions. Runs in a process of its own."""
    engine = ALL[name]
    settings.configure(**engine.settings(stores))
    django.setup()
    if engine.sql:
        engine.make_database(stores)
    side = side_of(name)
    side.fill(SESSIONS)

    def loaded(key: str) -> dict[str, Any] | None:
        session = side.session_class(key)
        data = dict(session.load())
        # A session that is not there has no key any more, or none of this one's data.
        return data or None

    def stored(key: str) -> bool:
        return bool(side.session_class().exists(key))

    seen: dict[str, Any] = {"filled": [loaded(key) for key in side.known]}
    data = data_of("90000001")
    side.made = [side.saved(data), *side.stored([data])]
    made = list(side.made)
    seen["by the engine, at once"] = [loaded(key) for key in made]
    side.tidy()
    seen["tidied"] = [stored(key) for key in made]
    for operation in operations_of(name):
        before = {key: loaded(key) for key in side.known}
        run = side.prepare(operation, COUNT)
        seen[f"before {operation}"] = [stored(key) for key in side.gone]
        run()
        changed = [key for key in side.known if loaded(key) != before[key]]
        made, gone = [loaded(key) for key in side.made], [stored(key) for key in side.gone]
        new = list(side.made)
        side.tidy()
        left = [key for key in new if stored(key)]
        seen[operation] = {"changed": len(changed), "made": made, "gone": gone, "left": len(left)}
        seen["baskets"] = [(loaded(key) or {}).get("basket") for key in side.known]
    return seen


def here(name: str, servers: Servers) -> str:
    if why := ALL[name].left_out(servers.stores):
        pytest.skip(why)
    return name


@pytest.mark.parametrize("name", [name for name in ALL if name not in APART])
def test_each_operation_does_to_sessions_what_it_says(
    seen: dict[str, Future[dict[str, Any]]], servers: Servers, name: str
) -> None:
    result = seen[here(name, servers)].result()
    users = [data[AUTH_KEYS[0]] for data in result["filled"]]
    assert users == [str(90_000_000 + number) for number in range(SESSIONS)]
    by_the_engine, at_once = result["by the engine, at once"]
    assert by_the_engine == at_once
    assert at_once.keys() >= {*AUTH_KEYS, "basket"}
    assert result["tidied"] == [False, False]
    nothing = {"changed": 0, "made": [], "gone": [], "left": 0}
    assert result["load"] == nothing
    if name == GET:
        return
    assert result["change"] == nothing | {"changed": result["change"]["changed"]}
    # Of nine baskets that are drawn, one may be the one that was there.
    assert 0 < result["change"]["changed"] <= COUNT
    assert all(basket.keys() == {"item-00", "item-01"} for basket in result["baskets"])

    new_users = [str(NEW_USERS + number) for number in range(COUNT)]
    for operation, gone in (("create", []), ("sign-in", [False] * COUNT)):
        done = result[operation]
        assert (done["changed"], done["gone"], done["left"]) == (0, gone, 0)
        assert [data[AUTH_KEYS[0]] for data in done["made"]] == new_users
        assert all(data.keys() >= {*AUTH_KEYS, "basket"} for data in done["made"])
    assert result["before sign-in"] == result["before end"] == [True] * COUNT
    assert result["end"] == nothing | {"gone": [False] * COUNT}


@pytest.fixture(scope="module")
def found() -> Measured:
    names = (OURS, BASE, SCRIPTS, GET, FLOOR)
    return measured(KIND, sessions=40, engines=names, repeats=Repeats(3, count=5, blocks=1))


def test_round_trips_of_an_operation_are_counted(found: Measured) -> None:
    counted = {(entry["engine"], entry["operation"]): entry["round_trips"] for entry in found.operations}
    expected = {which: trips for which, trips in ROUND_TRIPS.items() if which[0] not in found.left_out}
    assert {which: counted[which] for which in expected} == expected
    assert {counted[FLOOR, operation] for operation in operations_of(BASE)} == {None}
    # The commands inside of a script are counted too, and those of the cache engine are its round trips.
    commands = {(entry["engine"], entry["operation"]): entry["commands"] for entry in found.operations}
    assert all(commands[BASE, operation] == counted[BASE, operation] for operation in operations_of(BASE))
    assert all(commands[OURS, operation] > counted[OURS, operation] for operation in operations_of(OURS))
    if SCRIPTS not in found.left_out:
        assert all(commands[OURS, operation] == commands[SCRIPTS, operation] for operation in operations_of(OURS))


def test_a_ratio_compares_the_same_round_and_is_1_to_itself(found: Measured) -> None:
    # Only these need a module that redis-py would use in all tests, if it were installed for them.
    assert set(found.left_out) <= {SCRIPTS, GET}
    for entry in found.operations:
        base = LISTING if entry["operation"] == "view" else BASE
        runs = {
            name: {
                run.round: run.seconds
                for run in found.runs
                if (run.operation, run.engine) == (entry["operation"], name)
            }
            for name in (base, entry["engine"])
        }
        assert [*runs[base]] == [*runs[entry["engine"]]] == [1, 2, 3]
        ratios = [runs[entry["engine"]][number] / runs[base][number] for number in (1, 2, 3)]
        assert entry["ratio"] == median(ratios)
        assert entry["low"] <= entry["ratio"] <= entry["high"]
        if entry["engine"] == base:
            assert (entry["low"], entry["ratio"], entry["high"]) == (1, 1, 1)
    asked = {(entry["engine"], entry["operation"]) for entry in found.operations}
    names = {OURS, BASE, SCRIPTS, GET, LISTING, FLOOR} - set(found.left_out)
    assert asked == {(name, operation) for name in names for operation in operations_of(name)}


def test_what_clients_and_servers_took_is_told(found: Measured) -> None:
    for entry in found.operations:
        assert entry["client_cpu"] > 0
        # Another process of the machine may have its turn meanwhile.
        assert entry["client_cpu"] < 2 * entry["microseconds"]
        assert (entry["server_cpu"] > 0) == (entry["engine"] != FLOOR)


@pytest.mark.parametrize("name", [OURS, BASE])
def test_where_there_are_many_sessions_a_thousand_are_used(name: str) -> None:
    with closing(Servers(available()[KIND])) as servers, closing(Worker(name, servers.stores)) as worker:
        worker.start()
        worker.fill(1100)
        with redis_py.Redis(port=servers.stores.redis_port, db=ALL[name].database) as client:
            stored = client.hlen(keyspace().partitions[0].login) if name == OURS else client.dbsize()
            ages = {client.ttl(key) for key in client.scan_iter("*django.contrib.sessions*")}
        assert stored == 1100
        # Two weeks, less what filling took.
        assert all(14 * 86400 - 60 <= age <= 14 * 86400 for age in ages)
        assert bool(ages) == (name == BASE)
        worker.prepare("load", 1000)
        assert worker.run().seconds > 0
        with pytest.raises(WorkerFailed, match="ValueError"):
            worker.prepare("load", 1001)


def test_a_measurement_that_is_interrupted_leaves_nothing_behind(tmp_path: Path) -> None:
    program = f"""
from benchmarks.rounds import Repeats, measured
measured({KIND!r}, engines={[OURS]!r}, sessions=10, repeats=Repeats(count=5))
"""
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    mother, started = psutil.Process(process.pid), list[psutil.Process]()
    while len(started) < 5:  # A server, three engines, and what multiprocessing starts for itself.
        assert process.poll() is None
        started = mother.children(recursive=True)
        time.sleep(0.05)
    # As Ctrl-C does.
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate()
    assert said.endswith(b"KeyboardInterrupt\n")
    assert have_ended(started)
    assert list(tmp_path.iterdir()) == []


def test_an_engine_whose_modules_can_not_be_imported_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    stores = Stores(1, "folder", None, "nobody has it here")
    absent = Engine("of nobody", "nobody.sessions", 40, needs=("nobody_has_this_module",))
    assert (
        absent.left_out(stores) == "nobody_has_this_module can't be imported: No module named 'nobody_has_this_module'"
    )
    assert ENGINES["db (PostgreSQL)"].left_out(stores) in (
        "no PostgreSQL: nobody has it here",
        "psycopg can't be imported: No module named 'psycopg'",
    )
    assert ENGINES[OURS].left_out(stores) == ""
    # This one could be imported, and its process does not know it: as one that this Django is too new for.
    unusable = Engine("of somebody else", "benchmarks.floor", 41)
    for engine in (absent, unusable):
        monkeypatch.setitem(ALL, engine.name, engine)
    names = [absent.name, unusable.name]
    measurement = measured(KIND, sessions=5, engines=names, operations=["load"], repeats=Repeats(1, 2, 1))
    assert measurement.left_out == {absent.name: absent.left_out(stores), unusable.name: "KeyError: 'of somebody else'"}
    assert [entry["engine"] for entry in measurement.operations] == [BASE]


@pytest.mark.parametrize("engine", [OURS, BASE])
def test_stores_of_several_sizes_are_compared_with_the_smallest(engine: str) -> None:
    sizes = (20, 40, 60)
    entries = list(scale.measured(KIND, available()[KIND], engine, sizes=sizes, rounds=1, count=3))
    each = [*operations_of(engine), scale.BYTES]
    assert [(entry["sessions"], entry["operation"]) for entry in entries] == list(product(sizes, each))
    ratios = [entry["ratio_to_smallest"] for entry in entries]
    assert set(ratios[: len(each)]) == {1}
    assert min(ratios + [entry["microseconds"] for entry in entries]) > 0
