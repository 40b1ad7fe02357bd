"""
The oracle: do all keys of the store agree with each other?

A session is in several keys at once, and each script must change all of them. Whatever a test does, the keys have to
agree afterwards. So the fixture ``empty_store`` asks the oracle after every test that has a server, and the test fails
where two keys disagree. State machines ask it after every step.

docs/architecture/tests.rst has the list of what it compares.

It reads the first bytes of a record by itself and shares no code with ``cleansessions --check``: a mistake there is not
made here again. What the oracle finds is tested in test_oracle.py.

No test can switch it off. Few damage the store and don't repair it; they ask for the fixture ``left_alone``, or call
``flushall()`` at their end, and say why.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import redis

from tests.helpers.store import Partition, keyspace

NOTE_SECONDS = 24 * 3600
"""The longest life of a note."""

Records = dict[bytes, bytes]


@contextmanager
def emptied(client: redis.Redis) -> Iterator[None]:
    """Empty the server at the end, and fail where its keys disagreed then."""
    yield
    found = disagreements(client)
    client.flushall()
    # What is found is told here: pytest explains only the assertions of tests.
    assert not found, "disagreements: " + "\n".join(found)


def disagreements(client: redis.Redis) -> list[str]:
    """Compare all keys of all partitions; return a sentence for each disagreement."""
    found = []
    space = keyspace()
    names = client.keys()
    # Every PREFIX has a key of its own for what its processes agreed on. It stays when a test changes PREFIX.
    known = {name for name in names if name.endswith(b":meta")}
    tags = {name[1:].partition(b"}")[0].decode(errors="replace") for name in names if name not in known}
    for partition in space.partitions:
        if partition.tag not in tags:
            # Nothing is in it.
            continue
        records = client.hgetall(partition.login)
        found += _within(client, partition, records)
        known |= _names(partition, records) | _notes(client, partition, names, records)
        known |= _marks(client, partition, names) | _blocks(client, partition, names)
        strangers = [sid for sid in records if space.of_sid(sid.decode()) != partition]
        found += [f"{partition.login} has {sid!r} of another partition" for sid in strangers]
        blocked = [
            user for user in client.zrange(partition.blocked, 0, -1) if space.of_user(user.decode()) != partition
        ]
        found += [f"{partition.blocked} has {user!r} of another partition" for user in blocked]
    found += [f"{name!r} belongs to no session" for name in client.keys() if name not in known]
    return found


def _user_of(record: bytes) -> str:
    return record[18 : 18 + record[17]].decode()


def _login_ms_of(record: bytes) -> int:
    beginning = 18 + record[17]
    return int.from_bytes(record[beginning : beginning + 6], "big")


def _names(partition: Partition, records: Records) -> set[bytes]:
    """The names of all keys that a partition with these sessions may have, but for notes."""
    names = {partition.login, partition.expire, partition.recent, partition.guests, partition.online_user}
    names |= {partition.online_user_of(_user_of(record)) for record in records.values() if _user_of(record)}
    names |= {partition.viewed_by(sid.decode()) for sid in records} | {partition.viewed}
    names |= {partition.wake, partition.totals, *partition.both_samples}
    return {name.encode() for name in names}


def _notes(client: redis.Redis, partition: Partition, names: list[bytes], records: Records) -> set[bytes]:
    """The names of notes, messages, tries and locks that may be there. They have a TTL. Sessions of notes are gone."""
    alive = {partition.ended_of(sid.decode()).encode() for sid in records}
    beginnings = (partition.ended_of(""), partition.message_of(""), partition.tries_of("", 0).removesuffix("0:"))
    beginnings += (partition.lock_of(""),)
    return {
        name
        for name in names
        if name.decode().startswith(beginnings) and name not in alive and 0 < client.ttl(name) <= NOTE_SECONDS
    }


def _marks(client: redis.Redis, partition: Partition, names: list[bytes]) -> set[bytes]:
    """
    The names of the marks of sessions that were moved here, and of what was ended where they come from. They stay
    longer than the sessions, and not for ever.
    """
    marks = partition.moved_of(""), partition.over_of(""), partition.over_users, partition.over_guests
    beginnings = tuple(name.encode() for name in marks)
    return {name for name in names if name.startswith(beginnings) and client.ttl(name) > 0}


def _blocks(client: redis.Redis, partition: Partition, names: list[bytes]) -> set[bytes]:
    """The names of the list of blocked users, and of what is kept beside it until 30 days after the end of a block."""
    until = {user.decode(): at for user, at in client.zrange(partition.blocked, 0, -1, withscores=True)}
    texts = {partition.block_of(user).encode(): at + 30 * 86_400_000 for user, at in until.items()}
    # A key that MIGRATE moves expires later by what that takes.
    known = {name for name, at in texts.items() if abs(client.pexpiretime(name) - at) < 1000}
    others = {name for name in names if name.startswith(partition.block_of("").encode())} - texts.keys()
    # Of blocks that were lifted, or are over.
    known |= {name for name in others if client.ttl(name) > 0}
    return known | {partition.blocked.encode()}


def _within(client: redis.Redis, partition: Partition, records: Records) -> list[str]:
    users = {sid: _user_of(record) for sid, record in records.items()}
    signed_in = {sid for sid, user in users.items() if user}
    login_times = dict(client.zrange(partition.online_user, 0, -1, withscores=True))
    found = [
        f"{name} has {len(there)} of {len(expected)} sessions, {len(there - expected)} too many"
        for name, expected in {
            partition.expire: set(users),
            partition.recent: signed_in,
            partition.guests: set(users) - signed_in,
            partition.online_user: signed_in,
        }.items()
        if (there := set(client.zrange(name, 0, -1))) != expected
    ]
    for user in set(users.values()) - {""}:
        of_user = {sid: time for sid, time in login_times.items() if users.get(sid) == user}
        if dict(client.zrange(partition.online_user_of(user), 0, -1, withscores=True)) != of_user:
            found.append(f"the list of user {user!r} differs from online:user")
    if {sid: _login_ms_of(records[sid]) for sid in signed_in & set(login_times)} != {
        sid: time for sid, time in login_times.items() if sid in signed_in
    }:
        found.append(f"{partition.online_user} has other login times than the records")
    views = -sum(score for _, score in client.zrange(partition.viewed, 0, -1, withscores=True))
    if views != int(client.hget(partition.totals, "views") or 0):
        found.append(f"{partition.totals} does not have the {views:.0f} views of all items")
    return found
