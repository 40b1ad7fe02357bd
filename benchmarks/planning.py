"""
How many nodes and partitions a number of sessions needs, by plain arithmetic from what was measured.

What is measured is a node's: see ``memory.py``, ``traffic.py`` and ``nodes.py``. What a site does with it is assumed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

Figures = Mapping[str, Any]
"""What ``capacity.py`` measured, as in its JSON file."""

GIB = 2**30
MILLION = 1_000_000

MOST_PARTITIONS = 1024
"""As many as there are buckets."""

POWERS = [1 << bits for bits in range(MOST_PARTITIONS.bit_length())]
"""The numbers of partitions that are possible."""

MAY_BE_ZERO = ("signed_in", "viewed", "saves", "views", "begun", "sign_ins", "replicas")


def assumed(default: Any, about: str) -> Any:
    return field(default=default, metadata={"about": about})


@dataclass(frozen=True)
class Assumptions:
    """
    What is assumed of a site and of its nodes. Each is an option of the program.

    Raises ValueError if nothing can be planned with it.
    """

    signed_in: float = assumed(0.5, "share of the sessions that have a user")
    viewed: float = assumed(0.5, "share of the sessions that have viewed five items")
    requests_per_second: float = assumed(
        600, "requests that use the session, a second at the peak, for each million sessions"
    )
    pause: float = assumed(30, "seconds between two requests of a visitor, on average")
    saves: float = assumed(0.2, "share of the requests that also save the session")
    views: float = assumed(0.2, "share of the requests that also record an item as viewed, by a round trip of its own")
    begun: float = assumed(0.02, "share of the requests that begin a guest's session; as many sessions expire")
    sign_ins: float = assumed(0.01, "share of the requests that sign a user in; as many sessions are ended")
    replicas: int = assumed(1, "replicas of each node")
    node_memory: float = assumed(32, "GiB of memory of a node")
    memory_used: float = assumed(0.5, "share of a node's memory that sessions may take")
    cpu_used: float = assumed(0.4, "share of a core that a node may use at the peak")
    partition: float = assumed(100_000, "sessions of a partition that a classic slot migration may move")
    least_partitions: int = assumed(64, "partitions of a cluster, at least")

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if value < 0 or (value == 0 and each.name not in MAY_BE_ZERO):
                raise ValueError(f"{each.name} must not be {value:g}")
        if max(self.signed_in, self.viewed, self.saves + self.begun + self.sign_ins) > 1:
            raise ValueError("shares must not be above 1: signed_in, viewed, and saves, begun and sign_ins together")
        if self.least_partitions not in POWERS:
            raise ValueError(f"least_partitions must be a power of two up to {MOST_PARTITIONS}")


class Plan(NamedTuple):
    """
    What a number of sessions needs. Rates are those of the peak; ``…_of_node`` and what follows are of one primary.

    A single primary is no cluster. ``kept_bytes`` is what a resynchronisation makes the primary keep for its replica.
    """

    sessions: int
    memory_bytes: float
    requests: float
    commands: float
    cores: float
    received: float
    sent: float
    replicated: float
    primaries: int
    servers: int
    partitions: int
    sessions_of_partition: float
    memory_of_node: float
    cpu_of_node: float
    fork_ms: float
    copied: float
    resync_seconds: float
    resync_bytes: float
    kept_bytes: float
    classic_ms: float
    atomic_seconds: float


def touch_share(pause: float, interval: float = 10) -> float:
    """
    Return the share of loads that note their session as seen: the first of each ``interval``.

    Requests come at random times, with ``pause`` seconds between them on average.
    """
    each = interval / pause
    return -math.expm1(-each) / each


def bytes_of_session(figures: Figures, assumed: Assumptions, partitions: int) -> float:
    """Return the mean bytes of a session with all indexes."""
    of = figures["bytes"]["64" if partitions > 1 else "1"]
    viewed = of["signed in, 5 viewed"] - of["signed in"]
    return float(of["guest"] * (1 - assumed.signed_in) + of["signed in"] * assumed.signed_in + viewed * assumed.viewed)


def of_request(figures: Figures, assumed: Assumptions, partitions: int) -> dict[str, float]:
    """Return the mean cost of a request, by the names of :class:`benchmarks.traffic.Cost`."""
    of = figures["requests"]["64" if partitions > 1 else "1"]
    touched = touch_share(assumed.pause)
    shares = {
        "change": assumed.saves,
        # "change" and "sign-in" load the session, too.
        "load": (1 - assumed.saves - assumed.begun - assumed.sign_ins) * touched,
        "reload": (1 - assumed.saves - assumed.begun - assumed.sign_ins) * (1 - touched),
        "view": assumed.views,
        "guest": assumed.begun,
        "expire": assumed.begun,
        "sign-in": assumed.sign_ins,
        "end": assumed.sign_ins,
    }
    return {cost: sum(share * of[kind][cost] for kind, share in shares.items()) for cost in of["load"]}


def primaries_of(memory_bytes: float, cores: float, assumed: Assumptions) -> int:
    """Return how many primaries hold and serve so much: one, or at least the three that a cluster needs."""
    for_memory = memory_bytes / (assumed.node_memory * assumed.memory_used * GIB)
    needed = math.ceil(max(for_memory, cores / assumed.cpu_used))
    return needed if needed == 1 else max(3, needed)


def partitions_of(sessions: int, assumed: Assumptions) -> int:
    """Return the power of two that makes partitions small enough for a classic migration, within the limits."""
    wanted = sessions / assumed.partition
    return next((power for power in POWERS if power >= max(wanted, assumed.least_partitions)), MOST_PARTITIONS)


def of_move(figures: Figures, how: str, what: str, sessions: float) -> float:
    """Return what moving a partition of so many ``sessions`` takes, in proportion to the next larger one measured."""
    moves = sorted((each["sessions"], each[what]) for each in figures["moves"] if each["how"] == how)
    size, taken = next((each for each in moves if each[0] >= sessions), moves[-1])
    return float(taken * sessions / size)


def planned(sessions: int, figures: Figures, assumed: Assumptions) -> Plan:
    """Return what this number of ``sessions`` needs."""
    partitions = partitions_of(sessions, assumed)
    memory = sessions * bytes_of_session(figures, assumed, partitions)
    requests = sessions / MILLION * assumed.requests_per_second
    cost = of_request(figures, assumed, partitions)
    cores = requests * cost["cpu"] / MILLION
    primaries = primaries_of(memory, cores, assumed)
    # The node with the most partitions has more than its share, unless they can be divided evenly.
    share = math.ceil(partitions / primaries) / partitions
    gib = memory * share / GIB
    of_node, of_partition = sessions * share, sessions / partitions
    fork, resync = figures["fork"], figures["resync"]
    resync_seconds = gib * resync["seconds_per_gib"]
    replicated = requests * cost["replicated"]
    writes = requests * share * (assumed.saves + assumed.begun + assumed.sign_ins + touch_share(assumed.pause))
    copied = min(memory * share, writes * gib * fork["seconds_per_gib"] * fork["copied_per_save"])
    return Plan(
        sessions=sessions,
        memory_bytes=memory,
        requests=requests,
        commands=requests * cost["commands"],
        cores=cores,
        received=requests * cost["received"],
        sent=requests * cost["sent"],
        replicated=replicated * assumed.replicas,
        primaries=primaries,
        servers=primaries * (1 + assumed.replicas),
        partitions=partitions,
        sessions_of_partition=of_partition,
        memory_of_node=memory * share,
        cpu_of_node=cores * share,
        fork_ms=gib * fork["ms_per_gib"],
        copied=copied,
        resync_seconds=resync_seconds,
        resync_bytes=of_node * resync["bytes_per_session"],
        kept_bytes=replicated * share * resync_seconds,
        classic_ms=of_move(figures, "classic", "blocked_ms", of_partition),
        atomic_seconds=of_move(figures, "atomic", "seconds", of_partition),
    )
