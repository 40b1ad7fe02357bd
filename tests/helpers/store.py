"""
The store as tests look into it, and what they do behind the engine's back.

Tests outside of ``tests/session``, ``tests/transport`` and ``tests/lua`` take what is inside of the package from here.
"""

import random
from base64 import b64encode
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from math import ceil
from typing import Any

import pytest
import redis
import redis as redis_py

from django_redsess.cleaning import index_check
from django_redsess.conf import Conf, conf
from django_redsess.session import binding, blocks, operations, reading
from django_redsess.session import binding as session_binding
from django_redsess.session.binding import YET_TO_BE_BOUND, Binding, BindingChanged
from django_redsess.session.client import Client, pack_client
from django_redsess.session.compression import AGENTS, WINDOW_BITS
from django_redsess.session.encryption import decrypted
from django_redsess.session.notice import Notice
from django_redsess.session.record import Record, pack, revision_of, unpack, with_revision
from django_redsess.session.state import Visit
from django_redsess.session.user_limit import REFUSE, Limit
from django_redsess.signals import Reason
from django_redsess.transport import agreement, attempts, scripts
from django_redsess.transport.connections import loop_pool, pool, server_of
from django_redsess.transport.keys import (
    Keyspace,
    Partition,
    Store,
    bucket_of,
    bucket_of_user,
    keyspace,
    new_key,
    sid_of,
    using,
)
from django_redsess.transport.pools import Clock
from django_redsess.transport.steps import Pipeline, Steps, adrive, drive, in_store

__all__ = [
    "AGENTS",
    "REFUSE",
    "WINDOW_BITS",
    "YET_TO_BE_BOUND",
    "Binding",
    "BindingChanged",
    "Client",
    "Clock",
    "Keyspace",
    "Limit",
    "Notice",
    "Partition",
    "Pipeline",
    "Record",
    "Steps",
    "Store",
    "Visit",
    "agreement",
    "attempts",
    "binding",
    "blocks",
    "bucket_of",
    "bucket_of_user",
    "decrypted",
    "drive",
    "in_store",
    "keyspace",
    "loop_pool",
    "new_key",
    "operations",
    "pack",
    "pack_client",
    "pool",
    "reading",
    "revision_of",
    "scripts",
    "server_of",
    "session_binding",
    "sid_of",
    "unpack",
    "using",
    "with_revision",
]


def text_of(size: int) -> str:
    """Return a text that takes about ``size`` bytes in a record. It can't be compressed."""
    return b64encode(random.Random(size).randbytes(size)).decode()


def make_due(client: redis.Redis, *sids: str) -> None:
    """Move the deadline of these sessions into the past, as if their time had run out."""
    for sid in sids:
        client.zadd(keyspace().of_sid(sid).expire, {sid: 1})


def make_seen(client: redis.Redis, sid: str, milliseconds: int) -> None:
    """Set when the session ``sid`` was last seen."""
    partition = keyspace().of_sid(sid)
    for name in (partition.recent, partition.guests):
        client.zadd(name, {sid: milliseconds}, xx=True)


def make_bound(client: redis.Redis, sid: str, *, proved_ms: int = 0, binding: bytes | None = None) -> None:
    """Bind a user's session to a device, which has proved it again ``proved_ms`` later, if that is not 0."""
    at = int(now_of(client).timestamp() * 1000)
    packed = Binding(b"a device", at, at + proved_ms, bytes(33)).pack() if binding is None else binding
    record = unpack(sid, client.hget(keyspace().of_sid(sid).login, sid))
    _put_in_place(client, sid, record._replace(binding=packed))


def stored(client: redis.Redis) -> int:
    """Count the sessions that are stored, due ones and guests' too."""
    return sum(client.hlen(partition.login) for partition in keyspace().partitions)


def length_of(client: redis.Redis, sid: str) -> int:
    """The length of a session's record, in bytes."""
    return int(client.hstrlen(keyspace().of_sid(sid).login, sid))


def now_of(client: redis.Redis) -> datetime:
    """The server's time."""
    seconds, microseconds = client.time()
    return datetime.fromtimestamp(seconds, UTC) + timedelta(microseconds=microseconds)


def note(
    client: redis.Redis,
    at: datetime,
    *,
    signed_in: int = 1,
    guests: int = 2,
    created: int = 3,
    active: tuple[int, int] | None = None,
) -> None:
    """
    Store a sample of that time in every partition, as a cleaner does.

    ``active`` is how many of those signed in and of the guests were active; None as a cleaner of an earlier release.
    """
    milliseconds = f"{at.timestamp() * 1000:.0f}"
    text = " ".join(
        [milliseconds, str(signed_in), str(guests), str(created), *("0" for _ in Reason), *("0" for _ in Reason)]
    )
    for partition in keyspace().partitions:
        client.zadd(partition.samples, {text: milliseconds})
        if active:
            client.zadd(partition.samples_active, {f"{milliseconds} {active[0]} {active[1]}": milliseconds})


def have_views(client: redis.Redis, views: Mapping[str, int]) -> None:
    """Add so many views to these items."""
    space = keyspace()
    with client.pipeline() as together:
        for item, count in views.items():
            partition = space.of_item(item)
            together.zincrby(partition.viewed, -count, item)
            together.hincrby(partition.totals, "views", count)
        together.execute()


def names_of_sessions(client: redis.Redis) -> list[bytes]:
    """Return the names of the keys that hold sessions: no notes, no counts, nothing that the store has but once."""
    ends = (b":meta", b":wake", b":totals", b":samples", b":viewed")
    return [name for name in client.keys() if b":ended:" not in name and not name.endswith(ends)]


def faults(*, mend: bool = False) -> list[str]:
    """Return what ``cleansessions --check`` finds, or ``--repair`` mends."""
    return [str(fault) for step in index_check.check_store(mend=mend) for fault in step.faults]


def make_older(client: redis.Redis, sid: str, seconds: int) -> None:
    """Make the session older: move all its times back by so much."""
    partition = keyspace().of_sid(sid)
    for name in (partition.expire, partition.recent, partition.guests, partition.online_user):
        client.zadd(name, {sid: -seconds * 1000}, xx=True, incr=True)
    record = unpack(sid, client.hget(partition.login, sid))
    older = record._replace(
        deadline_seconds=record.deadline_seconds - seconds, login_ms=max(0, record.login_ms - seconds * 1000)
    )
    _put_in_place(client, sid, older)
    # As if this process had not seen it for so long.
    server_of(partition).invalidate_reads()
    if record.user_id:
        client.zincrby(partition.online_user_of(record.user_id), -seconds * 1000, sid)


def _put_in_place(client: redis.Redis, sid: str, record: Record) -> None:
    # Under the same revision: a request that has read the session before can still save it.
    packed = pack(sid, record)
    client.hset(keyspace().of_sid(sid).login, sid, packed[:1] + record.revision + packed[7:])


def written(sid: str, user_id: str = "", *, age_seconds: float = 60) -> operations.Saving:
    """Return what a save writes of a session without data."""
    now = reading.read_time().run()
    login_ms = now if user_id else 0
    age = ceil(age_seconds)
    record = Record(user_id, login_ms, now // 1000 + 1 + age, age, b"", b"{}")
    return operations.Saving(pack(sid, record), user_id, login_ms, now, now + int(age_seconds * 1000))


def dump(client: redis.Redis) -> dict[bytes, bytes | None]:
    """Return every key in the form in which the server writes it to disk."""
    return {name: client.dump(name) for name in client.keys()}


def have_agreed() -> None:
    """Have all partitions asked what this process must agree on. The test before has emptied them."""
    pool().invalidate()
    drive(agreement.agree(keyspace().partitions))


def have_partitions(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """Use a store of ``count`` partitions until the end of the test."""
    monkeypatch.setattr(Conf, "PARTITIONS", count)
    conf.clear_cached()


def have_encryption(monkeypatch: pytest.MonkeyPatch) -> None:
    """Encrypt what this process writes until the end of the test."""
    monkeypatch.setattr(Conf, "ENCRYPT", True)
    conf.clear_cached()


def traces(redis: redis_py.Redis, session_key: str) -> list[str]:
    """Return the names of the keys that hold anything of the session. Notes don't count."""
    sid = sid_of(session_key)
    readers = {
        b"hash": redis.hgetall,
        b"zset": lambda name: redis.zrange(name, 0, -1),
        b"string": lambda name: [redis.get(name)],
        b"list": lambda name: redis.lrange(name, 0, -1),
        b"stream": lambda name: [repr(redis.xrange(name)).encode()],
        b"set": redis.smembers,
    }
    return [
        name.decode()
        for name in redis.keys()
        if b":ended:" not in name
        and (sid.encode() in name or any(sid.encode() in part for part in readers[redis.type(name)](name)))
    ]


def fetch(*args: Any) -> list[Any]:
    return drive(attempts.fetch(pool().server_of_tag("redsess"), "redsess", *args))


async def afetch(*args: Any) -> list[Any]:
    return await adrive(attempts.fetch(pool().server_of_tag("redsess"), "redsess", *args))
