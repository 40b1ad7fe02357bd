"""Nodes of a cluster whose clocks differ by an hour: a failover there and back ends nobody."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from django_redsess import cleaning, online, viewed
from django_redsess.backend import SessionStore
from django_redsess.transport.keys import keyspace
from testproject.clusters import Cluster
from testproject.servers import Server
from tests.helpers import clocks
from tests.helpers.behind import faults
from tests.helpers.clusters import cluster_caches
from tests.helpers.every_operation import request
from tests.helpers.oracle import disagreements

pytestmark = pytest.mark.slow

NEARLY_AN_HOUR = 3550


@pytest.fixture(params=[NEARLY_AN_HOUR, -NEARLY_AN_HOUR], ids=["ahead", "behind"])
def fail_over(
    request: pytest.FixtureRequest, server: Server, tmp_path: Path, settings: Any
) -> Iterator[Callable[[], None]]:
    """Sessions on a cluster whose replicas have another clock. Returns a function: replica and primary swap roles."""
    other = clocks.stepped(tmp_path / "clock", request.param)
    cluster = Cluster(server.binary, environments={3: other, 4: other, 5: other})
    settings.CACHES = cluster_caches(cluster)

    def fail_over() -> None:
        node = cluster.node_of(keyspace().partitions[0].tag)
        replica = cluster.replica_of(node)
        assert abs(abs(replica.client.time()[0] - node.client.time()[0]) - NEARLY_AN_HOUR) < 30
        cluster.promote(replica)

    try:
        yield fail_over
        assert faults() == []
        client: Any = cluster.client
        assert disagreements(client) == []
    finally:
        cluster.close()


def colours(sessions: list[SessionStore]) -> list[Any]:
    """Return what requests find in these sessions. They change them, too."""
    return [request(each.session_key or "", {"changed": True})["data"].get("colour") for each in sessions]


def test_nobody_is_ended(fail_over: Callable[[], None], new_session: Callable[..., SessionStore]) -> None:
    sessions = [new_session(user, colour="blue") for user in ("1", "2", "", "")]
    for number in range(3):
        assert colours(sessions) == ["blue"] * len(sessions)
        fail_over()
        assert colours(sessions) == ["blue"] * len(sessions)
        sessions += [new_session(user, colour="blue") for user in (f"{10 + number}", "")]
        viewed.record(sessions[0], f"item {number}")
        assert sum(cleaning.expired()) == 0
        in_lists = {each.sid for each in online.sessions(guests=True, limit=50)}
        assert in_lists == {each.sid for each in sessions}
        assert online.count() == sum("_auth_user_id" in each for each in sessions)
    assert [each.item for each in viewed.recent(sessions[0])] == ["item 2", "item 1", "item 0"]


def test_who_has_just_come_stays_at_the_cap(
    fail_over: Callable[[], None], settings: Any, new_session: Callable[..., SessionStore]
) -> None:
    settings.REDSESS = {**settings.REDSESS, "MAX_SESSIONS": 10}
    for number in range(10):
        new_session(f"{number}", colour="blue")
    for _ in range(2):
        fail_over()
        newcomers = [new_session(f"{number}", colour="blue") for number in range(5)]
        assert colours(newcomers) == ["blue"] * 5
        assert online.count() == 10
