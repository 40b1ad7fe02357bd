"""
System checks that ask the server, or each node of a cluster: does it answer, may our user use it, may it evict?

Replicas are asked too. Each may take the place of its primary, with settings and users of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any

from django.core import checks
from django.utils.encoding import force_str
from redis.exceptions import NoPermissionError, RedisError, ResponseError

from django_redsess.checks.refusals import Told, is_of_database, why_unfit, why_unusable
from django_redsess.checks.server import ASKS_SERVER, may_ask, name_of_cache
from django_redsess.checks.settings import found
from django_redsess.conf import conf
from django_redsess.transport import connections, exchange, scripts
from django_redsess.transport.cluster import Cluster, named
from django_redsess.transport.keys import keyspace
from django_redsess.transport.outage import message_of

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
        found(number, f"{message} Nodes: {', '.join(names)}." if names[0] else message, hint)
        for (number, message, hint), names in said.items()
    ]


def _said_of(pool: Any) -> Iterator[Told]:
    try:
        hello = hello_of(pool)
        if unfit := why_unfit(hello):
            yield unfit
        elif pool.cluster is None and hello.get("mode") == "cluster":
            message = (
                f"The server of {name_of_cache()} is a node of a cluster: sessions on other nodes can't be reached."
            )
            hint = f"Add to OPTIONS: {FACTORY}. Name several nodes in LOCATION, and set REDSESS['PARTITIONS'] to 64."
            yield "W026", message, hint
        else:
            yield from _refused(pool)
            yield from _evicting(pool)
    except (RedisError, OSError) as error:
        if pool.cluster is None or not is_of_database(error):  # That is W028.
            yield why_unusable(pool, error)


def _refused(pool: Any) -> list[Told]:
    commands = [*scripts.commands(), "EVAL", "EVALSHA"]
    commands += ["BLPOP"] if pool.cluster is None else ["ASKING"]
    commands += ["WAIT"] if conf.CONFIRM_ENDS is not None else []
    commands += ["SELECT"] if pool.connection_kwargs.get("db") else []
    # The keys of one partition stand for those of all.
    names = [keyspace().agreement.meta, *keyspace().partitions[0].names]
    try:
        args = scripts.PERMISSIONS.arguments(commands=commands, names=names)
        refused, keys = exchange.ask(pool, "EVAL", scripts.PERMISSIONS.text, 0, *args)
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
        told = force_str(exchange.ask(pool, "INFO", "memory"))
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


def _saving(pool: Any) -> list[Told]:
    try:
        reply = exchange.ask(pool, "CONFIG", "GET", "save", "appendonly")
    except (RedisError, OSError):  # Managed servers hide it.
        return []
    # A list of names and values, or a dict in the newer protocol.
    pairs = reply.items() if isinstance(reply, dict) else zip(reply[::2], reply[1::2], strict=True)
    config = {force_str(name): force_str(value) for name, value in pairs}
    if not config.get("save") or config.get("appendonly") != "no":
        return []
    message = "The server of the sessions saves snapshots, but no append-only file (appendonly no)."
    hint = (
        "After a crash it starts from the last snapshot: sessions that were ended or signed out since live again. Set "
        'appendonly yes. Or save nothing (save ""): then a restart signs everybody out.'
    )
    return [("W056", message, hint)]


def the_cluster() -> Cluster | None:
    """Return the cluster of the sessions, if the alias has the factory for clusters."""
    found = connections.pool()
    return found if isinstance(found, Cluster) else None


def every() -> list[Any]:
    """
    Return the pools of all servers that hold the sessions, or will after a failover.

    That is the only server, or the primaries of the cluster and their replicas. Raises redis-py's ConnectionError if no
    node of the cluster tells the others.
    """
    cluster = the_cluster()
    if cluster is None:
        return [connections.pool()]
    primaries = cluster.nodes()
    return [*primaries, *_replicas(cluster, primaries)]


def _replicas(cluster: Cluster, primaries: list[Any]) -> Iterator[Any]:
    for primary in primaries:
        with suppress(RedisError):
            ranges = exchange.ask(primary, "CLUSTER", "SLOTS")
            told = {(force_str(host or ""), port) for _, _, _, *replicas in ranges for host, port, *_ in replicas}
            for host, port in sorted(told):
                yield cluster.at(("" if host == "?" else host, port), primary)
            return


def name_of(pool: Any) -> str:
    """Return host and port of a cluster's node; an empty text for the only server."""
    if the_cluster() is None:
        return ""
    return named((pool.connection_kwargs["host"], pool.connection_kwargs["port"]))


def mode_of(pool: Any) -> str:
    """Return ``"cluster"``, ``"standalone"`` or ``"sentinel"``, as :func:`hello_of` tells; or an empty text."""
    return hello_of(pool).get("mode", "")


def hello_of(pool: Any) -> dict[str, str]:
    """
    Return what the server tells of itself, such as ``mode`` and ``version``. It is empty if it tells nothing.

    HELLO tells it, which needs no permission. Raises redis-py's ConnectionError or TimeoutError if the server does not
    answer, and its AuthenticationError.
    """
    # A connection of its own: a cluster refuses all databases but the first, which the pool may not use.
    connection = pool.alone(db=0)
    try:
        connection.connect()
        connection.send_command("HELLO")
        reply = connection.read_response()
    except ResponseError:
        return {}
    finally:
        connection.disconnect()
    # A list of names and values, or a dict in the newer protocol.
    fields = reply if isinstance(reply, dict) else dict(zip(reply[::2], reply[1::2], strict=True))
    return {force_str(name): force_str(value) for name, value in fields.items()}
