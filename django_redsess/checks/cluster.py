"""System checks of a cluster: do its nodes fit PARTITIONS, and one another?"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple

from django.core import checks
from redis.exceptions import NoPermissionError, RedisError, ResponseError

from django_redsess.checks.cache import ASKS_SERVER, SERVER, may_ask_server, name_of_cache, pools_by_role
from django_redsess.checks.server import all_server_pools, as_dict, lacks_database, node_name, read_hello, why_unusable
from django_redsess.checks.settings import problem
from django_redsess.clock import monotonic
from django_redsess.transport import attempts, connections
from django_redsess.transport.causes import message_of
from django_redsess.transport.cluster_map import Cluster
from django_redsess.transport.keys import keyspace
from django_redsess.transport.packing import pack_command
from django_redsess.transport.pools import Clock

COVERAGE = "cluster-require-full-coverage"
AGREED = (
    *("appendonly", "cluster-node-timeout", "maxmemory", "maxmemory-policy"),
    *("min-replicas-max-lag", "min-replicas-to-write"),
)
"""The settings that a failover must not change: a replica takes the place of its primary with its own."""

TOLERATED_MS = 1000
"""How far apart clocks may be."""


class NodeState(NamedTuple):
    """A node's answers. ``settings`` is empty if the user may not ask for them. Times are in milliseconds."""

    name: str
    settings: dict[str, str]
    ahead: float
    round_trip: float


@checks.register(ASKS_SERVER)
def check_cluster_database(**kwargs: Any) -> list[checks.CheckMessage]:
    """Warn of another database than 0, unless the cluster has it. Most clusters have database 0 only."""
    node = pools_by_role().get(SERVER)
    if node is None or node.cluster is None:
        return []
    database = node.connection_kwargs.get("db")
    if not database or (may_ask_server() and _can_connect(node)):
        return []
    message = f"{name_of_cache()} names database {database}: a cluster has database 0 only."
    hint = "End its LOCATION in /0. (From Valkey 9 on, the setting cluster-databases may allow more.)"
    return [problem("W028", message, hint)]


def _can_connect(pool: Any) -> bool:
    # A connection selects its database first.
    with suppress(RedisError):
        pool.discard(pool.acquire())
        return True
    return False


@checks.register(ASKS_SERVER)
def check_cluster(**kwargs: Any) -> list[checks.CheckMessage]:
    """Ask whether the server is a cluster, and whether its nodes fit PARTITIONS and one another."""
    if not may_ask_server() or not isinstance(cluster := connections.pool(), Cluster):
        return []
    try:
        primaries = cluster.nodes()
    except RedisError:
        return _find_why_unknown(cluster)
    try:
        nodes = [each for pool in all_server_pools() if (each := _ask_node(pool))]
    except RedisError:  # The nodes do not run any more.
        return []
    return [
        *_find_too_few_partitions(len(primaries)),
        *_find_full_coverage(nodes),
        *_find_differences(nodes),
        *_find_clocks_apart(nodes),
    ]


def _find_why_unknown(cluster: Cluster) -> list[checks.CheckMessage]:
    unusable = []
    for pool in cluster.start_nodes():
        try:
            if read_hello(pool).get("mode", "cluster") != "cluster":
                wrong = "has the factory for clusters, but its server is no cluster: every request fails."
                hint = "Remove CONNECTION_FACTORY from its OPTIONS, or name nodes of a cluster."
                return [problem("W027", f"{name_of_cache()} {wrong}", hint)]
            attempts.ask_server(pool, "CLUSTER", "SLOTS")
        except NoPermissionError as reason:  # Its text names the command and the user.
            hint = "On each node, run as an administrator: ACL SETUSER … +cluster|slots."
            return [problem("W023", message_of(reason), hint)]
        except (RedisError, OSError) as error:
            if not lacks_database(error):  # That is W028.
                unusable.append(why_unusable(pool, error))
    # A node that refuses (W050) tells more than one that does not answer (I049).
    return [max(unusable, key=lambda message: str(message.id))] if unusable else []


def _ask_node(pool: Any) -> NodeState | None:
    begun = monotonic()
    questions = pack_command("TIME") + pack_command("CONFIG", "GET", *AGREED, COVERAGE)
    try:
        time, config = connections.send(pool, questions, 2)
    except (RedisError, OSError):
        return None
    round_trip = (monotonic() - begun) * 1000
    if isinstance(time, ResponseError):
        return None
    ahead = Clock().learn(time) - monotonic() * 1000
    # Managed services refuse CONFIG. The settings are unknown then.
    config = {} if isinstance(config, ResponseError) else as_dict(config)
    return NodeState(node_name(pool), config, ahead, round_trip)


def _find_too_few_partitions(primaries: int) -> list[checks.CheckMessage]:
    count = keyspace().count
    if count >= primaries:
        return []
    effect = "one node has all sessions" if count == 1 else "some nodes have no sessions"
    message = f"REDSESS['PARTITIONS'] is {count}, and the cluster has {primaries} primaries: {effect}."
    hint = "Set REDSESS['PARTITIONS'] = 64 before there are sessions: a store keeps the number that it began with."
    return [problem("W029", message, hint)]


def _find_full_coverage(nodes: list[NodeState]) -> list[checks.CheckMessage]:
    names = [each.name for each in nodes if each.settings.get(COVERAGE) == "yes"]
    if not names:
        return []
    effect = "when some slots have no node, no session can be used"
    message = f"cluster-require-full-coverage is yes on {', '.join(names)}: {effect}."
    hint = (
        f"On each node, run 'CONFIG SET {COVERAGE} no', and write it to the configuration file. Then only the sessions "
        "of those slots wait for a node."
    )
    return [problem("W030", message, hint)]


def _find_differences(nodes: list[NodeState]) -> Iterator[checks.CheckMessage]:
    for name in AGREED:
        by_value: dict[str, list[str]] = {}
        for each in nodes:
            if name in each.settings:
                by_value.setdefault(each.settings[name], []).append(each.name)
        if len(by_value) > 1:
            listed = "; ".join(f"{value} on {', '.join(names)}" for value, names in sorted(by_value.items()))
            message = f"Nodes of the cluster differ in {name}: {listed}."
            hint = f"Run 'CONFIG SET {name} …' on each node, and write it to its configuration file: any may take over."
            yield problem("W031", message, hint)


def _find_clocks_apart(nodes: list[NodeState]) -> list[checks.CheckMessage]:
    if not nodes:
        return []
    first, last = (chosen(nodes, key=lambda each: each.ahead) for chosen in (min, max))
    apart = last.ahead - first.ahead
    # A reply may be as old as its round trip.
    if apart - max(first.round_trip, last.round_trip) <= TOLERATED_MS:
        return []
    message = f"Clocks in the cluster are {apart / 1000:.0f} seconds apart: {last.name} is ahead of {first.name}."
    hint = (
        "Deadlines are times of the node that has the session. When a replica with another clock takes over, sessions "
        "end early or late. Run NTP on each node."
    )
    return [problem("W032", message, hint)]
