"""What the benchmarks measure, with few sessions: a store like any other, round trips as promised."""

import pytest
import redis as redis_py

from benchmarks.engines import BASE, BOUND, FLOOR, OURS
from benchmarks.fill import fill
from benchmarks.operations import operations_of
from benchmarks.rounds import Repeats, measured
from django_redsess import cleaning, online, viewed
from testproject.servers import available
from tests.helpers.store import faults, stored

pytestmark = pytest.mark.slow

ROUND_TRIPS = {
    # What the design promises.
    OURS: {"load": 1, "reload": 1, "load-elsewhere": 1, "change": 2, "create": 1, "sign-in": 2, "end": 1},
    # A proof is checked without the server.
    BOUND: {"load": 1, "reload": 1, "load-elsewhere": 1, "change": 2, "end": 1},
    # What the other needs, as counted.
    BASE: {"load": 1, "reload": 1, "load-elsewhere": 1, "change": 3, "create": 2, "sign-in": 6, "end": 1},
}


@pytest.mark.parametrize("due", [False, True])
def test_what_is_filled_in_is_what_the_engine_writes(redis: redis_py.Redis, partitions: int, due: bool) -> None:
    fill(redis, 1200, users=500, due=due)
    assert (stored(redis), faults()) == (1200, [])
    newest = online.sessions(limit=1) if not due else []
    assert [(session.user_id, session.address[:4]) for session in newest] == [("200", "198.")][: len(newest)]
    assert sum(item.views for item in viewed.popular(limit=100)) == 6000
    assert sum(cleaning.expire_sessions()) == (1200 if due else 0)


def test_round_trips_commands_and_time_are_counted() -> None:
    engines = (OURS, BOUND, BASE, FLOOR)
    repeats = Repeats(3, count=5, blocks=1)
    found = measured(next(iter(available())), sessions=40, engines=engines, repeats=repeats)
    entries = {(entry["engine"], entry["operation"]): entry for entry in found.operations}
    assert set(entries) == {(name, each) for name in engines for each in operations_of(name)} - {(OURS, "view")}
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
        elif name != FLOOR:
            assert entry["commands"] >= entry["round_trips"]
    commands = {operation: entries[OURS, operation]["commands"] for operation in ("load", "reload", "load-elsewhere")}
    # The time may have to be asked for meanwhile.
    assert 1 <= commands["reload"] < 2 < min(commands["load"], commands["load-elsewhere"])
