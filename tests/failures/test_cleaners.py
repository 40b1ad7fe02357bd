"""Cleaners that are killed, that run beside each other and beside traffic, or whose server dies."""

import itertools
import json
import random
import threading
import time

import pytest
import redis as redis_py
from django.contrib.sessions.backends.base import UpdateError

from django_redsess import cleaning as cleaner
from django_redsess import viewed
from django_redsess.backend import SessionStore
from django_redsess.signals import Reason
from tests.helpers import every_operation
from tests.helpers.child import MOMENTS
from tests.helpers.failovers import Writers
from tests.helpers.oracle import disagreements
from tests.helpers.running import asleep, wait_until
from tests.helpers.store import faults, keyspace, make_due, make_seen, stored

pytestmark = pytest.mark.both_servers


def totals(client: redis_py.Redis) -> dict[str, int]:
    """Return how many sessions were ever created, and ended for each reason."""
    found: dict[str, int] = {}
    for partition in keyspace().partitions:
        for name, number in client.hgetall(partition.totals).items():
            found[name.decode()] = found.get(name.decode(), 0) + int(number)
    return found


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("kind", [Reason.EXPIRED, Reason.EVICTED])
def test_a_cleaner_killed_at_any_step_ends_whole_sessions(redis, child, new_session, partitions, kind, moment) -> None:
    for number in itertools.count(1):
        redis.flushall()
        # Of guests and members.
        sessions = [new_session(str(number % 7) if number % 3 else "", number=number) for number in range(9)]
        for session in sessions:
            viewed.record(session, "lamp")
        live, others = sessions[:2], [session.sid for session in sessions[2:]]
        if kind is Reason.EXPIRED:
            make_due(redis, *others)
            operation, args = every_operation.clean, (2,)
        else:
            for sid in others:
                make_seen(redis, sid, 1)
            operation, args = every_operation.evict, (partitions, 2)
        ran = child.run(operation, *args, settings={"REDSESS": {"PARTITIONS": partitions}}, die=(number, moment))
        assert (disagreements(redis), faults()) == ([], [])
        assert totals(redis).get(kind, 0) + stored(redis) == 9
        if kind is Reason.EXPIRED:
            # The next one takes what is left.
            left = stored(redis) - 2
            assert sum(cleaner.expire_sessions()) == left
            assert stored(redis) == sum(session.exists(session.session_key) for session in live) == 2
            assert (disagreements(redis), faults()) == ([], [])
        if not ran.killed:
            # Seven in batches of two, of which a cleaner may send two together: it was killed at each command.
            assert number > 3
            assert ran.result == totals(redis)[kind]
            return


class Traffic(threading.Thread):
    """A site at work: sessions that come and expire, and some that are saved again and again before they are due."""

    def __init__(self) -> None:
        super().__init__()
        self.stop = threading.Event()
        self.lost: list[str] = []
        self.live: list[SessionStore] = []

    def run(self) -> None:
        kept = [self.new(1.5) for _ in range(10)]
        while not self.stop.wait(0.001):
            for _ in range(5):
                self.new(random.uniform(0.05, 0.5))
            self.live.append(self.new(3600))
            for session in kept:
                session["number"] = random.random()
                try:
                    session.save()
                except UpdateError:
                    self.lost.append(session.sid)
        self.live += kept

    @staticmethod
    def new(seconds: float) -> SessionStore:
        session = SessionStore()
        session["_auth_user_id"] = str(random.randint(1, 30))
        session.set_expiry(seconds)  # type: ignore[arg-type]
        session.save()
        viewed.record(session, "lamp")
        return session


@pytest.mark.slow
def test_two_cleaners_beside_traffic_remove_nothing_live_and_their_counts_add_up(redis, start, told) -> None:
    cleaners = [start("cleansessions", "--forever", "--json", *options) for options in ([], ["--batch-size=7"])]
    wait_until(lambda: asleep(redis) == 2)
    threads = [Traffic() for _ in range(2)]
    for thread in threads:
        thread.start()
    time.sleep(2)
    wait_until(lambda: sum(len(thread.live) for thread in threads) > 50)
    for thread in threads:
        thread.stop.set()
    for thread in threads:
        thread.join()
    live = [session for thread in threads for session in thread.live]
    assert [each.stop() for each in cleaners] == [(0, ""), (0, "")]
    counts = [json.loads(each.stdout)["expired"] for each in cleaners]
    assert [thread.lost for thread in threads] == [[], []]
    assert min(counts) > 0
    # What new sessions took along has been told here.
    assert sum(counts) + len(told) == totals(redis)["expired"]
    assert totals(redis)["created"] == totals(redis)["expired"] + stored(redis)
    in_an_hour = [session for session in live if session.get_expiry_age() == 3600]
    assert len(in_an_hour) > 50
    assert all(session.exists(session.session_key) for session in in_an_hour)
    sum(cleaner.expire_sessions())
    assert faults() == []


@pytest.mark.slow
def test_a_server_killed_under_load_has_all_it_acknowledged_and_is_cleaned(durable_server, use_server, start) -> None:
    use_server(durable_server)
    client, writers = durable_server.client, Writers(4)
    cleaning = start("cleansessions", "--forever", url=durable_server.url)
    wait_until(lambda: asleep(client) == 1)
    with writers.busy():
        due = [Traffic.new(0.5).sid for _ in range(300)]
        wait_until(lambda: totals(client).get("expired", 0) > 0)
        durable_server.stop()
        durable_server.start()
        served = writers.written
        wait_until(lambda: writers.written > served + 200)
    wait_until(lambda: not any(client.zscore(keyspace().of_sid(sid).expire, sid) for sid in due))
    status, errors = cleaning.stop()
    assert status == 0
    assert len([line for line in errors.splitlines() if "can't be reached" in line]) <= 1
    outcome = writers.outcome(client)
    assert (writers.errors, outcome.lost, outcome.undone) == ([], 0, 0)
    assert outcome.ended > 20
    assert (disagreements(client), faults()) == ([], [])
