"""
System checks that ask the server, or each node of a cluster: may it evict sessions, and may our user use it?

Replicas are asked too. Each may take the place of its primary, with settings and users of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from django.core import checks
from django.utils.encoding import force_str
from redis.exceptions import AuthenticationError, NoPermissionError, RedisError, ResponseError

from django_redsess.checks.server import may_ask, name_of_cache
from django_redsess.checks.settings import warning
from django_redsess.conf import conf
from django_redsess.transport import connections, exchange, scripts
from django_redsess.transport.cluster import Cluster, named
from django_redsess.transport.keys import keyspace

FACTORY = "'CONNECTION_FACTORY': 'django_redsess.cluster.ClusterConnectionFactory'"


@checks.register(checks.Tags.caches)
def check_server(**kwargs: Any) -> list[checks.CheckMessage]:
    """Ask each server whether it may evict sessions, and whether our user may run all commands that this app needs."""
    said: dict[tuple[str, str, str], list[str]] = {}
    with suppress(Exception):  # The server may not run now, which is no error of the settings.
        for pool in every() if may_ask() else []:
            for each in _said_of(pool):
                said.setdefault(each, []).append(name_of(pool))
    return [
        warning(number, f"{message} Nodes: {', '.join(names)}." if names[0] else message, hint)
        for (number, message, hint), names in said.items()
    ]


def _said_of(pool: Any) -> Iterator[tuple[str, str, str]]:
    # A node that does not answer is left out. The user need not be allowed to run INFO.
    with suppress(Exception):
        if pool.cluster is None and mode_of(pool) == "cluster":
            message = (
                f"The server of {name_of_cache()} is a node of a cluster: sessions on other nodes can't be reached."
            )
            hint = f"Add to OPTIONS: {FACTORY}. Name several nodes in LOCATION, and set REDSESS['PARTITIONS'] to 64."
            yield "W026", message, hint
            return
        yield from _refused(pool)
        yield from _evicting(pool)


def _refused(pool: Any) -> list[tuple[str, str, str]]:
    commands = [*scripts.commands(), "EVAL", "EVALSHA"]
    commands += ["BLPOP"] if pool.cluster is None else ["ASKING"]
    commands += ["WAIT"] if conf.CONFIRM_ENDS is not None else []
    commands += ["SELECT"] if pool.connection_kwargs.get("db") else []
    # The keys of one partition stand for those of all.
    names = [keyspace().meta, *keyspace().partitions[0].names]
    try:
        args = scripts.PERMISSIONS.arguments(commands=commands, names=names)
        refused, keys = exchange.ask(pool, "EVAL", scripts.PERMISSIONS.text, 0, *args)
    except (AuthenticationError, NoPermissionError) as reason:  # Its text names the command and the user.
        message = f"The server of the sessions refuses: {reason}"
    except ResponseError as reason:
        if not str(reason).startswith("unknown command"):  # Too old a server for this question.
            return []
        message = "The server of the sessions has no EVAL: every request would fail."
    else:
        wrong = [
            f"can't {verb} {', '.join(sorted(map(force_str, found)))}{where}"
            for verb, found, where in (("run", refused, " on keys of sessions"), ("use", keys, ""))
            if found
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


def _evicting(pool: Any) -> list[tuple[str, str, str]]:
    found = re.search(r"maxmemory_policy:(allkeys-\S+)", force_str(exchange.ask(pool, "INFO", "memory")))
    if not found:
        return []
    policy = found[1]
    message = f"The server of the sessions has maxmemory-policy {policy}: when its memory is full, it evicts sessions."
    hint = (
        "All sessions of a partition are in one key, and are evicted at once. Set noeviction, and keep caches that "
        "need eviction on another server. (A volatile policy drops the notes of ended sessions only. They say why a "
        "session ended, and which key replaces it: without them, a late request signs its browser out.)"
    )
    return [("W008", message, hint)]


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
    """
    Return the mode that the server itself tells: ``"cluster"`` or ``"standalone"``; an empty text if it tells none.

    HELLO tells it, which needs no permission. Raises redis-py's ConnectionError or TimeoutError if the server does not
    answer.
    """
    # A connection of its own: a cluster refuses all databases but the first, which the pool may not use.
    connection = pool.alone(db=0)
    try:
        connection.connect()
        connection.send_command("HELLO")
        reply = connection.read_response()
    except ResponseError:
        return ""
    finally:
        connection.disconnect()
    # A list of names and values, or a dict in the newer protocol.
    fields = reply if isinstance(reply, dict) else dict(zip(reply[::2], reply[1::2], strict=True))
    return next((force_str(value) for name, value in fields.items() if force_str(name) == "mode"), "")
