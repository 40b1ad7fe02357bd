"""
Entries without a session, thousands of them, as a store has that was restored in part.

Each operation ends. Those that take sessions out of a list take these entries out, too. ``left_alone``: what a list
that no operation has met still has, only ``--repair`` removes.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import redis as redis_py
from django.contrib.auth.models import User

from django_redsess import cleaning, online
from tests.helpers.oracle import disagreements
from tests.helpers.running import in_child
from tests.helpers.sign_ins import ENDING, POLICIES, sids_of, sign_in
from tests.helpers.store import Partition, faults, keyspace, stored

pytestmark = pytest.mark.usefixtures("partitions", "users_in_no_table", "left_alone")

COUNT = 2100
"""More than twice as many as a script looks at of one user."""

USER, NETWORK = User(pk=7), "192.0.2.0/24"

LISTS: dict[str, Callable[[Partition], str]] = {
    "recent": lambda home: home.recent,
    "guests": lambda home: home.guests,
    "expire": lambda home: home.expire,
    "online:user": lambda home: home.online_user,
    "online:user:7": lambda home: home.online_user_of("7"),
}

ALL = "each list"


@pytest.fixture
def sid() -> str:
    """A session of the user whose list gets such entries."""
    return str(sign_in("7").sid)


def fill(client: redis_py.Redis, sid: str, *lists: str, step: float, deadline: int = 1) -> None:
    """Have such entries in each of these ``lists``. Each has a score that is higher by ``step`` than the one before."""
    home = keyspace().of_sid(sid)
    for kind in lists:
        first = deadline if kind == "expire" else 1
        entries = {f"{sid[:2]}Nobody{number:012}": first + number * step for number in range(COUNT)}
        client.zadd(LISTS[kind](home), entries)


def left(client: redis_py.Redis, sid: str, kind: str) -> int:
    return sum(b"Nobody" in member for member in client.zrange(LISTS[kind](keyspace().of_sid(sid)), 0, -1))


def ended(work: Callable[[], object]) -> str:
    """Do it in a child, which is killed where it does not end."""
    return in_child(lambda: ["ended", work()][0])


def read() -> None:
    """List, count and search, in each way."""
    ways: list[dict[str, Any]] = [{"guests": False}, {"guests": True}, {"guests": "only"}]
    for way in [*ways, {"user_ids": ["7"]}, {"user_ids": ["7", "8"]}]:
        online.count(**way)
        online.count(active_seconds=300, **way)
        for more in ({}, {"offset": COUNT}, {"active_seconds": 300}, {"browser": "Firefox"}, {"network": NETWORK}):
            online.sessions(limit=20, **way, **more)
    online.sessions(order="last_seen_at")
    online.samples()


def block() -> None:
    online.block(USER, until=datetime.now(UTC) + timedelta(hours=1))
    online.unblock(USER)


WORKS: dict[str, tuple[Callable[[], object], set[str]]] = {
    "read": (read, set()),
    "expire": (lambda: list(cleaning.expire_sessions()), {"expire"}),
    # A guest may stay above the maximum.
    "evict": (lambda: list(cleaning.evict_sessions(maximum=1)), {"recent"}),
    "evict guests": (lambda: list(cleaning.evict_sessions(guests=0)), {"guests"}),
    "sign in": (lambda: sign_in("7"), set()),
    "end a user's": (lambda: online.end_user(USER), {"online:user:7"}),
    "block": (block, {"online:user:7"}),
    "end all users'": (online.end_all, {"online:user"}),
    "end guests'": (lambda: list(online.end_in_batches(guests="only")), {"guests"}),
    "end all": (lambda: list(online.end_in_batches(guests=True)), {"recent", "guests"}),
    "repair": (lambda: faults(mend=True), set(LISTS)),
}
"""What is done, and the lists from which it takes such entries."""


@pytest.mark.parametrize("step", [0, 0.1], ids=["one score", "rising scores"])
@pytest.mark.parametrize("kind", [ALL, *(pytest.param(each, marks=pytest.mark.slow) for each in LISTS)])
def test_each_operation_ends_and_those_that_take_out_sessions_take_them_out(redis, sid, kind: str, step: float) -> None:
    kinds = list(LISTS) if kind == ALL else [kind]
    for name, (work, lists) in WORKS.items():
        fill(redis, sid, *kinds, step=step)
        assert ended(work) == "ended", name
        assert [each for each in kinds if each in lists and left(redis, sid, each)] == [], name
    assert disagreements(redis) == []


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("maximum", [1, 3])
def test_a_sign_in_ends_and_counts_living_sessions_only(redis, set_limit, policy: str, maximum: int) -> None:
    set_limit(maximum, policy)
    ahead = redis.time()[0] * 1000 + 3_600_000
    for lists in (["online:user:7"], ["online:user:7", "expire", "recent", "online:user"]):
        redis.flushall()
        first = str(sign_in("7").sid)
        fill(redis, first, *lists, step=1, deadline=ahead)
        if policy in ENDING:
            assert ended(lambda: [sign_in("7") for _ in range(3)]) == "ended"
        else:
            assert ended(lambda: [sign_in("7") for _ in range(maximum - 1)]) == "ended"
            assert "SessionLimitReached" in ended(lambda: sign_in("7"))
        assert left(redis, first, "online:user:7") == 0
        assert len(sids_of("7")) == stored(redis) == maximum
        assert (first in sids_of("7")) == (policy == "refuse")
