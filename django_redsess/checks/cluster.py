"""
System checks that ask the server, or each node of a cluster: does it answer, may our user use it, may it evict?

Replicas are asked too. Each may take the place of its primary, with settings and users of its own. In a cluster, the
nodes have to agree with each other.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any, NamedTuple

from django.apps import apps
from django.core import checks
from django.utils.encoding import force_str
from redis.exceptions import NoPermissionError, RedisError, ResponseError

from django_redsess.checks.server import (
    ASKS_SERVER,
    SERVER,
    Told,
    by_django_redis,
    is_of_database,
    may_ask,
    name_of_cache,
    pools,
    why_unfit,
    why_unusable,
)
from django_redsess.checks.settings import problem
from django_redsess.clock import monotonic
from django_redsess.conf import conf
from django_redsess.transport import attempts, connections, exchange, packing, scripts
from django_redsess.transport.clock import Clock
from django_redsess.transport.cluster_map import Cluster, format_address
from django_redsess.transport.keys import keyspace
from django_redsess.transport.outages import message_of
from django_redsess.transport.packing import pack_command

FACTORY = "'CONNECTION_FACTORY': 'django_redsess.cluster.ClusterConnectionFactory'"


@checks.register(ASKS_SERVER)
def check_server(**kwargs: Any) -> list[checks.CheckMessage]:
    """Ask each server whether it answers, may evict sessions, and lets our user run all commands of this app."""
    return _said_by_each(_said_of)


@checks.register(ASKS_SERVER, deploy=True)
def check_snapshots(**kwargs: Any) -> list[checks.CheckMessage]:
    """Warn of servers that save snapshots, but no append-only file: sessions that ended come back after a crash."""
    return _said_by_each(_saving)


def _said_by_each(said_of: Callable[[Any], Iterable[Told]]) -> list[checks.CheckMessage]:
    said: dict[Told, list[str]] = {}
    with suppress(RedisError):  # No node of a cluster tells the others. check_cluster says why.
        for pool in every() if may_ask() else []:
            for each in said_of(pool):
                said.setdefault(each, []).append(name_of(pool))
    return [
        problem(number, f"{message} Nodes: {', '.join(names)}." if names[0] else message, hint)
        for (number, message, hint), names in said.items()
    ]


def _said_of(pool: Any) -> Iterator[Told]:
    try:
        hello = hello_of(pool)
        if unfit := why_unfit(hello):
            yield unfit
        elif pool.cluster is None and hello.get("mode") == "cluster":
            node = f"The server of {name_of_cache()} is a node of a cluster"
            hint = by_django_redis(f"{FACTORY}. Name several nodes in LOCATION, and set REDSESS['PARTITIONS'] to 64.")
            yield "W026", f"{node}: sessions on other nodes can't be reached.", hint
        else:
            yield from _refused(pool)
            yield from _evicting(pool)
            yield from _forgetting(pool)
    except (RedisError, OSError) as error:
        if pool.cluster is None or not is_of_database(error):  # That is W028.
            yield why_unusable(pool, error)


def _refused(pool: Any) -> list[Told]:
    commands = [*{*scripts.commands_of_scripts(), *packing.COMMANDS}]
    commands += ["BLPOP"] if pool.cluster is None else ["ASKING"]
    commands += ["WAIT"] if conf.CONFIRM_ENDS is not None else []
    commands += ["SELECT"] if pool.connection_kwargs.get("db") else []
    commands += ["PING"] if pool.connection_kwargs.get("health_check_interval") else []
    # The keys of one partition stand for those of all.
    names = [keyspace().agreement.meta, *keyspace().partitions[0].names]
    try:
        args = scripts.ACL.arguments(commands=commands, names=names)
        refused, keys = attempts.ask_server(pool, "EVAL", scripts.ACL.text, 0, *args)
    except NoPermissionError as reason:  # Its text names the command and the user.
        message = message_of(reason)
    except ResponseError as reason:
        if not str(reason).startswith("unknown command"):
            raise
        message = "The server of the sessions has no EVAL: every request would fail."
    else:
        wrong = [
            f"can't {verb} {', '.join(sorted(map(force_str, what)))}{where}"
            for verb, what, where in (("run", refused, " on keys of sessions"), ("use", keys, ""))
            if what
        ]
        if not wrong:
            return []
        message = f"The user of {name_of_cache()} {' and '.join(wrong)}."
    if pool.cluster is not None:
        commands.append("CLUSTER|SLOTS")
    rules = f"~{keyspace().pattern} {' '.join(f'+{name.lower()}' for name in sorted(commands))}"
    where = "the server" if pool.cluster is None else "each node of the cluster"
    hint = f"As an administrator of {where}, run: ACL SETUSER … {rules}. Give renamed commands their names back."
    return [("W023", message, hint)]


def _evicting(pool: Any) -> list[Told]:
    try:
        told = force_str(attempts.ask_server(pool, "INFO", "memory"))
    except ResponseError:  # The user need not be allowed to run INFO.
        return []
    match = re.search(r"maxmemory_policy:(allkeys-\S+)", told)
    if not match:
        return []
    policy = match[1]
    message = f"The server of the sessions has maxmemory-policy {policy}: when its memory is full, it evicts sessions."
    hint = (
        "All sessions of a partition are in one key, and are evicted at once. Set noeviction, and keep caches that "
        "need eviction on another server. (A volatile policy drops the notes of ended sessions only. They say why a "
        "session ended, and which key replaces it: without them, a late request signs its browser out.)"
    )
    return [("W008", message, hint)]


def _forgetting(pool: Any) -> list[Told]:
    # In a cluster a replica takes over, which has all that the node has forgotten.
    if pool.cluster is not None or apps.is_installed("django_redsess.contrib.history"):
        return []
    names = [each.blocked for each in keyspace().partitions]
    try:
        config = _fields(attempts.ask_server(pool, "CONFIG", "GET", "save", "appendonly"))
        if config.get("save") or config.get("appendonly") != "no" or not attempts.ask_server(pool, "EXISTS", *names):
            return []
        now = pool.clock.learn(attempts.ask_server(pool, "TIME"))
        if not any(attempts.ask_server(pool, "ZCOUNT", name, now, "+inf") for name in names):
            return []
    except ResponseError:  # Managed servers hide it.
        return []
    message = "Users are blocked, and the server of the sessions saves nothing: a restart lets them sign in again."
    hint = (
        "Add 'django_redsess.contrib.history' to INSTALLED_APPS, which keeps a copy of blocks. Or set appendonly yes."
    )
    return [("W065", message, hint)]


def _saving(pool: Any) -> list[Told]:
    try:
        reply = attempts.ask_server(pool, "CONFIG", "GET", "save", "appendonly")
    except (RedisError, OSError):  # Managed servers hide it.
        return []
    config = _fields(reply)
    if not config.get("save") or config.get("appendonly") != "no":
        return []
    message = "The server of the sessions saves snapshots, but no append-only file (appendonly no)."
    hint = (
        "After a crash it starts from the last snapshot: sessions that were ended or signed out since live again. Set "
        'appendonly yes. Or save nothing (save ""): then a restart signs everybody out.'
    )
    return [("W056", message, hint)]


def every() -> list[Any]:
    """
    Return the pools of all servers that hold the sessions, or will after a failover.

    That is the only server, or the primaries of the cluster and their replicas. Raises redis-py's ConnectionError if no
    node of the cluster tells the others.
    """
    cluster = connections.pool()
    primaries: list[Any] = cluster.nodes()
    for primary in primaries if isinstance(cluster, Cluster) else []:
        with suppress(RedisError):
            ranges = attempts.ask_server(primary, "CLUSTER", "SLOTS")
            told = {(force_str(host or ""), port) for _, _, _, *replicas in ranges for host, port, *_ in replicas}
            return [*primaries, *(cluster.at(address, primary) for address in sorted(told))]
    return primaries


def name_of(pool: Any) -> str:
    """Return host and port of a cluster's node; an empty text for the only server."""
    if pool.cluster is None:
        return ""
    return format_address((pool.connection_kwargs["host"], pool.connection_kwargs["port"]))


def hello_of(pool: Any) -> dict[str, str]:
    """
    Return what the server tells of itself: ``version``, and as ``mode`` standalone, cluster or sentinel.

    It is empty if it tells nothing. HELLO tells it, which needs no permission. Raises redis-py's ConnectionError or
    TimeoutError if the server does not answer, and its AuthenticationError.
    """
    # A connection of its own: a cluster refuses all databases but the first, which the pool may not use.
    connection = pool.alone(db=0)
    try:
        connection.connect()
        connection.send_command("HELLO")
        return _fields(connection.read_response())
    except ResponseError:
        return {}
    finally:
        connection.disconnect()


def _fields(reply: Any) -> dict[str, str]:
    # A list of names and values, or a dict in the newer protocol.
    pairs = reply.items() if isinstance(reply, dict) else zip(reply[::2], reply[1::2], strict=True)
    return {force_str(name): force_str(value) for name, value in pairs}


COVERAGE = "cluster-require-full-coverage"
AGREED = (
    *("appendonly", "cluster-node-timeout", "maxmemory", "maxmemory-policy"),
    *("min-replicas-max-lag", "min-replicas-to-write"),
)
"""The settings that a failover must not change: a replica takes the place of its primary with its own."""

TOLERATED_MS = 1000
"""How far apart clocks may be."""


class NodeState(NamedTuple):
    """What a node told of itself. ``settings`` is empty if the user may not ask for them. Times are milliseconds."""

    name: str
    settings: dict[str, str]
    ahead: float
    round_trip: float


@checks.register(ASKS_SERVER)
def check_cluster_database(**kwargs: Any) -> list[checks.CheckMessage]:
    """Warn of another database than 0, unless the cluster has it: most have no other."""
    node = pools().get(SERVER)
    if node is None or node.cluster is None:
        return []
    database = node.connection_kwargs.get("db")
    if not database or (may_ask() and _can_connect(node)):
        return []
    message = f"{name_of_cache()} names database {database}: a cluster has database 0 only."
    hint = "End its LOCATION in /0. (From Valkey 9 on, the setting cluster-databases may allow more.)"
    return [problem("W028", message, hint)]


def _can_connect(pool: Any) -> bool:
    # A connection selects its database first.
    with suppress(RedisError):
        pool.give(pool.take())
        return True
    return False


@checks.register(ASKS_SERVER)
def check_cluster(**kwargs: Any) -> list[checks.CheckMessage]:
    """Ask whether the server is a cluster, and whether its nodes fit PARTITIONS and one another."""
    if not may_ask() or not isinstance(cluster := connections.pool(), Cluster):
        return []
    try:
        primaries = cluster.nodes()
    except RedisError:
        return _why_unknown(cluster)
    try:
        told = [each for pool in every() if (each := _told_by(pool))]
    except RedisError:  # They do not run any more.
        return []
    return [*_too_few_partitions(len(primaries)), *_all_or_nothing(told), *_different(told), *_clocks(told)]


def _why_unknown(cluster: Cluster) -> list[checks.CheckMessage]:
    unusable = []
    for pool in cluster.start_nodes():
        try:
            if hello_of(pool).get("mode", "cluster") != "cluster":
                wrong = "has the factory for clusters, but its server is no cluster: every request fails."
                hint = "Remove CONNECTION_FACTORY from its OPTIONS, or name nodes of a cluster."
                return [problem("W027", f"{name_of_cache()} {wrong}", hint)]
            attempts.ask_server(pool, "CLUSTER", "SLOTS")
        except NoPermissionError as reason:  # Its text names the command and the user.
            hint = "On each node, run as an administrator: ACL SETUSER … +cluster|slots."
            return [problem("W023", message_of(reason), hint)]
        except (RedisError, OSError) as error:
            if not is_of_database(error):  # That is W028.
                unusable.append(why_unusable(pool, error))
    # Rather a node that refuses than one that does not answer.
    return [problem(*max(unusable))] if unusable else []


def _told_by(pool: Any) -> NodeState | None:
    begun = monotonic()
    questions = pack_command("TIME") + pack_command("CONFIG", "GET", *AGREED, COVERAGE)
    try:
        time, config = exchange.send(pool, questions, 2)
    except (RedisError, OSError):
        return None
    round_trip = (monotonic() - begun) * 1000
    if isinstance(time, ResponseError):
        return None
    ahead = Clock().learn(time) - monotonic() * 1000
    # Managed services refuse CONFIG. What a setting is, is not known then.
    config = {} if isinstance(config, ResponseError) else _fields(config)
    return NodeState(name_of(pool), config, ahead, round_trip)


def _too_few_partitions(primaries: int) -> list[checks.CheckMessage]:
    count = keyspace().count
    if count >= primaries:
        return []
    effect = "one node has all sessions" if count == 1 else "some nodes have no sessions"
    message = f"REDSESS['PARTITIONS'] is {count}, and the cluster has {primaries} primaries: {effect}."
    hint = "Set it to 64 before there are sessions: a store keeps the number that it began with."
    return [problem("W029", message, hint)]


def _all_or_nothing(told: list[NodeState]) -> list[checks.CheckMessage]:
    names = [each.name for each in told if each.settings.get(COVERAGE) == "yes"]
    if not names:
        return []
    effect = "when some slots have no node, no session can be used"
    message = f"cluster-require-full-coverage is yes on {', '.join(names)}: {effect}."
    hint = f"On each node, set {COVERAGE} no. Then only the sessions of those slots wait for a node."
    return [problem("W030", message, hint)]


def _different(told: list[NodeState]) -> Iterator[checks.CheckMessage]:
    for name in AGREED:
        by_value: dict[str, list[str]] = {}
        for each in told:
            if name in each.settings:
                by_value.setdefault(each.settings[name], []).append(each.name)
        if len(by_value) > 1:
            listed = "; ".join(f"{value} on {', '.join(names)}" for value, names in sorted(by_value.items()))
            message = f"Nodes of the cluster differ in {name}: {listed}."
            hint = "Set it alike on all nodes: a replica may take over at any time."
            yield problem("W031", message, hint)


def _clocks(told: list[NodeState]) -> list[checks.CheckMessage]:
    if not told:
        return []
    first, last = (chosen(told, key=lambda each: each.ahead) for chosen in (min, max))
    apart = last.ahead - first.ahead
    # A reply may be as old as it took to come.
    if apart - max(first.round_trip, last.round_trip) <= TOLERATED_MS:
        return []
    message = f"Clocks in the cluster are {apart / 1000:.0f} seconds apart: {last.name} is ahead of {first.name}."
    hint = (
        "Deadlines are times of the node that has the session. When a replica with another clock takes over, sessions "
        "end early or late. Run NTP on every node."
    )
    return [problem("W032", message, hint)]
