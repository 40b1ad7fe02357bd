"""Whether all keys of the store tell the same story."""

from __future__ import annotations

import redis

from django_redsess.transport.keys import Partition, keyspace


def disagreements(client: redis.Redis) -> list[str]:
    """Compare every key of every partition with the others, and return what does not fit, in words."""
    found = []
    space = keyspace()
    # A store of its own for each prefix: what was once agreed on stays.
    known = {name for name in client.keys() if name.endswith(b":meta")}
    for partition in space.partitions:
        found += _within(client, partition)
        known |= _names(client, partition) | _notes(client, partition)
    found += [f"{name!r} belongs to no session" for name in client.keys() if name not in known]
    return found


def _user_of(record: bytes) -> str:
    return record[29 : 29 + record[28]].decode()


def _names(client: redis.Redis, partition: Partition) -> set[bytes]:
    records = client.hgetall(partition.login)
    names = {partition.login, partition.expire, partition.recent, partition.guests, partition.online_user}
    names |= {partition.online_user_of(_user_of(record)) for record in records.values() if _user_of(record)}
    names |= {partition.viewed_by(sid.decode()) for sid in records} | {partition.viewed}
    names |= {partition.wake, partition.totals, partition.samples}
    return {name.encode() for name in names}


def _notes(client: redis.Redis, partition: Partition) -> set[bytes]:
    # Why a session is gone is known for a while, and only if it is gone.
    there = {partition.ended_of(sid.decode()).encode() for sid in client.hkeys(partition.login)}
    beginning = partition.ended_of("").encode()
    return {
        name
        for name in client.keys()
        if name.startswith(beginning) and name not in there and 0 < client.ttl(name) <= 24 * 3600
    }


def _within(client: redis.Redis, partition: Partition) -> list[str]:
    records = client.hgetall(partition.login)
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
        his = {sid: time for sid, time in login_times.items() if users.get(sid) == user}
        if dict(client.zrange(partition.online_user_of(user), 0, -1, withscores=True)) != his:
            found.append(f"the list of user {user!r} differs from online:user")
    views = -sum(score for _, score in client.zrange(partition.viewed, 0, -1, withscores=True))
    if views != int(client.hget(partition.totals, "views") or 0):
        found.append(f"totals does not have the {views:.0f} views of all items")
    return found
