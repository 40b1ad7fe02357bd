"""The cleaners on a cluster: they reach every node, ask it no more than once a second, and hear of what is due."""

import socket
import threading
import time
from collections.abc import Iterator

import pytest
from django.core.management import CommandError, call_command

from django_redsess import cleaning, online, viewed
from django_redsess.backend import SessionStore
from django_redsess.cleaning import index_check, wake_up
from django_redsess.online.sampling import samples_until_now
from testproject.clusters import Cluster
from tests.helpers.clusters import PARTITIONS
from tests.helpers.store import keyspace, make_due, server_of, stored

pytestmark = [pytest.mark.both_servers, pytest.mark.slow]


@pytest.fixture
def sessions(clustered, new_session) -> list[SessionStore]:
    made = [new_session(str(number)) for number in range(60)]
    assert {server_of(keyspace().of_sid(session.sid)) for session in made} == {
        server_of(each) for each in keyspace().partitions
    }
    return made


@pytest.fixture
def until() -> Iterator[socket.socket]:
    """What a cleaner waits for besides deadlines."""
    ears, mouth = socket.socketpair()
    with ears, mouth:
        yield ears


def calls(cluster: Cluster) -> list[int]:
    stats = [node.client.info("commandstats") for node in cluster.primaries]
    return [stat.get("cmdstat_evalsha", {"calls": 0})["calls"] for stat in stats]


def partitions_of(cluster: Cluster) -> list[int]:
    found = [cluster.node_of(partition.tag) for partition in keyspace().partitions]
    return [found.count(node) for node in cluster.primaries]


def test_a_pass_ends_what_is_due_on_every_node(clustered, sessions) -> None:
    make_due(clustered.client, *(session.sid for session in sessions[::2]))
    call_command("cleansessions", verbosity=0)
    assert stored(clustered.client) == online.count() == 30
    call_command("cleansessions", max_sessions=PARTITIONS // 8, verbosity=0)
    # Each partition keeps its share, rounded up.
    assert 0 < online.count() <= PARTITIONS
    call_command("cleansessions", max_guests=0, verbosity=0)


def test_a_pass_without_work_asks_each_partition_twice(clustered, sessions) -> None:
    call_command("cleansessions", verbosity=0)
    before = calls(clustered)
    call_command("cleansessions", verbosity=0)
    asked = [after - so_far for after, so_far in zip(calls(clustered), before, strict=True)]
    assert asked == [2 * count for count in partitions_of(clustered)]


def test_each_node_is_asked_once_a_second(clustered, sessions, until) -> None:
    # What a process asks at first only is left out.
    for _ in range(3):
        cleaning.seconds_to_next_deadline()
    before = calls(clustered)
    began = time.monotonic()
    wake_up.make_sleeper(keyspace().partitions).sleep(3.5, until=until)
    assert (seconds := time.monotonic() - began) >= 3.5
    asked = [after - so_far for after, so_far in zip(calls(clustered), before, strict=True)]
    [rounds] = {number / count for number, count in zip(asked, partitions_of(clustered), strict=True)}
    assert rounds in range(1, int(seconds) + 1)


def test_an_earlier_deadline_ends_the_sleep(clustered, sessions, until) -> None:
    ending = threading.Timer(0.2, make_due, (clustered.client, sessions[7].sid))
    ending.start()
    began = time.monotonic()
    wake_up.make_sleeper(keyspace().partitions).sleep(60, until=until)
    assert time.monotonic() - began < 30
    ending.join()
    assert cleaning.seconds_to_next_deadline() == 0


def test_the_picture_has_a_sample_of_every_node(clustered, sessions) -> None:
    assert 0 <= cleaning.take_sample() <= 60
    noted, now = samples_until_now(hours=1)
    assert now.signed_in == 60
    # None where a minute has begun between two nodes.
    assert {sample.signed_in for sample in noted} <= {60}


def test_the_least_viewed_items_of_every_node_are_forgotten(clustered, sessions) -> None:
    for number, session in enumerate(sessions):
        for item in range(number // 10 + 1):
            viewed.record(session, f"item-{item}")
    call_command("cleanviewed", max_items=3, verbosity=0, interactive=False)
    assert [item for item, _ in viewed.popular(limit=10)] == ["item-0", "item-1", "item-2"]


def test_the_check_looks_at_every_node(clustered, sessions, capsys) -> None:
    one_of_each = {server_of(partition): partition for partition in keyspace().partitions}
    assert len(one_of_each) == 3
    for number, partition in enumerate(one_of_each.values()):
        clustered.client.zadd(partition.recent, {f"0{number}GhostGhostGhostGhos": 1})
        clustered.client.set(f"{{{partition.tag}}}:unknown", 1)
    with pytest.raises(CommandError, match="6 entries disagree"):
        call_command("cleansessions", check=True)
    said = capsys.readouterr().out
    assert said.count("no key of this app") == said.count("does not belong there") == 3
    with pytest.raises(CommandError, match="3 entries disagree"):
        call_command("cleansessions", repair=True)
    for partition in one_of_each.values():
        clustered.client.delete(f"{{{partition.tag}}}:unknown")
    assert not [fault for step in index_check.check_store() for fault in step.faults]
    assert online.count() == 60
