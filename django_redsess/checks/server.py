"""
System checks that ask each server: does it answer, may our user use it, may it evict, does its store suit this site?

Replicas are asked too: each may take the place of its primary, with settings and users of its own.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any

from django.apps import apps
from django.core import checks
from django.utils.encoding import force_str
from redis.connection import SSLConnection
from redis.exceptions import (
    AuthenticationError,
    InvalidResponse,
    NoPermissionError,
    ReadOnlyError,
    RedisError,
    ResponseError,
)

from django_redsess.backend import is_in_use
from django_redsess.checks.cache import (
    ASKS_SERVER,
    TO_SENTINELS,
    check_retries,
    check_timeouts,
    hint_for_django_redis,
    may_ask_server,
    name_of_cache,
)
from django_redsess.checks.settings import problem
from django_redsess.conf import conf
from django_redsess.transport import agreement, attempts, connections, packing, scripts
from django_redsess.transport.causes import has_answered, message_of, setting_to_change, words_of
from django_redsess.transport.cluster_map import Cluster, format_address
from django_redsess.transport.keys import keyspace
from django_redsess.transport.outages import is_refusal
from django_redsess.transport.pools import Pool

FACTORY = "'CONNECTION_FACTORY': 'django_redsess.cluster.ClusterConnectionFactory'"

WRITES_NOTHING = "#!lua\nreturn 1"
"""A script that a server runs only if it takes writes, since no flag says that this one has none."""

APPEND = "run 'CONFIG SET appendonly yes' on the server, and write it to its configuration file"
NUMBERS_OF_FAULTS = {"partitions": "E043", "secret key": "E044", "format": "E045"}


@checks.register(ASKS_SERVER)
def check_agreement(**kwargs: Any) -> list[checks.CheckMessage]:
    """Refuse PARTITIONS, a SECRET_KEY or a release that do not suit the store: every request would fail."""
    if not may_ask_server():
        return []
    # check_server reports a server that does not answer or refuses.
    with suppress(RedisError, OSError):
        space = keyspace()
        connections.pool().nodes()
        server = connections.server_of(space.deciding_partition)
        stored = attempts.ask_server(server, "HMGET", space.deciding_partition.meta, "partitions", "format", "keys")
        if fault := agreement.fault_in(space, stored):
            return [problem(NUMBERS_OF_FAULTS[fault.about], fault.message, fault.hint)]
    return []


@checks.register(ASKS_SERVER)
def check_server(**kwargs: Any) -> list[checks.CheckMessage]:
    """Ask each server whether it answers, may evict sessions, and lets our user run all commands of this app."""
    return _ask_each_server(_ask_server)


@checks.register(ASKS_SERVER, deploy=True)
def check_snapshots(**kwargs: Any) -> list[checks.CheckMessage]:
    """Warn of servers that save snapshots, but no append-only file: sessions that ended come back after a crash."""
    return _ask_each_server(_find_snapshots_alone)


def _ask_each_server(ask_server: Callable[[Any], Iterable[checks.CheckMessage]]) -> list[checks.CheckMessage]:
    found: dict[tuple[str, str, str | None], tuple[checks.CheckMessage, list[str]]] = {}
    with suppress(RedisError):  # No node of a cluster names the others. check_cluster says why.
        for pool in all_server_pools() if may_ask_server() else []:
            for message in ask_server(pool):
                key = str(message.id), message.msg, message.hint
                found.setdefault(key, (message, []))[1].append(node_name(pool))
    for message, names in found.values():
        if names[0]:
            message.msg += f" Nodes: {', '.join(names)}."
    return [message for message, _ in found.values()]


def _ask_server(pool: Any) -> Iterator[checks.CheckMessage]:
    try:
        hello = read_hello(pool)
        if unfit := why_unfit(hello):
            yield unfit
        elif pool.cluster is None and hello.get("mode") == "cluster":
            node = f"The server of {name_of_cache()} is a node of a cluster"
            hint = hint_for_django_redis(
                f"{FACTORY}. Name several nodes in LOCATION, and set REDSESS['PARTITIONS'] to 64."
            )
            yield problem("W026", f"{node}: sessions on other nodes can't be reached.", hint)
        else:
            yield from _find_missing_permissions(pool)
            yield from _find_refused_writes(pool)
            yield from _find_eviction(pool)
            yield from _find_lost_blocks(pool)
    except (RedisError, OSError) as error:
        if pool.cluster is None or not lacks_database(error):  # That is W028.
            yield why_unusable(pool, error)


def _find_refused_writes(pool: Any) -> list[checks.CheckMessage]:
    try:
        attempts.ask_server(pool, "EVAL", WRITES_NOTHING, 0)
    except ResponseError as error:
        # The replicas of a cluster take no writes. Other answers of the server are about the script itself.
        is_replica = pool.cluster is not None and isinstance(error, ReadOnlyError)
        return [why_unusable(pool, error)] if is_refusal(error) and not is_replica else []
    return []


def _find_missing_permissions(pool: Any) -> list[checks.CheckMessage]:
    commands = [*{*scripts.commands_of_scripts(), *packing.COMMANDS}]
    commands += ["BLPOP"] if pool.cluster is None else ["ASKING"]
    commands += ["WAIT"] if conf.CONFIRM_ENDS is not None else []
    commands += ["SELECT"] if pool.connection_kwargs.get("db") else []
    commands += ["PING"] if pool.connection_kwargs.get("health_check_interval") else []
    # The keys of one partition stand for those of all.
    names = [keyspace().deciding_partition.meta, *keyspace().partitions[0].names]
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
    return [problem("W023", message, hint)]


def _find_eviction(pool: Any) -> list[checks.CheckMessage]:
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
        "All sessions of a partition are in one key, and are evicted at once. Run 'CONFIG SET maxmemory-policy "
        "noeviction' on the server, and set it in its configuration file or at your provider. Keep caches that need "
        "eviction on another server. (A volatile policy drops the notes of ended sessions only. They say why a "
        "session ended, and which key replaces it: without them, a late request signs its browser out.)"
    )
    return [problem("W008", message, hint)]


def _find_lost_blocks(pool: Any) -> list[checks.CheckMessage]:
    # In a cluster, a replica takes over, which still has the blocks.
    if pool.cluster is not None or apps.is_installed("django_redsess.contrib.history"):
        return []
    names = [each.blocked for each in keyspace().partitions]
    try:
        config = as_dict(attempts.ask_server(pool, "CONFIG", "GET", "save", "appendonly"))
        if config.get("save") or config.get("appendonly") != "no" or not attempts.ask_server(pool, "EXISTS", *names):
            return []
        now = pool.clock.learn(attempts.ask_server(pool, "TIME"))
        if not any(attempts.ask_server(pool, "ZCOUNT", name, now, "+inf") for name in names):
            return []
    except ResponseError:  # Managed servers hide it.
        return []
    message = "Users are blocked, and the server of the sessions saves nothing: a restart lets them sign in again."
    hint = (
        "Add 'django_redsess.contrib.history' to INSTALLED_APPS, which keeps a copy of blocks, and run 'manage.py "
        f"migrate'. Or {APPEND}."
    )
    return [problem("W065", message, hint)]


def _find_snapshots_alone(pool: Any) -> list[checks.CheckMessage]:
    try:
        reply = attempts.ask_server(pool, "CONFIG", "GET", "save", "appendonly")
    except (RedisError, OSError):  # Managed servers hide it.
        return []
    config = as_dict(reply)
    if not config.get("save") or config.get("appendonly") != "no":
        return []
    message = "The server of the sessions saves snapshots, but no append-only file (appendonly no)."
    hint = (
        "After a crash it starts from the last snapshot: sessions that were ended or signed out since live again. "
        f"Therefore {APPEND}. Or run 'CONFIG SET save \"\"': then a restart signs everybody out."
    )
    return [problem("W056", message, hint)]


def all_server_pools() -> list[Pool]:
    """
    Return the pools of all servers that hold the sessions, or will after a failover.

    That is the only server, or the primaries of the cluster and their replicas. Raises redis-py's ConnectionError if no
    node of the cluster names the others.
    """
    cluster = connections.pool()
    primaries = cluster.nodes()
    if not isinstance(cluster, Cluster):
        return primaries
    for primary in primaries:
        with suppress(RedisError):
            ranges = attempts.ask_server(primary, "CLUSTER", "SLOTS")
            told = {(force_str(host or ""), port) for _, _, _, *replicas in ranges for host, port, *_ in replicas}
            return [*primaries, *(cluster.at(address, primary) for address in sorted(told))]
    return primaries


def node_name(pool: Any) -> str:
    """Return host and port of a cluster's node; an empty text for the only server."""
    if pool.cluster is None:
        return ""
    return format_address((pool.connection_kwargs["host"], pool.connection_kwargs["port"]))


def read_hello(pool: Any) -> dict[str, str]:
    """
    Return the server's reply to HELLO: ``version``, and as ``mode`` standalone, cluster or sentinel.

    The dict is empty if the server refuses. HELLO needs no permission. Raises redis-py's ConnectionError or
    TimeoutError if the server does not answer, and its AuthenticationError.
    """
    # A connection of its own: a cluster refuses all databases but the first, which the pool may not use.
    connection = pool.make_separate_connection(db=0)
    try:
        connection.connect()
        connection.send_command("HELLO")
        return as_dict(connection.read_response())
    except ResponseError:
        return {}
    finally:
        connection.disconnect()


def as_dict(reply: Any) -> dict[str, str]:
    # A list of names and values, or a dict in the newer protocol.
    pairs = reply.items() if isinstance(reply, dict) else zip(reply[::2], reply[1::2], strict=True)
    return {force_str(name): force_str(value) for name, value in pairs}


def why_unusable(pool: Any, error: Exception) -> checks.CheckMessage:
    """Say why the server of this pool answers each command with ``error``, or does not answer."""
    said, change = f"{message_of(error)}.".replace("..", "."), setting_to_change(error)
    if has_answered(error) or isinstance(error, InvalidResponse):
        is_login = isinstance(error, AuthenticationError) and pool.cluster is not None
        each = " Nodes do not tell each other about users: each needs the user." if is_login else ""
        return problem("W050", said, change + each)
    if issubclass(pool.connection_class, SSLConnection) and _speaks_without_tls(pool):
        message = f"{name_of_cache()} connects with TLS (rediss://), but its server does not use TLS: no request works."
        return problem("W051", message, "Begin LOCATION with redis://, or set up TLS on the server.")
    return problem("I049", said, f"Ignore this if the server is not meant to run now. Otherwise: {change}")


def lacks_database(error: Exception) -> bool:
    """Tell whether the server lacks the database that LOCATION names."""
    return words_of(error).startswith("DB index is out of range")


def _speaks_without_tls(pool: Any) -> bool:
    """Tell whether the server answers without TLS. Nothing secret is sent."""
    options = pool.connection_kwargs
    try:
        # Behind Sentinel, the address is not among the options.
        address = options["host"], int(options["port"])
        with socket.create_connection(address, timeout=options.get("socket_timeout")) as connection:
            connection.sendall(b"PING\r\n")
            return connection.recv(1) in (b"+", b"-")
    except (KeyError, OSError):
        return False


def why_unfit(hello: dict[str, str]) -> checks.CheckMessage | None:
    """Say why a server that answered HELLO with these fields can't keep sessions. None if it can."""
    if hello.get("mode") == "sentinel":
        message = f"The server of {name_of_cache()} is a sentinel, which keeps no sessions."
        return problem("W054", message, hint_for_django_redis(TO_SENTINELS))
    version = hello.get("version", "")
    # Valkey begins with 7.2.
    if re.match(r"[1-6]\.", version):
        message = f"The server of the sessions is Redis {version}, which is too old: sessions can't be used."
        return problem("W052", message, "Use Redis 7.0, Valkey 8, or newer.")
    return None


@checks.register(ASKS_SERVER)
def check_replicas(**kwargs: Any) -> list[checks.CheckMessage]:
    """Warn if a master behind Sentinel goes on writing after its replicas have left it."""
    # Without time-outs, a silent server would hold up manage.py.
    if not is_in_use() or check_timeouts() or check_retries():
        return []
    try:
        pool = connections.pool().any_node()
        if not pool.is_behind_sentinel:
            return []
        told = force_str(attempts.ask_server(pool, "INFO", "replication"))
    except Exception:  # Not known: the server may not run now, or refuse INFO. A wrong entry of CACHES is E004.
        return []
    # The server counts good replicas only if min-replicas-to-write is set.
    if not re.search(r"connected_slaves:[1-9]", told) or "min_slaves_good_slaves:" in told:
        return []
    message = "The master of the sessions has replicas, and goes on writing without them (min-replicas-to-write 0)."
    hint = (
        "In a failover the old master takes sign-ins, changes and ends for some seconds more, and they are lost. On "
        "the master and on its replicas, run 'CONFIG SET min-replicas-to-write 1 min-replicas-max-lag 2', and write it "
        "to their configuration files. Then the old master refuses, and "
        "requests get a 503 until they find the new master. That needs two replicas: with one, nothing is written "
        "while it is down."
    )
    return [problem("W025", message, hint)]
